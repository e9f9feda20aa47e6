// Heads, bodies and connections that no git sends.

import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { FLUSH_PKT, pktLine } from '../../../gitproxy/pkt-line.ts';
import type { IssuedGitSession } from '../../../sessions/guards.ts';
import { startGitGuard, type TestGuard } from '../../support/git-guard.ts';
import { type LenientUpstream, lenientUpstream } from '../../support/lenient-upstream.ts';
import { rawConnect, rawExchange } from '../../support/raw-client.ts';
import { waitFor } from '../../support/wait.ts';
import { commands, head, ONE, PUSH_TYPE, push, ZERO } from './kit.ts';

let upstream: LenientUpstream;
let guard: TestGuard;
let writer: IssuedGitSession;

beforeAll(async () => {
  upstream = await lenientUpstream();
  guard = await startGitGuard({
    upstreams: [{ url: upstream.origin }],
    token: 'ghp_theTokenOfThisFile0123456789abcdefgh',
    maxConcurrent: 2,
  });
  writer = await guard.issue({ permissions: ['contents:write'], pushRefs: ['refs/heads/agent/**'] });
});
afterAll(async () => {
  await guard.close();
  await upstream.close();
});
beforeEach(() => {
  upstream.clear();
  upstream.answer(() => 'HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
});

const P = 'POST /acme/tool.git/git-receive-pack';
const FETCH = 'GET /acme/tool.git/info/refs?service=git-upload-pack';

test.each([
  ['a second Host', ['Host: somebody.else']],
  ['a second Authorization', ['Authorization: Basic eDp5']],
  ['a body on a GET', ['Transfer-Encoding: chunked']],
  ['an Upgrade', ['Connection: Upgrade', 'Upgrade: h2c']],
])('%s behind more headers than node shows is seen all the same', async (_what, last) => {
  const many = Array.from({ length: 2200 }, (_, i) => `a${i}: b`);
  const body = last[0]?.startsWith('Transfer') ? '0\r\n\r\n' : '';
  const answer = await rawExchange(
    guard.port,
    guard.certs.ca,
    head(guard, writer, FETCH, ...many, ...last) + body,
  );
  expect(answer.status).toBeGreaterThanOrEqual(400);
  expect(upstream.received()).toBe('');
});

test('an allowed push that the upstream answers before its body has ended counts until it has, and ends with its session', async () => {
  const report = Buffer.concat([pktLine('\x01000eunpack ok\n0000'), FLUSH_PKT]);
  const type = 'Content-Type: application/x-git-receive-pack-result';
  upstream.answer(
    () =>
      `HTTP/1.1 200 OK\r\n${type}\r\nContent-Length: ${report.length}\r\n\r\n${report.toString('latin1')}`,
  );
  const session = await guard.issue({ permissions: ['contents:write'] });
  const list = commands([[ZERO, ONE, 'refs/heads/x']]);
  const sockets: TLSSocket[] = [];
  for (let i = 0; i < 4; i++) {
    const socket = await rawConnect(guard.port, guard.certs.ca);
    let answer = '';
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString('latin1');
    });
    socket.write(head(guard, session, P, PUSH_TYPE, 'Transfer-Encoding: chunked'));
    socket.write(`${list.length.toString(16)}\r\n${list.toString('latin1')}\r\n`);
    await waitFor('the answer', () => answer.includes('HTTP/1.1 ') || socket.destroyed);
    expect(answer).toMatch(i < 2 ? /^HTTP\/1\.1 200/ : /^HTTP\/1\.1 429/);
    sockets.push(socket);
  }
  await guard.sessions.revoke(session.sessionId, 'test');
  await waitFor('the end', () => sockets.every((socket) => socket.destroyed));
});

test('a refused push whose body never ends counts for its session, and ends with it', async () => {
  const list = commands([[ZERO, ONE, 'refs/heads/main']]);
  const sockets: TLSSocket[] = [];
  for (let i = 0; i < 8; i++) {
    const socket = await rawConnect(guard.port, guard.certs.ca);
    let answer = '';
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString('latin1');
    });
    socket.write(head(guard, writer, P, PUSH_TYPE, 'Transfer-Encoding: chunked'));
    socket.write(`${list.length.toString(16)}\r\n${list.toString('latin1')}\r\n`);
    await waitFor('the answer', () => answer !== '' || socket.destroyed);
    sockets.push(socket);
  }
  // Each goes on with its body, a byte at a time, as long as it likes.
  for (let round = 0; round < 10; round++) {
    for (const socket of sockets) if (!socket.destroyed) socket.write('1\r\nx\r\n');
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  const open = () => sockets.filter((socket) => !socket.destroyed).length;
  const whileLive = open();
  await guard.sessions.revoke(writer.sessionId, 'test');
  await new Promise((resolve) => setTimeout(resolve, 300));
  const afterEnd = open();
  for (const socket of sockets) socket.destroy();
  writer = await guard.issue({ permissions: ['contents:write'], pushRefs: ['refs/heads/agent/**'] });
  expect.soft(whileLive).toBeLessThanOrEqual(2);
  expect.soft(afterEnd).toBe(0);
});

