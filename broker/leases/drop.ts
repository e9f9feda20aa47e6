// Taking one grant out of one lease, at once. First the sessions, whose guards answer when nothing of the credential can
// be used; then the lease's row, by which the sessions are found: a call that was cut off in between is repeated.

import type { Context } from '../context.ts';
import { ATTEMPTS, busy } from '../failure.ts';
import { SETS } from '../sets.ts';
import { type LeaseRecord, readLease, writeLease } from './record.ts';

/** @returns whether it is over now; `false` where it was delivered directly and the workload still holds it */
export async function dropGrant(
  context: Context,
  leaseId: string,
  grantId: string,
  because: string,
): Promise<boolean> {
  const { store, sessions } = context.deps;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const row = await store.get(SETS.leases, leaseId);
    if (!row) return true;
    const lease = readLease(row);
    const holding = lease.sessions.filter(({ grants }) => grants.includes(grantId));
    await Promise.all(holding.map(({ id }) => sessions.removeGrant(id, grantId, because)));
    const landed = holding.length > 0 || !lease.grants.some((grant) => grant.grantId === grantId);
    if (await store.commit([writeLease(without(lease, grantId, landed), lease.rev)])) return landed;
  }
  throw busy('The lease');
}

export function without<L extends LeaseRecord>(lease: L, grantId: string, landed: boolean): L {
  return {
    ...lease,
    grants: lease.grants.filter((grant) => grant.grantId !== grantId),
    sessions: lease.sessions
      .map((session) => ({ ...session, grants: session.grants.filter((id) => id !== grantId) }))
      .filter(({ grants }) => grants.length > 0),
    outstanding: landed ? lease.outstanding : [...new Set([...lease.outstanding, grantId])],
  };
}
