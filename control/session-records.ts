// The records of what happens to a session after it was issued: renewed, closed, one grant taken out. The registry tells
// of it once, in the process that did it; who asked for it is known to the call that is being served, and reaches the
// listener through the call's own context. The call answers only after its records are kept.

import { AsyncLocalStorage } from 'node:async_hooks';
import type { Action, AuditEvent } from '../audit/event.ts';
import type { AuditLog } from '../audit/log.ts';
import { rfc3339 } from '../common/clock.ts';
import type { Log } from '../common/log.ts';
import type { SessionEvent, SessionRegistry } from '../sessions/session.ts';

export interface SessionRecords {
  /**
   * Runs `what` in the name of `actor`, and waits for the records of what it did.
   * @throws PosternError `audit_unavailable` where a record could not be kept; what was done stays done
   */
  as<T>(actor: string, what: () => Promise<T>): Promise<T>;
  /** Resolves when no record is being written. */
  settled(): Promise<void>;
  stop(): void;
}

interface Act {
  readonly actor: string;
  readonly writes: Promise<void>[];
}

export function recordSessions(
  sessions: Pick<SessionRegistry, 'onEvent'>,
  audit: Pick<AuditLog, 'append'>,
  log: Log,
): SessionRecords {
  const acting = new AsyncLocalStorage<Act>();
  const pending = new Set<Promise<void>>();
  const stop = sessions.onEvent((event) => {
    const act = acting.getStore();
    const write = audit.append(recordOf(event, act?.actor ?? 'postern'), 'durable');
    act?.writes.push(write);
    const watched = write
      .catch((error: unknown) =>
        log.error({ err: error, sessionId: event.session.id }, 'the end of a session could not be recorded'),
      )
      .finally(() => pending.delete(watched));
    pending.add(watched);
  });
  return {
    async as(actor, what) {
      const act: Act = { actor, writes: [] };
      const done = await acting.run(act, what);
      await Promise.all(act.writes);
      return done;
    },
    async settled() {
      await Promise.all(pending);
    },
    stop,
  };
}

const SUFFIX = {
  renewed: 'session_renewed',
  revoked: 'session_closed',
  expired: 'session_closed',
  grant_removed: 'grant_removed',
} as const;

function recordOf(event: SessionEvent, actor: string): AuditEvent {
  const { session, what } = event;
  const { labels, guard } = session;
  return {
    action: `${guard}.${SUFFIX[what]}` satisfies Action,
    decision: 'allow',
    guard,
    actor,
    sessionId: session.id,
    leaseId: session.leaseId,
    executorId: labels.executorId,
    projectId: labels.projectId,
    runId: labels.runId,
    taskId: labels.taskId,
    grantId: event.grantId,
    expiresAt: what === 'renewed' ? rfc3339(session.expiresAt) : undefined,
    reason: event.because ?? (what === 'expired' ? 'expired' : undefined),
  };
}
