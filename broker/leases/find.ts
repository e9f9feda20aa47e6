import { PosternError } from '../../common/errors.ts';
import { readRows } from '../body.ts';
import type { Context } from '../context.ts';
import { safeRef } from '../safe-ref.ts';
import { SETS } from '../sets.ts';
import { rowKey } from '../text.ts';
import { readLease, type StoredLease } from './record.ts';

/** @throws PosternError `not_found` (unknown, or released), `lease_expired` where nobody renewed it in time */
export async function findLease(
  context: Context,
  id: string,
  expired: 'refused' | 'shown' = 'shown',
): Promise<StoredLease> {
  const row = await context.deps.store.get(SETS.leases, rowKey(id));
  if (!row)
    throw new PosternError('not_found', `There is no lease ${safeRef(id)}; it was released, or never was.`, {
      key: 'lease',
    });
  const lease = readLease(row);
  if (expired === 'shown' || context.now() < lease.expiresAt) return lease;
  throw new PosternError('lease_expired', `The lease ${lease.id} ended: it was not renewed in time.`, {
    key: 'lease',
    remedy: 'Create another, and renew it before it ends.',
  });
}

export interface LeaseFilter {
  readonly projectId?: string | undefined;
  readonly executorId?: string | undefined;
  readonly runId?: string | undefined;
}

/** Those that are honoured now, newest first. */
export async function listLeases(context: Context, filter: LeaseFilter = {}): Promise<StoredLease[]> {
  const wanted = Object.entries(filter).filter(([, value]) => value !== undefined);
  const rows = await context.deps.store.list(SETS.leases);
  return readRows(rows, readLease, context.deps.log)
    .filter((lease) => context.now() < lease.expiresAt)
    .filter((lease) => wanted.every(([key, value]) => lease[key as keyof LeaseFilter] === value))
    .reverse();
}
