// PLACEHOLDER INTERFACE: the owner of audit/ completes this file.
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
  close(): Promise<void>;
}
