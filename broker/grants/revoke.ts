// Revoking: the row first, so that no lease and no renewal gives the credential out again; then every live session that
// has it, at once; then the token at GitHub. Idempotent, and worth repeating: a call that was cut off in the middle is
// finished by the next one. The revocation of a grant and its arrival at each lease are different facts and have
// different records: what was delivered directly is still in an executor's hands until that says otherwise.

import { rfc3339 } from '../../common/clock.ts';
import { readRows } from '../body.ts';
import { type Caller, requireActor } from '../caller.ts';
import type { Context } from '../context.ts';
import { ATTEMPTS, busy, reasonOf } from '../failure.ts';
import { dropGrant } from '../leases/drop.ts';
import { readLease } from '../leases/record.ts';
import { SETS } from '../sets.ts';
import { formatSubject } from '../subject.ts';
import { grantFields } from './create.ts';
import { type Grant, type StoredGrant, writeGrant } from './grant.ts';
import { findGrant } from './list.ts';

/** @throws PosternError `not_found`, `store_unavailable`; `audit_unavailable` after it has been done */
export async function revokeGrant(
  context: Context,
  id: string,
  caller: Caller,
  because = 'revoked',
): Promise<Grant> {
  const actor = requireActor(caller);
  const { grant, first } = await markRevoked(context, await findGrant(context, id, caller), actor);
  const failures = await cutEverywhere(context, grant, actor, because);
  await context.appTokens.letGo(grant.id, actor);
  if (first)
    await context.record({
      action: 'secret.revoke',
      decision: 'allow',
      actor,
      ...grantFields(grant),
      subject: formatSubject(grant.subject),
      reason: because,
    });
  if (failures.length > 0) throw failures[0];
  return grant;
}

async function markRevoked(
  context: Context,
  found: StoredGrant,
  actor: string,
): Promise<{ grant: Grant; first: boolean }> {
  let stored = found;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (stored.grant.revokedAt !== undefined) return { grant: stored.grant, first: false };
    const grant: Grant = { ...stored.grant, revokedAt: context.now(), revokedBy: actor };
    if (await context.deps.store.commit([writeGrant(grant, stored.rev)])) return { grant, first: true };
    stored = await findGrant(context, stored.grant.id, { actor, admin: true });
  }
  throw busy('The grant');
}

/** @returns what went wrong; a lease that can't be reached does not keep the others from being cut */
async function cutEverywhere(
  context: Context,
  grant: Grant,
  actor: string,
  because: string,
): Promise<unknown[]> {
  const rows = await context.deps.store.list(SETS.leases, { where: { index: 'grant', value: grant.id } });
  const outcomes = await Promise.all(
    rows.map(async (row) => {
      const [lease] = readRows([row], readLease, context.deps.log);
      // Nobody can say what it holds: it ends as a whole.
      if (!lease) return context.deps.sessions.revokeLease(row.id, because).then(() => undefined);
      const event = {
        actor,
        ...grantFields(grant),
        leaseId: lease.id,
        executorId: lease.executorId,
        projectId: lease.projectId,
        runId: lease.runId,
        expiresAt: rfc3339(lease.expiresAt),
      };
      await context
        .record({ action: 'lease.revoke_sent', decision: 'allow', ...event, reason: because }, 'written')
        .catch(() => {});
      try {
        const landed = await dropGrant(context, lease.id, grant.id, because);
        if (landed) await context.record({ action: 'lease.revoke_acked', decision: 'allow', ...event });
        return undefined;
      } catch (error) {
        await context
          .record({ action: 'lease.revoke_failed', decision: 'error', ...event, reason: reasonOf(error) })
          .catch(() => {});
        return error;
      }
    }),
  );
  return outcomes.filter((error) => error !== undefined);
}
