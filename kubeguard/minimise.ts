// A kubeconfig reduced to what a grant covers: the allowed contexts, the clusters and users that they name, a namespace
// pinned on each, the current context among them. Pure. What is left out never gets into custody. A context whose own
// namespace is outside the list is pinned to the first one that the list names whole; where the list has globs only
// there is nothing to pin it to, and it is dropped rather than guessed at. Nothing left is an error.

import { PosternError } from '../common/errors.ts';
import { isExact } from '../common/glob.ts';
import { type Cluster, type Context, type Kubeconfig, type User, unusable } from './kubeconfig.ts';

export interface MinimiseRules {
  /** Empty: every context of the document. */
  readonly contexts: readonly string[];
  /** Empty: no limit. */
  readonly namespaces: readonly string[];
  /** The list's decision and the ceiling's. */
  readonly admits: (namespace: string) => boolean;
}

export interface KeptContext {
  readonly name: string;
  readonly cluster: Cluster;
  readonly user: User;
  /** Absent: none is pinned, kubectl takes `default`. */
  readonly namespace?: string;
}

export interface Minimised {
  readonly contexts: readonly KeptContext[];
  readonly current: string;
  /** One line of JSON, which is YAML too. Holds credentials. */
  readonly document: string;
}

/** @throws PosternError `invalid_input`, or `policy_refused` where nothing is left */
export function minimise(config: Kubeconfig, rules: MinimiseRules): Minimised {
  const known = [...config.contexts.keys()];
  for (const name of rules.contexts)
    if (!config.contexts.has(name))
      throw new PosternError(
        'invalid_input',
        `contexts: the kubeconfig has no context ${quote(name)}; it has ${known.map(quote).join(', ') || 'none'}`,
        {
          key: 'contexts',
        },
      );
  if (known.length === 0) throw unusable('it has no context');
  const names = rules.contexts.length === 0 ? known : known.filter((name) => rules.contexts.includes(name));
  const kept = names.flatMap((name) => keep(config, name, rules) ?? []);
  const first = kept[0];
  if (!first)
    throw new PosternError(
      'policy_refused',
      `none of the contexts (${names.map(quote).join(', ')}) can be pinned to a namespace that is allowed (${rules.namespaces.join(', ')})`,
      {
        key: 'namespaces',
        remedy: 'name one namespace whole beside the globs, or set an allowed one in the kubeconfig',
      },
    );
  const current = kept.find(({ name }) => name === config.currentContext) ?? first;
  return { contexts: kept, current: current.name, document: write(config, kept, current.name) };
}

function keep(config: Kubeconfig, name: string, rules: MinimiseRules): KeptContext | undefined {
  const context = config.contexts.get(name) as Context;
  const cluster = config.clusters.get(context.cluster);
  const user = config.users.get(context.user);
  if (!cluster || !user)
    throw unusable(
      `context ${quote(name)} names the ${cluster ? `user ${quote(context.user)}` : `cluster ${quote(context.cluster)}`}, which is not there`,
    );
  const own = context.namespace || undefined;
  if (rules.namespaces.length === 0 && rules.admits(own ?? 'default'))
    return { name, cluster, user, ...(own === undefined ? {} : { namespace: own }) };
  const whole = rules.namespaces.filter((glob) => isExact(glob) && rules.admits(glob));
  const namespace = [own, whole[0], own === undefined ? 'default' : undefined].find(
    (candidate) => candidate !== undefined && rules.admits(candidate),
  );
  return namespace === undefined ? undefined : { name, cluster, user, namespace };
}

function write(config: Kubeconfig, kept: readonly KeptContext[], current: string): string {
  const used = (key: 'cluster' | 'user'): string[] => [
    ...new Set(kept.map(({ name }) => (config.contexts.get(name) as Context)[key])),
  ];
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': current,
    clusters: used('cluster').map((name) => ({ name, cluster: config.clusters.get(name) })),
    users: used('user').map((name) => ({ name, user: config.users.get(name) })),
    contexts: kept.map(({ name, namespace }) => {
      const { cluster, user } = config.contexts.get(name) as Context;
      return { name, context: { cluster, user, ...(namespace === undefined ? {} : { namespace }) } };
    }),
  });
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 80));
}
