// Ending means ending: revoked, expired, a grant taken out, a guard that closes, in the middle of clones and pushes.

import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Forge } from '../../cli/demo/forge.ts';
import { Credential } from '../../common/credential.ts';
import { FLUSH_PKT, pktLine } from '../../gitproxy/pkt-line.ts';
import { FORGE_TOKEN, fill, refsOf, testForge } from '../support/forge.ts';
import { gitHome } from '../support/git.ts';
import { basicOf, sandboxOf, startGitGuard, type TestGuard } from '../support/git-guard.ts';
import { rawConnect, rawExchange, readAnswer } from '../support/raw-client.ts';
import { waitFor } from '../support/wait.ts';

let forge: Forge;
let guard: TestGuard;
let instead: ((req: IncomingMessage, res: ServerResponse) => boolean) | undefined;
const outside = gitHome();

beforeAll(async () => {
  forge = await testForge({
    instead: (req, res) => instead?.(req, res) ?? false,
    slow: (url) => (url.startsWith('/acme/slow') ? 200_000 : undefined),
  });
  guard = await startGitGuard({ upstreams: [{ url: forge.url }], token: FORGE_TOKEN, maxConcurrent: 3 });
  await fill(outside, await forge.createRepository('acme/slow'), { noise: 3_000_000 });
  await fill(outside, await forge.createRepository('acme/tool'));
});
afterAll(async () => {
  await guard.close();
  await forge.close();
});
beforeEach(() => {
  instead = undefined;
  forge.requests.length = 0;
});

const under = (path: string) => () =>
  forge.requests.some(
    ({ url, method, status }) => method === 'POST' && url.includes(path) && status === undefined,
  );

/** A clone under way, with its end. */
async function cloning(session: Awaited<ReturnType<TestGuard['issue']>>) {
  const git = sandboxOf(guard, session, '[protocol]\n\tversion = 0\n');
  const done = git(['clone', '-q', `${guard.url}/acme/slow`, 'slow']);
  await waitFor('the clone', under('/acme/slow.git/git-upload-pack'));
  return { git, done };
}

describe('a clone is cut', () => {
  test('when its session is revoked, and the call answers after that', async () => {
    const session = await guard.issue();
    const { git, done } = await cloning(session);
    await guard.sessions.revoke(session.sessionId, 'test');
    const { code, err } = await done;
    expect(code).toBe(128);
    expect(err).toMatch(/early EOF|RPC failed|hung up|unexpected disconnect/);
    const again = await git(['ls-remote', `${guard.url}/acme/tool`]);
    expect(again.err).toContain('Authentication failed');
    const [result] = guard.audit.of('git.fetch_result').slice(-1);
    expect(result).toMatchObject({
      decision: 'error',
      reason: 'the session ended (revoked)',
      sessionId: session.sessionId,
    });
  });

  test('when the grant that it spends is taken out; another grant of the session goes on', async () => {
    const session = await guard.issue(
      { repos: ['acme/slow'], grantId: 'g1' },
      { repos: ['acme/tool'], grantId: 'g2' },
    );
    const { git, done } = await cloning(session);
    await guard.sessions.removeGrant(session.sessionId, 'g1', 'test');
    expect((await done).code).toBe(128);
    const gone = await git(['ls-remote', `${guard.url}/acme/slow`]);
    expect(gone.err).toContain('(repo_not_allowed)');
    expect(gone.err).toContain('this session may read acme/tool and push to nothing');
    expect(await git(['ls-remote', `${guard.url}/acme/tool`])).toMatchObject({ code: 0 });
  });

  test('when its time comes, in the middle of it', async () => {
    const session = await guard.guard.issue({
      leaseId: 'lease-1',
      actor: 'test',
      ttl: 1_500,
      credentials: [{ token: new Credential(FORGE_TOKEN), upstream: forge.url, repos: ['acme/*'] }],
    });
    const { git, done } = await cloning(session);
    expect((await done).code).toBe(128);
    const again = await git(['ls-remote', `${guard.url}/acme/tool`]);
    expect(again.err).toContain('the session of this token is past its time');
    expect(guard.audit.of('git.rejected').at(-1)).toMatchObject({ code: 'session_expired' });
  });
});

