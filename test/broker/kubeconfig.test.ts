import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { Constraints } from '../../broker/constraints/constraints.ts';
import { allowsContext, allowsNamespace } from '../../broker/constraints/kube.ts';
import {
  describeKubeconfig,
  hostBound,
  mergeKubeconfigs,
  minimiseKubeconfig,
  parseKubeconfig,
  printKubeconfig,
} from '../../broker/kinds/kubeconfig.ts';
import { kubeconfigOf } from './bench.ts';

const INVALID = expect.objectContaining({ code: 'invalid_input' });
const NOTHING = expect.objectContaining({ code: 'nothing_left' });

const DOCUMENT = parseKubeconfig(
  kubeconfigOf([
    { name: 'prod', cluster: 'c1', user: 'u1', namespace: 'team-a' },
    { name: 'prod-admin', cluster: 'c1', user: 'root', namespace: 'kube-system' },
    { name: 'stage', cluster: 'c2', user: 'u2' },
  ]),
);

const reduced = (constraints: Constraints) => minimiseKubeconfig(DOCUMENT, constraints);

describe('minimising a kubeconfig', () => {
  it('keeps the allowed contexts and only what they use', () => {
    const text = printKubeconfig(reduced({ contexts: ['prod'] }));
    expect(text).toContain('cluster-token-of-u1');
    for (const secret of ['cluster-token-of-root', 'cluster-token-of-u2', 'c2.cluster.test'])
      expect(text).not.toContain(secret);
    expect(parse(text)).toMatchObject({ apiVersion: 'v1', kind: 'Config', 'current-context': 'prod' });
  });

  it('points the current context at one that is left', () => {
    expect(reduced({ contexts: ['stage'] }).current).toBe('stage');
    expect(reduced({ contexts: ['*'] }).current).toBe('prod');
  });

  it.each<[string[], string]>([
    [['team-a'], 'prod (team-a), prod-admin (team-a), stage (team-a)'],
    [['team-*'], 'prod (team-a)'],
    [['team-*', 'web'], 'prod (team-a), prod-admin (web), stage (web)'],
    [['default'], 'prod (default), prod-admin (default), stage (default)'],
    [['*'], 'prod (team-a), prod-admin (kube-system), stage (default)'],
  ])('pins a namespace of %j', (namespaces, expected) => {
    expect(describeKubeconfig(reduced({ namespaces }))).toBe(expected);
  });

  it('is a refusal where nothing is left', () => {
    expect(() => reduced({ contexts: ['none'] })).toThrow(NOTHING);
    expect(() => reduced({ namespaces: ['web-*'] })).toThrow(NOTHING);
    expect(() => reduced({ contexts: ['PROD'] })).toThrow(NOTHING);
    expect(() => reduced({})).toThrow(NOTHING);
  });

  it('never lets through what the constraints exclude', () => {
    const name = fc.constantFrom('prod', 'prod-eu', 'stage', 'dev', 'admin');
    const namespace = fc.constantFrom('team-a', 'team-b', 'kube-system', 'default');
    const context = fc.record({ name, user: name, cluster: name, namespace: fc.option(namespace) });
    const globs = fc.array(fc.oneof(name, namespace, fc.constantFrom('*', 'team-*', 'prod*')), {
      maxLength: 3,
    });
    fc.assert(
      fc.property(
        fc.uniqueArray(context, { selector: ({ name }) => name, minLength: 1, maxLength: 5 }),
        globs,
        globs,
        (all, contexts, namespaces) => {
          const document = parseKubeconfig(
            kubeconfigOf(all.map(({ namespace, ...rest }) => ({ ...rest, ...(namespace && { namespace }) }))),
          );
          let kept: ReturnType<typeof minimiseKubeconfig>;
          try {
            kept = minimiseKubeconfig(document, { contexts, namespaces });
          } catch {
            return;
          }
          const again = parseKubeconfig(printKubeconfig(kept));
          expect(printKubeconfig(again)).toBe(printKubeconfig(kept));
          for (const one of again.contexts) {
            expect(allowsContext({ contexts, namespaces }, one.name)).toBe(true);
            if (namespaces.length > 0)
              expect(allowsNamespace({ namespaces }, one.namespace ?? '')).toBe(true);
          }
          const used = new Set(again.contexts.flatMap(({ cluster, user }) => [`c:${cluster}`, `u:${user}`]));
          for (const key of again.clusters.keys()) expect(used).toContain(`c:${key}`);
          for (const key of again.users.keys()) expect(used).toContain(`u:${key}`);
          expect(again.contexts.map((one) => one.name)).toContain(again.current);
          expect(minimiseKubeconfig(again, { contexts, namespaces })).toEqual(again);
        },
      ),
    );
  });
});

