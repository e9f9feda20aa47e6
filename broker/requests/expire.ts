// Requests that nobody decided. One record each, because a lapsed request is an outcome that its requester is owed, and
// because many of them say that nobody works on the queue.

import { rfc3339 } from '../../common/clock.ts';
import { readRows } from '../body.ts';
import type { Context } from '../context.ts';
import { SETS } from '../sets.ts';
import {
  type AccessRequest,
  readRequest,
  requestEvent,
  type StoredRequest,
  writeRequest,
} from './request.ts';

/** @returns those that this call moved */
export async function expireRequests(context: Context): Promise<AccessRequest[]> {
  const rows = await context.deps.store.list(SETS.requests, { where: { index: 'state', value: 'pending' } });
  const moved: AccessRequest[] = [];
  for (const stored of readRows(rows, readRequest, context.deps.log)) {
    if (context.now() < stored.request.expiresAt) continue;
    const expired = await expireOne(context, stored);
    if (expired) moved.push(expired);
  }
  return moved;
}

export async function expireOne(
  context: Context,
  { request, rev }: StoredRequest,
): Promise<AccessRequest | undefined> {
  const expired: AccessRequest = { ...request, state: 'expired' };
  if (!(await context.deps.store.commit([writeRequest(expired, rev)]))) return undefined;
  await context.record({
    action: 'secret.request_expire',
    decision: 'deny',
    actor: 'postern',
    ...requestEvent(request),
    expiresAt: rfc3339(request.expiresAt),
    reason: 'nobody decided it in time',
  });
  return expired;
}
