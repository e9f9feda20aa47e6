// The credentials that a kubeconfig can hold, each spent at a real TLS API server, renewed where it can be, and never seen
// by the sandbox.
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { Credential } from '../../common/credential.ts';
import { type ApiServer, startApiServer } from '../apiserver/server.ts';
import { ask, closeAll, type Held, kubeconfigFor, kubectl, onClose, startGuard } from './harness.ts';

let api: ApiServer;
let held: Held;
let folder: string;
let plugin: string;

beforeAll(async () => {
  api = await startApiServer({
    namespaces: ['team-a'],
    sans: ['kubernetes'],
    users: [
      { name: 'dev', password: 'pass word', rules: [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }] },
      { name: 'none' },
    ],
  });
  folder = mkdtempSync(join(tmpdir(), 'postern-custody-'));
  onClose(() => rmSync(folder, { recursive: true, force: true }));
  plugin = join(folder, 'plugin');
  writeFileSync(
    plugin,
    `#!/bin/sh
env > ${folder}/env; echo "$#" > ${folder}/args; cat > ${folder}/stdin; echo x >> ${folder}/runs
echo secret-on-stderr >&2
cat ${folder}/answer
`,
  );
  chmodSync(plugin, 0o755);
  held = await startGuard({ execPlugins: [plugin], tokenFiles: [join(folder, 'token')] });
});
afterAll(async () => {
  await closeAll();
  await api.close();
});

const PODS = '/api/v1/namespaces/team-a/pods';
const users = () => api.requests.map(({ user }) => user);

test.each(['token', 'cert', 'basic'] as const)('a %s', async (auth) => {
  api.forget();
  const session = await held.issue({
    kubeconfig: api.kubeconfig({ user: 'dev', auth }),
    namespaces: ['team-a'],
  });
  expect((await ask(held, session, 'GET', PODS)).status).toBe(200);
  expect(users()).toEqual(['dev']);
  expect((await kubectl(session, ['get', 'pods', '-n', 'team-a'])).code).toBe(0);
});

test('tls-server-name, and a cluster that is not the one', async () => {
  const named = await held.issue({
    kubeconfig: api.kubeconfig({ tlsServerName: 'kubernetes' }),
    namespaces: ['team-a'],
  });
  expect((await ask(held, named, 'GET', PODS)).status).toBe(200);
  const wrong = await held.issue({
    kubeconfig: api.kubeconfig({ tlsServerName: 'elsewhere' }),
    namespaces: ['team-a'],
  });
  api.forget();
  expect((await ask(held, wrong, 'GET', PODS)).json()).toMatchObject({
    code: 502,
    details: { causes: [{ reason: 'upstream_unreachable' }] },
  });
  const other = parse(api.kubeconfig());
  other.clusters[0].cluster['certificate-authority-data'] = Buffer.from(held.ca).toString('base64');
  const untrusted = await held.issue({ kubeconfig: stringify(other), namespaces: ['team-a'] });
  expect((await ask(held, untrusted, 'GET', PODS)).status).toBe(502);
  expect(api.requests).toEqual([]);
});

test("the kubeconfig's own impersonation is set, and the sandbox's is not", async () => {
  const document = parse(api.kubeconfig());
  document.users[0].user.as = 'none';
  const session = await held.issue({ kubeconfig: stringify(document), namespaces: ['team-a'] });
  const answer = await ask(held, session, 'GET', PODS, { headers: { 'Impersonate-User': 'dev' } });
  expect(answer.json()).toMatchObject({
    code: 403,
    message: expect.stringMatching(/User "none" cannot list/),
  });
});

test('a token file is read again after the cluster has refused what was in it', async () => {
  writeFileSync(join(folder, 'token'), 'stale-token-0123456789\n');
  const document = parse(api.kubeconfig());
  const { token } = document.users[0].user;
  document.users[0].user = { tokenFile: join(folder, 'token') };
  const session = await held.issue({ kubeconfig: stringify(document), namespaces: ['team-a'] });
  expect((await ask(held, session, 'GET', PODS)).json()).toMatchObject({
    code: 502,
    details: { causes: [{ reason: 'upstream_refused' }] },
  });
  writeFileSync(join(folder, 'token'), `${token}\n`);
  const again = await startGuard({ tokenFiles: [join(folder, 'token')] });
  writeFileSync(join(folder, 'token'), 'stale-token-0123456789\n');
  const second = await again.issue({ kubeconfig: stringify(document), namespaces: ['team-a'] });
  api.intercept(() => {
    writeFileSync(join(folder, 'token'), `${token}\n`);
    api.intercept(undefined);
    return undefined;
  });
  expect((await ask(again, second, 'GET', PODS)).status).toBe(200);
});

