import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { PosternError } from '../../common/errors.ts';
import { type ClusterAccess, clusterAccess, type HostPermissions } from '../../kubeguard/cluster-access.ts';
import { parseKubeconfig } from '../../kubeguard/kubeconfig.ts';
import { minimise } from '../../kubeguard/minimise.ts';
import { placeContexts, synthesise } from '../../kubeguard/synthesise.ts';
import { testCertificates } from '../support/certificates.ts';

const certs = testCertificates();
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const TOKEN = 'canary-token-0123456789';

interface Doc {
  [key: string]: unknown;
  clusters: { name: string; cluster: Record<string, unknown> }[];
  users: { name: string; user: Record<string, unknown> }[];
  contexts: { name: string; context: Record<string, unknown> }[];
}

function doc(change: (doc: Doc) => void = () => {}): Doc {
  const made: Doc = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'prod',
    preferences: {},
    clusters: [
      {
        name: 'c1',
        cluster: { server: 'https://one.example:6443', 'certificate-authority-data': base64(certs.ca) },
      },
      { name: 'c2', cluster: { server: 'https://two.example/k8s/clusters/c-1' } },
      { name: 'c3', cluster: { server: 'https://three.example' } },
    ],
    users: [
      { name: 'u1', user: { token: TOKEN } },
      { name: 'u2', user: { token: 'other-token' } },
      { name: 'u3', user: { token: 'third-token' } },
    ],
    contexts: [
      { name: 'dev', context: { cluster: 'c2', user: 'u2', namespace: 'dev-ns' } },
      { name: 'prod', context: { cluster: 'c1', user: 'u1', namespace: 'team-a' } },
      { name: 'spare', context: { cluster: 'c3', user: 'u3' } },
    ],
  };
  change(made);
  return made;
}

function message(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(PosternError);
    return (error as Error).message;
  }
  throw new Error('nothing was refused');
}

describe('a kubeconfig is read strictly', () => {
  test('YAML and JSON', () => {
    for (const text of [stringify(doc()), JSON.stringify(doc())]) {
      const config = parseKubeconfig(text);
      expect([...config.contexts.keys()]).toEqual(['dev', 'prod', 'spare']);
      expect(config.currentContext).toBe('prod');
    }
  });
  test.each<[string, string, RegExp]>([
    ['nothing', '', /one YAML or JSON document/],
    ['a list', '[]', /an object/],
    ['a scalar', TOKEN, /an object/],
    ['two documents', `${stringify(doc())}---\n${stringify(doc())}`, /one YAML/],
    ['a key twice', `users: [{name: a, user: {token: x, token: ${TOKEN}}}]`, /not valid YAML/],
    ['broken YAML', `users: [{name: a, user: {token: "${TOKEN}}}`, /not valid YAML/],
    ['an anchor', `users: [{name: a, user: &x {token: ${TOKEN}}}]`, /anchor/],
    ['an alias', `a: &x 1\nusers: *x`, /anchor|alias/],
    ['a bomb', 'a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]', /anchor|alias/],
    ['a tag', `users: [{name: a, user: {token: !!binary ${TOKEN}}}]`, /tag/],
    ['a merge key', 'users: [{name: a, user: {<<: {token: x}}}]', /merge key/],
    [
      'an unknown key',
      stringify(doc((d) => Object.assign(d.clusters[0]?.cluster ?? {}, { 'insecure-skip-tls-verfy': true }))),
      /unknown key "insecure-skip-tls-verfy"/,
    ],
    [
      'a wrong type',
      stringify(doc((d) => Object.assign(d.users[0]?.user ?? {}, { token: 12345 }))),
      /users\[0\]\.user\.token/,
    ],
    ['another kind', stringify(doc((d) => Object.assign(d, { kind: 'Secret' }))), /kind/],
    [
      'a name twice',
      stringify(doc((d) => d.users.push({ name: 'u1', user: { token: 'x' } }))),
      /two entries of the name "u1"/,
    ],
    ['too much', `#${'x'.repeat(1024 * 1024)}`, /larger than/],
    ['prototype games', '{"__proto__": {"users": []}, "users": []}', /merge key|unknown key/],
  ])('%s is refused, and no value is quoted', (_, text, expected) => {
    const said = message(() => parseKubeconfig(text));
    expect(said).toMatch(expected);
    expect(said).not.toContain(TOKEN);
  });
  test('nothing that is thrown at it makes it fail in another way', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json(),
          fc.json().map((text) => stringify(JSON.parse(text))),
        ),
        (text) => {
          expect(message(() => parseKubeconfig(`x: ${text}`))).toContain('kubeconfig: ');
        },
      ),
      { numRuns: 500, seed: 5 },
    );
  });
});

