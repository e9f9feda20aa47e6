// A hub and an auditor on another machine: the control API over TLS with tokens, by the command line's --server.

import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launcher, openSite, run, type Site, sha256 } from './support.ts';

let site: Site;
const tokens = { 'hub-1': 'hub', 'auditor-1': 'auditor' } as const;
const value = (name: string): string => `control-token-of-${name}-0123456789`;

beforeAll(async () => {
  site = await openSite('cli-hub', {
    control: {
      listen: '127.0.0.1:0',
      tokens: Object.entries(tokens).map(([name, role]) => ({ name, role, sha256: sha256(value(name)) })),
    },
  });
});
afterAll(() => site.close());

/** The command line somewhere else: no configuration, a token file and a CA file. */
function as(name: string, ...args: string[]) {
  const home = mkdtempSync(join(site.folder, 'elsewhere-'));
  writeFileSync(join(home, 'token'), `${value(name)}\n`, { mode: 0o600 });
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    POSTERN_SERVER: `https://${site.server.ready.control}`,
    POSTERN_TOKEN_FILE: join(home, 'token'),
    POSTERN_CA_FILE: join(site.folder, 'var/ca.pem'),
  };
  return run(process.execPath, [launcher, ...args], { env, cwd: home });
}
const issue = (name: string, ...more: string[]) =>
  as(
    name,
    'session',
    'issue',
    'git',
    '--upstream',
    site.forge.url,
    '--token-file',
    site.tokenFile,
    '--repo',
    '*',
    '--lease',
    'L',
    ...more,
  );

test('the ready line names the TLS address, and the socket beside it', () => {
  expect(site.server.ready.control).toMatch(/^127\.0\.0\.1:\d+$/);
  expect(site.server.ready).toMatchObject({ socket: join(site.folder, 'var/control.sock') });
});

test('a hub issues, renews and revokes under the name of its token, with files delivered where it is', async () => {
  const out = join(site.folder, 'hub-out');
  const issued = await issue('hub-1', '--json', '--out', out);
  expect(issued).toMatchObject({ code: 0 });
  const { sessionId } = JSON.parse(issued.out);
  expect(readFileSync(join(out, 'ca.pem'), 'utf8')).toContain('BEGIN CERTIFICATE');
  expect((await as('hub-1', 'session', 'renew', sessionId)).code).toBe(0);
  expect((await as('hub-1', 'session', 'revoke', sessionId)).code).toBe(0);
  const { records } = JSON.parse((await site.postern('audit', 'list', '--session', sessionId, '--json')).out);
  expect(records.map((one: { actor: string }) => one.actor)).toEqual(['hub-1', 'hub-1', 'hub-1']);
});

test('a role that does not reach is told so, exits 3 and is on record', async () => {
  expect(await issue('auditor-1')).toMatchObject({ code: 3, out: '' });
  expect((await as('hub-1', 'audit', 'list')).code).toBe(3);
  const { records } = JSON.parse(
    (await site.postern('audit', 'list', '--action', 'control.refused', '--json')).out,
  );
  expect(records.map((one: { actor: string }) => one.actor)).toEqual(['auditor-1', 'hub-1']);
});

test('an auditor reads: list, export in pages, verify, tail, status, ca', async () => {
  const local = await site.postern('audit', 'export');
  const remote = await as('auditor-1', 'audit', 'export');
  expect(
    remote.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toEqual(
    local.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  );
  expect(await as('auditor-1', 'audit', 'verify')).toMatchObject({ code: 0 });
  expect((await as('auditor-1', 'audit', 'list', '--decision', 'deny', '--json')).out).toContain(
    'control.refused',
  );
  expect(await as('auditor-1', 'status')).toMatchObject({ code: 0 });
  expect((await as('auditor-1', 'ca', 'bundle')).out).toBe(
    readFileSync(join(site.folder, 'var/ca.pem'), 'utf8'),
  );
});

test('a wrong token is refused and not repeated; a server that is not trusted gets none', async () => {
  const env = { PATH: process.env.PATH, POSTERN_SERVER: `https://${site.server.ready.control}` };
  const wrong = join(site.folder, 'wrong');
  writeFileSync(wrong, 'a-wrong-token-value');
  const ca = join(site.folder, 'var/ca.pem');
  const call = (more: object) =>
    run(process.execPath, [launcher, 'status'], { env: { ...env, ...more }, cwd: site.folder });
  const refused = await call({ POSTERN_TOKEN_FILE: wrong, POSTERN_CA_FILE: ca });
  expect(refused.code).toBe(1);
  expect(refused.out + refused.err).not.toContain('a-wrong-token-value');
  expect((await call({ POSTERN_TOKEN_FILE: wrong })).err).toContain("can't be reached");
  expect((await call({})).code).toBe(2);
  expect((await call({ POSTERN_TOKEN_FILE: '/nowhere' })).code).toBe(2);
});

test('ca rotate is for admin; the new authority is out at once, and who has the bundle of before goes on', async () => {
  const own = (...args: string[]) => site.postern('ca', 'rotate', ...args);
  expect((await as('hub-1', 'ca', 'rotate')).code).toBe(3);
  const old = readFileSync(join(site.folder, 'var/ca.pem'), 'utf8');
  const begun = await own('--json');
  const { takesOverAt, underWay, certificates, pem } = JSON.parse(begun.out);
  expect([underWay, certificates.length, pem.startsWith(old)]).toEqual([false, 2, true]);
  expect(Date.parse(takesOverAt) - Date.now()).toBeGreaterThan(11 * 3_600_000);
  expect(readFileSync(join(site.folder, 'var/ca.pem'), 'utf8')).toBe(pem);
  expect((await own()).out).toMatch(/^A rotation is under way; it signs from \d{4}-/);
  const kept = join(site.folder, 'old.pem');
  writeFileSync(kept, old);
  const trusted = async (file: string) =>
    (await run('curl', ['-s', '--cacert', file, `https://${site.server.ready.git}/`])).code;
  expect(await trusted(kept)).toBe(0);
  expect((await own('--now')).out).toBe('The new authority signs. Give ca.pem to hubs and sandboxes anew.\n');
  expect([await trusted(kept), await trusted(join(site.folder, 'var/ca.pem'))]).toEqual([60, 0]);
  expect((await as('hub-1', 'status')).code).toBe(0);
});
