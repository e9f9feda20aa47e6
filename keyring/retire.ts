// Retiring a key destroys its salt: nothing derives it again. So it is refused while the key is primary and while any
// row of any set is sealed under it. Counting first gives a message that says which; what holds is the store's own
// refusal in the commit that deletes the key, since a row can be written between the two.

import { type Clock, systemClock } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import { KEY_SET, type Store } from '../store/store.ts';
import { isRetired, PRIMARY_ROW, readKekRow, readPrimaryRow, retireWrites } from './kek.ts';
import type { KeyInfo, Keyring } from './keyring.ts';

export interface KeyAdmin {
  readonly store: Store;
  readonly keyring: Keyring;
  readonly clock?: Clock;
}

const ATTEMPTS = 10;

/**
 * Idempotent.
 * @throws PosternError `not_found`, `key_in_use` (primary, or rows need it: which sets and how many), `conflict`
 */
export async function retireKey(
  { store, keyring, clock = systemClock }: KeyAdmin,
  id: string,
  actor: string,
): Promise<KeyInfo> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const known = (await keyring.list()).find((key) => key.id === id);
    if (!known)
      throw new PosternError('not_found', `there is no key ${id}`, { remedy: 'see `postern key list`' });
    if (known.state === 'retired') return known;
    const [row, pointer] = await Promise.all([
      store.get(KEY_SET, id),
      store.get(PRIMARY_ROW.set, PRIMARY_ROW.id),
    ]);
    const kek = row && readKekRow(row);
    if (!kek || isRetired(kek)) continue;
    const primary = readPrimaryRow(pointer);
    if (primary.kek === id) throw isPrimary(id);
    await refuseWhileUsed(store, id);
    const done = await store
      .commit(retireWrites(kek, primary.rev, actor, clock.now()))
      .catch(async (error) => {
        // A row was written in between: say which.
        if (error instanceof PosternError && error.code === 'key_in_use') await refuseWhileUsed(store, id);
        throw error;
      });
    if (done) await keyring.reload();
  }
  throw new PosternError('conflict', 'other processes keep changing the keys', { remedy: 'try again' });
}

async function refuseWhileUsed(store: Store, id: string): Promise<void> {
  const used = Object.entries(await store.countSealed()).flatMap(([set, counts]) =>
    counts[id] === undefined ? [] : [`${counts[id]} in ${set}`],
  );
  if (used.length === 0) return;
  throw new PosternError('key_in_use', `the key ${id} still seals rows: ${used.sort().join(', ')}`, {
    remedy: 'run `postern key rotate`, then retire it',
  });
}

function isPrimary(id: string): PosternError {
  return new PosternError(
    'key_in_use',
    `the key ${id} is the primary one: it seals whatever is written now`,
    {
      remedy: 'run `postern key add` and `postern key rotate`, then retire it',
    },
  );
}