test.each([
  [
    'a merge into another branch (GitLab)',
    ['merge_request.create', 'merge_request.target=main', 'merge_request.merge_when_pipeline_succeeds'],
  ],
  ['variables of a pipeline (GitLab)', ['ci.variable=X=y']],
  ['the visibility of the repository (Gitea, Forgejo)', ['repo.private=false']],
])('a push to an allowed branch cannot ask by push options for %s', async (_what, options) => {
  const list = commands([[ZERO, ONE, 'refs/heads/agent/x']], 'report-status side-band-64k push-options');
  const body = Buffer.concat([
    list,
    ...options.map((option) => pktLine(option)),
    FLUSH_PKT,
    Buffer.from('PACK'),
  ]);
  await rawExchange(guard.port, guard.certs.ca, [
    head(guard, writer, P, PUSH_TYPE, `Content-Length: ${body.length}`),
    body,
  ]);
  expect(upstream.received()).not.toContain(options.at(-1));
});

test.each([
  ['forged credentials', () => head(guard, undefined, FETCH, 'Authorization: Basic eDp5'), /^401$/],
  ['heads with two readings', () => head(guard, writer, FETCH, 'Host: somebody.else'), /^400$/],
])(
  'whoever has no session cannot fill the trail: of many %s from one address a few are records, the rest is one',
  async (_what, text, status) => {
    const other = await startGitGuard({
      upstreams: [{ url: upstream.origin }],
      token: 'ghp_another0123456789abcdef',
    });
    const request = text().replaceAll(String(guard.port), String(other.port));
    const answers: string[] = [];
    // A browser's worth of connections, each with as many requests at a time as one may have.
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let round = 0; round < 2; round++) {
          const socket = await rawConnect(other.port, other.certs.ca);
          let seen = '';
          socket.on('data', (chunk: Buffer) => {
            seen += chunk.toString('latin1');
          });
          socket.write(request.repeat(50));
          await waitFor('the answers', () => seen.split('HTTP/1.1 ').length > 50 || socket.destroyed);
          socket.destroy();
          answers.push(...[...seen.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, code = '']) => code));
        }
      }),
    );
    expect(answers.filter((code) => !status.test(code))).toEqual([]);
    expect(other.counted.filter((what) => what.startsWith('denial ')).length).toBeGreaterThanOrEqual(
      answers.length,
    );
    const each = other.audit.events.length;
    expect(each).toBeGreaterThanOrEqual(Math.min(60, answers.length));
    expect(each).toBeLessThan(100);
    await other.close();
    if (answers.length > each)
      expect(other.audit.events.at(-1)).toMatchObject({
        action: 'git.rejected',
        code: 'unauthenticated',
        sourceIp: '127.0.0.1',
        reason: expect.stringMatching(
          /^\d+ more failed authentications from this address were counted, not recorded$/,
        ),
      });
  },
);

test('a pair pasted where the user name belongs is not repeated in the error', async () => {
  const secret = 'ghp_SECRETsecretSECRETsecretSECRETsecret12';
  const said = await guard.issue({ username: `x-access-token:${secret}` }).then(
    () => '',
    (error: Error) => error.message,
  );
  expect(said).toContain('username');
  expect(said).not.toContain(secret);
});

test('requests pipelined behind a refused one are read by themselves, with their own credential', async () => {
  const anonymous = push(guard, writer)
    .toString('latin1')
    .replace(/Authorization: .*\r\n/, '');
  const socket = await rawConnect(guard.port, guard.certs.ca);
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.write(head(guard, writer, 'GET /acme/../x') + anonymous);
  await waitFor('both answers', () => text.includes('401 Unauthorized'));
  socket.destroy();
  expect(text).toMatch(/^HTTP\/1\.1 400 /);
  expect(upstream.received()).toBe('');
});

test.each([
  [
    'bare line feeds in the head',
    (): string => head(guard, writer, P, PUSH_TYPE, 'Content-Length: 4').replaceAll('\r\n', '\n'),
  ],
  ['a folded header', () => head(guard, writer, P, PUSH_TYPE, 'X: a\r\n b', 'Content-Length: 4')],
  ['a space before the colon', () => head(guard, writer, P, PUSH_TYPE, 'Transfer-Encoding : chunked')],
  ['another coding', () => head(guard, writer, P, PUSH_TYPE, 'Transfer-Encoding: xchunked')],
  ['a list of codings', () => head(guard, writer, P, PUSH_TYPE, 'Transfer-Encoding: gzip, chunked')],
  ['a signed length', () => head(guard, writer, P, PUSH_TYPE, 'Content-Length: +4')],
  ['a list of lengths', () => head(guard, writer, P, PUSH_TYPE, 'Content-Length: 4, 4')],
  ['a NUL in a header', () => head(guard, writer, P, PUSH_TYPE, 'X: a\0b', 'Content-Length: 4')],
  [
    'a chunk size of 65 bits',
    () => `${head(guard, writer, P, PUSH_TYPE, 'Transfer-Encoding: chunked')}10000000000000004\r\n`,
  ],
  ['a chunk size with 0x', () => `${head(guard, writer, P, PUSH_TYPE, 'Transfer-Encoding: chunked')}0x4\r\n`],
  [
    'chunks that end in a line feed',
    () => `${head(guard, writer, P, PUSH_TYPE, 'Transfer-Encoding: chunked')}4\n0000\n0\n\n`,
  ],
  ['h2 with prior knowledge', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
])('%s: nothing leaves', async (_what, text) => {
  const answer = await rawExchange(
    guard.port,
    guard.certs.ca,
    `${text()}${push(guard, writer).toString('latin1')}`,
    300,
  );
  expect([0, 400]).toContain(answer.status);
  expect(upstream.received()).toBe('');
});
