// The constraint flags of `grant create` and `request open`, and what they become. Which of them narrow a kind is the
// broker's business: a flag that does not apply is its error, in its words.

import type { Constraints } from '../broker/constraints/constraints.ts';
import type { Context, Flag } from './command.ts';

const LISTS = {
  repo: ['repos', 'G', 'GitHub: acme/tool, acme/* or *; local_repo: the name of a folder'],
  permission: ['permissions', 'P', 'GitHub: contents:read (default), contents:write, … or *'],
  'push-ref': ['pushRefs', 'G', 'GitHub: refs that may be pushed; create:, update: or delete: narrows one'],
  context: ['contexts', 'C', 'kubeconfig: contexts, or *'],
  namespace: ['namespaces', 'G', 'kubeconfig: namespaces, team-a or team-*'],
  verb: ['verbs', 'V', "kubeconfig: verbs (default: get, list, watch); '*' is every verb"],
  resource: ['resources', 'R', 'kubeconfig: resources, such as pods, pods/log, deployments.apps'],
  registry: ['registries', 'H', 'registry: hosts, registry.example.com or *.example.com'],
  'env-key': ['envKeys', 'N', 'env: names of variables (default: all of the secret)'],
  host: ['hosts', 'H', 'egress_proxy: hosts, api.example.com, *.example.com or *'],
  device: ['devices', 'N', 'host_device: names of devices'],
} as const satisfies { readonly [flag: string]: readonly [keyof Constraints, string, string] };

export const constraintFlags: readonly Flag[] = [
  ...Object.entries(LISTS).map(([name, [, value, help]]): Flag => ({ name, value, repeat: true, help })),
  { name: 'allow-delete', help: 'GitHub: let pushes delete refs' },
  { name: 'writable', help: 'local_repo: a mount that can be written to' },
];

export function readConstraints(context: Pick<Context, 'all' | 'has'>): Constraints {
  const lists = Object.entries(LISTS)
    .map(([flag, [name]]) => [name, context.all(flag)] as const)
    .filter(([, values]) => values.length > 0);
  return {
    ...Object.fromEntries(lists),
    ...(context.has('allow-delete') && { allowDelete: true }),
    ...(context.has('writable') && { writable: true }),
  };
}
