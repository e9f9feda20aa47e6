import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launcher, mode, openSite, type Ran, readAll, run, type Site, sandbox, seed } from './support.ts';

let site: Site;
const json = (ran: Ran) => JSON.parse(ran.out);
const sessions = async () => json(await site.postern('session', 'list', '--json')).sessions;

beforeAll(async () => {
  site = await openSite('cli-session', { sessions: { maxTtl: '2h' } });
  await seed(site, 'acme/tool');
  await seed(site, 'acme/private');
});
afterAll(() => site.close());

describe('session issue git', () => {
  test('with --out: files of the session, and a real git that works with them and nothing else', async () => {
    const out = join(site.folder, 'out');
    const ran = await site.issue(
      '--repo',
      'acme/tool',
      '--lease',
      'L1',
      '--out',
      out,
      '--label',
      'projectId=p1',
    );
    expect(ran).toMatchObject({ code: 0, err: '' });
    expect(readdirSync(out).sort()).toEqual(['ca.pem', 'env', 'git-credential', 'gitconfig']);
    expect(mode(out)).toBe('700');
    for (const name of readdirSync(out)) expect(mode(join(out, name))).toBe('600');
    expect(readAll(out)).not.toContain(site.token);
    expect(readFileSync(join(out, 'ca.pem'), 'utf8')).toBe(
      readFileSync(join(site.folder, 'var/ca.pem'), 'utf8'),
    );
    const password = /^password=(.+)$/m.exec(readFileSync(join(out, 'git-credential'), 'utf8'))?.[1] ?? '?';
    expect(ran.out).not.toContain(password);

    const env = sandbox(site.folder, out);
    const host = new URL(site.forge.url).hostname;
    for (const url of [
      `${site.forge.url}/acme/tool.git`,
      `git@${host}:acme/tool.git`,
      `ssh://git@${host}/acme/tool`,
    ]) {
      const clone = await run(
        'sh',
        ['-c', `. '${out}/env'; git clone -q '${url}' c && cat c/README && rm -rf c`],
        {
          env: { ...env, GIT_CONFIG_GLOBAL: '/dev/null' },
          cwd: env.HOME,
        },
      );
      expect(clone).toMatchObject({ code: 0, out: 'acme/tool\n' });
    }
    const other = await run('git', ['ls-remote', `git@${host}:acme/private.git`], { env, cwd: env.HOME });
    expect(other.code).not.toBe(0);
    expect(other.err).toContain('repo_not_allowed');
  });

  test('without --out: the files go to a private folder and no credential to the terminal', async () => {
    const ran = await site.issue('--repo', '*', '--lease', 'L1');
    expect(ran.code).toBe(0);
    const dir = /^files +(.+)$/m.exec(ran.out)?.[1] ?? '';
    try {
      expect(mode(dir)).toBe('700');
      expect(ran.out).toContain(`. '${dir}/env'`);
      const credential = readFileSync(join(dir, 'git-credential'), 'utf8');
      expect(ran.out).not.toContain(/^password=(.+)$/m.exec(credential)?.[1] ?? '?');
    } finally {
      rmSync(dir, { recursive: true });
    }
  });

  test("with --json: the API's answer, and with --out the files too", async () => {
    const out = join(site.folder, 'json-out');
    const ran = await site.issue(
      '--repo',
      'acme/*',
      '--lease',
      'L1',
      '--permission',
      'contents:write',
      '--ttl',
      '1h',
      '--json',
      '--out',
      out,
    );
    const answer = json(ran);
    expect(answer).toMatchObject({
      sessionId: expect.any(String),
      baseUrl: `https://${site.server.ready.git}`,
      username: answer.sessionId,
      password: expect.any(String),
      readOnly: false,
      upstreams: [site.forge.url],
      out,
    });
    expect(Date.parse(answer.expiresAt) - Date.now()).toBeGreaterThan(3_500_000);
    expect(readFileSync(join(out, 'env'), 'utf8')).toContain("POSTERN_GIT_MODE='read-write'");
    expect(readFileSync(join(out, 'git-credential'), 'utf8')).toContain(answer.password);
    const bare = json(await site.issue('--repo', 'acme/*', '--lease', 'L1', '--json'));
    expect(bare.out).toBeUndefined();
    const shown = await site.postern('session', 'show', bare.sessionId, '--json');
    expect(shown.out).not.toContain(bare.password);
    expect(shown.out).not.toContain(site.token);
  });

  test('the token from standard input', async () => {
    const args = [
      '--upstream',
      site.forge.url,
      '--token-file',
      '-',
      '--repo',
      '*',
      '--lease',
      'L1',
      '--json',
    ];
    const words = [launcher, 'session', 'issue', 'git', ...args, '--config', site.config];
    const ran = await run(process.execPath, words, { input: `${site.token}\n` });
    expect(json(ran).sessionId).toBeDefined();
  });

  test.each([
    ['a token as an argument', ['--token', 'SECRET']],
    ['a token in place of the file', ['--token-file', 'SECRET']],
    ['a token behind the flags', ['SECRET']],
    ['a token as a flag', ['--SECRET']],
  ])('%s is refused and not repeated', async (_name, more) => {
    const before = (await sessions()).length;
    const secret = 'ghp_0123456789abcdefghijABCDEFGHIJ012345';
    const words = more.map((word) => word.replace('SECRET', secret));
    for (const json of [[], ['--json']]) {
      const ran = await site.postern(
        'session',
        'issue',
        'git',
        '--upstream',
        site.forge.url,
        '--repo',
        '*',
        '--lease',
        'L',
        ...words,
        ...json,
      );
      expect(ran.code).toBe(2);
      expect(ran.out + ran.err).not.toContain(secret.slice(4));
    }
    expect((await sessions()).length).toBe(before);
  });

  test.each([
    ['an upstream that is not listed', ['--upstream', 'https://elsewhere.example'], 3, 'upstream_not_listed'],
    ['a time over the limit', ['--ttl', '3h'], 2, 'ttl_too_long'],
    ['a time that is none', ['--ttl', 'soon'], 2, 'invalid_input'],
    ['a permission that is none', ['--permission', 'content:write'], 2, 'invalid_input'],
    ['a pattern that is none', ['--repo', 'a/b/c'], 2, 'invalid_input'],
    ['a label that is none', ['--label', 'x'], 2, 'invalid_input'],
    [
      'push refs outside of what is ever pushed',
      ['--permission', 'contents:write', '--push-ref', 'refs/tags/*'],
      3,
      'policy_refused',
    ],
  ])('%s: exit status and code, and no folder is left behind', async (_name, more, code, error) => {
    const out = join(site.folder, 'refused');
    const upstream = more[0] === '--upstream' ? [] : ['--upstream', site.forge.url];
    const ran = await site.postern(
      'session',
      'issue',
      'git',
      ...upstream,
      '--token-file',
      site.tokenFile,
      '--repo',
      'acme/x',
      '--lease',
      'L',
      '--out',
      out,
      '--json',
      ...more,
    );
    expect(ran).toMatchObject({ code, out: '' });
    expect(JSON.parse(ran.err)).toMatchObject({ code: error, detail: expect.any(String) });
    expect(existsSync(out)).toBe(false);
  });

  test('a folder with other files is refused before anything is issued', async () => {
    const out = join(site.folder, 'taken');
    mkdirSync(out);
    writeFileSync(join(out, 'mine'), '');
    const before = (await sessions()).length;
    const ran = await site.issue('--repo', '*', '--lease', 'L', '--out', out);
    expect(ran).toMatchObject({ code: 1, out: '' });
    expect(ran.err).toContain('--out');
    expect((await sessions()).length).toBe(before);
  });
});

