// What a person sees at the terminal, by what the guard answers.

import { mkdtempSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Forge } from '../../cli/demo/forge.ts';
import { pktLine } from '../../gitproxy/pkt-line.ts';
import type { IssuedGitSession } from '../../sessions/guards.ts';
import { FORGE_TOKEN, fill, refsOf, testForge } from '../support/forge.ts';
import { type Git, gitHome } from '../support/git.ts';
import { sandboxOf, startGitGuard, type TestGuard } from '../support/git-guard.ts';

let forge: Forge;
let guard: TestGuard;
let session: IssuedGitSession;
let git: Git;
/** Answers in place of git's own server. */
let instead: ((req: IncomingMessage, res: ServerResponse) => boolean) | undefined;
const outside = gitHome();

beforeAll(async () => {
  forge = await testForge({ instead: (req, res) => instead?.(req, res) ?? false });
  guard = await startGitGuard({ upstreams: [{ url: forge.url }], token: FORGE_TOKEN });
  session = await guard.issue({ permissions: ['contents:write'] });
  git = sandboxOf(guard, session);
  await fill(outside, await forge.createRepository('acme/tool'));
  await git.ok(['clone', '-q', `${guard.url}/acme/tool.git`, 'work']);
  await git.ok(['commit', '-q', '--allow-empty', '-m', 'x'], { cwd: join(git.folder, 'work') });
});
afterAll(async () => {
  await guard.close();
  await forge.close();
});
beforeEach(() => {
  instead = undefined;
  forge.requests.length = 0;
});

const lsRemote = (repo: string, as = git) => as(['ls-remote', `${guard.url}/${repo}`]);
const push = () => git(['push', 'origin', 'main'], { cwd: join(git.folder, 'work') });
const last = () => guard.audit.events.at(-1);

describe('a repository outside of the session', () => {
  test('every line as remote:, the rule, what is allowed, and the id', async () => {
    const { code, err } = await lsRemote('other/tool.git');
    expect(code).toBe(128);
    const id = last()?.exchangeId;
    expect(err).toBe(
      'remote: postern: other/tool is not among the repositories of this session (repo_not_allowed)\n' +
        'remote: postern: this session may read acme/* and push to acme/*\n' +
        `remote: postern: request ${id}\n` +
        `fatal: unable to access '${guard.url}/other/tool.git/': The requested URL returned error: 403\n`,
    );
    expect(last()).toMatchObject({
      action: 'git.rejected',
      code: 'repo_not_allowed',
      repo: 'other/tool',
      status: 403,
    });
    expect(forge.requests).toEqual([]);
  });
});

describe('a token that is not taken', () => {
  test('none at all: git asks for one, and it is counted and not recorded', async () => {
    const bare = gitHome(`[http]\n\tsslCAInfo = ${guard.certs.caFile}\n`);
    const before = guard.audit.events.length;
    const { code, err } = await lsRemote('acme/tool', bare);
    expect(code).toBe(128);
    expect(err).toContain('could not read Username');
    expect(guard.audit.events.length).toBe(before);
  });

  test('a wrong one: told what the guard takes, and the helper told to erase it', async () => {
    const mark = join(mkdtempSync(join(tmpdir(), 'postern-test-erase-')), 'erased');
    const helper = `!f() { if test \\"$1\\" = get; then echo username=${session.username}; echo password=wrong; fi; test \\"$1\\" = erase && touch ${mark}; }; f`;
    const wrong = gitHome(
      `[http]\n\tsslCAInfo = ${guard.certs.caFile}\n[credential "${guard.url}"]\n\thelper = "${helper}"\n`,
    );
    const { code, err } = await lsRemote('acme/tool', wrong);
    expect(code).toBe(128);
    expect(err).toContain('this guard takes a session token');
    expect(err).toContain('Authentication failed');
    await outside.ok(['hash-object', mark]);
    expect(last()).toMatchObject({ action: 'git.rejected', code: 'unauthenticated', status: 401 });
    expect(forge.requests).toEqual([]);
  });

  test('a revoked one: the same words', async () => {
    const other = await guard.issue();
    await guard.sessions.revoke(other.sessionId, 'test');
    const { err } = await lsRemote('acme/tool', sandboxOf(guard, other));
    expect(err).toContain('this guard takes a session token');
    expect(err).not.toContain('revoked');
    expect(last()).toMatchObject({ code: 'session_revoked', sessionId: other.sessionId, leaseId: 'lease-1' });
  });
});

