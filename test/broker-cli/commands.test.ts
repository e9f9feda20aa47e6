// The broker's nouns on the command line: what goes in from where, what comes out, and with which exit status.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { configure, launcher, type Ran, run, type Server, scratch, serve } from '../system/harness.ts';

const { folder, remove } = scratch('commands');
const VALUE = 'value-of-a-credential-0123';
const PAT = `ghp_${'a1B2'.repeat(9)}`;
const PEOPLE = { ann: 'requester', ben: 'approver' };
let config: string;
let server: Server;

beforeAll(async () => {
  config = configure(folder, {
    git: { listen: '127.0.0.1:0', upstreams: [{ url: 'https://forge.example.com' }] },
    control: {
      listen: '127.0.0.1:0',
      tokens: Object.entries(PEOPLE).map(([name, role]) => ({
        name,
        role,
        sha256: createHash('sha256').update(tokenOf(name)).digest('hex'),
      })),
    },
    log: { level: 'warn' },
  });
  server = await serve(config, { ...process.env, FROM_ENV: VALUE, XDG_STATE_HOME: join(folder, 'state') });
});
afterAll(async () => {
  await server.kill();
  remove();
});

const tokenOf = (name: string): string => `control-token-of-${name}-0123456789`;
const postern = (...args: string[]): Promise<Ran> => fed(undefined, ...args);
function fed(input: string | undefined, ...args: string[]): Promise<Ran> {
  return run(process.execPath, [launcher, ...args, '--config', config], input === undefined ? {} : { input });
}
/** Somebody elsewhere, with a token. */
function by(name: string, ...args: string[]): Promise<Ran> {
  const home = join(folder, `home-${name}`);
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, 'token'), tokenOf(name), { mode: 0o600 });
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    POSTERN_SERVER: `https://${server.ready.control}`,
    POSTERN_TOKEN_FILE: join(home, 'token'),
    POSTERN_CA_FILE: join(folder, 'var/ca.pem'),
  };
  return run(process.execPath, [launcher, ...args], { env, cwd: home });
}
// biome-ignore lint/suspicious/noExplicitAny: a test reads into whatever came
async function json(ran: Promise<Ran>): Promise<any> {
  const done = await ran;
  expect(done).toMatchObject({ code: 0, err: '' });
  return JSON.parse(done.out);
}

describe('secrets', () => {
  test('come from a file, standard input or a reference, and from no argument', async () => {
    const file = join(folder, 'pat');
    writeFileSync(file, `${PAT}\n`, { mode: 0o600 });
    for (const ran of [
      await postern(
        'secret',
        'mint',
        'pat',
        '--kind',
        'github_pat',
        '--file',
        file,
        '--meta',
        'ticket=OPS-1',
      ),
      await fed(JSON.stringify({ A: VALUE, B: 'other' }), 'secret', 'mint', 'vars', '--kind', 'env'),
      await postern('secret', 'mint', 'ref', '--kind', 'env', '--from-env', 'FROM_ENV'),
      await postern('secret', 'list'),
      await postern('secret', 'show', 'vars', '--json'),
    ]) {
      expect(ran).toMatchObject({ code: 0, err: '' });
      expect(ran.out).not.toMatch(/value-of-a-cred|ghp_/);
    }
    expect(await json(postern('secret', 'show', 'ref', '--json'))).toMatchObject({
      kind: 'env',
      reference: { env: 'FROM_ENV' },
    });
    const refused = [
      await postern('secret', 'mint', 'x', PAT, '--kind', 'github_pat'),
      await postern('secret', 'mint', 'x', '--token', PAT, '--kind', 'github_pat'),
      await postern('secret', 'mint', PAT, '--kind', 'github_pat', '--file', file),
      await postern('secret', 'mint', 'x', '--kind', 'github_pat', '--file', file, '--from-env', 'A'),
      await fed('', 'secret', 'mint', 'x', '--kind', 'env'),
      await fed(VALUE, 'secret', 'mint', 'x', '--kind', 'surprise'),
      await postern('secret', 'mint', 'x', '--kind', 'env', '--from-secret', 'no-key'),
      await postern('secret', 'mint', 'x', '--kind', 'env', '--from-env', 'NOT_THERE'),
    ];
    for (const ran of refused) {
      expect(ran).toMatchObject({ code: 2, out: '' });
      expect(ran.err).not.toContain(PAT);
    }
    expect(await fed(VALUE, 'secret', 'mint', 'VARS', '--kind', 'env')).toMatchObject({ code: 1 });
    expect(await postern('secret', 'show', 'nothing')).toMatchObject({ code: 1 });
  });

  test('a flat file is imported once, for everybody and without an end', async () => {
    const file = join(folder, 'flat');
    writeFileSync(file, `# old\nFLAT_ONE=${VALUE}\nexport FLAT_TWO='two words'\n`);
    expect(await json(postern('secret', 'import', '--file', file, '--json'))).toEqual({
      imported: ['FLAT_ONE', 'FLAT_TWO'],
      skipped: [],
    });
    expect(await json(postern('secret', 'import', '--file', file, '--json'))).toMatchObject({
      imported: [],
      skipped: ['FLAT_ONE', 'FLAT_TWO'],
    });
    const { grants } = await json(postern('grant', 'list', '--secret', 'FLAT_ONE', '--json'));
    expect(grants).toMatchObject([{ subject: 'any', state: 'active' }]);
    expect(grants[0].expiresAt).toBe(undefined);
    const { env } = await json(postern('lease', 'create', '--project', '/anything', '--json'));
    expect(env).toMatchObject({ FLAT_ONE: VALUE, FLAT_TWO: 'two words' });
    for (const name of ['FLAT_ONE', 'FLAT_TWO']) await postern('secret', 'delete', name);
  });
});

