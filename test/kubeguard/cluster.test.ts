// What must hold at any cluster: at the one that POSTERN_TEST_KUBECONFIG names, else at the test API server. It makes two
// namespaces of its own and removes them again.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApiServer } from '../apiserver/server.ts';
import { waitFor } from '../support/wait.ts';
import {
  ask,
  closeAll,
  type Held,
  kubectl,
  onClose,
  type Ran,
  type Session,
  startGuard,
  startKubectl,
} from './harness.ts';

const own = `postern-${process.pid}-${Date.now().toString(36)}`;
const mine = `${own}-a`;
const other = `${own}-b`;
let kubeconfig: string;
let direct: (args: string[], input?: string) => Promise<Ran>;
let held: Held;
let session: Session;

beforeAll(async () => {
  const named = process.env.POSTERN_TEST_KUBECONFIG;
  const api = named ? undefined : await startApiServer();
  const folder = mkdtempSync(join(tmpdir(), 'postern-cluster-'));
  const file = named ?? join(folder, 'kubeconfig');
  if (api) writeFileSync(file, api.kubeconfig());
  kubeconfig = readFileSync(file, 'utf8');
  direct = (args, input) => kubectl({ file }, args, input === undefined ? {} : { input });
  onClose(async () => {
    await direct(['delete', 'namespace', mine, other, '--wait=false']);
    await api?.close();
    rmSync(folder, { recursive: true, force: true });
  });
  for (const name of [mine, other]) expect((await direct(['create', 'namespace', name])).code).toBe(0);
  held = await startGuard();
  const context = (await direct(['config', 'current-context'])).stdout.trim();
  session = await held.issue({
    kubeconfig,
    contexts: [context],
    namespaces: [mine],
    verbs: ['*'],
    resources: ['*'],
  });
}, 60_000);
afterAll(closeAll);

const through = (args: string[], input?: string): Promise<Ran> =>
  kubectl(session, args, input === undefined ? {} : { input });

test('discovery is the same through the guard and without it', async () => {
  const sorted = async (run: typeof through): Promise<string[]> =>
    (await run(['api-resources', '--no-headers', '-o', 'name'])).stdout.split('\n').sort();
  expect(await sorted(through)).toEqual(await sorted(direct));
  expect((await through(['version'])).code).toBe(0);
});

test('objects are made, changed, watched and removed in the namespace of the grant', async () => {
  const watch = startKubectl(session, ['get', 'configmaps', '-w', '-o', 'name']);
  expect((await through(['create', 'configmap', 'one', '--from-literal=a=b'])).code).toBe(0);
  await waitFor('the watch to show it', () => watch.out().includes('configmap/one'));
  watch.child.kill();
  const manifest = JSON.stringify({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'two' },
    data: { a: '1' },
  });
  expect((await through(['apply', '--server-side', '-f', '-'], manifest)).stdout).toMatch(
    /serverside-applied/,
  );
  expect((await through(['apply', '-f', '-'], manifest.replace('"1"', '"2"'))).code).toBe(0);
  expect((await through(['patch', 'configmap', 'two', '-p', '{"data":{"b":"3"}}'])).stdout).toMatch(
    /patched/,
  );
  expect((await direct(['-n', mine, 'get', 'configmap', 'two', '-o', 'jsonpath={.data}'])).stdout).toBe(
    '{"a":"2","b":"3"}',
  );
  expect((await through(['delete', 'configmap', 'one', 'two'])).code).toBe(0);
});

test('answers are byte for byte those of the cluster, in every encoding', async () => {
  await direct(['-n', mine, 'create', 'configmap', 'same', '--from-literal=a=b']);
  for (const accept of [
    'application/json',
    'application/vnd.kubernetes.protobuf',
    'application/json;as=Table;v=v1;g=meta.k8s.io',
    'application/yaml',
  ]) {
    const path = `/api/v1/namespaces/${mine}/configmaps/same`;
    const first = await ask(held, session, 'GET', path, { headers: { Accept: accept } });
    const again = await ask(held, session, 'GET', path, { headers: { Accept: accept } });
    expect([first.status, again.body.equals(first.body)]).toEqual([200, true]);
    expect(first.headers['content-type']).toContain(accept.split(';')[0]);
  }
  const raw = await direct(['get', '--raw', `/api/v1/namespaces/${mine}/configmaps/same`]);
  expect((await through(['get', '--raw', `/api/v1/namespaces/${mine}/configmaps/same`])).stdout).toBe(
    raw.stdout,
  );
});

describe('what is outside the grant', () => {
  test('is refused by the guard', async () => {
    expect((await through(['get', 'pods', '-n', other])).stderr).toMatch(
      /Forbidden.*the namespace .* is outside the session's grant/,
    );
    expect((await through(['get', 'pods', '-A'])).stderr).toMatch(/cluster_scope/);
    expect((await through(['delete', 'namespace', mine])).stderr).toMatch(/cluster_scope/);
    expect((await through(['get', 'namespaces', '-o', 'name'])).stdout.trim()).toBe(`namespace/${mine}`);
  });
  test('and can-i says so, with the reason', async () => {
    expect((await through(['auth', 'can-i', 'create', 'configmaps'])).stdout).toMatch(/^yes/);
    expect((await through(['auth', 'can-i', 'create', 'configmaps', '-n', other])).stdout).toMatch(
      /^no - the guard refuses/,
    );
  });
});

test('a watch that is open when the session is revoked is told, and ended at the cluster', async () => {
  const open = startKubectl(session, ['get', 'configmaps', '-w']);
  await waitFor('the watch', () => held.trail.of('kube.request_allowed').at(-1)?.verb === 'watch');
  await new Promise((resolve) => setTimeout(resolve, 300));
  await held.bench.sessions.revoke(session.sessionId, 'test');
  await open.ended;
  expect((await through(['get', 'pods'])).stderr).toMatch(/You must be logged in to the server/);
});
