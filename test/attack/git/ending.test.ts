// What the trail says about a push that was cut after the forge had all of it, and a revocation that falls between the
// opening of the credential and the sending.

import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Forge } from '../../../cli/demo/forge.ts';
import { Credential } from '../../../common/credential.ts';
import { silentLog } from '../../../common/log.ts';
import { noMetrics } from '../../../common/metrics.ts';
import { type Admitted, createEnding, PATIENCE } from '../../../gitproxy/flow.ts';
import { servePush } from '../../../gitproxy/pushing.ts';
import { createUpstreams } from '../../../relay/upstreams.ts';
import { FORGE_TOKEN, refsOf, testForge } from '../../support/forge.ts';
import { type Git, gitHome } from '../../support/git.ts';
import { sandboxOf, startGitGuard, type TestGuard } from '../../support/git-guard.ts';
import { lenientUpstream } from '../../support/lenient-upstream.ts';
import { memoryAudit } from '../../support/memory-audit.ts';
import { rawConnect } from '../../support/raw-client.ts';
import { waitFor } from '../../support/wait.ts';
import { commands, head, ONE, PUSH_TYPE, ZERO } from './kit.ts';

let forge: Forge;
let guard: TestGuard;
let outside: Git;

beforeAll(async () => {
  forge = await testForge();
  outside = gitHome();
  guard = await startGitGuard({ upstreams: [{ url: forge.url }], token: FORGE_TOKEN });
});
afterAll(async () => {
  await guard.close();
  await forge.close();
});

const chunk = (bytes: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);

/** A push whose ref has moved at the forge, which is about to say so (its report comes after this hook). */
async function heldPush(name: string) {
  const bare = await forge.createRepository(`acme/${name}`);
  const go = join(bare, 'go');
  const hook = join(bare, 'hooks', 'reference-transaction');
  writeFileSync(
    hook,
    `#!/bin/sh\ntest "$1" = committed || exit 0\nn=0; while ! test -e '${go}' && test $n -lt 200; do n=$((n+1)); sleep 0.05; done\n`,
  );
  chmodSync(hook, 0o755);
  const session = await guard.issue({ permissions: ['contents:write'] });
  const git = sandboxOf(guard, session);
  await git.ok(['clone', '-q', `${guard.url}/acme/${name}`, 'work']);
  const cwd = join(git.folder, 'work');
  await git.ok(['commit', '-qm', 'x', '--allow-empty'], { cwd });
  return { bare, session, git, cwd, release: () => writeFileSync(go, '') };
}

const landed = async (bare: string): Promise<boolean> =>
  (await refsOf(outside, bare)).includes('refs/heads/main');

test('a push whose session ends after it has landed is not on record, or told, as refused', async () => {
  const { bare, session, git, cwd, release } = await heldPush('revoked');
  const done = git(['push', '-q', 'origin', 'main'], { cwd });
  await waitFor('the ref', () => landed(bare));
  await guard.sessions.revoke(session.sessionId, 'test');
  const { err } = await done;
  release();
  expect(await landed(bare)).toBe(true);
  await waitFor('the record', () => guard.audit.of('git.push_result').length > 0);
  expect.soft(guard.audit.of('git.push_result').at(-1)?.refs?.[0]?.result).not.toBe('ng');
  expect.soft(err).toContain('not known');
});

/** The body of a push as git writes it, by a client that can do with it what git does not. */
async function bodyOf(git: Git, cwd: string): Promise<Buffer> {
  const oid = await git.ok(['rev-parse', 'HEAD'], { cwd });
  const objects = await git.ok(['rev-list', '--objects', 'HEAD'], { cwd });
  const input = `${objects.replace(/ .*$/gm, '')}\n`;
  await git.ok(['pack-objects', '-q', 'p'], { cwd, input });
  const file = readdirSync(cwd).find((name) => name.endsWith('.pack')) ?? '';
  return Buffer.concat([commands([[ZERO, oid, 'refs/heads/main']]), readFileSync(join(cwd, file))]);
}