describe('reading a kubeconfig', () => {
  const good = {
    contexts: [{ name: 'a', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster: {} }],
  };
  it.each([
    ['nothing', ''],
    ['text', 'hello'],
    ['a list', '[]'],
    ['another kind', 'kind: Secret'],
    ['no context', 'kind: Config'],
    ['a context without a user', JSON.stringify({ kind: 'Config', ...good, users: [] })],
    [
      'a cluster without a body',
      JSON.stringify({ ...good, clusters: [{ name: 'c' }], users: [{ name: 'u', user: {} }] }),
    ],
    [
      'two of a name',
      JSON.stringify({
        ...good,
        users: [
          { name: 'u', user: {} },
          { name: 'u', user: {} },
        ],
      }),
    ],
    ['a key twice', 'kind: Config\nkind: Config\n'],
    ['two documents', 'kind: Config\n---\nkind: Config\n'],
    ['an alias', `kind: Config\nusers: &u []\nclusters: *u\n`],
    [
      'broken YAML with a token in it',
      'kind: Config\nusers: [{name: u, user: {token: "secret-token-value}}]\n',
    ],
  ])('refuses %s and quotes nothing', (_, text) => {
    let message = '';
    try {
      parseKubeconfig(text);
    } catch (error) {
      message = String(error);
      expect(error).toEqual(INVALID);
    }
    expect(message).not.toBe('');
    expect(message).not.toContain('secret-token-value');
  });

  it('reads YAML as kubectl writes it', () => {
    const text = `apiVersion: v1
kind: Config
preferences: {}
clusters:
- cluster:
    certificate-authority-data: QUJD
    server: https://k.example:6443
  name: kind
users:
- name: kind
  user:
    client-certificate-data: QUJD
    client-key-data: QUJD
contexts:
- context:
    cluster: kind
    user: kind
  name: kind
current-context: kind
`;
    expect(describeKubeconfig(parseKubeconfig(text))).toBe('kind');
    expect(hostBound(parseKubeconfig(text))).toBeUndefined();
  });

  it.each(['exec', 'auth-provider', 'client-certificate', 'client-key', 'tokenFile'])(
    'sees that %s works on one host only',
    (key) => {
      const text = JSON.stringify({ kind: 'Config', ...good, users: [{ name: 'u', user: { [key]: 'x' } }] });
      expect(hostBound(parseKubeconfig(text))).toBe(key);
    },
  );
});

describe('several documents', () => {
  it('become one without lending a user of one to a cluster of another', () => {
    const one = parseKubeconfig(kubeconfigOf([{ name: 'prod', cluster: 'k', user: 'u' }]));
    const two = parseKubeconfig(
      kubeconfigOf([
        { name: 'prod', cluster: 'k', user: 'u' },
        { name: 'other', cluster: 'k', user: 'u' },
      ]),
    );
    const merged = mergeKubeconfigs([
      { from: 'east', document: one },
      { from: 'west', document: two },
    ]);
    expect(merged.contexts.map(({ name, cluster, user }) => [name, cluster, user])).toEqual([
      ['prod', 'east-1/k', 'east-1/u'],
      ['prod-west', 'west-2/k', 'west-2/u'],
      ['other', 'west-2/k', 'west-2/u'],
    ]);
    expect(parseKubeconfig(printKubeconfig(merged)).contexts).toHaveLength(3);
  });
});
