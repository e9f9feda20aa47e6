// What is under way when a session ends, and what its client gets to see; and what is left behind when a client goes.
import { connect as tlsConnect } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Credential } from '../../common/credential.ts';
import { createEnding } from '../../kubeguard/flow.ts';
import type { EndReason } from '../../sessions/session.ts';
import { type ApiServer, startApiServer } from '../apiserver/server.ts';
import { waitFor } from '../support/wait.ts';
import { ask, closeAll, type Held, kubectl, type Session, startGuard, startKubectl } from './harness.ts';
import { oldKubectl } from './old-kubectl.ts';

let api: ApiServer;
let held: Held;
const fresh = (more: { ttl?: number } = {}): Promise<Session> =>
  held.issue(
    {
      kubeconfig: api.kubeconfig({ namespace: 'team-a' }),
      namespaces: ['team-a'],
      verbs: ['*'],
      resources: ['*/*'],
    },
    more,
  );

beforeAll(async () => {
  api = await startApiServer({ namespaces: ['team-a'] });
  api.create({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'busy', namespace: 'team-a' },
    spec: { containers: [{ name: 'c', image: 'x' }] },
  });
  held = await startGuard();
  await waitFor('the pod to run', async () =>
    /Running/.test((await kubectl(await fresh(), ['get', 'pods'])).stdout),
  );
});
afterAll(async () => {
  await closeAll();
  await api.close();
});

const quiet = () =>
  waitFor('the cluster to be left alone', () => {
    const { watches, logs, streams } = api.open();
    return watches + logs + streams === 0;
  });

/** A watch read with bare hands. */
function watch(
  session: Session,
  path: string,
  accept: string,
): Promise<{ text(): Buffer; ended: Promise<'end' | 'cut'>; drop(): void }> {
  return new Promise((resolve, reject) => {
    const socket = tlsConnect(
      { host: '127.0.0.1', port: held.port, ca: held.ca, servername: 'localhost' },
      () => {
        socket.write(
          `GET ${session.prefix}${path} HTTP/1.1\r\nHost: 127.0.0.1:${held.port}\r\nAuthorization: Bearer ${session.token}\r\nAccept: ${accept}\r\n\r\n`,
        );
      },
    );
    let bytes = Buffer.alloc(0);
    const ended = new Promise<'end' | 'cut'>((done) => {
      socket.on('close', () => done(bytes.includes('\r\n0\r\n\r\n') ? 'end' : 'cut'));
    });
    socket.on('error', reject);
    socket.on('data', (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      if (bytes.includes('\r\n\r\n')) resolve({ text: () => bytes, ended, drop: () => socket.destroy() });
    });
  });
}

const CONFIGMAPS = '/api/v1/namespaces/team-a/configmaps';