describe('a push is cut', () => {
  test('in the middle of its pack: nothing lands, and the words are honest', async () => {
    const bare = await forge.createRepository('acme/pushed');
    const session = await guard.issue({ permissions: ['contents:write'] });
    const git = sandboxOf(guard, session);
    await git.ok(['clone', '-q', `${guard.url}/acme/pushed`, 'work']);
    const cwd = join(git.folder, 'work');
    writeFileSync(join(cwd, 'noise'), randomBytes(6_000_000));
    await git.ok(['add', '.'], { cwd });
    await git.ok(['commit', '-qm', 'x'], { cwd });
    let read = 0;
    instead = (req, res) => {
      if (req.method !== 'POST') return false;
      // As slow as a forge can be: it says that it will answer and reads a little.
      res.writeHead(200, { 'Content-Type': 'application/x-git-receive-pack-result' }).flushHeaders();
      req.on('error', () => {});
      req.once('data', (part: Buffer) => {
        read += part.length;
        req.pause();
      });
      return true;
    };
    const done = git(['push', '-q', 'origin', 'main'], { cwd });
    await waitFor('the pack', () => read > 0);
    await guard.sessions.revoke(session.sessionId, 'test');
    const { code, err } = await done;
    expect(code).toBe(1);
    expect(err).toMatch(/! \[remote rejected\] main -> main \(unauthenticated: the session has ended\)/);
    expect(err).toContain('whether the push has landed is not known');
    expect(await refsOf(outside, bare)).toBe('');
    const result = guard.audit.of('git.push_result').at(-1);
    expect(result).toMatchObject({
      decision: 'error',
      code: 'session_revoked',
      reason: 'the session ended (revoked); whether the push has landed is not known',
    });
    expect(result?.refs?.[0]?.result).toBeUndefined();
  });

  test('while its commands are still coming: the forge is never asked', async () => {
    const session = await guard.issue({ permissions: ['contents:write'] });
    const socket = await rawConnect(guard.port, guard.certs.ca);
    const answer = readAnswer(socket);
    const head = [
      'POST /acme/tool.git/git-receive-pack HTTP/1.1',
      `Host: 127.0.0.1:${guard.port}`,
      `Authorization: ${basicOf(session)}`,
      'Content-Type: application/x-git-receive-pack-request',
      'Transfer-Encoding: chunked',
    ];
    const command = pktLine(`${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/x\0report-status`);
    socket.write(
      `${head.join('\r\n')}\r\n\r\n${command.length.toString(16)}\r\n${command.toString('latin1')}\r\n`,
    );
    await waitFor('the request', async () => (await guard.sessions.get(session.sessionId)) !== undefined);
    await new Promise((resolve) => setTimeout(resolve, 100));
    await guard.sessions.revoke(session.sessionId, 'test');
    socket.write(`4\r\n${FLUSH_PKT.toString()}\r\n0\r\n\r\n`);
    expect((await answer).status).toBe(401);
    expect(forge.requests).toEqual([]);
  });
});