const NOTHING: HostPermissions = { execPlugins: [] };

function access(
  change: (cluster: Record<string, unknown>, user: Record<string, unknown>) => void,
  host = NOTHING,
): ClusterAccess {
  const config = parseKubeconfig(
    stringify(
      doc((d) =>
        change(
          d.clusters[0]?.cluster as Record<string, unknown>,
          d.users[0]?.user as Record<string, unknown>,
        ),
      ),
    ),
  );
  return clusterAccess('prod', config.clusters.get('c1') as never, config.users.get('u1') as never, host);
}

describe('what a context comes to', () => {
  const pair = { 'client-certificate-data': base64(certs.cert), 'client-key-data': base64(certs.key) };
  test.each<
    [string, (c: Record<string, unknown>, u: Record<string, unknown>) => void, Partial<ClusterAccess>]
  >([
    ['a token', () => {}, { origin: 'https://one.example:6443', basePath: '', token: TOKEN, ca: certs.ca }],
    [
      'a base path',
      (c) => Object.assign(c, { server: 'https://x.example/k8s/clusters/c-1/' }),
      { origin: 'https://x.example', basePath: '/k8s/clusters/c-1' },
    ],
    [
      'a client certificate',
      (_, u) => {
        delete u.token;
        Object.assign(u, pair);
      },
      { cert: certs.cert, key: certs.key },
    ],
    ['a certificate and a token', (_, u) => Object.assign(u, pair), { cert: certs.cert, token: TOKEN }],
    [
      'basic auth',
      (_, u) => {
        delete u.token;
        Object.assign(u, { username: 'me', password: 'p w' });
      },
      { basic: { username: 'me', password: 'p w' } },
    ],
    [
      'a server name',
      (c) => Object.assign(c, { 'tls-server-name': 'kubernetes' }),
      { servername: 'kubernetes' },
    ],
    [
      'loopback without TLS',
      (c) => Object.assign(c, { server: 'http://127.0.0.1:8001' }),
      { origin: 'http://127.0.0.1:8001' },
    ],
    [
      'someone to be',
      (_, u) => Object.assign(u, { as: 'dev', 'as-groups': ['g'], 'as-user-extra': { a: ['b'] } }),
      { as: { user: 'dev', groups: ['g'], extra: { a: ['b'] } } },
    ],
    [
      'verification said out loud',
      (c) => Object.assign(c, { 'insecure-skip-tls-verify': false }),
      { token: TOKEN },
    ],
  ])('%s', (_, change, expected) => expect(access(change)).toMatchObject(expected));

  test.each<[RegExp, (c: Record<string, unknown>, u: Record<string, unknown>) => void]>([
    [
      /runs the program "aws"/,
      (_, u) => {
        delete u.token;
        u.exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'aws', args: ['x'] };
      },
    ],
    [
      /runs the program "sh".*kube\.execPlugins/,
      (_, u) => {
        delete u.token;
        u.exec = { apiVersion: 'client.authentication.k8s.io/v1', command: '/bin/sh' };
      },
    ],
    [
      /auth-provider/,
      (_, u) => {
        delete u.token;
        u['auth-provider'] = { name: 'gcp' };
      },
    ],
    [
      /certificate-authority names a file/,
      (c) => {
        c['certificate-authority'] = '/etc/ca.pem';
      },
    ],
    [
      /client-certificate names a file/,
      (_, u) => {
        u['client-certificate'] = 'a.pem';
      },
    ],
    [
      /client-key names a file/,
      (_, u) => {
        u['client-key'] = 'a.pem';
      },
    ],
    [
      /tokenFile names a file/,
      (_, u) => {
        u.tokenFile = '/var/run/token';
      },
    ],
    [
      /insecure-skip-tls-verify/,
      (c) => {
        c['insecure-skip-tls-verify'] = true;
      },
    ],
    [
      /proxy-url/,
      (c) => {
        c['proxy-url'] = 'http://proxy.example';
      },
    ],
    [
      /http:\/\/ URL/,
      (c) => {
        c.server = 'http://one.example';
      },
    ],
    [
      /not an https/,
      (c) => {
        c.server = 'unix:///run/x';
      },
    ],
    [
      /not an https/,
      (c) => {
        c.server = 'one.example';
      },
    ],
    [
      /more than an address/,
      (c) => {
        c.server = 'https://user:pw@one.example';
      },
    ],
    [
      /more than an address/,
      (c) => {
        c.server = 'https://one.example/?x=1';
      },
    ],
    [
      /more than one spelling/,
      (c) => {
        c.server = 'https://one.example/a/../b';
      },
    ],
    [
      /more than one spelling/,
      (c) => {
        c.server = 'https://one.example/a%2Fb';
      },
    ],
    [
      /no credential/,
      (_, u) => {
        delete u.token;
      },
    ],
    [
      /more than one credential \(token, username\)/,
      (_, u) => {
        u.username = 'a';
      },
    ],
    [
      /belong together/,
      (_, u) => {
        u['client-certificate-data'] = base64(certs.cert);
      },
    ],
    [
      /is not the key of/,
      (_, u) => Object.assign(u, pair, { 'client-key-data': base64(testCertificates().key) }),
    ],
    [/no private key/, (_, u) => Object.assign(u, pair, { 'client-key-data': base64('nonsense') })],
    [
      /holds no certificate/,
      (c) => {
        c['certificate-authority-data'] = base64('nonsense');
      },
    ],
    [
      /is not base64/,
      (c) => {
        c['certificate-authority-data'] = '%%%';
      },
    ],
    [
      /no token has/,
      (_, u) => {
        u.token = `${TOKEN}\n`;
      },
    ],
    [
      /need as/,
      (_, u) => {
        u['as-groups'] = ['system:masters'];
      },
    ],
    [
      /no host name/,
      (c) => {
        c['tls-server-name'] = 'a b';
      },
    ],
  ])('is refused: %s', (expected, change) => {
    const said = message(() => access(change));
    expect(said).toMatch(expected);
    expect(said).not.toContain(TOKEN);
  });

  test('a program that the deployment allows by its absolute path may run, and no other way of naming it', () => {
    const host = { execPlugins: ['/usr/bin/aws'] };
    const exec =
      (command: string, more: object = {}) =>
      (_: unknown, u: Record<string, unknown>) => {
        delete u.token;
        u.exec = { apiVersion: 'client.authentication.k8s.io/v1', command, args: null, env: null, ...more };
      };
    expect(access(exec('/usr/bin/aws'), host).exec).toMatchObject({ command: '/usr/bin/aws', args: [] });
    for (const command of ['aws', './aws', '/usr/bin/../bin/aws', '/usr/bin//aws', '/usr/bin/aws2'])
      expect(message(() => access(exec(command), host))).toMatch(/runs the program/);
    expect(
      message(() => access(exec('/usr/bin/aws', { env: [{ name: 'LD_PRELOAD', value: 'x' }] }), host)),
    ).toMatch(/LD_PRELOAD/);
    expect(message(() => access(exec('/usr/bin/aws', { interactiveMode: 'Always' }), host))).toMatch(
      /nobody is there/,
    );
    expect(
      message(() =>
        access(exec('/usr/bin/aws', { apiVersion: 'client.authentication.k8s.io/v1alpha1' }), host),
      ),
    ).toMatch(/apiVersion/);
  });

  test('a token file that the deployment allows may be read', () =>
    expect(
      access(
        (_, u) => {
          delete u.token;
          u.tokenFile = '/run/token';
        },
        { execPlugins: [], tokenFiles: ['/run/token'] },
      ),
    ).toMatchObject({ tokenFile: '/run/token' }));
});

