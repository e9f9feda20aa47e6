// What the parts of the registry share; registry.ts puts it together.

import type { Clock } from '../common/clock.ts';
import type { Log } from '../common/log.ts';
import type { Metrics } from '../common/metrics.ts';
import type { Row, Store } from '../store/store.ts';
import type { SessionCounters } from './counters.ts';
import type { Custody } from './custody.ts';
import type { TtlSettings } from './expiry.ts';
import type { Fresh } from './fresh.ts';
import type { LeaseGate } from './lease-gate.ts';
import type { LiveSessions } from './live.ts';
import { hasEnded, readSession, type SessionRecord } from './record.ts';
import type { GuardName, SessionEvent } from './session.ts';
import type { Tokens } from './token.ts';

/** Milliseconds, but for `maxConcurrent`: exchanges under way a session. */
export interface SessionSettings extends TtlSettings {
  /** How late another process's change may be heard of when its notification is lost. */
  readonly recheck: number;
  readonly maxConcurrent: number;
}

export interface Core {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly settings: SessionSettings;
  readonly tokens: Tokens;
  readonly custody: Custody;
  readonly counters: SessionCounters;
  readonly live: LiveSessions;
  readonly sessions: Fresh<SessionRecord>;
  /** Not ended and not past their time, as far as is known here. */
  readonly open: Map<
    string,
    { readonly guard: GuardName; readonly leaseId: string; readonly expiresAt: number }
  >;
  readonly marks: Marks;
  readonly leases: LeaseGate;
  emit(event: SessionEvent): void;
}

/**
 * What was taken away and need not be in the store yet. Set first, so that it counts from that step on; cleared by the
 * sweep, once it is stored and nobody can still be holding an answer from before it.
 */
export interface Marks {
  /** session → why */
  readonly revoked: Map<string, Mark>;
  /** session → grant → why */
  readonly removed: Map<string, Map<string, Mark>>;
}

export interface Mark {
  readonly because: string;
  stored: boolean;
}

/** Notes what was read of a session wherever that counts. */
export function noteRead(
  { open, live }: Pick<Core, 'open' | 'live'>,
  id: string,
  record: SessionRecord | undefined,
): void {
  if (!record || hasEnded(record)) open.delete(id);
  else {
    const { guard, leaseId, expiresAt } = record.session;
    open.set(id, { guard, leaseId, expiresAt });
  }
  if (record) live.update(record);
}

/** A row that cannot be read is told of and left out. */
export function tryRead(row: Row, log: Log): SessionRecord | undefined {
  try {
    return readSession(row);
  } catch (error) {
    log.error({ sessionId: row.id, err: error }, 'a stored session cannot be read');
    return undefined;
  }
}