describe('an exec plugin that the deployment allows', () => {
  const credential = (status: object) =>
    writeFileSync(
      join(folder, 'answer'),
      JSON.stringify({ apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status }),
    );
  const runs = () => readFileSync(join(folder, 'runs'), 'utf8').length / 2;
  const document = (args: string[]) => {
    const made = parse(api.kubeconfig());
    const { token } = made.users[0].user;
    made.users[0].user = {
      exec: {
        apiVersion: 'client.authentication.k8s.io/v1',
        command: plugin,
        args,
        env: [{ name: 'AWS_PROFILE', value: 'p' }],
        provideClusterInfo: true,
        interactiveMode: 'Never',
      },
    };
    return { text: stringify(made), token };
  };

  test('runs once for many requests, with what custody says and nothing of the request', async () => {
    const { text, token } = document(['a', 'b c']);
    credential({ token, expirationTimestamp: new Date(Date.now() + 3_600_000).toISOString() });
    const session = await held.issue({ kubeconfig: text, namespaces: ['team-a'] });
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => ask(held, session, 'GET', `${PODS}?labelSelector=from%3Dsandbox`)),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(runs()).toBe(1);
    const env = readFileSync(join(folder, 'env'), 'utf8');
    expect(env).toMatch(/^AWS_PROFILE=p$/m);
    const info = JSON.parse(/^KUBERNETES_EXEC_INFO=(.*)$/m.exec(env)?.[1] ?? '');
    expect(info).toMatchObject({
      kind: 'ExecCredential',
      spec: { interactive: false, cluster: { server: api.url } },
    });
    expect(
      env
        .split('\n')
        .map((line) => line.split('=')[0])
        .filter((name) => name !== '' && name !== '_'),
    ).toEqual(expect.not.arrayContaining(['USER', 'SSH_AUTH_SOCK', 'VITEST', 'NODE_ENV']));
    expect(env).not.toContain('sandbox');
    expect([
      readFileSync(join(folder, 'args'), 'utf8').trim(),
      readFileSync(join(folder, 'stdin'), 'utf8'),
    ]).toEqual(['2', '']);
  });

  test('is run again after a refusal, once, and the request is asked again', async () => {
    const { text, token } = document(['second']);
    credential({ token: 'not-a-token-of-this-cluster' });
    const session = await held.issue({ kubeconfig: text, namespaces: ['team-a'] });
    const before = runs();
    api.intercept(() => {
      credential({ token });
      return undefined;
    });
    const answers = await Promise.all(Array.from({ length: 5 }, () => ask(held, session, 'GET', PODS)));
    api.intercept(undefined);
    expect(answers.map(({ status }) => status)).toEqual(Array(5).fill(200));
    expect(runs() - before).toBe(2);
  });

  test('gives client certificates too', async () => {
    const { text } = document(['third']);
    const pair = await api.clientCertificate('dev', []);
    credential({ clientCertificateData: pair.cert, clientKeyData: pair.key });
    api.forget();
    const session = await held.issue({ kubeconfig: text, namespaces: ['team-a'] });
    expect((await ask(held, session, 'GET', PODS)).status).toBe(200);
    expect(users()).toEqual(['dev']);
  });

  test.each([
    'not json',
    '{}',
    JSON.stringify({ apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status: {} }),
    JSON.stringify({
      apiVersion: 'client.authentication.k8s.io/v1beta1',
      kind: 'ExecCredential',
      status: { token: 'abcdefghijk' },
    }),
  ])('that prints %s is a 502 that says nothing of it', async (printed) => {
    writeFileSync(join(folder, 'answer'), printed);
    const session = await held.issue({ kubeconfig: document([printed]).text, namespaces: ['team-a'] });
    api.forget();
    const answer = await ask(held, session, 'GET', PODS);
    expect(answer.json()).toMatchObject({ code: 502, details: { causes: [{ reason: 'upstream_refused' }] } });
    expect(answer.body.toString()).not.toMatch(/secret-on-stderr|abcdefghijk/);
    expect(api.requests).toEqual([]);
  });
});

