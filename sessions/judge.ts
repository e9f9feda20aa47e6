// The decision on one request's session, pure: from what the token says, what the store says and the time.

import { hasEnded, type SessionRecord } from './record.ts';
import type { AuthFailure } from './session.ts';
import type { Claims } from './token.ts';

export interface Presented {
  readonly claims: Claims;
  /** The id that came beside the token, where the protocol has a place for one (git: the user name). */
  readonly id: string | undefined;
}

/**
 * What is against it, or nothing. A revoked session stays `revoked` after its time, so that outside nothing about it
 * changes; one that nobody remembers and whose token is past its own end was expired.
 */
export function judge(
  { claims, id }: Presented,
  record: SessionRecord | undefined,
  now: number,
): AuthFailure | undefined {
  if (id !== undefined && id !== claims.sessionId) return 'mismatched';
  if (!record) return now >= claims.expiresAt ? 'expired' : 'unknown';
  const { session } = record;
  if (session.guard !== claims.guard || session.leaseId !== claims.leaseId) return 'mismatched';
  if (session.revokedAt !== undefined) return 'revoked';
  if (hasEnded(record) || now >= session.expiresAt || now >= session.hardExpiresAt) return 'expired';
  return undefined;
}
