// The audit trail: a hash chain of records in append-only segments, `<dir>/<first seq>.jsonl`, with signed checkpoints
// beside it. Where to read on:
//
//   event.ts       what a record says            record.ts    redacted, bounded, as canonical JSON
//   open.ts        the appending side            writer-*.ts  the thread that links, writes and syncs
//   seal.ts        the link of the chain         checkpoint.ts, signer.ts  what signs it
//   verify.ts      finds the first break         query.ts, tail.ts  reading, from the folder alone
//
// The rule that decides every doubt: an event is on record, or its caller was told that it is not, or (with
// `onFailure: continue`) it is counted in an `audit.gap` record. Nothing is dropped in silence.

import type { AuditEvent } from './event.ts';

/**
 * `written`: resolves when the operating system has the record (it survives the process's death).
 * `durable`: resolves after fsync (it survives the host's).
 */
export type Durability = 'written' | 'durable';

export interface AuditLog {
  /**
   * Appends one event to the chain. With `onFailure: continue` it resolves also when the sink fails (the gap is
   * counted and recorded later). The settings decide whether `written` waits like `durable` (`syncReads`).
   * @throws PosternError `audit_unavailable` where the record could not be kept and the setting is `refuse`
   */
  append(event: AuditEvent, durability: Durability): Promise<void>;
  /** Whether the sink takes records now, and if not why. */
  health(): { ok: boolean; reason?: string };
  /** Writes, syncs and checkpoints what is under way, in bounded time. What is appended afterwards is refused. */
  close(): Promise<void>;
}
