// The end of a lease: its sessions first, then its row, then the installation tokens that nobody else holds. A lease that
// nobody renewed ends in the same way, under another action: a release says that the work is done, an expiry that
// whoever did it went away.

import type { Action } from '../../audit/event.ts';
import { rfc3339 } from '../../common/clock.ts';
import { type Caller, requireActor } from '../caller.ts';
import type { Context } from '../context.ts';
import { SETS } from '../sets.ts';
import { rowKey } from '../text.ts';
import { leaseFields, readLease, type StoredLease } from './record.ts';

/**
 * Idempotent: a lease that is gone already is no error, because who cleans up can't know.
 * @returns whether there was one
 */
export async function releaseLease(
  context: Context,
  id: string,
  caller: Caller,
  because = 'released',
): Promise<boolean> {
  return endLease(context, id, 'secret.release', because, requireActor(caller));
}

export async function endLease(
  context: Context,
  id: string,
  action: Action,
  because: string,
  actor: string,
): Promise<boolean> {
  const { store, sessions } = context.deps;
  if (!(await store.get(SETS.leases, rowKey(id)))) return false;
  await sessions.revokeLease(id, because);
  const lease = await remove(id);
  if (!lease) return false;
  // A renewal that was under way may have issued one more.
  await sessions.revokeLease(id, because);
  for (const { grantId, kind } of lease.grants)
    if (kind === 'github_app') await context.appTokens.letGo(grantId, actor);
  await context.record({
    action,
    decision: 'allow',
    actor,
    ...leaseFields(lease),
    expiresAt: rfc3339(lease.expiresAt),
    reason: because,
  });
  return true;

  async function remove(leaseId: string): Promise<StoredLease | undefined> {
    for (;;) {
      const row = await store.get(SETS.leases, leaseId);
      if (!row) return undefined;
      if (await store.commit([{ op: 'delete', set: SETS.leases, id: leaseId, expect: row.rev }]))
        return readLease(row);
    }
  }
}
