// A kubeconfig is given by a hub or an operator, who are not the owner of the guard's host: that one program may run is
// not that any program may.
import { afterAll, describe, expect, test } from 'vitest';
import { Credential } from '../../../common/credential.ts';
import { clusterAccess } from '../../../kubeguard/cluster-access.ts';
import { parseKubeconfig } from '../../../kubeguard/kubeconfig.ts';
import { createRenewing } from '../../../kubeguard/renewing.ts';
import { ask, kubeconfigFor, onClose } from '../../kubeguard/harness.ts';
import { lenientUpstream } from '../../support/lenient-upstream.ts';
import { closeAll, openField, POD } from './kit.ts';

afterAll(closeAll);

const HOST = { execPlugins: ['/usr/bin/plugin'] };
const open = (document: string, context = 'test') => {
  const { contexts, clusters, users } = parseKubeconfig(document);
  const found = contexts.get(context);
  const cluster = clusters.get(found?.cluster ?? '');
  const user = users.get(found?.user ?? '');
  if (!cluster || !user) throw new Error('no such context');
  return clusterAccess(context, cluster, user, HOST);
};

describe('an allowed credential plugin is not made to run something else by exec.env', () => {
  const document = (name: string, value: string): string =>
    kubeconfigFor('https://127.0.0.1:1', {
      exec: {
        apiVersion: 'client.authentication.k8s.io/v1',
        command: '/usr/bin/plugin',
        env: [{ name, value }],
      },
    });

  test('AWS_PROFILE and its kind are what the list is for', () =>
    expect(open(document('AWS_PROFILE', 'ci')).exec?.env).toEqual([{ name: 'AWS_PROFILE', value: 'ci' }]));

  test.each([
    // bash, before the first line of a script
    ['SHELLOPTS', 'xtrace'],
    ['BASHOPTS', 'expand_aliases'],
    ['PS4', '$(id >/tmp/x)'],
    // the interpreter of gcloud, and of gke-gcloud-auth-plugin through it
    ['CLOUDSDK_PYTHON', '/tmp/x'],
    // credential_process = any command line; /proc/self/environ is a file that whoever sets variables has written
    ['AWS_CONFIG_FILE', '/proc/self/environ'],
    ['AWS_SHARED_CREDENTIALS_FILE', '/proc/self/environ'],
    // users[].exec of another kubeconfig, plugins of a folder
    ['KUBECONFIG', '/proc/self/environ'],
    // libraries
    ['OPENSSL_CONF', '/tmp/x'],
    ['OPENSSL_MODULES', '/tmp'],
    ['GCONV_PATH', '/tmp'],
    ['GLIBC_TUNABLES', 'x=y'],
    ['NODE_PATH', '/tmp'],
    ['JDK_JAVA_OPTIONS', '-javaagent:/tmp/x'],
    ['_JAVA_OPTIONS', '-javaagent:/tmp/x'],
  ])('%s is refused', (name, value) => {
    expect(() => open(document(name, value))).toThrow(/cannot be set/);
  });
});