describe('the upstream', () => {
  const answer =
    (status: number, headers: Record<string, string> = {}, body = 'an error page of the forge') =>
    (_req: IncomingMessage, res: ServerResponse): boolean => {
      res.writeHead(status, { 'Set-Cookie': 'a=b', 'WWW-Authenticate': 'Basic realm="forge"', ...headers });
      res.end(body);
      return true;
    };

  test.each([301, 302, 307, 308])(
    'redirects (%s): it is not followed, and the person is told what to do',
    async (status) => {
      let followed = false;
      instead = (req, res) => {
        if (req.url?.startsWith('/acme/renamed')) followed = true;
        return answer(status, { Location: `${forge.url}/acme/renamed.git/info/refs` })(req, res);
      };
      const { code, err } = await lsRemote('acme/tool');
      expect(code).toBe(128);
      expect(err).toContain('remote: postern: acme/tool has moved');
      expect(err).toContain('(upstream_redirect)');
      expect(err).toMatch(/look up the repository's present name/);
      expect(err).not.toContain('renamed');
      expect(followed).toBe(false);
    },
  );

  test.each([
    [401, /does not accept the credential in custody \(upstream_refused\)/, /returned error: 502/],
    [403, /forbids this for acme\/tool to the credential in custody/, /returned error: 403/],
    [
      404,
      /has no repository acme\/tool, or the credential in custody may not see it/,
      /repository '.*' not found/,
    ],
    [429, /limits how often the credential in custody may ask/, /returned error: 429/],
    [500, /answered for acme\/tool with status 500/, /returned error: 502/],
    [503, /answered for acme\/tool with status 503/, /returned error: 502/],
  ])('answers %s', async (status, words, end) => {
    instead = answer(status);
    const { code, err } = await lsRemote('acme/tool');
    expect(code).toBe(128);
    expect(err).toMatch(words);
    expect(err).toMatch(end);
    expect(err).not.toContain('error page');
    expect(err).not.toContain('Authentication failed');
    expect(last()).toMatchObject({ action: 'git.fetch_result', decision: 'error', status });
  });

  test('answers with a page: never taken for a repository without refs', async () => {
    instead = answer(200, { 'Content-Type': 'text/html' }, '<html>');
    const { code, err } = await lsRemote('acme/tool');
    expect(code).toBe(128);
    expect(err).toContain('with something that is not git');
  });

  test('says something to the person itself', async () => {
    const type = 'application/x-git-upload-pack-advertisement';
    instead = answer(200, { 'Content-Type': type }, pktLine('ERR the forge is being moved').toString());
    expect((await lsRemote('acme/tool')).err).toContain('remote error: the forge is being moved');
  });

  test('is down', async () => {
    const gone = await testForge();
    await gone.close();
    const other = await startGitGuard({ upstreams: [{ url: gone.url }], token: FORGE_TOKEN });
    const { err } = await sandboxOf(other, await other.issue())(['ls-remote', `${other.url}/acme/tool`]);
    expect(err).toContain(`${gone.url} could not be reached (upstream_unreachable)`);
    await other.close();
  });

  test.each([
    [301, 'ng'],
    [401, 'ng'],
    [403, 'ng'],
    [500, undefined],
    [504, undefined],
  ] as const)(
    'refuses a push (%s): never "Everything up-to-date", and known to have moved nothing (%s) or not known',
    async (status, known) => {
      const before = await refsOf(outside, join(forge.root, 'acme/tool.git'));
      instead = (req, res) => req.method === 'POST' && answer(status)(req, res);
      const { code, err } = await push();
      expect(code).toBe(1);
      expect(err).toMatch(/! \[remote rejected\] main -> main \(upstream_/);
      expect(err).not.toMatch(/Everything up-to-date|RPC failed/);
      expect(await refsOf(outside, join(forge.root, 'acme/tool.git'))).toBe(before);
      const [denied] = guard.audit.of('git.push_result').slice(-1);
      expect(denied).toMatchObject({ decision: 'error', status });
      expect(denied?.refs?.map(({ result }) => result)).toEqual([known]);
      expect(err.includes('whether the push has landed is not known')).toBe(known === undefined);
    },
  );

  test('breaks off in the middle of a push: it is not known whether it landed', async () => {
    instead = (req, res) => {
      if (req.method !== 'POST') return false;
      res.writeHead(200, { 'Content-Type': 'application/x-git-receive-pack-result' }).flushHeaders();
      req.on('data', () => res.destroy());
      return true;
    };
    const { code, err } = await push();
    expect(code).toBe(1);
    expect(err).toContain('whether the push has landed is not known');
    expect(err).toMatch(/! \[remote rejected\] main -> main/);
  });

  test('breaks off in the middle of an answer: git does not take it for whole', async () => {
    instead = (req, res) => {
      if (req.method !== 'POST') return false;
      res.writeHead(200, { 'Content-Type': 'application/x-git-upload-pack-result' });
      res.write('0010', () => res.destroy());
      return true;
    };
    const { code, err } = await git(['clone', '-q', `${guard.url}/acme/tool`, 'cut']);
    expect(code).toBe(128);
    expect(err).toMatch(/RPC failed|early EOF|unexpected disconnect|hung up/);
  });
});

describe('the audit trail cannot be written', () => {
  test('nothing is asked of the upstream, and the person is told why', async () => {
    guard.audit.fail(true);
    const fetched = await lsRemote('acme/tool');
    const pushed = await push();
    guard.audit.fail(false);
    expect(fetched.err).toContain(
      'the decision cannot be recorded now, so nothing is done; try later (audit_unavailable)',
    );
    expect(pushed.code).not.toBe(0);
    expect(forge.requests).toEqual([]);
    expect((await lsRemote('acme/tool')).code).toBe(0);
  });

  test('a push whose permission cannot be recorded is reported as refused', async () => {
    guard.audit.fail(['git.push_allowed']);
    const { err } = await push();
    guard.audit.fail(false);
    expect(err).toMatch(/! \[remote rejected\] main -> main \(audit_unavailable: /);
    expect(forge.requests.some(({ method }) => method === 'POST')).toBe(false);
  });
});

describe('what is counted', () => {
  const counted = async (what: () => Promise<unknown>): Promise<string[]> => {
    guard.counted.length = 0;
    await what();
    return [...guard.counted];
  };
  const ended = ['upstream', 'bytes down some'];

  test('a fetch', async () => {
    expect(
      await counted(() => git(['-c', 'protocol.version=0', 'ls-remote', `${guard.url}/acme/tool`])),
    ).toEqual([
      // git asks without a credential first
      ...['denial unauthenticated', 'request denied'],
      ...['stream request', 'end request', 'request allowed', ...ended],
    ]);
  });

  test('a refusal, by its code', async () => {
    expect((await counted(() => lsRemote('other/tool'))).slice(2)).toEqual([
      'denial repo_not_allowed',
      'request denied',
    ]);
  });

  test('a failure of the upstream', async () => {
    instead = (_req, res) => {
      res.writeHead(500).end();
      return true;
    };
    const seen = await counted(() => lsRemote('acme/tool'));
    expect(seen).toContain('request upstream_failed');
    expect(seen).not.toContain('denial upstream_unreachable');
  });

  test('and kept with the session', async () => {
    const other = await guard.issue();
    await sandboxOf(guard, other)(['ls-remote', `${guard.url}/acme/tool`]);
    await sandboxOf(guard, other)(['ls-remote', `${guard.url}/other/tool`]);
    const counters = (await guard.sessions.get(other.sessionId))?.counters;
    expect(counters).toMatchObject({ requests: 3, denied: 1 });
    expect(counters?.bytesDown).toBeGreaterThan(100);
  });
});

test('LFS is refused in its own format, once the session is known', async () => {
  const ask = async (authorization?: string) => {
    const { request } = await import('node:https');
    return new Promise<{ status: number; type: string; body: string }>((resolve, reject) => {
      const req = request(
        `${guard.url}/acme/tool.git/info/lfs/objects/batch`,
        {
          method: 'POST',
          ca: guard.certs.ca,
          headers: {
            'Content-Type': 'application/vnd.git-lfs+json',
            ...(authorization ? { authorization } : {}),
          },
        },
        (res) => {
          let body = '';
          res.on('data', (part) => {
            body += part;
          });
          res.on('end', () =>
            resolve({ status: res.statusCode ?? 0, type: res.headers['content-type'] ?? '', body }),
          );
        },
      );
      req.on('error', reject);
      req.end('{}');
    });
  };
  const basic = `Basic ${Buffer.from(`${session.username}:${session.password.reveal()}`).toString('base64')}`;
  const refused = await ask(basic);
  expect([refused.status, refused.type]).toEqual([403, 'application/vnd.git-lfs+json']);
  expect(JSON.parse(refused.body)).toMatchObject({ message: expect.stringContaining('lfs_not_allowed') });
  expect(last()).toMatchObject({ action: 'git.rejected', code: 'lfs_not_allowed', service: 'lfs' });
  expect((await ask()).status).toBe(401);
  expect(forge.requests).toEqual([]);
});