test.each([
  ['never ends', 'session', (body: Buffer) => [chunk(body)]],
  ['goes on past the limit', 'limit', (body: Buffer) => [chunk(body), chunk(Buffer.alloc(50_000))]],
] as const)(
  'a push whose pack is whole while its body %s can have landed, and is not on record or told as refused',
  async (_what, how, chunks) => {
    const small = await startGitGuard({
      upstreams: [{ url: forge.url }],
      token: FORGE_TOKEN,
      push: { maxPackBytes: 20_000 },
    });
    const name = `acme/whole-${how}`;
    const bare = await forge.createRepository(name);
    const session = await small.issue({ permissions: ['contents:write'] });
    const git = sandboxOf(small, session);
    await git.ok(['clone', '-q', `${small.url}/${name}`, 'work']);
    const cwd = join(git.folder, 'work');
    await git.ok(['commit', '-qm', 'x', '--allow-empty'], { cwd });
    const [first, ...rest] = chunks(await bodyOf(git, cwd));
    const socket = await rawConnect(small.port, small.certs.ca);
    let answer = '';
    socket.on('data', (part: Buffer) => {
      answer += part.toString('latin1');
    });
    socket.write(
      head(small, session, `POST /${name}.git/git-receive-pack`, PUSH_TYPE, 'Transfer-Encoding: chunked'),
    );
    socket.write(first ?? '');
    await waitFor('the ref', () => landed(bare));
    for (const more of rest) socket.write(more);
    if (how === 'session') await small.sessions.revoke(session.sessionId, 'test');
    await waitFor('the record', () => small.audit.of('git.push_result').length > 0);
    expect(small.audit.of('git.push_result').at(-1)?.refs?.[0]?.result).not.toBe('ng');
    socket.destroy();
    await small.close();
    if (answer.includes('ng refs/heads/main')) expect(answer).toContain('not known');
  },
);

test('a client that leaves once its push has landed does not make the record say that it was refused', async () => {
  const { bare, session, git, cwd, release } = await heldPush('left');
  const before = guard.audit.of('git.push_result').length;
  const body = await bodyOf(git, cwd);
  const socket = await rawConnect(guard.port, guard.certs.ca);
  socket.write(
    head(guard, session, 'POST /acme/left.git/git-receive-pack', PUSH_TYPE, `Content-Length: ${body.length}`),
  );
  socket.write(body);
  await waitFor('the ref', () => landed(bare));
  socket.destroy();
  await waitFor('the record', () => guard.audit.of('git.push_result').length > before);
  release();
  expect(guard.audit.of('git.push_result').at(-1)?.refs?.[0]?.result).not.toBe('ng');
});

test('a revocation between the opening of the credential and the sending: nothing is sent after it has answered', async () => {
  const upstream = await lenientUpstream();
  const upstreams = createUpstreams();
  const ending = createEnding();
  let answered = false;
  let answeredBeforeSending = false;
  const server = createServer((req, res) => {
    const grant = {
      credentialId: 'c1',
      upstream: upstream.origin,
      username: 'u',
      repos: ['acme/*'],
      write: true,
      pushRefs: ['refs/heads/**'],
      allowDelete: false,
    };
    const admitted = {
      exchange: { id: 'req_1', req, res, sourceIp: '', continueBody() {} },
      route: {
        kind: 'exchange',
        service: 'git-receive-pack',
        repo: { owner: 'acme', name: 'tool' },
        gzip: false,
      },
      live: {
        session: {
          id: 's',
          guard: 'git',
          leaseId: 'l',
          labels: {},
          credentials: [{ id: 'c1' }],
          policy: { grants: [grant] },
          createdAt: 0,
          expiresAt: 0,
          hardExpiresAt: 0,
        },
        credential: async () => {
          // Another continuation of the same turn, such as the answer of the store to somebody who revokes.
          queueMicrotask(() =>
            queueMicrotask(() => {
              void Promise.resolve(ending.exchange.end('revoked')).then(() => {
                answered = true;
                answeredBeforeSending = upstream.connections() === 0;
              });
            }),
          );
          return new Credential('a-token-of-this-test');
        },
        done() {},
      },
      grant,
      ending,
      startedAt: performance.now(),
    } as unknown as Admitted;
    void servePush(
      {
        audit: memoryAudit(),
        metrics: noMetrics,
        log: silentLog,
        upstreams,
        target: (origin) => ({ origin }),
        ceiling: { refs: ['refs/heads/**'], maxRefs: 4, maxPackBytes: 1000 },
        patience: PATIENCE,
      },
      admitted,
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const body = Buffer.concat([commands([[ZERO, ONE, 'refs/heads/x']]), Buffer.from('PACK')]);
  const sent = request({ port, method: 'POST', headers: { 'content-length': body.length } }).on(
    'error',
    () => {},
  );
  sent.end(body);
  await waitFor('the revocation', () => answered);
  await new Promise((resolve) => setTimeout(resolve, 300));
  const after = upstream.received();
  sent.destroy();
  await upstreams.close();
  await upstream.close();
  await new Promise((resolve) => server.close(resolve));
  expect(answeredBeforeSending).toBe(true);
  expect(after.includes('Authorization')).toBe(false);
});
