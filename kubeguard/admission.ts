// Who is asking: the session token as a bearer token, and in no other place. A failure looks the same from outside
// whatever it was, in words and in time; the record says which. Two answers are the holder's of a right token only: its
// session is past its time, or does too much at once.

import type { Reason } from '../common/reason.ts';
import { answeredReason, recordedReason } from '../sessions/failure.ts';
import { failureFloor } from '../sessions/floor.ts';
import type { AuthFailure, Live, LiveExchange, Session, SessionRegistry } from '../sessions/session.ts';
import type { KubePolicy } from './session-policy.ts';
import type { Words } from './status.ts';

export type Admission =
  | { readonly ok: true; readonly live: Live<KubePolicy> }
  | {
      readonly ok: false;
      /** No credential at all: counted, not recorded. */
      readonly bearing: boolean;
      /** `false`: too many failures wait for their answers, this one gets none. */
      readonly answered?: boolean;
      /** For the record. */
      readonly code: Reason;
      readonly failure: AuthFailure;
      readonly words: Words;
      readonly sessionId?: string | undefined;
      readonly session?: Session<KubePolicy> | undefined;
    };

/** b64token of RFC 6750; a session token is a JWT of some hundred characters. */
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]{1,8192}=*)$/i;

/**
 * @param startedAt `performance.now()` when the request's head had arrived
 * @throws PosternError `store_unavailable`
 */
export async function admit(
  sessions: Pick<SessionRegistry, 'authenticate'>,
  authorization: string | undefined,
  exchange: LiveExchange,
  startedAt: number,
): Promise<Admission> {
  if (authorization === undefined || authorization === '')
    return { ok: false, bearing: false, ...failed('missing') };
  const token = BEARER.exec(authorization)?.[1];
  const answer =
    token === undefined
      ? ({ ok: false, failure: 'malformed' } as const)
      : await sessions.authenticate<KubePolicy>('kube', undefined, token, exchange);
  if (answer.ok) return answer;
  const answered = await failureFloor(startedAt);
  const { failure, ...known } = answer;
  return { bearing: true, answered, ...known, ...failed(failure), ok: false };
}

function failed(failure: AuthFailure): { failure: AuthFailure; code: Reason; words: Words } {
  const code = answeredReason(failure);
  const message = MESSAGES[code] ?? MESSAGES.unauthenticated;
  return { failure, code: recordedReason(failure), words: { code, message } };
}

const MESSAGES: { readonly [code: string]: string; readonly unauthenticated: string } = {
  unauthenticated: 'this guard takes the bearer token of a live session, and this is none',
  session_expired: 'the session of this token is past its time; ask for it to be renewed or for another one',
  rate_limited: 'the session has too many requests under way; let some of them end',
};
