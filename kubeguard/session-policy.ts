// What a kube session is allowed, as its public policy says: contexts, each with its place at the guard, the credential
// that it spends and the rules that hold there. Plain JSON in the session's row; no credential in it.

import type { Session } from '../sessions/session.ts';
import type { KubeRules } from './rules.ts';

export interface KubeContext {
  /** As the sandbox's kubeconfig names it. */
  readonly name: string;
  /** `/c/<segment>` */
  readonly segment: string;
  /** As the document in custody names it. */
  readonly source: string;
  readonly credentialId: string;
  readonly namespace?: string;
  /** Of the cluster, for the record. */
  readonly host: string;
  readonly port: number;
}

export interface KubePolicy {
  readonly contexts: readonly KubeContext[];
  readonly current: string;
  /** By credential. */
  readonly rules: { readonly [credentialId: string]: KubeRules };
}

export interface Place {
  readonly context: KubeContext;
  readonly rules: KubeRules;
}

export interface SplitTarget {
  /** Absent: the path names no context. */
  readonly segment?: string;
  /** The API server's part. */
  readonly rest: string;
}

/** Takes `/c/<segment>` off the front of a request target. */
export function splitTarget(target: string): SplitTarget {
  const [, segment, rest = ''] =
    /^\/c\/(?!\.{1,2}(?:[/?]|$))([A-Za-z0-9._~:@-]+)(?=[/?]|$)(.*)$/s.exec(target) ?? [];
  if (segment === undefined) return { rest: target };
  return { segment, rest: rest.startsWith('/') ? rest : `/${rest}` };
}

/**
 * The context that a request is for. A path that names none (`kubectl get --raw` sends such) is for the only context of
 * the session, where there is only one. A context whose credential is no longer held (its grant was taken out) is not
 * there.
 */
export function findPlace(
  { policy, credentials }: Session<KubePolicy>,
  segment: string | undefined,
): Place | undefined {
  const held = policy.contexts.filter(({ credentialId }) =>
    credentials.some(({ id }) => id === credentialId),
  );
  const context =
    segment === undefined
      ? held.length === 1
        ? held[0]
        : undefined
      : held.find((one) => one.segment === segment);
  const rules = context && policy.rules[context.credentialId];
  return context && rules ? { context, rules } : undefined;
}