describe('a session that is revoked', () => {
  test('ends a watch in JSON with an ERROR event and a clean end', async () => {
    const session = await fresh();
    const open = await watch(session, `${CONFIGMAPS}?watch=1`, 'application/json');
    await held.bench.sessions.revoke(session.sessionId, 'test');
    expect(await open.ended).toBe('end');
    const event = JSON.parse(/\{"type":"ERROR".*\}/.exec(open.text().toString())?.[0] ?? '{}');
    expect(event).toMatchObject({
      type: 'ERROR',
      object: { kind: 'Status', code: 401, reason: 'Unauthorized' },
    });
    expect(held.trail.of('kube.request_result').at(-1)).toMatchObject({
      decision: 'error',
      reason: 'the session ended (revoked)',
      verb: 'watch',
    });
    await quiet();
    expect((await ask(held, session, 'GET', CONFIGMAPS)).json()).toMatchObject({
      code: 401,
      message: expect.stringMatching(/this is none/),
    });
  });

  test('ends a watch of namespaces too', async () => {
    const session = await fresh();
    const open = await watch(session, '/api/v1/namespaces?watch=1', 'application/json');
    await waitFor('the first', () => open.text().includes('team-a'));
    await held.bench.sessions.revoke(session.sessionId, 'test');
    expect(await open.ended).toBe('end');
    expect(open.text().toString()).toMatch(/"type":"ERROR"/);
  });

  test('is shown by kubectl get -w', async () => {
    const session = await fresh();
    const shown = startKubectl(session, ['get', 'configmaps', '-w']);
    await waitFor('the watch', () => api.open().watches === 1);
    await held.bench.sessions.revoke(session.sessionId, 'test');
    const { stdout, stderr } = await shown.ended;
    expect(stdout + stderr).toMatch(/the session has ended|Failure|Unauthorized/);
    await quiet();
  });

  test('resets a log, and kubectl says so', async () => {
    const session = await fresh();
    const logs = startKubectl(session, ['logs', '-f', 'busy']);
    await waitFor('the log', () => /started/.test(logs.out()));
    await held.bench.sessions.revoke(session.sessionId, 'test');
    expect(await logs.ended).toMatchObject({ code: 1, stderr: expect.stringMatching(/unexpected EOF/) });
    await quiet();
  });

  test('tells an exec by WebSocket on its error channel', async () => {
    const session = await fresh();
    const exec = startKubectl(session, ['exec', 'busy', '--', 'sh', '-c', 'echo ready; sleep 1000']);
    await waitFor('the exec', () => /ready/.test(exec.out()));
    const started = Date.now();
    await held.bench.sessions.revoke(session.sessionId, 'test');
    expect(await exec.ended).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/error: .*the session has ended/),
    });
    expect(Date.now() - started).toBeLessThan(5_000);
    await quiet();
    const record = () =>
      held.trail
        .of('kube.request_result')
        .find(({ sessionId, subresource }) => sessionId === session.sessionId && subresource === 'exec');
    await waitFor('the record', () => record() !== undefined);
    expect(record()).toMatchObject({
      status: 101,
      reason: 'the session ended (revoked)',
      command: ['sh', '-c', 'echo ready; sleep 1000'],
    });
  });

  test('tells it between two messages while the cluster sends without pause', async () => {
    const session = await fresh();
    const exec = startKubectl(session, ['exec', 'busy', '--', 'seq', '1', '900000000']);
    await waitFor('much of it', () => exec.out().length > 5_000_000);
    await held.bench.sessions.revoke(session.sessionId, 'test');
    const { code, stdout, stderr } = await exec.ended;
    expect([code, stderr]).toEqual([1, expect.stringMatching(/the session has ended/)]);
    const lines = stdout.split('\n').slice(0, -1).map(Number);
    expect(lines.every((line, i) => line === i + 1)).toBe(true);
    await quiet();
  });

  test.each<[string, string, { [name: string]: string }]>([
    ['by SPDY', 'kubectl', { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: 'false' }],
    ['of an old kubectl', 'old', {}],
  ])('cuts an exec %s', async (_, program, env) => {
    const session = await fresh();
    const exec = startKubectl(session, ['exec', 'busy', '--', 'sh', '-c', 'echo ready; sleep 1000'], {
      program: program === 'old' ? oldKubectl() : program,
      env,
    });
    await waitFor('the exec', () => /ready/.test(exec.out()));
    await held.bench.sessions.revoke(session.sessionId, 'test');
    await exec.ended;
    await quiet();
  });

  test('cuts a port-forward', async () => {
    const session = await fresh();
    const forward = startKubectl(session, ['port-forward', 'pod/busy', ':8080']);
    await waitFor('the port', () => /127\.0\.0\.1:(\d+)/.test(forward.out()));
    await held.bench.sessions.revoke(session.sessionId, 'test');
    await quiet();
    forward.child.kill();
  });

  test('two hundred watches, fifty logs and twenty execs are ended by one call, each in its own way', async () => {
    const session = await fresh();
    const exec = `/api/v1/namespaces/team-a/pods/busy/exec?command=sleep&command=1000&stdout=true`;
    const handshake =
      '*/*\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io';
    const many = (count: number, path: string, accept: string) =>
      Promise.all(Array.from({ length: count }, () => watch(session, path, accept)));
    const watches = await many(200, `${CONFIGMAPS}?watch=1`, 'application/json');
    const logs = await many(50, '/api/v1/namespaces/team-a/pods/busy/log?follow=true', '*/*');
    const execs = await many(20, exec, handshake);
    await waitFor(
      'all at the cluster',
      () => api.open().watches === 200 && api.open().logs === 50 && api.open().streams === 20,
    );
    const started = Date.now();
    await held.bench.sessions.revoke(session.sessionId, 'test');
    expect(Date.now() - started).toBeLessThan(5_000);
    await quiet();
    expect(new Set(await Promise.all(watches.map(({ ended }) => ended)))).toEqual(new Set(['end']));
    expect(watches.every(({ text }) => text().includes('"type":"ERROR"'))).toBe(true);
    expect(new Set(await Promise.all(logs.map(({ ended }) => ended)))).toEqual(new Set(['cut']));
    await Promise.all(execs.map(({ ended }) => ended));
    expect(execs.every(({ text }) => text().includes('\u0003{"kind":"Status"'))).toBe(true);
    expect(
      held.trail
        .of('kube.request_result')
        .filter(
          ({ sessionId, reason }) =>
            sessionId === session.sessionId && reason === 'the session ended (revoked)',
        ),
    ).toHaveLength(270);
  });

  test('cuts only what spends the grant that was taken out', async () => {
    const kubeconfig = api.kubeconfig({ namespace: 'team-a' });
    const issued = await held.guard.issue({
      leaseId: 'l',
      actor: 'test',
      clusters: [
        { kubeconfig: new Credential(kubeconfig), namespaces: ['team-a'], secretName: 'one', grantId: 'g1' },
        { kubeconfig: new Credential(kubeconfig), namespaces: ['team-a'], secretName: 'two', grantId: 'g2' },
      ],
    });
    expect(issued.contexts).toEqual(['test@one', 'test@two']);
    const token = /token: (\S+)/.exec(issued.kubeconfig.reveal())?.[1] ?? '';
    const session = (name: string) => ({ ...issued, token, prefix: `/c/${name}`, file: '' });
    const [one, two] = await Promise.all([
      watch(session('test@one'), `${CONFIGMAPS}?watch=1`, 'application/json'),
      watch(session('test@two'), `${CONFIGMAPS}?watch=1`, 'application/json'),
    ]);
    await held.bench.sessions.removeGrant(issued.sessionId, 'g1', 'test');
    expect(await one.ended).toBe('end');
    expect((await ask(held, session('test@one'), 'GET', CONFIGMAPS)).status).toBe(404);
    expect((await ask(held, session('test@two'), 'GET', CONFIGMAPS)).status).toBe(200);
    two.drop();
    await quiet();
  });
});

