// From what somebody typed to one secret, and lists of them. Everything goes through here that turns a name into a
// secret, so that no second notion of a matching name can lead a grant to another secret than the one that was checked.

import type { Action } from '../../audit/event.ts';
import { PosternError } from '../../common/errors.ts';
import { readRows } from '../body.ts';
import type { Caller } from '../caller.ts';
import type { Context } from '../context.ts';
import { safeRef } from '../safe-ref.ts';
import { SETS } from '../sets.ts';
import { rowKey } from '../text.ts';
import { spendableBy, visibleTo } from './ownership.ts';
import { nameKey, readSecret, type Secret, type StoredSecret } from './secret.ts';

/**
 * @param ref an id or a name
 * @throws PosternError `not_found` also where the caller may not see it: names can be guessed, and an answer that told
 *   the two apart would list who keeps what. `conflict` where the name means two secrets of theirs.
 */
export async function findSecret({ deps }: Context, ref: string, caller: Caller): Promise<StoredSecret> {
  const byId = await deps.store.get(SETS.secrets, rowKey(ref));
  const rows = byId
    ? [byId]
    : await deps.store.list(SETS.secrets, { where: { index: 'name', value: rowKey(nameKey(ref)) } });
  const found = readRows(rows, readSecret, deps.log).filter(({ secret }) => visibleTo(secret, caller));
  const [first, ...others] = found;
  if (first === undefined)
    throw new PosternError('not_found', `There is no secret ${safeRef(ref)}.`, {
      key: 'secret',
      remedy: 'postern secret list shows those that you can see.',
    });
  if (others.length > 0)
    throw new PosternError('conflict', `${found.length} secrets are called ${safeRef(ref)}.`, {
      key: 'secret',
      remedy: `Name it by its id: ${found.map(({ secret }) => secret.id).join(', ')}.`,
    });
  return first;
}

/** The same for somebody who wants to put it to work. @throws PosternError also `not_owner`, on the record */
export async function findSpendable(
  context: Context,
  ref: string,
  caller: Caller,
  action: Action = 'secret.grant',
): Promise<StoredSecret> {
  const stored = await findSecret(context, ref, caller);
  const { secret } = stored;
  if (secret.deleting)
    throw new PosternError('conflict', `The secret ${secret.name} is being deleted.`, { key: 'secret' });
  if (spendableBy(secret, caller)) return stored;
  await context.record({
    action,
    decision: 'deny',
    actor: caller.actor,
    secretId: secret.id,
    secretName: secret.name,
    kind: secret.kind,
    reason: 'a personal secret of somebody else',
  });
  throw new PosternError('not_owner', `The secret ${secret.name} belongs to somebody else.`, {
    key: 'secret',
    remedy: 'Only its owner can hand it out.',
  });
}

/** Those that the caller may see, by name. */
export async function listSecrets({ deps }: Context, caller: Caller): Promise<Secret[]> {
  const rows = await deps.store.list(SETS.secrets);
  return readRows(rows, readSecret, deps.log)
    .map(({ secret }) => secret)
    .filter((secret) => visibleTo(secret, caller))
    .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.id < b.id ? -1 : 1));
}
