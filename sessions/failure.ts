// What a failed authentication is called: one code for the record, another for the outside. Outside, everything looks
// alike but two cases that only the holder of a right token can meet: past its time, and too much at once.

import type { Reason } from '../common/reason.ts';
import type { AuthFailure } from './session.ts';

/** For the audit record. */
export function recordedReason(failure: AuthFailure): Reason {
  if (failure === 'revoked') return 'session_revoked';
  return answeredReason(failure);
}

/** For the sandbox. */
export function answeredReason(failure: AuthFailure): Reason {
  if (failure === 'expired') return 'session_expired';
  if (failure === 'too_many') return 'rate_limited';
  return 'unauthenticated';
}
