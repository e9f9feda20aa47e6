// The audit events of this guard, each about one exchange:
//
//     git.session_minted  a session was issued; one record for each credential that it can spend
//     git.rejected        refused before it was known to be a fetch or a push of this session: no usable token, not one
//                         of the routes, a repository outside the grants, too much at once
//     git.fetch           authorised, about to be asked of the upstream; service says which advertisement (of a push's
//                         too: it reads refs and spends the credential) or git-upload-pack
//     git.fetch_result    what came of it
//     git.push_allowed    a push's refs, authorised; on disk before the first byte leaves
//     git.push_denied     a push's refs, refused; or the advertisement of one that this session may never push to
//     git.push_result     what the upstream reported for each ref
//
// A request without any credential is counted, not recorded; so are the empty pushes that git sends as probes, and what
// fails to authenticate more often than sessions/failure-records.ts lets one address.
//
// `actor` is the hub's label of who works in the sandbox: it carries no authority. What somebody did to a session (issue,
// renew, revoke) is recorded with the actor that the control API knows, whatever the labels say.

import type { Action, AuditEvent, RefRecord } from '../audit/event.ts';
import { rfc3339 } from '../common/clock.ts';
import type { Outcome } from '../relay/forward.ts';
import type { Exchange, Unreadable } from '../relay/listener.ts';
import { sumOf } from '../sessions/failure-records.ts';
import type { Session } from '../sessions/session.ts';
import { describePush, type GitGrant, type GitPolicy, list, type PushCeiling } from './policy.ts';
import { optionName } from './push-options.ts';
import { operationOf, type PushHead, type RefCommand } from './receive-pack.ts';
import { showRef } from './ref-name.ts';
import type { RefResult } from './report.ts';
import { type Route, repositoryName } from './route.ts';

/** What is known of an exchange so far. */
export interface Known {
  readonly exchange: Exchange;
  readonly route?: Route | undefined;
  readonly session?: Session<GitPolicy> | undefined;
  /** Where the token was right and there is no more. */
  readonly sessionId?: string | undefined;
  readonly grant?: GitGrant | undefined;
}

type About = Omit<Partial<AuditEvent>, 'action' | 'decision'>;

export function event(
  known: Known,
  action: Action,
  decision: AuditEvent['decision'],
  about: About,
): AuditEvent {
  const { exchange, route, session, grant } = known;
  const userAgent = exchange.req.headers['user-agent'];
  return {
    action,
    decision,
    exchangeId: exchange.id,
    guard: 'git',
    method: exchange.req.method,
    sourceIp: exchange.sourceIp,
    userAgent: userAgent?.slice(0, 200),
    ...(route
      ? { repo: repositoryName(route.repo), service: route.kind === 'lfs' ? 'lfs' : route.service }
      : {}),
    ...(session ? sessionFields(session) : known.sessionId ? { sessionId: known.sessionId } : {}),
    ...(session && grant ? grantFields(session, grant) : {}),
    ...about,
  };
}

export function sessionFields({ id, leaseId, labels }: Session): Partial<AuditEvent> {
  const { projectId, executorId, runId, taskId, actor } = labels;
  return { sessionId: id, leaseId, projectId, executorId, runId, taskId, actor };
}

function grantFields(session: Session, grant: GitGrant): Partial<AuditEvent> {
  const ref = session.credentials.find(({ id }) => id === grant.credentialId);
  return {
    ...placeOf(grant.upstream),
    secretId: ref?.secretId,
    secretName: ref?.secretName,
    grantId: ref?.grantId,
  };
}

const places = new Map<string, { readonly host: string; readonly port: number }>();

/** There are as many upstreams as the configuration lists; each is parsed once. */
export function placeOf(upstream: string): { readonly host: string; readonly port: number } {
  const known = places.get(upstream);
  if (known) return known;
  const { hostname, port, protocol } = new URL(upstream);
  const place = { host: hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) };
  places.set(upstream, place);
  return place;
}

export function movement(outcome: Outcome, startedAt: number): About {
  const failed = outcome.how !== 'complete';
  return {
    bytesUp: outcome.bytesUp,
    bytesDown: outcome.bytesDown,
    durationMs: Math.round(performance.now() - startedAt),
    status: outcome.status,
    ...(failed ? { reason: ENDINGS[outcome.how] + (outcome.why ? ` (${outcome.why})` : '') } : {}),
  };
}

const ENDINGS: { readonly [how in Outcome['how']]: string } = {
  complete: 'complete',
  declined: "the upstream's answer was not passed on",
  client_gone: 'the client left',
  upstream_failed: 'the upstream could not be reached or broke off',
  idle: 'nothing moved for too long',
  over_limit: 'the request body is over its limit',
  echoed: "the upstream's answer held the credential and was withheld",
  ended: 'the session ended',
};

export function refRecords(
  commands: readonly RefCommand[],
  result: (command: RefCommand, index: number) => RefResult | undefined = () => undefined,
): RefRecord[] {
  return commands.map((command, index) => {
    const operation = operationOf(command);
    const outcome = result(command, index);
    return {
      ref: showRef(command.ref),
      op: operation === 'nothing' ? 'update' : operation,
      old: command.old,
      new: command.new,
      ...(outcome ? { result: outcome.ok ? 'ok' : 'ng' } : {}),
      ...(outcome?.reason ? { reason: outcome.reason } : {}),
    };
  });
}

export function optionNames({ options = [] }: PushHead): About {
  return options.length === 0 ? {} : { pushOptions: options.map(optionName) };
}

/** Bytes that are no request, and that name an Authorization. */
export function unreadableEvent({ id, sourceIp, reason }: Unreadable): AuditEvent {
  const about = { exchangeId: id, sourceIp, code: 'malformed_request', reason } as const;
  return { action: 'git.rejected', decision: 'deny', guard: 'git', ...about };
}

/** Those of one address that had no record of their own. */
export function failuresEvent(source: string, count: number): AuditEvent {
  const about = { sourceIp: source, code: 'unauthenticated', reason: sumOf(count) } as const;
  return { action: 'git.rejected', decision: 'deny', guard: 'git', ...about };
}

export function mintedEvents(session: Session<GitPolicy>, actor: string, ceiling: PushCeiling): AuditEvent[] {
  return session.policy.grants.map((grant) => ({
    ...sessionFields(session),
    ...grantFields(session, grant),
    action: 'git.session_minted',
    decision: 'allow',
    guard: 'git',
    actor,
    constraints: grant.write
      ? `read-write ${list(grant.repos)}; ${describePush(grant, ceiling)}`
      : `read-only ${list(grant.repos)}`,
    expiresAt: rfc3339(session.expiresAt),
  }));
}
