import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openOwnCertificate, readOwnCertificate } from '../../certs/files.ts';
import { createAuthority, issueServing, type KeyPair, readAuthority } from '../../certs/issue.ts';
import { openTicketKeys, type TicketKeys } from '../../certs/ticket-keys.ts';
import { manualClock } from '../../common/clock.ts';
import { silentLog } from '../../common/log.ts';
import { ask, handshake, openRoom, serve } from './support.ts';

const DAY = 86_400_000;
const now = Date.now();
/** When what openssl makes here is valid: it dates from the second in which it runs. */
const later = (): ReturnType<typeof manualClock> => manualClock(now + 3_600_000);
let dir: string;
let room: Awaited<ReturnType<typeof openRoom>>;
let tickets: TicketKeys;
let ca: string;
let issue: (names: readonly string[], at?: number) => Promise<KeyPair>;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'postern-files-'));
  room = await openRoom();
  tickets = await openTicketKeys({ ...room, clock: manualClock(now), log: silentLog });
  const made = await createAuthority(now);
  ca = made.pem;
  const authority = await readAuthority(made.pem, new Uint8Array(made.key));
  issue = (names, at = now) => issueServing(authority, names, at);
});
afterAll(async () => {
  await room.close();
  rmSync(dir, { recursive: true });
});

let sets = 0;
function put(pair: Pick<KeyPair, 'cert' | 'key'>, caPem: string | undefined = ca) {
  const base = join(dir, `set-${sets++}`);
  const files = {
    certFile: `${base}.crt`,
    keyFile: `${base}.key`,
    caFile: caPem === undefined ? undefined : `${base}.ca`,
  };
  writeFileSync(files.certFile, pair.cert);
  writeFileSync(files.keyFile, pair.key);
  if (files.caFile !== undefined) writeFileSync(files.caFile, caPem ?? '');
  return files;
}
const read = (files: ReturnType<typeof put>, names = ['127.0.0.1'], clock = manualClock(now)) =>
  readOwnCertificate({ files, key: 'git.tls', names, clock });