test('flags that only a push needs: issued, with a note where nothing may be pushed', async () => {
  const note = 'note: --push-ref and --allow-delete have no effect without --permission contents:write\n';
  const more = ['--repo', '*', '--lease', 'N', '--json', '--push-ref', 'refs/heads/a/*', '--allow-delete'];
  const read = await site.issue(...more);
  expect(read).toMatchObject({ code: 0, err: note });
  expect(JSON.parse(read.out).sessionId).toBeTruthy();
  expect(await site.issue(...more, '--permission', 'contents:write')).toMatchObject({ code: 0, err: '' });
  const wrong = await site.issue('--repo', '*', '--lease', 'N', '--permission', 'contents:wrote');
  expect(wrong.err).toMatch(/^postern: --permission: /);
});

describe('session list, show, renew, revoke', () => {
  test('renewing what is not there is told as revoking it is', async () => {
    const [renewed, revoked] = await Promise.all(
      ['renew', 'revoke'].map((verb) => site.postern('session', verb, 'sess_01m8pxeqrf4xkx25pnz22bny28')),
    );
    expect(renewed).toMatchObject({ code: 1, err: expect.stringContaining('postern session list') });
    expect(renewed).toEqual(revoked);
  });

  test('tell a session’s life', async () => {
    const { sessionId } = json(
      await site.issue(
        '--repo',
        'acme/tool',
        '--lease',
        'L7',
        '--ttl',
        '10m',
        '--label',
        'runId=r1',
        '--json',
      ),
    );
    expect((await site.postern('session', 'list', '--lease', 'L7')).out).toContain(sessionId);
    const listed = json(await site.postern('session', 'list', '--lease', 'L7', '--json')).sessions;
    expect(listed).toMatchObject([
      { sessionId, guard: 'git', leaseId: 'L7', state: 'live', labels: { runId: 'r1' } },
    ]);
    const renewed = json(await site.postern('session', 'renew', sessionId, '--ttl', '1h', '--json'));
    expect(Date.parse(renewed.expiresAt)).toBeGreaterThan(Date.parse(listed[0].expiresAt));
    expect(await site.postern('session', 'renew', sessionId, '--ttl', '5h')).toMatchObject({ code: 2 });
    expect(await site.postern('session', 'revoke', sessionId)).toMatchObject({ code: 0 });
    expect(await site.postern('session', 'revoke', sessionId)).toMatchObject({ code: 0 });
    expect((await site.postern('session', 'show', sessionId)).out).toMatch(
      /state +revoked\nbecause +revoked by cli:/,
    );
    const gone = await site.postern('session', 'renew', sessionId);
    expect(gone.code).toBe(1);
    expect(await site.postern('session', 'show', 'ses_nothing')).toMatchObject({ code: 1, out: '' });
    expect(await site.postern('session', 'revoke', 'ses_nothing')).toMatchObject({ code: 1, out: '' });
  });

  test('a lease is revoked as a whole, and only it', async () => {
    for (const lease of ['L8', 'L8', 'L9']) await site.issue('--repo', '*', '--lease', lease, '--json');
    const ran = await site.postern('session', 'revoke', '--lease', 'L8', '--json');
    expect(json(ran).revoked).toHaveLength(2);
    const states = (await sessions()).filter((one: { leaseId: string }) => /^L[89]$/.test(one.leaseId));
    expect(
      new Set(states.map((one: { leaseId: string; state: string }) => `${one.leaseId} ${one.state}`)),
    ).toEqual(new Set(['L8 revoked', 'L9 live']));
    expect(json(await site.postern('session', 'revoke', '--lease', 'L8', '--json')).revoked).toEqual([]);
    expect((await site.postern('session', 'revoke')).code).toBe(2);
    expect((await site.postern('session', 'revoke', 'x', '--lease', 'L8')).code).toBe(2);
  });

  test('every change is on record, with who made it', async () => {
    const { records } = json(await site.postern('audit', 'list', '--lease', 'L7', '--json'));
    expect(
      records.map((one: { action: string; actor: string }) => [one.action, one.actor?.startsWith('cli:')]),
    ).toEqual([
      ['git.session_minted', true],
      ['git.session_renewed', true],
      ['git.session_closed', true],
    ]);
  });
});

