// What an approval was then used for: each lease that got its grant, with the run. A week later this is what the approver
// asks, and from the grants alone one that nothing ever used looks like one that feeds a job around the clock.

import { z } from 'zod';
import type { Write } from '../../store/store.ts';
import { fromBody, toBody } from '../body.ts';
import { compact } from '../compact.ts';
import type { Context } from '../context.ts';
import type { LeaseRecord } from '../leases/record.ts';
import type { Usable } from '../leases/select.ts';
import { SETS } from '../sets.ts';
import { findRequest } from './open.ts';

export interface RequestUse {
  readonly requestId: string;
  readonly leaseId: string;
  readonly grantId: string;
  readonly executorId?: string;
  readonly projectId?: string;
  readonly runId?: string;
  readonly taskId?: string;
  readonly firstSeen: number;
  readonly lastSeen: number;
}

const body = z.object({
  requestId: z.string(),
  leaseId: z.string(),
  grantId: z.string(),
  executorId: z.string().optional(),
  projectId: z.string().optional(),
  runId: z.string().optional(),
  taskId: z.string().optional(),
  firstSeen: z.number(),
  lastSeen: z.number(),
});

/** For the commit that stores the lease: one row for each request behind a grant of it. */
export async function useWrites(
  context: Context,
  lease: LeaseRecord,
  delivered: readonly Usable[],
): Promise<Write[]> {
  const writes: Write[] = [];
  const { executorId, projectId, runId, taskId } = lease;
  for (const { grant } of delivered) {
    if (grant.requestId === undefined) continue;
    const id = `${grant.requestId}.${lease.id}`;
    const before = await context.deps.store.get(SETS.uses, id);
    const use: RequestUse = {
      requestId: grant.requestId,
      leaseId: lease.id,
      grantId: grant.id,
      ...compact({ executorId, projectId, runId, taskId }),
      firstSeen: before ? fromBody(body, before, 'the use').firstSeen : lease.renewedAt,
      lastSeen: lease.renewedAt,
    };
    writes.push({
      op: 'put',
      set: SETS.uses,
      row: { id, body: toBody(use), index: { request: [use.requestId] } },
    });
  }
  return writes;
}

/** @throws PosternError `not_found` */
export async function requestUses(context: Context, requestId: string): Promise<RequestUse[]> {
  await findRequest(context, requestId);
  const rows = await context.deps.store.list(SETS.uses, { where: { index: 'request', value: requestId } });
  return rows.map((row) => compact(fromBody(body, row, 'the use')));
}