test('what is begun after the end is ended at once', () => {
  const ending = createEnding();
  const cut: EndReason[] = [];
  const what = {
    async end(why: EndReason) {
      cut.push(why);
    },
  };
  ending.cuts(what);
  expect(cut).toEqual([]);
  void ending.exchange.end('revoked');
  ending.cuts(what);
  expect(cut).toEqual(['revoked', 'revoked']);
});

test('a watch in an encoding that is not followed is cut', async () => {
  const session = await fresh();
  api.intercept((request) =>
    request.target.includes('watch=1') ? { kind: 'trickle', piece: '\0\0\0\u0003abc', every: 20 } : undefined,
  );
  const open = await watch(
    session,
    `${CONFIGMAPS}?watch=1`,
    'application/vnd.kubernetes.protobuf;stream=watch',
  );
  await held.bench.sessions.revoke(session.sessionId, 'test');
  api.intercept(undefined);
  expect(await open.ended).toBe('cut');
});

test('a session past its time says so, to a watch and to the next request', async () => {
  const session = await fresh({ ttl: 1_500 });
  const open = await watch(session, `${CONFIGMAPS}?watch=1`, 'application/json');
  expect(await open.ended).toBe('end');
  expect(open.text().toString()).toMatch(/"type":"ERROR".*past its time/);
  const late = await ask(held, session, 'GET', CONFIGMAPS);
  expect(late.json()).toMatchObject({
    code: 401,
    reason: 'Unauthorized',
    message: expect.stringMatching(/past its time.*session_expired/),
  });
  expect((await kubectl(session, ['get', 'pods'])).stderr).toMatch(
    /You must be logged in to the server \(.*past its time/,
  );
});

describe('a client that goes', () => {
  test.each(['configmaps', 'namespaces'])(
    'ends the watch of %s at the cluster within a second',
    async (resource) => {
      const session = await fresh();
      const gone = startKubectl(session, ['get', resource, '-w']);
      await waitFor('the watch', () => api.open().watches === 1);
      gone.child.kill('SIGKILL');
      const killed = Date.now();
      await quiet();
      expect(Date.now() - killed).toBeLessThan(1_000);
      await waitFor(
        'the record',
        () => held.trail.of('kube.request_result').at(-1)?.reason === 'the client left',
      );
    },
  );
  test('ends the exec and the log', async () => {
    const session = await fresh();
    const started = [
      startKubectl(session, ['exec', 'busy', '--', 'sh', '-c', 'echo ready; sleep 1000']),
      startKubectl(session, ['logs', '-f', 'busy']),
    ];
    await waitFor('both', () => started.every(({ out }) => /ready|started/.test(out())));
    for (const { child } of started) child.kill('SIGKILL');
    await quiet();
  });
});
