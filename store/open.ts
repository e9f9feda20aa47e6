// Opens the store that the configuration names. SQLite is the one backend so far; a second one joins here and passes
// test/store/behaviour.ts.

import { openSqliteStore } from './sqlite.ts';
import type { Store } from './store.ts';

/** `sqlite`: the file, made where it is missing. `:memory:` is the same code with nothing kept, for tests. */
export interface StoreLocation {
  readonly sqlite: string;
}

/**
 * @throws PosternError `invalid_config` naming `store.sqlite` (folder or file not usable, not a Postern database, made
 *   by a newer version), `store_unavailable` (locked, or the disk fails)
 */
export async function openStore(where: StoreLocation): Promise<Store> {
  return openSqliteStore(where.sqlite);
}
