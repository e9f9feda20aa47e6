// Who is let in, as whom, and what the refusal says.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createKubectl } from '../kube-suite/kubectl.ts';
import { type ApiClient, createClient } from './client.ts';
import type { KubeconfigOptions } from './cluster/kubeconfig.ts';
import { at, text } from './objects/values.ts';
import { type ApiServer, startApiServer } from './server.ts';

let server: ApiServer;
let api: ApiClient;
const folder = mkdtempSync(join(tmpdir(), 'auth-test-'));

beforeAll(async () => {
  server = await startApiServer({
    namespaces: ['a'],
    sans: ['kube.test.internal'],
    users: [
      {
        name: 'dev',
        password: 'pass:word',
        rules: [{ verbs: ['get', 'list'], resources: ['pods'], namespaces: ['a'] }],
      },
      {
        name: 'robot',
        rules: [
          { verbs: ['create'], resources: ['pods/exec'] },
          { verbs: ['get'], apiGroups: ['apps'], resources: ['*'], resourceNames: ['one'] },
          { verbs: ['get'], nonResourceURLs: ['/metrics/*'] },
          { verbs: ['impersonate'], resources: ['users'], resourceNames: ['dev'] },
        ],
      },
    ],
  });
  api = createClient(server);
});
afterAll(async () => {
  api.close();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

const whoami = async (options: Parameters<ApiClient>[1]): Promise<unknown> => {
  const target = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
  const answer = await api(target, { method: 'POST', body: {}, ...options });
  return answer.status === 201 ? at(answer.json, 'status', 'userInfo', 'username') : answer.status;
};

describe('credentials', () => {
  test('a token, until it is rotated', async () => {
    const old = server.users.tokenOf('robot');
    expect(await whoami({ user: 'robot' })).toBe('robot');
    const fresh = server.users.rotate('robot');
    expect(await whoami({ user: null, headers: { Authorization: `Bearer ${old}` } })).toBe(401);
    expect(await whoami({ user: null, headers: { Authorization: `Bearer ${fresh}` } })).toBe('robot');
  });

  test('basic, and nothing else that looks like it', async () => {
    const basic = (pair: string) => ({ Authorization: `Basic ${Buffer.from(pair).toString('base64')}` });
    expect(await whoami({ user: null, headers: basic('dev:pass:word') })).toBe('dev');
    expect(await whoami({ user: null, headers: basic('dev:pass') })).toBe(401);
    expect(await whoami({ user: null, headers: basic('admin:') })).toBe(401);
    expect(await whoami({ user: null })).toBe(401);
    expect(await whoami({ user: null, headers: { Authorization: 'Digest x' } })).toBe(401);
  });

  test('a client certificate: CN and O; an expired or foreign one is a 401, whatever else is given', async () => {
    const cert = await server.clientCertificate('jane', ['system:masters', 'people']);
    expect(await whoami({ user: null, cert })).toBe('jane');
    expect((await api('/api/v1/secrets', { user: null, cert })).status).toBe(200);
    const expired = await server.clientCertificate('jane', ['system:masters'], new Date(Date.now() - 1000));
    expect(await whoami({ user: 'admin', cert: expired })).toBe(401);
  });

  test('every form of a kubeconfig works with kubectl', async () => {
    const forms: KubeconfigOptions[] = [
      { user: 'dev', auth: 'token' },
      { user: 'dev', auth: 'basic' },
      { user: 'dev', auth: 'cert' },
      { user: 'dev', auth: 'cert', files: true },
      { user: 'dev', auth: 'tokenFile' },
      { user: 'dev', auth: 'exec' },
      { user: 'dev', tlsServerName: 'kube.test.internal' },
      { user: 'dev', insecure: true, contexts: ['two', 'one'] },
    ];
    for (const [i, form] of forms.entries()) {
      const kubeconfig = join(folder, `kubeconfig-${i}`);
      writeFileSync(kubeconfig, server.kubeconfig({ ...form, folder: join(folder, String(i)) }));
      const said = await createKubectl({ kubeconfig, folder }).ok(['auth', 'whoami', '-o', 'json']);
      expect(JSON.parse(said).status.userInfo.username, JSON.stringify(form)).toBe('dev');
    }
    expect(readFileSync(join(folder, '5', 'dev.plugin-runs'), 'utf8')).toBe('run\n');
  });

  test('impersonation for those who may', async () => {
    expect(await whoami({ user: 'admin', headers: { 'Impersonate-User': 'anybody' } })).toBe('anybody');
    expect(await whoami({ user: 'robot', headers: { 'Impersonate-User': 'dev' } })).toBe('dev');
    expect(await whoami({ user: 'robot', headers: { 'Impersonate-User': 'admin' } })).toBe(403);
    const escalation = { 'Impersonate-User': 'dev', 'Impersonate-Group': 'system:masters' };
    expect(await whoami({ user: 'robot', headers: escalation })).toBe(403);
  });
});

describe('rights', () => {
  test.each([
    ['dev', '/api/v1/namespaces/a/pods', 200],
    ['dev', '/api/v1/namespaces/a/pods/none', 404],
    ['dev', '/api/v1/namespaces/a/pods?watch=1', 403],
    ['dev', '/api/v1/namespaces/a/pods/none/log', 403],
    ['dev', '/api/v1/namespaces/default/pods', 403],
    ['dev', '/api/v1/pods', 403],
    ['dev', '/api/v1/namespaces/a/secrets', 403],
    ['dev', '/metrics', 403],
    ['dev', '/version', 200],
    ['robot', '/apis/apps/v1/namespaces/a/deployments/one', 404],
    ['robot', '/apis/apps/v1/namespaces/a/deployments/two', 403],
    ['robot', '/metrics/slis', 200],
    ['robot', '/api/v1/namespaces/a/pods/none/exec?command=x', 403],
  ])('%s gets %s: %i', async (user, target, status) => {
    expect((await api(target, { user })).status).toBe(status);
  });

  test('what the refusal says', async () => {
    const messages = await Promise.all(
      ['/apis/apps/v1/namespaces/a/deployments/x/scale', '/metrics', '/api/v1/nodes'].map(async (target) =>
        text((await api(target, { user: 'dev' })).json.message),
      ),
    );
    expect(messages).toEqual([
      'deployments.apps "x" is forbidden: User "dev" cannot get resource "deployments/scale" in API group "apps" in the namespace "a"',
      'forbidden: User "dev" cannot get path "/metrics"',
      'nodes is forbidden: User "dev" cannot list resource "nodes" in API group "" at the cluster scope',
    ]);
  });

  test('reviews of others, and of tokens', async () => {
    const spec = {
      user: 'dev',
      resourceAttributes: { verb: 'list', resource: 'pods', namespace: 'a' },
    };
    const reviewed = async (target: string, body: object) =>
      (await api(target, { method: 'POST', body: { spec: body } as never })).json.status;
    const access = '/apis/authorization.k8s.io/v1/subjectaccessreviews';
    expect(await reviewed(access, spec)).toEqual({ allowed: true });
    expect(await reviewed(access, { ...spec, user: 'robot' })).toEqual({ allowed: false });
    const tokens = '/apis/authentication.k8s.io/v1/tokenreviews';
    expect(await reviewed(tokens, { token: server.users.tokenOf('dev') })).toMatchObject({
      authenticated: true,
    });
    expect(await reviewed(tokens, { token: 'x' })).not.toMatchObject({ authenticated: true });
  });
});
