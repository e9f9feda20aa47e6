// Rotation: every sealed row of every set goes onto the primary key while the server serves. Only data keys are
// rewrapped; payloads stay as they are, byte for byte. The sets come from the store's own count, so that a set somebody
// adds later can't be forgotten.
//
// Each row is one compare-and-swap. A run that is killed leaves rows under the old key and rows under the new one, all of
// which open; the next run does what is left. A row that another writer took in between is looked at again; one that
// doesn't open is counted, named and left alone, the rest goes on, and the run says incomplete.

import { systemClock } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import { newId } from '../common/ids.ts';
import type { Row } from '../store/store.ts';
import type { KeyAdmin } from './retire.ts';
import { closeInterrupted, putRotation, type RotationRecord } from './rotations.ts';

export interface RotateOptions {
  readonly actor: string;
  /** Makes a key and promotes it first. Without it, stragglers go onto the present primary. */
  readonly newKey?: boolean;
  /** Tries every row and writes none. With `newKey` that is every row there is. */
  readonly dryRun?: boolean;
  /** Rows read at a time. */
  readonly batch?: number;
  /** After each batch. */
  readonly onProgress?: (progress: RotationRecord) => void;
  /** Stops between two batches. */
  readonly signal?: AbortSignal;
}

export interface RotationTally {
  readonly rewrapped: number;
  /** Times that another writer came first; such a row is looked at again. */
  readonly skipped: number;
  readonly failed: number;
}

export interface RotationReport extends RotationTally {
  readonly id: string;
  readonly to: string;
  readonly dryRun: boolean;
  readonly sets: { readonly [set: string]: RotationTally };
  /** The first of the rows that failed, and what is wrong with each. */
  readonly errors: readonly string[];
  /** Nothing is left under another key (dry run: nothing would be). */
  readonly complete: boolean;
}

export const ROTATION_BATCH = 128;
const MAX_ERRORS = 20;

/** @throws PosternError `store_unavailable`; another run goes on where this one stopped */
export async function rotateKeys(admin: KeyAdmin, options: RotateOptions): Promise<RotationReport> {
  const { store, keyring, clock = systemClock } = admin;
  const { actor, newKey = false, dryRun = false, batch = ROTATION_BATCH, signal } = options;
  await keyring.reload();
  if (newKey && !dryRun) await keyring.addKey(actor);

  const id = newId('rot', clock.now());
  const startedAt = clock.now();
  const sets: { [set: string]: { rewrapped: number; skipped: number; failed: number } } = {};
  const failures = new Map<string, string>();

  /** Sets and keys that still have rows to move. */
  async function stale(): Promise<{ set: string; kek: string; rows: number }[]> {
    const counts = Object.entries(await store.countSealed());
    return counts
      .flatMap(([set, keks]) => Object.entries(keks).map(([kek, rows]) => ({ set, kek, rows })))
      .filter(({ kek }) => (newKey && dryRun) || kek !== keyring.primaryId);
  }

  const total = (await stale()).reduce((sum, { rows }) => sum + rows, 0);

  function sum(): RotationTally {
    const all = { rewrapped: 0, skipped: 0, failed: 0 };
    for (const tally of Object.values(sets)) {
      all.rewrapped += tally.rewrapped;
      all.skipped += tally.skipped;
      all.failed += tally.failed;
    }
    return all;
  }

  async function note(state: RotationRecord['state']): Promise<void> {
    const now = clock.now();
    const lastError = [...failures.values()].at(-1);
    const record: RotationRecord = {
      id,
      to: keyring.primaryId,
      state,
      startedAt,
      startedBy: actor,
      updatedAt: now,
      ...(state === 'running' ? {} : { finishedAt: now }),
      total,
      ...sum(),
      ...(lastError === undefined ? {} : { lastError }),
    };
    if (!dryRun) await putRotation(store, record);
    options.onProgress?.(record);
  }

  async function move(set: string, { rev, ...row }: Row): Promise<void> {
    if (!row.sealed) return;
    sets[set] ??= { rewrapped: 0, skipped: 0, failed: 0 };
    const name = `${set}/${row.id}`;
    try {
      const sealed = keyring.rewrap({ set, id: row.id }, row.sealed);
      const moved =
        dryRun || (await store.commit([{ op: 'put', set, row: { ...row, sealed }, expect: rev }]));
      sets[set][moved ? 'rewrapped' : 'skipped']++;
    } catch (error) {
      if (!(error instanceof PosternError) || error.code === 'store_unavailable') throw error;
      if (!failures.has(name)) sets[set].failed++; // once, in however many passes it is met
      failures.set(name, error.message);
    }
  }

  /** @returns whether a row was moved, or could have been but for another writer */
  async function pass(): Promise<boolean> {
    const before = sum();
    for (const { set, kek } of await stale()) {
      for (let after = ''; !signal?.aborted; ) {
        const page = { sealedBy: kek, limit: batch, ...(after === '' ? {} : { after }) };
        const rows = await store.list(set, page);
        const last = rows.at(-1);
        if (!last) break;
        await Promise.all(rows.map((row) => move(set, row))); // the store writes them as one group
        await note('running');
        after = last.id;
      }
    }
    const { rewrapped, skipped } = sum();
    return rewrapped > before.rewrapped || skipped > before.skipped;
  }

  if (!dryRun) await closeInterrupted(store, clock);
  await note('running');
  // Again until nothing is found: another process seals under the old key until it has heard of the new one.
  while ((await pass()) && !dryRun && !signal?.aborted);

  const complete = dryRun ? failures.size === 0 : (await stale()).length === 0;
  await note(complete ? 'completed' : signal?.aborted ? 'interrupted' : 'incomplete');
  const errors = [...failures.values()].slice(0, MAX_ERRORS);
  return { id, to: keyring.primaryId, dryRun, sets, ...sum(), errors, complete };
}
