// What `key status` tells: which keys there are, what each still seals, and how rotations went.

import type { KeyInfo } from './keyring.ts';
import type { KeyAdmin } from './retire.ts';
import { listRotations, type RotationRecord } from './rotations.ts';

export interface KeyUsage {
  readonly id: string;
  readonly rows: number;
  readonly sets: { readonly [set: string]: number };
}

export interface KeyStatus {
  readonly primary: string;
  readonly keys: readonly KeyInfo[];
  /** Also of keys that the store does not know: a partial restore shows here. */
  readonly usage: readonly KeyUsage[];
  /** Rows that a rotation would move. */
  readonly unrotated: number;
  /** Newest first. */
  readonly rotations: readonly RotationRecord[];
}

export async function keyStatus({ store, keyring }: KeyAdmin, historyLimit = 10): Promise<KeyStatus> {
  const keys = await keyring.list();
  const [counts, rotations] = await Promise.all([store.countSealed(), listRotations(store, historyLimit)]);
  const usage = new Map<string, { id: string; rows: number; sets: { [set: string]: number } }>();
  for (const [set, keks] of Object.entries(counts))
    for (const [id, rows] of Object.entries(keks)) {
      const use = usage.get(id) ?? { id, rows: 0, sets: {} };
      use.rows += rows;
      use.sets[set] = rows;
      usage.set(id, use);
    }
  const all = [...usage.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  const primary = keyring.primaryId;
  const unrotated = all.filter(({ id }) => id !== primary).reduce((sum, { rows }) => sum + rows, 0);
  return { primary, keys, usage: all, unrotated, rotations };
}
