// The history of rotations, one row a run in the set `key_rotations`, written after each batch: what `key status` shows
// while one runs, and what is left to read when one was killed.

import type { Clock } from '../common/clock.ts';
import type { Json } from '../common/json.ts';
import type { Store } from '../store/store.ts';

export interface RotationRecord {
  readonly id: string;
  /** The key that the rows go to. */
  readonly to: string;
  /** `interrupted`: stopped or killed; the next run does the rest. `incomplete`: some rows do not open. */
  readonly state: 'running' | 'completed' | 'incomplete' | 'interrupted';
  readonly startedAt: number;
  readonly startedBy: string;
  readonly updatedAt: number;
  readonly finishedAt?: number;
  /** Rows under other keys when it began. */
  readonly total: number;
  readonly rewrapped: number;
  readonly skipped: number;
  readonly failed: number;
  readonly lastError?: string;
}

const ROTATION_SET = 'key_rotations';

export async function putRotation(store: Store, record: RotationRecord): Promise<void> {
  const { id, ...body } = record;
  await store.commit([
    {
      op: 'put',
      set: ROTATION_SET,
      row: { id, body: body as { [key: string]: Json }, index: { state: [body.state] } },
    },
  ]);
}

/** Newest first. */
export async function listRotations(store: Store, limit: number): Promise<RotationRecord[]> {
  const rows = await store.list(ROTATION_SET);
  return rows
    .reverse()
    .slice(0, limit)
    .map(({ id, body }) => ({ ...(body as unknown as RotationRecord), id }));
}

/** Says of runs that were killed what they are. One that still runs, elsewhere, says again with its next batch that it does. */
export async function closeInterrupted(store: Store, clock: Clock): Promise<void> {
  const rows = await store.list(ROTATION_SET, { where: { index: 'state', value: 'running' } });
  for (const { id, rev, body } of rows)
    await store.commit([
      {
        op: 'put',
        set: ROTATION_SET,
        row: {
          id,
          body: { ...body, state: 'interrupted', finishedAt: clock.now() },
          index: { state: ['interrupted'] },
        },
        expect: rev,
      },
    ]);
}
