// `postern explain kube`: what the guard would decide about a request of a session, by the very functions that decide, and
// without doing it. `request` is what was read, in the record's field names, everything said even where it is empty.

import type { Reason } from '../common/reason.ts';
import type { Explanation } from '../sessions/guards.ts';
import type { Session } from '../sessions/session.ts';
import { mediaType } from './headers.ts';
import { decide } from './policy.ts';
import { requestFields } from './records.ts';
import { parseRequest } from './request-info.ts';
import { grantLimits, type Limits } from './rules.ts';
import { findPlace, type KubePolicy, splitTarget } from './session-policy.ts';

export interface ExplainInput {
  readonly method: string;
  /** `/c/<context>/api/…`, or `/api/…` where the session has one context. */
  readonly target: string;
  readonly contentType?: string;
}

export function explain(
  session: Session<KubePolicy>,
  state: { readonly now: number; readonly ceiling: Limits },
  input: ExplainInput,
): Explanation {
  const { method } = input;
  const { policy } = session;
  const split = splitTarget(input.target);
  const parsed = parseRequest(method, split.rest);
  const place = findPlace(session, split.segment);
  const request: { [field: string]: unknown } = { method };
  if (place) Object.assign(request, { host: place.context.host, port: place.context.port });
  const deny = (code: Reason, rule: string, reason: string): Explanation => ({
    decision: 'deny',
    code,
    rule,
    reason,
    request,
  });

  if (!parsed.ok) return deny(parsed.refusal.code, `path: ${parsed.refusal.rule}`, parsed.refusal.message);
  const { info } = parsed;
  const { verb, apiGroup, apiVersion, resource, subresource, namespace, name, isResource } = info;
  Object.assign(
    request,
    { verb, apiGroup, apiVersion, resource, subresource, namespace, name, isResource },
    requestFields(info),
  );
  if (session.revokedAt !== undefined) return deny('session_revoked', 'session', 'the session was revoked');
  if (state.now >= session.expiresAt)
    return deny('session_expired', 'session', 'the session is past its time');
  if (!place) return deny('not_found', 'context', noPlace(policy));

  const sides = [grantLimits(place.rules), state.ceiling];
  const decision = decide(info, {
    sides,
    nonResourcePaths: place.rules.nonResourcePaths,
    contentType: mediaType(input.contentType),
  });
  if (!decision.allow) return deny(decision.refusal.code, decision.refusal.rule, decision.refusal.message);
  return {
    decision: 'allow',
    rule: decision.rule,
    reason: reasonOf(decision.rule, place.context.name),
    request,
  };
}

export function noPlace({ contexts }: KubePolicy): string {
  const paths = contexts.map(({ segment }) => `/c/${segment}`).join(', ');
  return `the session has no context at this path; its paths begin with ${paths}`;
}

function reasonOf(rule: string, context: string): string {
  if (rule === 'self-review')
    return 'a session may always ask what it may do; the guard and the cluster both answer';
  if (rule === 'namespaces') return 'the namespaces are shown that the session may use';
  if (rule === 'discovery') return 'discovery, version, openapi and health are open to every session';
  return `the grant for the context ${context} allows it`;
}