describe('issuing', () => {
  const refused = (clusters: object[], config = {}) =>
    startGuard(config)
      .then(({ guard }) => guard.issue({ leaseId: 'l', actor: 'a', clusters: clusters as never }))
      .then(
        () => undefined,
        (error: Error & { code?: string }) => error,
      );

  test('says which document and which key is wrong, and quotes no credential', async () => {
    const secret = new Credential(kubeconfigFor('http://one.example'));
    const error = await refused([{ kubeconfig: secret, namespaces: ['a'] }]);
    expect([error?.code, error?.message]).toEqual([
      'invalid_input',
      expect.stringMatching(/^clusters\[0\]\.kubeconfig: context "test": server is an http/),
    ]);
    expect((await refused([{ kubeconfig: secret }]))?.message).toMatch(/^clusters\[0\]\.namespaces: neither/);
    expect((await refused([{ kubeconfig: secret, namespaces: ['a'], verbs: ['lst'] }]))?.message).toMatch(
      /^clusters\[0\]\.verbs: "lst" is not a verb; did you mean list/,
    );
    expect((await refused([]))?.message).toMatch(/at least one kubeconfig/);
  });
  test('leads only to the API servers that the deployment lists', async () => {
    const kubeconfig = new Credential(api.kubeconfig());
    const error = await refused([{ kubeconfig, namespaces: ['team-a'] }], {
      upstreams: ['https://one.example:6443'],
    });
    expect([error?.code, error?.message]).toEqual([
      'upstream_not_listed',
      expect.stringMatching(/^clusters\[0\]\.kubeconfig: context "test": server leads to https:/),
    ]);
    expect(await refused([{ kubeconfig, namespaces: ['team-a'] }], { upstreams: [api.url] })).toBeUndefined();
  });
  test('opens no paths by a wildcard where the API server has no TLS', async () => {
    const kubeconfig = new Credential(kubeconfigFor('http://127.0.0.1:8001'));
    for (const path of ['*', '/logs/*'])
      expect(
        (await refused([{ kubeconfig, namespaces: ['team-a'], nonResourcePaths: [path] }]))?.message,
      ).toMatch(/^clusters\[0\]\.nonResourcePaths: ".*\*" is not granted at an http:/);
    expect(
      await refused([{ kubeconfig, namespaces: ['team-a'], nonResourcePaths: ['/metrics'] }]),
    ).toBeUndefined();
  });
  test('refuses a session that the ceiling leaves nothing, naming both', async () => {
    const error = await refused([{ kubeconfig: new Credential(api.kubeconfig()), namespaces: ['prod'] }], {
      ceiling: { verbs: [], namespaces: ['team-*'], resources: [] },
    });
    expect([error?.code, error?.message]).toEqual([
      'policy_refused',
      expect.stringMatching(/namespaces \(prod\).*kube\.ceiling\.namespaces: team-\*/),
    ]);
  });
  test('takes custody and hands out nothing of the cluster', async () => {
    const session = await held.issue({
      kubeconfig: api.kubeconfig({ contexts: ['test', 'prod', 'spare'], namespace: 'team-a' }),
      contexts: ['prod', 'test'],
      namespaces: ['team-a', 'team-b'],
    });
    const text = session.kubeconfig.reveal();
    expect(session).toMatchObject({
      contexts: ['test', 'prod'],
      namespace: 'team-a',
      namespaces: ['team-a', 'team-b'],
      verbs: ['get', 'list', 'watch'],
      readOnly: true,
    });
    expect(session.summary).toBe('test, prod: read-only, namespaces team-a team-b, no Secrets');
    const custody = parse(api.kubeconfig());
    for (const theirs of [
      custody.users[0].user.token,
      custody.clusters[0].cluster['certificate-authority-data'],
      api.url,
      'spare',
    ])
      expect(text).not.toContain(theirs);
    expect(text).toContain(`${held.guard.baseUrl()}/c/prod`);
    expect(held.trail.of('kube.session_minted').at(-1)).toMatchObject({
      sessionId: session.sessionId,
      constraints: 'read-only, namespaces team-a team-b, no Secrets',
      host: '127.0.0.1',
      port: api.port,
    });
    const found = await held.bench.sessions.get(session.sessionId);
    expect(JSON.stringify(found)).not.toContain(custody.users[0].user.token);
    expect((await kubectl(session, ['--context', 'prod', 'get', 'pods'])).code).toBe(0);
  });
  test('keeps nothing when its record cannot be written', async () => {
    const guard = await startGuard();
    guard.trail.broken = new Error('disk full');
    await expect(guard.issue({ kubeconfig: api.kubeconfig(), namespaces: ['team-a'] })).rejects.toThrow(
      'disk full',
    );
    expect(guard.bench.sessions.liveCount('kube')).toBe(0);
  });
});

