import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AuditEvent } from '../../audit/event.ts';
import type { AuditLog } from '../../audit/log.ts';
import { type AuthorityOptions, type AuthoritySource, isDue, openAuthority } from '../../certs/authority.ts';
import { manualClock } from '../../common/clock.ts';
import { PosternError } from '../../common/errors.ts';
import { silentLog } from '../../common/log.ts';
import { ask, handshake, openRoom, run, serve } from './support.ts';

const DAY = 86_400_000;
let dir: string;
let room: Awaited<ReturnType<typeof openRoom>>;
let closing: (() => unknown)[];

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'postern-certs-'));
  room = await openRoom();
  closing = [];
});
afterEach(async () => {
  for (const close of closing.reverse()) await close();
  await room.close();
  rmSync(dir, { recursive: true });
});

function recorder(): AuditLog & { events: AuditEvent[]; broken: boolean } {
  const log = {
    events: [] as AuditEvent[],
    broken: false,
    async append(event: AuditEvent) {
      if (log.broken) throw new PosternError('audit_unavailable', 'the disk is full');
      log.events.push(event);
    },
    health: () => ({ ok: true }),
    async close() {},
  };
  return log;
}

async function open(more: Partial<AuthorityOptions> = {}): Promise<AuthoritySource> {
  const source = await openAuthority({
    store: room.store,
    keyring: room.keyring,
    names: ['guard.example.com', '192.0.2.7', '[2001:DB8:0::7]'],
    dataDir: dir,
    clock: manualClock(Date.now()),
    log: silentLog,
    ...more,
  });
  closing.push(() => source.close());
  return source;
}
async function listening(source: AuthoritySource) {
  const server = await serve(source);
  closing.push(() => server.close());
  return server;
}
const leafOf = (source: AuthoritySource): X509Certificate =>
  new X509Certificate(String(source.contextOptions().cert));

describe('the authority', () => {
  it('is made once, its key sealed, its certificate readable by all', async () => {
    process.umask(0o077);
    const first = await open();
    process.umask(0o022);
    const file = join(dir, 'ca.pem');
    expect(readFileSync(file, 'utf8')).toBe(first.caPem());
    expect(statSync(file).mode & 0o777).toBe(0o644);
    const written = statSync(file).mtimeMs;
    const row = await room.store.get('certs', 'ca');
    expect(Object.keys(row?.body ?? {}).sort()).toEqual(['certificate', 'createdAt', 'trusted']);
    expect(row?.sealed).toBeDefined();
    first.close();
    expect((await open()).caPem()).toBe(first.caPem());
    expect(statSync(file).mtimeMs).toBe(written);
  });

  it('has the profile of RFC 5280 for an authority that signs leaves only', async () => {
    await open();
    const { out } = await run('openssl', ['x509', '-in', join(dir, 'ca.pem'), '-noout', '-text']);
    expect(out).toMatch(/Basic Constraints: critical\s+CA:TRUE, pathlen:0/);
    expect(out).toMatch(/Key Usage: critical\s+Certificate Sign, CRL Sign\n/);
    expect(out).toMatch(/Subject Key Identifier/);
    expect(out).toMatch(/Authority Key Identifier/);
    expect(out).toMatch(/ASN1 OID: prime256v1/);
    expect(out).toMatch(/Serial Number:\s+40(?::[0-9a-f]{2}){16}\n/);
  });

  it('of replicas that start at once is one, whoever comes first', async () => {
    const file = join(dir, 'race.db');
    const first = await openRoom(file);
    closing.push(first.close);
    const rooms = [first, ...(await Promise.all([1, 2, 3].map(() => openRoom(file))))];
    for (const other of rooms.slice(1)) closing.push(other.close);
    const sources = await Promise.all(
      rooms.map(({ store, keyring }, i) => open({ store, keyring, dataDir: join(dir, `replica-${i}`) })),
    );
    expect(new Set(sources.map((source) => source.caPem())).size).toBe(1);
    expect(new Set(sources.map((source) => source.tickets.current().toString('hex'))).size).toBe(1);
    expect(new Set(sources.map((source) => leafOf(source).fingerprint256)).size).toBe(4);
  });

  it('that was changed in the store is not served', async () => {
    (await open()).close();
    const row = await room.store.get('certs', 'ca');
    const other = await openRoom();
    const foreign = await openAuthority({
      ...other,
      names: [],
      dataDir: dir,
      clock: manualClock(),
      log: silentLog,
    });
    foreign.close();
    const sealed = (await other.store.get('certs', 'ca'))?.sealed;
    await other.close();
    if (!row || !sealed || !row.sealed) throw new Error('nothing was stored');
    const swapped = { ...row, sealed: { ...row.sealed, data: sealed.data } };
    await room.store.commit([{ op: 'put', set: 'certs', row: swapped }]);
    await expect(open()).rejects.toMatchObject({ code: 'sealed_data_tampered' });
    await room.store.commit([{ op: 'put', set: 'certs', row: { ...row, body: { certificate: 'none' } } }]);
    await expect(open()).rejects.toMatchObject({ code: 'sealed_data_tampered' });
  });

  it('that has expired stops the start with a remedy', async () => {
    const clock = manualClock(Date.now());
    (await open({ clock })).close();
    clock.advance(3651 * DAY);
    await expect(open({ clock })).rejects.toThrow(/expired at .*; rotate it/);
  });

  it('a data folder that cannot be written stops the start', async () => {
    writeFileSync(join(dir, 'file'), '');
    await expect(open({ dataDir: join(dir, 'file') })).rejects.toThrow(
      /^dataDir: .*ca\.pem cannot be written/,
    );
  });
});

