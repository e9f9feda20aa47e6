// The janitor: ends the leases that nobody renewed and says what is left. Without it a lease whose executor died would
// stay for ever, which is a leak that a tenant can drive; and "live" would count leases that nobody would honour.

import { readRows } from '../body.ts';
import type { Context } from '../context.ts';
import type { Kind } from '../kind.ts';
import { SETS } from '../sets.ts';
import { type LeaseRecord, readLease, type StoredLease } from './record.ts';
import { endLease } from './release.ts';

export type KindCounts = { readonly [K in Kind]?: number };

export interface Swept {
  readonly expired: KindCounts;
  readonly live: KindCounts;
}

/** How many leases hold something of each kind; a lease with two of a kind counts once. */
export async function sweepLeases(context: Context): Promise<Swept> {
  const leases = await all(context);
  const now = context.now();
  const over = leases.filter(({ expiresAt }) => now >= expiresAt);
  for (const { id } of over)
    await endLease(context, id, 'secret.lease_expire', 'not renewed in time', 'postern').catch(
      (error: unknown) => {
        context.deps.log.error(
          { err: error, leaseId: id },
          'an expired lease could not be ended; it is tried again',
        );
      },
    );
  await context.appTokens.sweep('postern');
  return { expired: count(over), live: count(leases.filter(({ expiresAt }) => now < expiresAt)) };
}

export async function countLive(context: Context): Promise<KindCounts> {
  const now = context.now();
  return count((await all(context)).filter(({ expiresAt }) => now < expiresAt));
}

async function all({ deps }: Context): Promise<StoredLease[]> {
  return readRows(await deps.store.list(SETS.leases), readLease, deps.log);
}

function count(leases: readonly LeaseRecord[]): KindCounts {
  const counts: { [K in Kind]?: number } = {};
  for (const { grants } of leases)
    for (const kind of new Set(grants.map((grant) => grant.kind))) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}