describe('a kubeconfig is reduced to what the grant covers', () => {
  const config = parseKubeconfig(stringify(doc()));
  const among = (namespaces: string[]) => (name: string) =>
    namespaces.length === 0 ||
    namespaces.some((glob) => (glob.endsWith('*') ? name.startsWith(glob.slice(0, -1)) : glob === name));
  const reduce = (contexts: string[], namespaces: string[], from = config) =>
    minimise(from, { contexts, namespaces, admits: among(namespaces) });

  test('to the contexts named, with their clusters and users and no other', () => {
    const { document, contexts, current } = reduce(['prod'], []);
    expect(contexts.map(({ name, namespace }) => [name, namespace])).toEqual([['prod', 'team-a']]);
    expect(current).toBe('prod');
    expect(document).toContain(TOKEN);
    for (const other of ['two.example', 'three.example', 'other-token', 'third-token', 'dev', 'spare'])
      expect(document).not.toContain(other);
    expect(parseKubeconfig(document).contexts.get('prod')).toMatchObject({ cluster: 'c1', user: 'u1' });
  });
  test('the current context is repointed where its own is gone', () =>
    expect(reduce(['dev'], []).current).toBe('dev'));
  test('a namespace is pinned: its own, else the first that is named whole, else the context goes', () => {
    expect(
      reduce([], ['team-*', 'x', 'team-a']).contexts.map(({ name, namespace }) => [name, namespace]),
    ).toEqual([
      ['dev', 'x'],
      ['prod', 'team-a'],
      ['spare', 'x'],
    ]);
    expect(reduce([], ['team-*']).contexts.map(({ name }) => name)).toEqual(['prod']);
    expect(reduce([], ['*']).contexts.map(({ name, namespace }) => [name, namespace])).toEqual([
      ['dev', 'dev-ns'],
      ['prod', 'team-a'],
      ['spare', 'default'],
    ]);
    expect(reduce(['spare'], []).contexts[0]).not.toHaveProperty('namespace');
  });
  test('nothing left is a refusal, not an empty document', () => {
    expect(() => reduce(['dev'], ['team-*'])).toThrow(
      expect.objectContaining({ code: 'policy_refused', message: expect.stringMatching(/"dev".*team-\*/) }),
    );
    expect(() => reduce(['none'], [])).toThrow(/no context "none"; it has "dev", "prod", "spare"/);
    expect(() => reduce([], [], parseKubeconfig('{kind: Config}'))).toThrow(/has no context/);
    expect(() => reduce([], [], parseKubeconfig(stringify(doc((d) => d.users.pop()))))).toThrow(
      /user "u3", which is not there/,
    );
  });
});

