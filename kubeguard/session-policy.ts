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

/** `/c/<segment>` off the front of a request target; the rest is the API server's. */
export function splitTarget(target: string): { segment: string; rest: string } | undefined {
  const found = /^\/c\/([A-Za-z0-9._~:@-]+)(?=[/?]|$)(.*)$/s.exec(target);
  const [, segment, rest] = found ?? [];
  if (segment === undefined || rest === undefined) return undefined;
  return { segment, rest: rest.startsWith('/') ? rest : `/${rest}` };
}

/** A context whose credential is no longer held (its grant was taken out) is not there. */
export function findPlace({ policy, credentials }: Session<KubePolicy>, segment: string): Place | undefined {
  const context = policy.contexts.find((one) => one.segment === segment);
  const rules = context && policy.rules[context.credentialId];
  if (!context || !rules || !credentials.some(({ id }) => id === context.credentialId)) return undefined;
  return { context, rules };
}