describe('the serving certificate', () => {
  it('verifies with openssl for every name, and for no other', async () => {
    const source = await open();
    const leaf = join(dir, 'leaf.pem');
    writeFileSync(leaf, String(source.contextOptions().cert));
    const verify = (...name: string[]) =>
      run('openssl', [
        'verify',
        '-x509_strict',
        '-purpose',
        'sslserver',
        '-CAfile',
        join(dir, 'ca.pem'),
        ...name,
        leaf,
      ]);
    for (const host of ['guard.example.com', 'localhost'])
      expect(await verify('-verify_hostname', host)).toMatchObject({ code: 0 });
    for (const ip of ['127.0.0.1', '::1', '192.0.2.7', '2001:db8::7'])
      expect(await verify('-verify_ip', ip)).toMatchObject({ code: 0 });
    expect((await verify('-verify_hostname', 'other.example.com')).out).toMatch(/hostname mismatch/i);
    const { out } = await run('openssl', ['x509', '-in', leaf, '-noout', '-text']);
    expect(out).toMatch(/Basic Constraints: critical\s+CA:FALSE/);
    expect(out).toMatch(/Key Usage: critical\s+Digital Signature\n/);
    expect(out).toMatch(/Extended Key Usage:\s+TLS Web Server Authentication\n/);
  });

  it.each(['*.example.com', '', 'a b', '1.2.3', 'fe80::1%eth0', 'ex\nample'])(
    'cannot be issued for %j',
    async (name) => {
      await expect(open({ names: [name] })).rejects.toMatchObject({ code: 'invalid_config' });
    },
  );

  it('is issued anew when the names change', async () => {
    const audit = recorder();
    const source = await open({ audit });
    const { port } = await listening(source);
    const ca = source.caPem();
    await expect(handshake(port, { ca, servername: 'new.example.com' })).rejects.toThrow(/altnames/);
    await source.setNames(['new.example.com']);
    (await handshake(port, { ca, servername: 'new.example.com' })).destroy();
    const before = leafOf(source).fingerprint256;
    await source.setNames(['NEW.example.com.']);
    expect(leafOf(source).fingerprint256).toBe(before);
    expect(audit.events.map(({ action }) => action)).toEqual([
      'ca.created',
      'ca.certificate_issued',
      'ca.certificate_issued',
    ]);
  });

  it('is renewed at two thirds of its life, without dropping a connection', async () => {
    const clock = manualClock(Date.now() - 61 * DAY); // so that both certificates are valid to real clients
    const source = await open({ clock });
    const { port } = await listening(source);
    const ca = source.caPem();
    const old = await handshake(port, { ca });
    const serial = old.getPeerCertificate().serialNumber;
    expect(await ask(old)).toBe('HTTP/1.1 404 Not Found');

    clock.advance(59 * DAY);
    await source.check();
    expect(leafOf(source).serialNumber).toBe(serial);
    clock.advance(2 * DAY);
    await source.check();
    expect(await ask(old)).toBe('HTTP/1.1 404 Not Found');
    const fresh = await handshake(port, { ca });
    expect(fresh.getPeerCertificate().serialNumber).not.toBe(serial);
    expect(leafOf(source).validToDate.getTime() - clock.now()).toBeGreaterThan(89 * DAY);
    fresh.destroy();
    old.destroy();
  });

  it('stays when it cannot be renewed; health says why, and when it is over', async () => {
    const clock = manualClock(Date.now());
    const audit = recorder();
    const source = await open({ clock, audit });
    expect(source.health()).toEqual({ ok: true, notAfter: leafOf(source).validToDate.getTime() });
    audit.broken = true;
    clock.advance(61 * DAY);
    const before = leafOf(source).fingerprint256;
    await source.check();
    expect(leafOf(source).fingerprint256).toBe(before);
    expect(source.health()).toMatchObject({
      ok: true,
      reason: expect.stringMatching(/renewed: the disk is full/),
    });
    clock.advance(30 * DAY);
    expect(source.health()).toMatchObject({ ok: false });
    audit.broken = false;
    await source.check();
    expect(source.health()).toEqual({ ok: true, notAfter: leafOf(source).validToDate.getTime() });
  });

  it('is due after two thirds, or when the clock was set back', () => {
    const pair = { notBefore: 1000, notAfter: 4000 };
    expect([0, 999, 1000, 2999, 3000, 9999].map((now) => isDue(pair, now))).toEqual([
      true,
      true,
      false,
      false,
      true,
      true,
    ]);
  });

  it('follows another authority in the store, and trusts what is listed beside it', async () => {
    const source = await open();
    const other = await openRoom();
    const foreign = await openAuthority({
      ...other,
      names: [],
      dataDir: dir,
      clock: manualClock(),
      log: silentLog,
    });
    foreign.close();
    const row = await room.store.get('certs', 'ca');
    if (!row) throw new Error('nothing was stored');
    await room.store.commit([
      {
        op: 'put',
        set: 'certs',
        row: { ...row, body: { ...row.body, trusted: [foreign.caPem()] } },
        expect: row.rev,
      },
    ]);
    await source.check();
    expect(source.caPem()).toBe(String(row.body.certificate) + foreign.caPem());
    expect(readFileSync(join(dir, 'ca.pem'), 'utf8')).toBe(source.caPem());
    await other.close();
  });
});

