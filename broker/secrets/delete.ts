// Deleting a secret ends every grant of it. First the row is marked, and from then on nothing can be granted or leased;
// then the grants are revoked, which cuts what lives; the row goes last, so that a deletion that was cut off in the middle
// is still there to be finished.

import { readRows } from '../body.ts';
import { type Caller, requireActor } from '../caller.ts';
import type { Context } from '../context.ts';
import { ATTEMPTS, busy } from '../failure.ts';
import { readGrant } from '../grants/grant.ts';
import { revokeGrant } from '../grants/revoke.ts';
import { SETS } from '../sets.ts';
import { findSecret } from './find.ts';
import { nameRow, type Secret, type StoredSecret, writeSecret } from './secret.ts';

/** @throws PosternError `not_found` */
export async function deleteSecret(context: Context, ref: string, caller: Caller): Promise<Secret> {
  const actor = requireActor(caller);
  // Who sees a secret may delete it: the owner, or an admin for somebody who left. It is on the record which.
  const { secret } = await markDeleting(context, await findSecret(context, ref, caller), caller);
  const grants = await context.deps.store.list(SETS.grants, { where: { index: 'secret', value: secret.id } });
  for (const { grant } of readRows(grants, readGrant, context.deps.log))
    await revokeGrant(context, grant.id, { ...caller, admin: true }, 'the secret was deleted');
  await context.deps.store.commit([
    { op: 'delete', set: SETS.secrets, id: secret.id },
    { op: 'delete', ...nameRow(secret) },
  ]);
  await context.record({
    action: 'secret.delete',
    decision: 'allow',
    actor,
    secretId: secret.id,
    secretName: secret.name,
    kind: secret.kind,
    reason: secret.owner === undefined ? 'shared' : `personal, of ${secret.owner}`,
  });
  return secret;
}

async function markDeleting(context: Context, found: StoredSecret, caller: Caller): Promise<StoredSecret> {
  let stored = found;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (stored.secret.deleting) return stored;
    const next = { ...stored, secret: { ...stored.secret, deleting: true as const } };
    if (await context.deps.store.commit([writeSecret(next, stored.rev)])) return next;
    stored = await findSecret(context, stored.secret.id, caller);
  }
  throw busy(`The secret ${found.secret.name}`);
}