test('a new payload of a secret is used from the next request on, and one that may not be is refused', async () => {
  const session = await held.issue(
    {
      kubeconfig: kubeconfigFor(
        api.url,
        { token: 'old-token-0123456789' },
        { 'certificate-authority-data': Buffer.from(api.ca).toString('base64') },
      ),
      namespaces: ['team-a'],
      secretId: 's1',
    },
    { managedBy: 'broker' },
  );
  expect((await ask(held, session, 'GET', PODS)).status).toBe(502);
  await held.bench.sessions.replaceSecret(
    's1',
    new Credential(api.kubeconfig({ contexts: ['other', 'test'] })),
  );
  expect((await ask(held, session, 'GET', PODS)).status).toBe(200);
  await held.bench.sessions.replaceSecret('s1', new Credential(kubeconfigFor('http://evil.example')));
  expect((await ask(held, session, 'GET', PODS)).json()).toMatchObject({
    code: 503,
    details: { causes: [{ reason: 'guard_unavailable' }] },
  });
});

test('what cannot be recorded is not done', async () => {
  const guard = await startGuard();
  const session = await guard.issue({ kubeconfig: api.kubeconfig(), namespaces: ['team-a'], verbs: ['*'] });
  const { PosternError } = await import('../../common/errors.ts');
  guard.trail.broken = new PosternError('audit_unavailable', 'disk full');
  api.forget();
  for (const method of ['GET', 'DELETE'])
    expect((await ask(guard, session, method, `${PODS}/x`)).json()).toMatchObject({
      code: 503,
      reason: 'ServiceUnavailable',
      details: { causes: [{ reason: 'audit_unavailable' }] },
    });
  expect(api.requests).toEqual([]);
});

test('what changes something waits for the disk, what reads does not', async () => {
  const guard = await startGuard();
  const session = await guard.issue({ kubeconfig: api.kubeconfig(), namespaces: ['team-a'], verbs: ['*'] });
  await ask(guard, session, 'GET', PODS);
  await ask(guard, session, 'DELETE', `${PODS}/x`);
  await ask(guard, session, 'POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {
    body: '{}',
    headers: { 'Content-Type': 'application/json' },
  });
  const allowed = guard.trail.events.filter(({ event }) => event.action === 'kube.request_allowed');
  expect(allowed.map(({ event, durability }) => [event.verb, durability])).toEqual([
    ['list', 'written'],
    ['delete', 'durable'],
    ['create', 'written'],
  ]);
  expect(guard.trail.of('kube.request_result').map(({ exchangeId, status }) => [exchangeId, status])).toEqual(
    [
      [allowed[0]?.event.exchangeId, 200],
      [allowed[1]?.event.exchangeId, 404],
      [allowed[2]?.event.exchangeId, 201],
    ],
  );
});

test('too many requests at once are 429 without a Retry-After', async () => {
  const guard = await startGuard({}, {}, { maxConcurrent: 2 });
  const session = await guard.issue({ kubeconfig: api.kubeconfig(), namespaces: ['team-a'] });
  api.intercept(() => ({ kind: 'delay', ms: 300 }));
  const answers = await Promise.all(Array.from({ length: 4 }, () => ask(guard, session, 'GET', PODS)));
  api.intercept(undefined);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 429, 429]);
  const limited = answers.find(({ status }) => status === 429);
  expect([limited?.headers['retry-after'], limited?.json().reason]).toEqual([undefined, 'TooManyRequests']);
});

test("a refused exec by WebSocket and kubectl's second try by SPDY leave one record", async () => {
  const session = await held.issue({
    kubeconfig: api.kubeconfig({ namespace: 'team-a' }),
    namespaces: ['team-a'],
  });
  const before = held.trail.of('kube.request_denied').length;
  const ran = await kubectl(session, ['exec', 'nobody', '--container', 'c', '--', 'id']);
  expect(ran.stderr).toMatch(/pods "nobody" not found|forbidden/);
  const answer = () =>
    ask(held, session, 'GET', `${PODS}/p/exec?command=id`, {
      headers: { Connection: 'Upgrade', Upgrade: 'websocket' },
    });
  const spdy = () =>
    ask(held, session, 'POST', `${PODS}/p/exec?command=id`, {
      headers: { Connection: 'Upgrade', Upgrade: 'SPDY/3.1' },
    });
  const start = held.trail.of('kube.request_denied').length;
  for (const [send, records] of [
    [answer, 1],
    [spdy, 1],
    [spdy, 2],
  ] as const) {
    expect((await send()).status).toBe(403);
    expect(held.trail.of('kube.request_denied').length - start).toBe(records);
  }
  expect(start).toBeGreaterThanOrEqual(before);
});
