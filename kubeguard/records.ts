// The audit events of this guard, each about one exchange:
//
//     kube.rejected          refused before it was known what it asks for: no usable token, not readable in one way
//     kube.request_denied    read, and refused by the policy
//     kube.request_allowed   about to be asked of the cluster; on disk first where it changes something
//     kube.request_result    what came of it
//
// A request without any credential is counted, not recorded. `verb` and its kind are as the API server reads them;
// `service` is the path of a request outside the API; `command` the command line of an exec.

import type { Action, AuditEvent } from '../audit/event.ts';
import type { Outcome } from '../relay/forward.ts';
import type { Session } from '../sessions/session.ts';
import { queryValues, type RequestInfo } from './request-info.ts';
import type { KubeContext, KubePolicy } from './session-policy.ts';

/** What is known of an exchange so far. */
export interface Known {
  readonly exchange: {
    readonly id: string;
    readonly sourceIp: string;
    readonly req: {
      readonly method?: string | undefined;
      readonly headers: { readonly 'user-agent'?: string | undefined };
    };
  };
  readonly info?: RequestInfo | undefined;
  readonly session?: Session<KubePolicy> | undefined;
  /** Where the token was right and there is no more. */
  readonly sessionId?: string | undefined;
  readonly context?: KubeContext | undefined;
}

export type About = Omit<Partial<AuditEvent>, 'action' | 'decision'>;

export function event(
  known: Known,
  action: Action,
  decision: AuditEvent['decision'],
  about: About,
): AuditEvent {
  const { exchange, info, session, context } = known;
  return {
    action,
    decision,
    exchangeId: exchange.id,
    guard: 'kube',
    method: exchange.req.method,
    sourceIp: exchange.sourceIp,
    userAgent: exchange.req.headers['user-agent']?.slice(0, 200),
    ...(info ? requestFields(info) : {}),
    ...(session ? sessionFields(session) : known.sessionId ? { sessionId: known.sessionId } : {}),
    ...(session && context ? contextFields(session, context) : {}),
    ...about,
  };
}

export function requestFields(info: RequestInfo): About {
  if (!info.isResource) return { verb: info.verb, service: info.path };
  const { verb, apiGroup, resource, subresource, namespace, name } = info;
  const command = subresource === 'exec' ? queryValues(info, 'command') : [];
  return {
    verb,
    apiGroup,
    resource,
    ...(subresource === '' ? {} : { subresource }),
    ...(namespace === '' ? {} : { namespace }),
    ...(name === '' ? {} : { name }),
    ...(command.length > 0 ? { command } : {}),
  };
}

export function sessionFields({ id, leaseId, labels }: Session): About {
  const { projectId, executorId, runId, taskId, actor } = labels;
  return { sessionId: id, leaseId, projectId, executorId, runId, taskId, actor };
}

export function credentialFields(session: Session, credentialId: string): About {
  const ref = session.credentials.find(({ id }) => id === credentialId);
  return { secretId: ref?.secretId, secretName: ref?.secretName, grantId: ref?.grantId };
}

function contextFields(session: Session, { credentialId, host, port }: KubeContext): About {
  return { host, port, ...credentialFields(session, credentialId) };
}

export type Movement = Pick<Outcome, 'how' | 'why' | 'status' | 'bytesUp' | 'bytesDown'>;

export function movement(outcome: Movement, startedAt: number): About {
  const { how, why, status, bytesUp, bytesDown } = outcome;
  return {
    bytesUp,
    bytesDown,
    durationMs: Math.round(performance.now() - startedAt),
    status,
    ...(how === 'complete' ? {} : { reason: ENDINGS[how] + (why ? ` (${why})` : '') }),
  };
}

const ENDINGS: { readonly [how in Outcome['how']]: string } = {
  complete: 'complete',
  declined: "the cluster's answer was not passed on",
  client_gone: 'the client left',
  upstream_failed: 'the cluster could not be reached or broke off',
  idle: 'nothing moved for too long',
  over_limit: 'the request body is over its limit',
  echoed: "the cluster's answer held the credential and was withheld",
  ended: 'the session ended',
};