test('an end that comes while the record is written is not overtaken: the forge is never asked', async () => {
  const fetching = await guard.issue();
  // Its credential is open already: nothing but the record is waited for.
  await sandboxOf(guard, fetching).ok(['ls-remote', `${guard.url}/acme/tool`]);
  forge.requests.length = 0;
  const pushing = await guard.issue({ permissions: ['contents:write'] });
  const revoked: Promise<unknown>[] = [];
  const seen = new Set<string>();
  guard.audit.watch(({ action, sessionId }) => {
    const mine = sessionId === fetching.sessionId || sessionId === pushing.sessionId;
    if (!mine || (action !== 'git.fetch' && action !== 'git.push_allowed')) return;
    seen.add(action);
    revoked.push(guard.sessions.revoke(sessionId, 'test'));
  });
  const request = (line: string, session: typeof fetching, ...more: string[]) =>
    [line, `Host: 127.0.0.1:${guard.port}`, `Authorization: ${basicOf(session)}`, ...more, '', ''].join(
      '\r\n',
    );
  const advert = 'GET /acme/tool/info/refs?service=git-upload-pack HTTP/1.1';
  const fetched = await rawExchange(guard.port, guard.certs.ca, request(advert, fetching));
  const command = `${pktLine(`${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/x\0report-status`).toString('latin1')}0000`;
  const type = 'Content-Type: application/x-git-receive-pack-request';
  const push = request(
    'POST /acme/tool/git-receive-pack HTTP/1.1',
    pushing,
    type,
    `Content-Length: ${command.length}`,
  );
  const pushed = await rawExchange(guard.port, guard.certs.ca, Buffer.from(push + command, 'latin1'));
  await Promise.all(revoked);
  expect([...seen]).toEqual(['git.fetch', 'git.push_allowed']);
  expect(fetched.status).toBe(401);
  expect(pushed.body).toContain('ng refs/heads/x unauthenticated: the session has ended');
  expect(forge.requests).toEqual([]);
});

test('a session does no more at once than it may, and another is not stopped by that', async () => {
  const session = await guard.issue();
  const clones = await Promise.all([1, 2, 3].map(() => cloning(session)));
  const underWay = () => forge.requests.filter(({ method, status }) => method === 'POST' && !status).length;
  await waitFor('all three', () => underWay() === 3);
  const refused = await clones[0]?.git(['ls-remote', `${guard.url}/acme/tool`]);
  expect(refused?.code).toBe(128);
  expect(refused?.err).toContain('too many requests under way');
  expect(refused?.err).toContain('429');
  expect(await sandboxOf(guard, await guard.issue())(['ls-remote', `${guard.url}/acme/tool`])).toMatchObject({
    code: 0,
  });
  await guard.sessions.revoke(session.sessionId, 'test');
  for (const { done } of clones) expect((await done).code).toBe(128);
});

test('a client that leaves takes the request at the forge with it', async () => {
  const session = await guard.issue();
  let closed = false;
  instead = (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'application/x-git-upload-pack-advertisement' });
    res.write(pktLine('version 2\n'));
    res.on('close', () => {
      closed = true;
    });
    return true;
  };
  const socket = await rawConnect(guard.port, guard.certs.ca);
  socket.write(
    `GET /acme/tool/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: 127.0.0.1:${guard.port}\r\nAuthorization: ${basicOf(session)}\r\n\r\n`,
  );
  await once(socket, 'data');
  socket.destroy();
  await waitFor('the forge to be let go', () => closed);
  await waitFor('the record', () => guard.audit.of('git.fetch_result').at(-1)?.reason === 'the client left');
});

test('a client that leaves in the middle of a push is no failure of the forge', async () => {
  const session = await guard.issue({ permissions: ['contents:write'] });
  const socket = await rawConnect(guard.port, guard.certs.ca);
  const command = Buffer.concat([
    pktLine(`${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/x\0report-status`),
    FLUSH_PKT,
    Buffer.from('PACK'),
  ]);
  const head = [
    'POST /acme/tool.git/git-receive-pack HTTP/1.1',
    `Host: 127.0.0.1:${guard.port}`,
    `Authorization: ${basicOf(session)}`,
    'Content-Type: application/x-git-receive-pack-request',
    'Content-Length: 100000',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  socket.write(command);
  await waitFor('the push at the forge', () => forge.requests.some(({ bytes }) => bytes >= command.length));
  socket.destroy();
  const result = () => guard.audit.of('git.push_result').find((one) => one.sessionId === session.sessionId);
  await waitFor('the record', () => result() !== undefined);
  expect(result()).toMatchObject({
    decision: 'error',
    reason: 'the client left',
    refs: [{ ref: 'refs/heads/x' }],
  });
  expect(result()?.code).toBeUndefined();
  expect(result()?.refs?.[0]?.result).toBeUndefined();
});

test('a guard that closes cuts what does not end in its time, and answers no more', async () => {
  const other = await startGitGuard({ upstreams: [{ url: forge.url }], token: FORGE_TOKEN });
  const session = await other.issue();
  const git = sandboxOf(other, session);
  const done = git(['clone', '-q', `${other.url}/acme/slow`, 'slow']);
  await waitFor('the clone', under('/acme/slow.git/git-upload-pack'));
  await other.close();
  expect((await done).code).toBe(128);
  await expect(rawExchange(other.port, other.certs.ca, 'GET / HTTP/1.1\r\n\r\n')).rejects.toThrow(
    /ECONNREFUSED/,
  );
});