describe("the operator's own certificate", () => {
  it('is served, and the authority beside it is what clients trust', async () => {
    const pair = await issue(['127.0.0.1', 'guard.example.com']);
    const own = await read(put(pair), ['127.0.0.1', 'guard.example.com']);
    expect(own).toEqual({ ...pair, ca });
  });

  it('may end with its authority in place of caFile', async () => {
    const pair = await issue(['::1']);
    const files = put({ ...pair, cert: pair.cert + ca }, undefined);
    expect((await read({ ...files, caFile: undefined }, ['[::1]'])).ca).toBe(ca);
  });

  it('may be self-signed, or come through an intermediate (made by openssl)', async () => {
    const at = (name: string) => join(dir, name);
    const openssl = (...args: string[]) =>
      execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
    const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-noenc', '-days', '2'];
    const san = ['-addext', 'subjectAltName=IP:127.0.0.1'];
    openssl(
      'req',
      '-x509',
      ...ec,
      '-keyout',
      at('self.key'),
      '-out',
      at('self.crt'),
      '-subj',
      '/CN=self',
      ...san,
    );
    const self = { cert: readFileSync(at('self.crt'), 'utf8'), key: readFileSync(at('self.key'), 'utf8') };
    expect((await read({ ...put(self), caFile: undefined }, undefined, later())).ca).toBe(self.cert);

    const isCa = ['-addext', 'basicConstraints=critical,CA:TRUE'];
    openssl('req', '-x509', ...ec, '-keyout', at('root.key'), '-out', at('root.crt'), '-subj', '/CN=root');
    const byRoot = ['-CA', at('root.crt'), '-CAkey', at('root.key')];
    openssl(
      'req',
      '-x509',
      ...ec,
      '-keyout',
      at('mid.key'),
      '-out',
      at('mid.crt'),
      '-subj',
      '/CN=mid',
      ...byRoot,
      ...isCa,
    );
    const byMid = ['-CA', at('mid.crt'), '-CAkey', at('mid.key')];
    openssl(
      'req',
      '-x509',
      ...ec,
      '-keyout',
      at('leaf.key'),
      '-out',
      at('leaf.crt'),
      '-subj',
      '/CN=leaf',
      ...byMid,
      ...san,
    );
    const text = (name: string) => readFileSync(at(name), 'utf8');
    const chain = { cert: text('leaf.crt') + text('mid.crt'), key: text('leaf.key') };
    expect((await read(put(chain, text('root.crt')), undefined, later())).ca).toBe(text('root.crt'));
    const gap = put({ ...chain, cert: text('leaf.crt') }, text('root.crt'));
    await expect(read(gap, undefined, later())).rejects.toThrow(
      /^git\.tls\.certFile: .*does not chain to .*; add the intermediates/,
    );
  });

  it('that no client could use is refused, with the key, the file and the reason', async () => {
    const pair = await issue(['127.0.0.1']);
    const other = await issue(['127.0.0.1']);
    const encrypted = '-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n';
    const stranger = await createAuthority(now);
    const cases: [ReturnType<typeof put>, RegExp, string[]?, number?][] = [
      [
        put({ cert: pair.cert, key: other.key }),
        /^git\.tls\.keyFile: .*\.key is not the key of the first certificate in .*\.crt/,
      ],
      [put({ cert: pair.key, key: pair.key }), /^git\.tls\.certFile: .*holds no certificate/],
      [put({ cert: pair.cert, key: pair.cert }), /^git\.tls\.keyFile: .*holds no private key/],
      [put({ cert: pair.cert, key: encrypted }), /^git\.tls\.keyFile: .*has a passphrase/],
      [put(pair, 'nothing'), /^git\.tls\.caFile: .*holds no certificate/],
      [put(pair, stranger.pem), /^git\.tls\.certFile: .*does not chain to/],
      [{ ...put(pair), caFile: undefined }, /^git\.tls\.certFile: .*name that in git\.tls\.caFile/],
      [
        put(pair),
        /^git\.tls\.certFile: .*does not name guard\.example\.com, .*it names IP Address:127\.0\.0\.1/,
        ['guard.example.com'],
      ],
      [put(pair), /^git\.tls\.certFile: .*expired at/, [], now + 91 * DAY],
      [put(pair), /^git\.tls\.certFile: .*is not valid before/, [], now - DAY],
      [{ ...put(pair), keyFile: join(dir, 'none') }, /^git\.tls\.keyFile: .*none does not exist/],
      [{ ...put(pair), certFile: dir }, /^git\.tls\.certFile: .*is not a regular file/],
    ];
    for (const [files, message, names, at] of cases)
      await expect(read(files, names ?? ['127.0.0.1'], manualClock(at ?? now))).rejects.toThrow(message);
    for (const [files, , names] of cases.slice(0, 1))
      await expect(read(files, names)).rejects.toMatchObject({
        code: 'invalid_config',
        key: 'git.tls.keyFile',
      });
  });
});

describe('files that change', () => {
  it('are served anew; a bad set is reported and the old one stays; open connections live on', async () => {
    const first = await issue(['127.0.0.1']);
    const files = put(first);
    const clock = manualClock(now);
    const source = await openOwnCertificate({
      files,
      key: 'git.tls',
      names: ['127.0.0.1'],
      tickets,
      clock,
      log: silentLog,
    });
    const { port, close } = await serve(source);
    const served = async (): Promise<string> => {
      const socket = await handshake(port, { ca });
      const found = socket.getPeerCertificate().fingerprint256;
      socket.destroy();
      return found;
    };
    const open = await handshake(port, { ca });
    const before = await served();
    await source.check();
    expect(await served()).toBe(before);

    const second = await issue(['127.0.0.1']);
    writeFileSync(files.certFile, second.cert);
    await source.check(); // between the two writes: the key is still the old one
    expect(await served()).toBe(before);
    expect(source.health()).toMatchObject({ ok: true, reason: expect.stringMatching(/not the key of/) });
    writeFileSync(files.keyFile, second.key);
    await source.check();
    const after = await served();
    expect(after).not.toBe(before);
    expect(source.health()).toEqual({ ok: true, notAfter: second.notAfter });
    expect(await ask(open)).toMatch(/404/);

    rmSync(files.certFile);
    await source.check();
    expect(await served()).toBe(after);
    expect(source.health().reason).toMatch(/does not exist/);

    // As Kubernetes does with a mounted Secret: the name stays, the link moves.
    const third = put(await issue(['127.0.0.1']));
    copyFileSync(third.keyFile, files.keyFile);
    symlinkSync(third.certFile, `${files.certFile}.new`);
    renameSync(`${files.certFile}.new`, files.certFile);
    await source.check();
    expect([before, after]).not.toContain(await served());

    clock.advance(91 * DAY);
    expect(source.health()).toMatchObject({ ok: false, reason: expect.stringMatching(/expired/) });
    open.destroy();
    await close();
    source.close();
  });
});
