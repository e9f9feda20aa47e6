// Where state lives: rows in named sets, behind one interface with one behaviour suite (test/store/behaviour.ts) that
// every backend passes. A row is public metadata (`body`), an optional sealed payload, and a few index values. Rooms
// build their own types on it; nothing here knows what a session or a grant is.
//
// Guarantees: `commit` is atomic and durable when it resolves; `rev` grows by one with every write of a row, so that
// a compare-and-swap is an expectation on it; reads see every commit that resolved before them; no call blocks the
// thread that moves bytes. A backend that cannot answer rejects with PosternError `store_unavailable`; where that meets
// a commit, the commit may have happened or not.
//
// Of one set the store knows the meaning: `keys`, whose row ids are the names of the key-encryption keys. A sealed row
// can't be written under a key that is not there, and a key's row can't be deleted while a sealed row of any set names
// it: only the store can promise that while others write, and without it a retired key could take data with it.

import type { Json } from '../common/json.ts';
import type { Envelope } from '../keyring/envelope.ts';

/** The set of the key-encryption keys; the row id is `Envelope.kek`. */
export const KEY_SET = 'keys';

export interface Row {
  readonly id: string;
  /** 1 when first written. */
  readonly rev: number;
  readonly body: { [key: string]: Json };
  /** Present where the row holds something secret; bound to (set, id) by its associated data. */
  readonly sealed?: Envelope;
  /** index name → values, for `list` */
  readonly index: { [name: string]: readonly string[] };
}

export type Write =
  | {
      readonly op: 'put';
      readonly set: string;
      readonly row: Omit<Row, 'rev'>;
      /** 0: the row must not exist. n: it must be at rev n. Absent: whatever is there is replaced. */
      readonly expect?: number;
    }
  | { readonly op: 'delete'; readonly set: string; readonly id: string; readonly expect?: number }
  /** Writes nothing; the commit fails unless the row is at this rev (0: absent). */
  | { readonly op: 'check'; readonly set: string; readonly id: string; readonly expect: number };

export interface ListQuery {
  /** Rows that carry this value under this index name; absent: every row of the set. */
  readonly where?: { readonly index: string; readonly value: string };
  /** Rows sealed under this key-encryption key. */
  readonly sealedBy?: string;
  /** Ids strictly after this one; rows come in id order (by code point, whatever the host's locale). */
  readonly after?: string;
  readonly limit?: number;
}

export interface Change {
  readonly set: string;
  readonly id: string;
}

export interface Store {
  get(set: string, id: string): Promise<Row | undefined>;
  list(set: string, query?: ListQuery): Promise<Row[]>;
  /** How many rows of each set each key-encryption key seals: set → kek id → rows. */
  countSealed(): Promise<{ [set: string]: { [kek: string]: number } }>;
  /**
   * All of the writes or none.
   * @returns `false` where an expectation did not hold (nothing was written)
   * @throws PosternError `key_unknown` where a sealed row names a key that is not in `keys`; `key_in_use` where
   *   a key that sealed rows name would be deleted; TypeError for a name that is empty or not well-formed text
   */
  commit(writes: readonly Write[]): Promise<boolean>;
  /**
   * Called after each commit of this process, before its caller hears of it, and of others where the backend hears of
   * them. May lose some; never invents. A listener must not throw.
   */
  watch(onChange: (changes: readonly Change[]) => void): () => void;
  /** Resolves when the store can read and write. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
