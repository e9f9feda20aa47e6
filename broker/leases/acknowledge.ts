// What was delivered directly (a variable, a file) is in the workload's hands: revoking its grant is sent, and lands when
// whoever runs the workload says that it is gone from there, perhaps minutes later when a device comes back. One record
// for both would claim that a credential was withdrawn at a moment when it still worked.

import { PosternError } from '../../common/errors.ts';
import { type Caller, requireActor } from '../caller.ts';
import type { Context } from '../context.ts';
import { ATTEMPTS, busy } from '../failure.ts';
import { looksSecret, safeRef } from '../safe-ref.ts';
import { findLease } from './find.ts';
import { leaseFields, writeLease } from './record.ts';

export interface AcknowledgeInput {
  readonly leaseId: string;
  readonly grantId: string;
  /** Whether it is gone from the workload. */
  readonly scrubbed: boolean;
  readonly reason?: string | undefined;
}

/** @throws PosternError `not_found` where nothing of that grant is outstanding */
export async function acknowledgeRevocation(
  context: Context,
  input: AcknowledgeInput,
  caller: Caller,
): Promise<void> {
  const actor = requireActor(caller);
  const { leaseId, grantId, scrubbed, reason } = input;
  if (reason !== undefined && (reason.length > 512 || looksSecret(reason)))
    throw new PosternError('invalid_input', 'reason: it must be one short sentence.', { key: 'reason' });
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const lease = await findLease(context, leaseId);
    if (!lease.outstanding.includes(grantId))
      throw new PosternError('not_found', `Nothing of the grant ${safeRef(grantId)} is outstanding.`, {
        key: 'grantId',
      });
    const outstanding = scrubbed ? lease.outstanding.filter((id) => id !== grantId) : lease.outstanding;
    if (!(await context.deps.store.commit([writeLease({ ...lease, outstanding }, lease.rev)]))) continue;
    const fields = { actor, ...leaseFields(lease), grantId, reason };
    return context.record(
      scrubbed
        ? { action: 'lease.revoke_acked', decision: 'allow', ...fields }
        : { action: 'lease.revoke_failed', decision: 'error', ...fields },
    );
  }
  throw busy('The lease');
}