describe('TLS', () => {
  it('curl and git trust it with ca.pem, and not without', async () => {
    const source = await open();
    const { port } = await listening(source);
    const ca = join(dir, 'ca.pem');
    for (const host of ['127.0.0.1', 'localhost'])
      expect(
        await run('curl', ['-sS', '--noproxy', '*', '--cacert', ca, `https://${host}:${port}/`]),
      ).toEqual({ code: 0, out: 'none\n' });
    const named = (name: string) => [
      '-sS',
      '--noproxy',
      '*',
      '--resolve',
      `${name}:${port}:127.0.0.1`,
      '--cacert',
      ca,
      `https://${name}:${port}/`,
    ];
    expect((await run('curl', named('guard.example.com'))).code).toBe(0);
    expect((await run('curl', named('other.example.com'))).code).toBe(60);
    expect((await run('curl', ['-sS', '--noproxy', '*', `https://127.0.0.1:${port}/`])).code).toBe(60);
    const git = (...config: string[]) =>
      run('git', [...config, 'ls-remote', `https://127.0.0.1:${port}/a.git`], {
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_TERMINAL_PROMPT: '0',
        no_proxy: '*',
        GIT_SSL_CAINFO: undefined, // stronger than the configuration
      });
    expect((await git('-c', `http.sslCAInfo=${ca}`)).out).toMatch(/repository '.*' not found/);
    expect((await git()).out).toMatch(/certificate/);
  });

  it('1.1 is refused, 1.2 and 1.3 are served', async () => {
    const { port } = await listening(await open());
    const ca = readFileSync(join(dir, 'ca.pem'));
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    await expect(handshake(port, { ca, ...old })).rejects.toThrow(/protocol/i);
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      const socket = await handshake(port, { ca, minVersion: version, maxVersion: version });
      expect(socket.getProtocol()).toBe(version);
      socket.destroy();
    }
  });

  it('ALPN is http/1.1 or nothing', async () => {
    const { port } = await listening(await open());
    const ca = readFileSync(join(dir, 'ca.pem'));
    const alpn = async (...protocols: string[]) => {
      const socket = await handshake(port, { ca, ALPNProtocols: protocols });
      socket.destroy();
      return socket.alpnProtocol;
    };
    expect(await alpn('h2', 'http/1.1')).toBe('http/1.1');
    expect(await alpn()).toBe(false);
    await expect(alpn('h2')).rejects.toThrow(/alert|protocol|disconnected|reset/i);
  });

  it.each(['TLSv1.2', 'TLSv1.3'] as const)(
    '%s sessions resume at another replica, and after a renewal',
    async (version) => {
      const clock = manualClock(Date.now() - 61 * DAY);
      const [one, two] = [await open({ clock }), await open({ clock, dataDir: join(dir, 'two') })];
      const [first, second] = [await listening(one), await listening(two)];
      const options = { ca: one.caPem(), minVersion: version, maxVersion: version };
      const socket = await handshake(first.port, options);
      let session: Buffer | undefined;
      socket.on('session', (ticket: Buffer) => {
        session = ticket;
      });
      await ask(socket);
      session ??= socket.getSession();
      socket.destroy();
      const resumed = async (port: number): Promise<boolean> => {
        const again = await handshake(port, { ...options, ...(session ? { session } : {}) });
        await ask(again);
        const reused = again.isSessionReused();
        again.destroy();
        return reused;
      };
      expect(await resumed(second.port)).toBe(true);
      await two.setNames(['other.example.com']);
      expect(await resumed(second.port)).toBe(true);
      clock.advance(2 * DAY); // the ticket keys of yesterday are gone, at both
      await one.check();
      await two.check();
      expect(one.tickets.current()).toEqual(two.tickets.current());
      expect(await resumed(second.port)).toBe(false);
    },
  );

  it('a server that was closed or let go is not touched again', async () => {
    const source = await open();
    const { server, close } = await serve(source);
    await close();
    server.setSecureContext = () => {
      throw new Error('touched');
    };
    await source.setNames(['new.example.com']);
    expect(source.health()).toMatchObject({ ok: true });
    expect(source.health().reason).toBeUndefined();
  });
});