describe('grants and leases', () => {
  const PROJECT = '/srv/leases';
  test('a lease fills a folder, a renewal brings it up to date, a release takes it away', async () => {
    const { grantId } = await json(
      postern('grant', 'create', 'vars', '--to', `project:${PROJECT}`, '--env-key', 'A', '--json'),
    );
    await postern('grant', 'create', 'pat', '--to', 'executor:edge-01', '--repo', 'acme/*');
    const out = join(folder, 'out');
    const made = await postern(
      'lease',
      'create',
      '--project',
      PROJECT,
      '--executor',
      'edge-01',
      '--out',
      out,
    );
    expect(made).toMatchObject({ code: 0, err: '' });
    expect(made.out).not.toContain(VALUE);
    const leaseId = /lease_\w+/.exec(made.out)?.[0] ?? '';
    const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);
    expect(readdirSync(out).sort()).toEqual([
      '.postern-lease',
      'ca.pem',
      'env',
      'git-credential',
      'gitconfig',
    ]);
    expect([mode(out), ...readdirSync(out).map((name) => mode(join(out, name)))]).toEqual([
      '700',
      ...Array(5).fill('600'),
    ]);
    const sourced = await run('sh', [
      '-c',
      `. ${out}/env && echo "$A $B $POSTERN_GIT_REPOS" && git config --get credential.helper`,
    ]);
    expect(sourced.out).toBe(`${VALUE}  acme/*\n`);

    expect(await postern('lease', 'create', '--project', PROJECT, '--out', out)).toMatchObject({ code: 1 });
    expect(await postern('lease', 'renew', 'lease_other', '--out', out)).toMatchObject({ code: 1 });
    const token = readFileSync(join(out, 'git-credential'), 'utf8');
    const files = (): string[] =>
      readdirSync(out)
        .filter((name) => name !== '.postern-lease')
        .map((name) => `${name} ${statSync(join(out, name)).ino}`);
    const before = files();
    expect(await postern('lease', 'renew', leaseId, '--out', out)).toMatchObject({ code: 0, err: '' });
    expect(files(), 'a file that did not change is not put again').toEqual(before);
    await postern('grant', 'revoke', grantId);
    await fed('user:password', 'secret', 'mint', 'login', '--kind', 'registry');
    await postern(
      'grant',
      'create',
      'login',
      '--to',
      `project:${PROJECT}`,
      '--registry',
      'registry.example.com',
    );
    expect(await postern('lease', 'renew', leaseId, '--out', out)).toMatchObject({ code: 0, err: '' });
    expect(readFileSync(join(out, 'env'), 'utf8')).not.toContain(VALUE);
    expect(existsSync(join(out, 'config.json'))).toBe(true);
    expect(readFileSync(join(out, 'git-credential'), 'utf8')).toBe(token);
    expect((await json(postern('lease', 'show', leaseId, '--json'))).outstanding).toEqual([grantId]);

    writeFileSync(join(out, 'mine'), 'not of the lease');
    expect(await postern('lease', 'release', leaseId, '--out', out)).toMatchObject({ code: 0 });
    expect(readdirSync(out)).toEqual(['mine']);
    expect(await postern('lease', 'release', leaseId)).toMatchObject({ code: 0 });
    expect(await postern('lease', 'renew', leaseId)).toMatchObject({ code: 1 });
  });

  test.each([
    ['no subject', ['vars'], 2],
    ['a subject that is none', ['vars', '--to', 'everyone'], 2],
    ['a star inside', ['vars', '--to', 'project:/srv/*'], 2],
    ['no repository', ['pat', '--to', 'any'], 2],
    ['a constraint of another kind', ['vars', '--to', 'any', '--repo', 'acme/app'], 2],
    ['longer than a grant lives', ['vars', '--to', 'any', '--ttl', '91d'], 2],
    ['a secret that is not there', ['nothing', '--to', 'any'], 1],
  ])('a grant with %s is refused', async (_what, args, code) => {
    const ran = await postern('grant', 'create', ...args);
    expect(ran).toMatchObject({ code, out: '' });
    expect(ran.err).toMatch(/^postern: /);
  });
});

