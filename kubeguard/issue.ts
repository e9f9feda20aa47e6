// Issuing a session: kubeconfigs and what the hub says of them become a policy and what goes into custody, or an error that
// names the key. Each document is read, reduced and checked here, once, before anything is kept.

import { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import type { KubeClusterInput } from '../sessions/guards.ts';
import type { CredentialRef } from '../sessions/session.ts';
import { checkPlainPaths, clusterAccess, type HostPermissions, hostAndPort } from './cluster-access.ts';
import { parseKubeconfig } from './kubeconfig.ts';
import { type Minimised, minimise } from './minimise.ts';
import { checkCeiling, grantLimits, type KubeRules, type Limits, readRules } from './rules.ts';
import type { KubeContext, KubePolicy } from './session-policy.ts';
import { placeContexts } from './synthesise.ts';
import { isReadOnly, VERBS } from './verbs.ts';

export interface Prepared {
  readonly policy: KubePolicy;
  readonly credentials: readonly (CredentialRef & { readonly secret: Credential })[];
}

interface Reduced extends Minimised {
  readonly id: string;
  readonly rules: KubeRules;
  readonly input: KubeClusterInput;
}

/** @throws PosternError `invalid_input`, `policy_refused`, `upstream_not_listed` */
export function prepareSession(
  inputs: readonly KubeClusterInput[],
  ceiling: Limits,
  host: HostPermissions,
): Prepared {
  if (inputs.length === 0)
    throw new PosternError('invalid_input', 'clusters: a session needs at least one kubeconfig', {
      key: 'clusters',
    });
  const reduced = inputs.map((input, i) =>
    within(`clusters[${i}]`, () => reduce(input, `k${i + 1}`, ceiling)),
  );
  const all = reduced.flatMap((one) => one.contexts.map((context) => ({ one, context })));
  const places = placeContexts(
    all.map(({ one, context }) => ({
      name: context.name,
      secretName: one.input.secretName ?? one.input.secretId,
    })),
  );
  const contexts = all.map(({ one, context }, i): KubeContext => {
    const origin = within(`clusters[${inputs.indexOf(one.input)}]`, () => {
      const access = clusterAccess(context.name, context.cluster, context.user, host);
      checkPlainPaths(access.origin, one.rules.nonResourcePaths);
      return access.origin;
    });
    return {
      name: places[i]?.name ?? context.name,
      segment: places[i]?.segment ?? '',
      source: context.name,
      credentialId: one.id,
      ...(context.namespace === undefined ? {} : { namespace: context.namespace }),
      ...hostAndPort(origin),
    };
  });
  const [first] = reduced;
  const current = contexts.find(
    ({ credentialId, source }) => credentialId === first?.id && source === first.current,
  );
  return {
    policy: {
      contexts,
      current: (current ?? contexts[0])?.name ?? '',
      rules: Object.fromEntries(reduced.map(({ id, rules }) => [id, rules])),
    },
    credentials: reduced.map(({ id, input, document }) => ({
      id,
      secret: new Credential(document),
      ...(input.secretId === undefined ? {} : { secretId: input.secretId }),
      ...(input.secretName === undefined ? {} : { secretName: input.secretName }),
      ...(input.grantId === undefined ? {} : { grantId: input.grantId }),
    })),
  };
}

function reduce(input: KubeClusterInput, id: string, ceiling: Limits): Reduced {
  const rules = readRules(input);
  const grant = grantLimits(rules);
  checkCeiling(grant, ceiling);
  const bounds = [grant.namespaces, ceiling.namespaces].filter((list) => list !== undefined);
  const minimised = minimise(parseKubeconfig(input.kubeconfig.reveal()), {
    contexts: input.contexts ?? [],
    namespaces: bounds[0]?.list ?? [],
    admits: (namespace) => bounds.every((list) => list.admits(namespace)),
  });
  return { ...minimised, id, rules, input };
}

/** Says which of several inputs an error is about. */
function within<T>(where: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof PosternError)) throw error;
    const { code, message, key, remedy } = error;
    throw new PosternError(code, `${where}.${message}`, {
      key: key === undefined ? where : `${where}.${key}`,
      ...(remedy === undefined ? {} : { remedy }),
    });
  }
}

/** What the session can do in effect: the grant's verbs, less what the ceiling takes away. */
export function allowedVerbs(policy: KubePolicy, ceiling: Limits): string[] {
  const granted = Object.values(policy.rules).flatMap(({ verbs }) => verbs);
  return VERBS.filter((verb) => granted.includes(verb) && (ceiling.verbs?.includes(verb) ?? true));
}

/** The lists of the grants; where one sets no limit, the ceiling's. */
export function allowedNamespaces(policy: KubePolicy, ceiling: Limits): string[] {
  const bounds = ceiling.namespaces?.list ?? [];
  return [
    ...new Set(
      Object.values(policy.rules).flatMap(({ namespaces }) => (namespaces.length > 0 ? namespaces : bounds)),
    ),
  ];
}

/** For people: `prod: read-only, namespaces team-a team-b, no Secrets`. */
export function summarize(policy: KubePolicy, ceiling: Limits): string {
  return Object.entries(policy.rules)
    .map(([id, rules]) => {
      const contexts = policy.contexts
        .filter(({ credentialId }) => credentialId === id)
        .map(({ name }) => name);
      return `${contexts.join(', ')}: ${describeRules(rules, ceiling)}`;
    })
    .join('; ');
}

export function describeRules(rules: KubeRules, ceiling: Limits): string {
  const verbs = rules.verbs.filter((verb) => ceiling.verbs?.includes(verb) ?? true);
  const namespaces = [rules.namespaces, ceiling.namespaces?.list ?? []].filter((list) => list.length > 0);
  return [
    isReadOnly(verbs) && verbs.length === 3 ? 'read-only' : verbs.join(' '),
    namespaces.length === 0
      ? 'all namespaces'
      : `namespaces ${namespaces.map((list) => list.join(' ')).join(' within ')}`,
    rules.resources.length === 0 ? 'no Secrets' : `resources ${rules.resources.join(' ')}`,
  ].join(', ');
}
