// What the appending side and the writer's thread say to each other.

import type { Statement } from './checkpoint.ts';
import type { GapRecord } from './event.ts';

export interface WriterSettings {
  readonly dir: string;
  /** A segment this large or this old (by its first record) is not written to any more. */
  readonly segmentBytes: number;
  readonly segmentMs: number;
  readonly checkpointMs: number;
  readonly publicKeyPem: string;
  /** One number: batches with a smaller id were given up by their senders and must not be written. */
  readonly abandoned: BigInt64Array;
  /** A module whose `wrapDisk(disk)` puts something else in the place of the disk; for tests. */
  readonly diskModule?: string | undefined;
}

export interface Gap extends GapRecord {
  /** For a person. */
  readonly why: string;
}

/** Encoded events (record.ts), a line each; none is a probe: it tries the disk. */
export interface Batch {
  readonly type: 'batch';
  /** Ascending by one. */
  readonly id: number;
  readonly text: string;
  readonly sync: boolean;
  /** RFC 3339: not before any event of earlier batches. */
  readonly now: string;
  /** To be recorded before the batch. */
  readonly gaps: readonly Gap[];
}

export type ToWriter =
  | Batch
  | { readonly type: 'signed'; readonly request: number; readonly line: string }
  /** Remove whole segments whose records are all older than `before`. */
  | { readonly type: 'retain'; readonly before: string; readonly now: string }
  | { readonly type: 'close' };

export type FromWriter =
  | { readonly type: 'written'; readonly from: number; readonly to: number }
  | { readonly type: 'synced'; readonly to: number }
  | { readonly type: 'failed'; readonly from: number; readonly to: number; readonly reason: string }
  /** Batches up to `to` are written, and it is not known whether the disk has them. */
  | { readonly type: 'unsynced'; readonly to: number; readonly reason: string }
  | { readonly type: 'sign'; readonly request: number; readonly statement: Statement }
  /** A record that the writer wrote by itself. */
  | {
      readonly type: 'own';
      readonly action: 'audit.started' | 'audit.gap' | 'audit.retention';
      readonly reason: string;
    }
  | { readonly type: 'trouble'; readonly message: string }
  | { readonly type: 'closed' };
