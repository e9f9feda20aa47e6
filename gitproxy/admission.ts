// Who is asking. A failure looks the same from outside whatever it was, in words and in time; the record says which.
// Two answers are the holder's of a right token only: its session is past its time, or does too much at once.

import type { Reason } from '../common/reason.ts';
import { answeredReason, recordedReason } from '../sessions/failure.ts';
import { failureFloor } from '../sessions/floor.ts';
import type { AuthFailure, Live, LiveExchange, Session, SessionRegistry } from '../sessions/session.ts';
import { readAuthorization } from './basic.ts';
import type { GitPolicy } from './policy.ts';
import type { Words } from './refusal.ts';

export type Admission =
  | { readonly ok: true; readonly live: Live<GitPolicy> }
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
      readonly session?: Session<GitPolicy> | undefined;
    };

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
  const presented = readAuthorization(authorization);
  if (presented.kind === 'none') return { ok: false, bearing: false, ...failed('missing') };
  const answer =
    presented.kind === 'unreadable'
      ? ({ ok: false, failure: 'malformed' } as const)
      : await sessions.authenticate<GitPolicy>('git', presented.id, presented.token, exchange);
  if (answer.ok) return answer;
  const answered = await failureFloor(startedAt);
  const { failure, ...known } = answer;
  return { bearing: true, answered, ...known, ...failed(failure), ok: false };
}

function failed(failure: AuthFailure): { failure: AuthFailure; code: Reason; words: Words } {
  const code = answeredReason(failure);
  return {
    failure,
    code: recordedReason(failure),
    words: { code, message: MESSAGES[code] ?? MESSAGES.unauthenticated },
  };
}

const MESSAGES: { readonly [code: string]: string; readonly unauthenticated: string } = {
  unauthenticated: 'this guard takes a session token: the session id as user name, the token as password',
  session_expired: 'the session of this token is past its time; ask for it to be renewed or for another one',
  rate_limited: 'the session has too many requests under way; let some of them end',
};