describe('explain git', () => {
  test.each([
    [['git', 'acme'], 'acme/tool'],
    [['kube', 'GET', 'pods'], '/api/v1/'],
  ])('%j: which form is expected', async (words, expected) => {
    const ran = await site.postern('explain', ...words, '--session', 'any');
    expect(ran).toMatchObject({ code: 2, out: '' });
    expect(ran.err).toContain(expected);
  });

  test('says what the guard would decide, by which rule, and asks the upstream nothing', async () => {
    const { sessionId } = json(
      await site.issue(
        '--repo',
        'acme/tool',
        '--permission',
        'contents:write',
        '--push-ref',
        'refs/heads/agent/**',
        '--lease',
        'L5',
        '--json',
      ),
    );
    const seen = site.forge.requests.length;
    const ask = async (...args: string[]) =>
      json(await site.postern('explain', 'git', ...args, '--session', sessionId, '--json'));
    expect(await ask('/acme/tool.git/info/refs?service=git-upload-pack')).toMatchObject({
      decision: 'allow',
      rule: expect.any(String),
      request: { repo: 'acme/tool', service: 'git-upload-pack' },
    });
    expect(await ask('acme/private')).toMatchObject({ decision: 'deny', code: 'repo_not_allowed' });
    expect(await ask('acme/tool', '--ref', 'refs/heads/main')).toMatchObject({
      decision: 'deny',
      code: 'ref_not_allowed',
    });
    expect(await ask('acme/tool', '--ref', 'create:refs/heads/agent/x')).toMatchObject({ decision: 'allow' });
    expect(await ask('acme/tool', '--ref', 'delete:refs/heads/agent/x')).toMatchObject({
      code: 'delete_not_allowed',
    });
    expect(await ask('/acme/../tool')).toMatchObject({ decision: 'deny' });
    expect(site.forge.requests.length).toBe(seen);
    expect((await site.postern('explain', 'git', 'acme/tool', '--session', 'ses_none')).code).toBe(1);
    expect((await site.postern('explain', 'kube', 'GET', '/api', '--session', sessionId)).code).toBe(2);
  });
});