describe('requests', () => {
  const ask = ['--to', 'project:/srv/asked', '--env-key', 'A', '--justification', 'to deploy'];
  test('are opened, seen, approved by another and used; a denial says why', async () => {
    const opened = await json(by('ann', 'request', 'open', 'vars', ...ask, '--ttl', '8h', '--json'));
    expect(opened).toMatchObject({ state: 'pending', requestedBy: 'ann', ttl: '8h' });
    expect((await by('ben', 'request', 'list')).out).toContain('to deploy');
    expect(await by('ann', 'request', 'approve', opened.requestId)).toMatchObject({ code: 3 });
    const approved = await json(
      by('ben', 'request', 'approve', opened.requestId, '--hash', opened.contentHash, '--json'),
    );
    expect(approved).toMatchObject({
      state: 'approved',
      decidedBy: 'ben',
      grant: { subject: 'project:/srv/asked' },
    });
    await json(postern('lease', 'create', '--project', '/srv/asked', '--run', 'run-9', '--json'));
    const shown = await by('ann', 'request', 'show', opened.requestId);
    expect(shown.out).toContain('run-9');

    const second = await json(by('ann', 'request', 'open', 'vars', ...ask, '--json'));
    expect(await by('ben', 'request', 'deny', second.requestId)).toMatchObject({ code: 2 });
    expect(await by('ben', 'request', 'deny', second.requestId, '--note', 'not now')).toMatchObject({
      code: 0,
    });
    expect(await by('ben', 'request', 'approve', second.requestId)).toMatchObject({ code: 1 });
    const third = await json(by('ann', 'request', 'open', 'vars', ...ask, '--json'));
    expect(await by('ann', 'request', 'withdraw', third.requestId)).toMatchObject({ code: 0 });
    expect(await by('ann', 'request', 'open', 'vars', '--to', 'any')).toMatchObject({ code: 2 });
  });

  test('of oneself are decided by nobody at the same socket', async () => {
    const opened = await json(postern('request', 'open', 'vars', ...ask, '--json'));
    const ran = await postern('request', 'approve', opened.requestId, '--json');
    expect(ran).toMatchObject({ code: 3, out: '' });
    expect(JSON.parse(ran.err)).toMatchObject({ code: 'self_approval', status: 403 });
  });
});

test('keys: added, counted, rotated to, retired; status and doctor tell of rows that wait', async () => {
  const { keys } = await json(postern('key', 'list', '--json'));
  const added = await json(postern('key', 'add', '--json'));
  expect((await postern('status')).out).toMatch(/rows to rotate +\d+/);
  expect((await postern('doctor')).out).toMatch(/warn {2}keys: \d+ sealed rows/);
  expect(await postern('key', 'retire', keys[0].id)).toMatchObject({ code: 1 });
  expect((await postern('key', 'rotate', '--dry-run')).out).toContain('would move');
  const rotated = await json(postern('key', 'rotate', '--json'));
  expect(rotated).toMatchObject({ to: added.id, failed: 0, complete: true });
  expect(await postern('key', 'retire', keys[0].id)).toMatchObject({ code: 0 });
  const status = await postern('key', 'status');
  expect(status.out).toMatch(/retired/);
  expect(status.out).toMatch(/completed/);
  expect((await json(postern('lease', 'create', '--project', '/srv/asked', '--json'))).env.A).toBe(VALUE);
});
