// What is under way, by session: entered in the same step as the last check of authentication, ended when the session
// ends. A session with something under way has a timer for its rolling end; when that comes, the registry looks whether
// it was renewed elsewhere before anything is cut.

import { after, type Clock } from '../common/clock.ts';
import type { Log } from '../common/log.ts';
import { hasEnded, type SessionRecord } from './record.ts';
import type { EndReason, LiveExchange, Session } from './session.ts';

/** One exchange under way. */
export interface Entry {
  /** As it was when the exchange began. */
  readonly session: Session;
  readonly exchange: LiveExchange;
  /** Set once it was told to end. */
  readonly ending: Promise<void> | undefined;
}

export interface LiveSessions {
  /** `undefined` where the session has as many under way as it may. */
  enter(record: SessionRecord, exchange: LiveExchange): Entry | undefined;
  leave(entry: Entry): void;
  /** What is now known of a session: its end may have moved or come, a credential may be gone. */
  update(record: SessionRecord): void;
  /** Resolves when every exchange of the session has ended, or every one that spends this grant. */
  end(sessionId: string, why: EndReason, grantId?: string): Promise<void>;
  endAll(why: EndReason): Promise<void>;
  has(sessionId: string): boolean;
  ids(): string[];
  /** Stops the timers. */
  close(): void;
}

export interface LiveOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Exchanges a session. */
  readonly maxConcurrent: number;
  /** The rolling end of a session with something under way has come. */
  readonly onDue: (sessionId: string) => void;
}

interface Group {
  readonly entries: Set<MutableEntry>;
  record: SessionRecord;
  timer: { cancel(): void };
}

interface MutableEntry extends Entry {
  ending: Promise<void> | undefined;
}

/** An exchange that takes longer to end is a fault worth a line: a revocation is waiting for it. */
const SLOW_END_MS = 5000;

export function liveSessions({ clock, log, maxConcurrent, onDue }: LiveOptions): LiveSessions {
  const groups = new Map<string, Group>();

  const arm = ({ session }: SessionRecord): { cancel(): void } =>
    after(session.expiresAt - clock.now(), () => onDue(session.id));

  function update(record: SessionRecord): void {
    const group = groups.get(record.session.id);
    if (!group || record.rev < group.record.rev) return;
    group.timer.cancel();
    group.record = record;
    group.timer = arm(record);
    const { revokedAt, credentials } = record.session;
    const left = new Set(credentials.map(({ id }) => id));
    for (const entry of group.entries) {
      const spends = entry.exchange.credentialId;
      if (hasEnded(record)) void endEntry(entry, revokedAt === undefined ? 'expired' : 'revoked');
      else if (spends !== undefined && !left.has(spends)) void endEntry(entry, 'grant_removed');
    }
  }

  function leave(entry: Entry): void {
    const group = groups.get(entry.session.id);
    if (!group?.entries.delete(entry) || group.entries.size > 0) return;
    group.timer.cancel();
    groups.delete(entry.session.id);
  }

  function endEntry(entry: MutableEntry, why: EndReason): Promise<void> {
    entry.ending ??= tell(entry, why);
    return entry.ending;
  }

  // Runs into `end` before anything is awaited: its bytes stop in this step.
  async function tell(entry: MutableEntry, why: EndReason): Promise<void> {
    const sessionId = entry.session.id;
    const slow = after(SLOW_END_MS, () => log.warn({ sessionId, why }, 'an exchange does not end'));
    try {
      await entry.exchange.end(why);
    } catch (error) {
      log.error({ sessionId, why, err: error }, 'ending an exchange failed');
    } finally {
      slow.cancel();
      leave(entry);
    }
  }

  async function end(sessionId: string, why: EndReason, grantId?: string): Promise<void> {
    const entries = [...(groups.get(sessionId)?.entries ?? [])].filter(
      (entry) => grantId === undefined || grantOf(entry) === grantId,
    );
    await Promise.all(entries.map((entry) => endEntry(entry, why)));
  }

  return {
    enter(record, exchange) {
      const sessionId = record.session.id;
      let group = groups.get(sessionId);
      if (!group) {
        group = { entries: new Set(), record, timer: arm(record) };
        groups.set(sessionId, group);
      } else if (group.entries.size >= maxConcurrent) return undefined;
      else if (record.rev > group.record.rev) update(record);
      const entry: MutableEntry = { session: record.session, exchange, ending: undefined };
      group.entries.add(entry);
      return entry;
    },

    leave,
    update,
    end,

    async endAll(why) {
      await Promise.all([...groups.keys()].map((id) => end(id, why)));
    },

    has: (sessionId) => groups.has(sessionId),
    ids: () => [...groups.keys()],

    close() {
      for (const { timer } of groups.values()) timer.cancel();
    },
  };
}

function grantOf({ session, exchange }: Entry): string | undefined {
  return session.credentials.find(({ id }) => id === exchange.credentialId)?.grantId;
}