describe('a kubeconfig that says two things is refused', () => {
  const base = (cluster: string, user = 'token: custody-token-1', context = 'cluster: c, user: u'): string =>
    [
      'apiVersion: v1',
      'kind: Config',
      `clusters: [{name: c, cluster: {${cluster}}}]`,
      `users: [{name: u, user: {${user}}}]`,
      `contexts: [{name: test, context: {${context}}}]`,
    ].join('\n');
  const SERVER = 'server: "https://10.0.0.1:6443"';

  test('as it stands it is read', () => expect(open(base(SERVER)).origin).toBe('https://10.0.0.1:6443'));

  test.each([
    ['an alias', `${base(SERVER)}\npreferences: &x {}\nextensions: *x`],
    ['a merge key', base(`${SERVER}, "<<": {insecure-skip-tls-verify: true}`)],
    ['a key twice', base(`${SERVER}, server: "https://evil:1"`)],
    ['a key twice in two spellings', base(`${SERVER}, "server": "https://evil:1"`)],
    ['a tag', base(`${SERVER}, tls-server-name: !!str x`)],
    ['another document behind it', `${base(SERVER)}\n---\n${base('server: "https://evil:1"')}`],
    ['a key in another case', base(`${SERVER}, Insecure-Skip-TLS-Verify: true`)],
    ['a proxy', base(`${SERVER}, proxy-url: "http://evil:1"`)],
    ['an empty proxy', base(`${SERVER}, proxy-url: ""`)],
    ['no verification', base(`${SERVER}, insecure-skip-tls-verify: true`)],
    ['a file for the CA', base(`${SERVER}, certificate-authority: /etc/ssl/ca.pem`)],
    ['plain http elsewhere', base('server: "http://10.0.0.1:6443"')],
    ['plain http to a name that begins like loopback', base('server: "http://127.0.0.1.evil.test"')],
    ['user info', base('server: "https://a:b@10.0.0.1"')],
    ['a path that climbs', base('server: "https://10.0.0.1/a/../b"')],
    ['a path with an escape', base('server: "https://10.0.0.1/a%2fb"')],
    ['a path with a double slash', base('server: "https://10.0.0.1/a//b"')],
    ['a query', base('server: "https://10.0.0.1/?x"')],
    ['a token with a line break', base(SERVER, 'token: "a\\r\\nImpersonate-User: root"')],
    ['a token file', base(SERVER, 'tokenFile: /run/secrets/token')],
    ['a user name with a colon', base(SERVER, 'username: "a:b", password: c')],
    ['two credentials', base(SERVER, 'token: custody-token-1, username: a, password: b')],
    ['groups without a user', base(SERVER, 'token: custody-token-1, as-groups: ["system:masters"]')],
    ['impersonation with a line break', base(SERVER, 'token: custody-token-1, as: "a\\r\\nX: y"')],
    [
      'a program by another spelling',
      base(SERVER, 'exec: {apiVersion: client.authentication.k8s.io/v1, command: /usr/bin/../bin/plugin}'),
    ],
    [
      'a program by its bare name',
      base(SERVER, 'exec: {apiVersion: client.authentication.k8s.io/v1, command: plugin}'),
    ],
    ['a user of another place', base(SERVER, undefined, 'cluster: c, user: __proto__')],
  ])('%s', (_, document) => {
    expect(() => open(document)).toThrow();
  });
});

test('a plugin that fails is run one at a time, however many ask', async () => {
  let running = 0;
  let most = 0;
  const { get } = createRenewing({
    async obtain(): Promise<string> {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 20));
      running--;
      throw new Error('down');
    },
    expiresAt: () => undefined,
    same: (a, b) => a === b,
    clock: { now: () => 0 } as never,
  });
  const asked = await Promise.allSettled(Array.from({ length: 200 }, () => get()));
  expect([most, asked.filter(({ status }) => status === 'rejected').length]).toEqual([1, 200]);
});

test('a new payload that leads to a server that is not listed, or opens paths of this host: nothing is sent', async () => {
  const upstream = await lenientUpstream();
  const plain = await lenientUpstream();
  onClose(() => Promise.all([upstream.close(), plain.close()]).then(() => {}));
  const field = await openField({ upstreams: ['https://10.0.0.1:6443', upstream.origin] });
  const session = await field.held.issue(
    { kubeconfig: kubeconfigFor(upstream.origin), namespaces: ['team-a'], secretId: 's1' },
    { managedBy: 'broker' },
  );
  await field.held.bench.sessions.replaceSecret('s1', new Credential(kubeconfigFor(plain.origin)));
  expect((await ask(field.held, session, 'GET', POD)).status).toBe(502);

  const open = await openField();
  const wide = await open.held.issue(
    {
      kubeconfig: kubeconfigFor('https://10.0.0.1:6443'),
      namespaces: ['team-a'],
      nonResourcePaths: ['*'],
      secretId: 's2',
    },
    { managedBy: 'broker' },
  );
  await open.held.bench.sessions.replaceSecret('s2', new Credential(kubeconfigFor(plain.origin)));
  expect((await ask(open.held, wide, 'GET', '/metrics')).status).toBe(503);
  expect([upstream.received(), plain.received()]).toEqual(['', '']);
});

test('a new payload that leads to another cluster: the record names the cluster that was asked', async () => {
  const field = await openField();
  const other = await lenientUpstream();
  onClose(() => other.close());
  const session = await field.held.issue(
    { kubeconfig: kubeconfigFor(field.upstream.origin), namespaces: ['team-a'], secretId: 's1' },
    { managedBy: 'broker' },
  );
  await field.held.bench.sessions.replaceSecret('s1', new Credential(kubeconfigFor(other.origin)));
  expect((await ask(field.held, session, 'GET', POD)).status).toBe(200);
  expect([field.upstream.received() === '', other.received() === '']).toEqual([true, false]);
  expect(field.held.trail.of('kube.request_allowed').at(-1)?.port).toBe(other.port);
});
