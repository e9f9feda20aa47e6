// Group commit: at most one fsync is under way, on the thread pool, while the writer's thread goes on writing; the next
// one covers everything written meanwhile. A checkpoint is asked for only after a sync, so that none ever vouches for
// what a crash of the host could still take away.

import type { Disk } from './disk.ts';
import type { Tail } from './seal.ts';
import type { Chain } from './writer-chain.ts';
import type { FromWriter } from './writer-protocol.ts';

export interface Syncer {
  /** Sync what is written so far, and say so for the batches up to `id`. */
  request(id: number): void;
  /** Sync, then have the end of the chain signed, if it has grown. */
  checkpoint(): void;
  /** Resolves when nothing is under way or waiting. */
  idle(): Promise<void>;
}

export function createSyncer(
  disk: Disk,
  dir: string,
  chain: Chain,
  tell: (message: FromWriter) => void,
  sign: (tail: Tail) => void,
): Syncer {
  let running = false;
  let wanted: number | undefined;
  let wantsCheckpoint = false;
  let signedFor = 0;
  let waiting: (() => void)[] = [];

  function start(): void {
    if (running) return;
    if (wanted === undefined && !wantsCheckpoint) {
      for (const resolve of waiting) resolve();
      waiting = [];
      return;
    }
    running = true;
    const id = wanted;
    const forCheckpoint = wantsCheckpoint;
    const tail = chain.tail();
    wanted = undefined;
    wantsCheckpoint = false;
    const due = chain.unsynced();
    const steps: ((done: (error: Error | null) => void) => void)[] = due.retired.map(
      (fd) => (done) => disk.sync(fd, done),
    );
    const { current } = due;
    if (current !== undefined) steps.push((done) => disk.sync(current, done));
    if (due.folder) steps.push((done) => disk.syncFolder(dir, done));
    inTurn(steps, (error) => {
      for (const fd of due.retired) disk.close(fd);
      running = false;
      if (error) {
        // After a failed fsync the kernel may drop the pages and call the next one a success: no second try on this file.
        chain.abandonSegment();
        if (id !== undefined) tell({ type: 'unsynced', to: id, reason: error.message });
      } else {
        if (id !== undefined) tell({ type: 'synced', to: id });
        if (forCheckpoint && tail.seq > signedFor) {
          signedFor = tail.seq;
          sign(tail);
        }
      }
      start();
    });
  }

  return {
    request(id) {
      wanted = id;
      start();
    },
    checkpoint() {
      if (chain.tail().seq <= Math.max(signedFor, chain.checkpointed())) return;
      wantsCheckpoint = true;
      start();
    },
    idle: () =>
      new Promise((resolve) => {
        waiting.push(resolve);
        start();
      }),
  };
}

function inTurn(
  steps: readonly ((done: (error: Error | null) => void) => void)[],
  done: (error: Error | null) => void,
): void {
  const [step, ...rest] = steps;
  if (!step) done(null);
  else step((error) => (error ? done(error) : inTurn(rest, done)));
}