describe('the kubeconfig of the sandbox', () => {
  test("holds the guard's address, its CA and the session token, and nothing of the cluster", () => {
    const { contexts, current } = minimise(parseKubeconfig(stringify(doc())), {
      contexts: [],
      namespaces: [],
      admits: () => true,
    });
    const places = placeContexts(contexts);
    const text = synthesise({
      advertise: 'https://guard.example:8444',
      ca: 'GUARD CA',
      token: 'session-token',
      current,
      contexts: contexts.map((context, i) => ({ ...context, segment: places[i]?.segment ?? '' })),
    });
    for (const theirs of ['one.example', 'two.example', TOKEN, 'other-token', base64(certs.ca), 'c-1'])
      expect(text).not.toContain(theirs);
    const written = parse(text);
    expect(written['current-context']).toBe('prod');
    expect(written.users).toEqual([{ name: 'postern', user: { token: 'session-token' } }]);
    expect(written.clusters[1]).toEqual({
      name: 'prod',
      cluster: {
        server: 'https://guard.example:8444/c/prod',
        'certificate-authority-data': base64('GUARD CA'),
      },
    });
    expect(written.contexts[1]).toEqual({
      name: 'prod',
      context: { cluster: 'prod', user: 'postern', namespace: 'team-a' },
    });
    expect(parseKubeconfig(text).contexts.size).toBe(3);
  });

  test('two contexts of one name are told apart by the name of their secret', () =>
    expect(
      placeContexts([
        { name: 'prod', secretName: 'east' },
        { name: 'prod', secretName: 'west' },
        { name: 'dev', secretName: 'west' },
      ]).map(({ name }) => name),
    ).toEqual(['prod@east', 'prod@west', 'dev']));

  test.each([
    ['arn:aws:eks:eu-1:1:cluster/prod', 'arn:aws:eks:eu-1:1:cluster-prod'],
    ['gke_p_z_n', 'gke_p_z_n'],
    ['me@kubernetes', 'me@kubernetes'],
    ['team/api-host:6443/me', 'team-api-host:6443-me'],
    ['..', 'context--'],
    ['a b%2f?#é', 'a-b-2f-'],
  ])('the context %s is at the place %s', (name, segment) =>
    expect(placeContexts([{ name }])).toEqual([{ name, segment }]),
  );

  test('places are never shared and always plain', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            name: fc.oneof(fc.constantFrom('a b', 'a-b', 'a/b', '..', '.'), fc.string({ minLength: 1 })),
          }),
          { maxLength: 8 },
        ),
        (contexts) => {
          const places = placeContexts(contexts);
          expect(new Set(places.map(({ segment }) => segment)).size).toBe(contexts.length);
          expect(new Set(places.map(({ name }) => name)).size).toBe(contexts.length);
          for (const { segment } of places) expect(segment).toMatch(/^(?!\.{1,2}$)[A-Za-z0-9._~:@-]+$/);
        },
      ),
      { seed: 9 },
    );
  });
});
