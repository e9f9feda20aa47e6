// The session registry: the one place that knows which sessions there are, what each may spend and what each is doing.
// State is in the store, so that kill -9 loses no session; in memory are answers at most `recheck` old, the exchanges
// under way, and revocations from the moment they are asked for.
//
// It refuses to be the only copy of anything, to answer from a store that does not answer, and to say a credential or a
// token twice.

import { setTimeout as wait } from 'node:timers/promises';
import type { Clock } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import type { Log } from '../common/log.ts';
import type { Metrics } from '../common/metrics.ts';
import type { Redactor } from '../common/redact.ts';
import type { Keyring } from '../keyring/keyring.ts';
import type { ListQuery, Store } from '../store/store.ts';
import { authenticator } from './authenticate.ts';
import { type Core, noteRead, type SessionSettings, tryRead } from './core.ts';
import { sessionCounters } from './counters.ts';
import { CUSTODY_SET, openCustody } from './custody.ts';
import { openDeployment } from './deployment.ts';
import { changeSession, closeExpired, removeGrant, revoke, revokeLease } from './ending.ts';
import { checkTtl, renewedExpiry } from './expiry.ts';
import { freshCache } from './fresh.ts';
import { issueSession } from './issue.ts';
import { leaseGate } from './lease-gate.ts';
import { liveSessions } from './live.ts';
import { hasEnded, readSession, SESSION_INDEX, SESSION_SET, type SessionRecord } from './record.ts';
import type { GuardName, Session, SessionEvent, SessionRegistry } from './session.ts';
import { noteOpen, SWEEP_MS, sweep } from './sweep.ts';
import { openTokens } from './token.ts';

export type { SessionSettings } from './core.ts';

export interface SessionsOptions {
  readonly store: Store;
  readonly keyring: Keyring;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly redactor: Redactor;
  readonly settings: SessionSettings;
}

const MAX_KNOWN = 10_000;
/** How long a session that looks expired may wait for the store to say whether it was renewed. */
const DUE_ANSWER_MS = 1000;

export interface Sessions extends SessionRegistry {
  /** Runs by itself every `SWEEP_MS`. */
  sweep(): Promise<void>;
}

/** @throws PosternError what the store and the keyring throw */
export async function openSessions(options: SessionsOptions): Promise<Sessions> {
  const { store, keyring, clock, log, metrics, settings } = options;
  const listeners = new Set<(event: SessionEvent) => void>();

  const core: Core = {
    store,
    clock,
    log,
    metrics,
    settings,
    tokens: openTokens(await openDeployment(store, keyring), clock),
    custody: openCustody({ ...options, recheck: settings.recheck }),
    counters: sessionCounters(store, clock, log),
    live: liveSessions({ clock, log, maxConcurrent: settings.maxConcurrent, onDue: (id) => void due(id) }),
    sessions: freshCache<SessionRecord>({
      read: async (id) => {
        const row = await store.get(SESSION_SET, id);
        return row && readSession(row);
      },
      clock,
      maxAge: settings.recheck,
      max: MAX_KNOWN,
      onRead: (id, record) => noteRead(core, id, record),
    }),
    open: new Map(),
    marks: { revoked: new Map(), removed: new Map() },
    leases: leaseGate(),
    emit(event) {
      for (const tell of listeners) {
        try {
          tell(event);
        } catch (error) {
          log.error({ sessionId: event.session.id, err: error }, 'a listener of session events failed');
        }
      }
    },
  };
  const { sessions, custody, counters, live, open, marks } = core;
  await noteOpen(core);

  /** The time of a session with something under way is over, unless it was renewed elsewhere. */
  async function due(id: string): Promise<void> {
    const now = await Promise.race([
      sessions.reload(id).catch(() => undefined),
      wait(DUE_ANSWER_MS, undefined, { ref: false }),
    ]);
    if (now && !hasEnded(now) && clock.now() < now.session.expiresAt) return;
    await live.end(id, 'expired');
    await closeExpired(core, id).catch((error) =>
      log.warn({ sessionId: id, err: error }, 'closed by the next sweep'),
    );
  }

  // What is under way asks nothing by itself: its session is read again as often as that of a request would be.
  function recheck(): void {
    const now = clock.now();
    for (const id of live.ids()) {
      if (now >= (open.get(id)?.expiresAt ?? 0)) void due(id);
      else sessions.reload(id).catch((error) => log.debug({ sessionId: id, err: error }, 'not read again'));
    }
  }

  const stopWatching = store.watch((changes) => {
    for (const { set, id } of changes) {
      if (set === CUSTODY_SET) custody.changed(id);
      if (set !== SESSION_SET) continue;
      sessions.drop(id);
      if (live.has(id)) sessions.load(id).catch(() => {}); // the next recheck tries again
    }
  });
  let sweeping: Promise<void> | undefined;
  function sweepNow(): Promise<void> {
    sweeping ??= sweep(core)
      .catch((error) => log.warn({ err: error }, 'the sweep of sessions goes on later'))
      .finally(() => {
        sweeping = undefined;
      });
    return sweeping;
  }

  const timers = [
    setInterval(recheck, settings.recheck).unref(),
    setInterval(() => void sweepNow(), SWEEP_MS).unref(),
  ];
  let closed = false;
  const authenticate = authenticator(core);

  async function counts(id: string): Promise<boolean> {
    const record = await sessions.load(id);
    return record !== undefined && !hasEnded(record) && clock.now() < record.session.expiresAt;
  }

  /** As it counts here: a revocation that could not be stored yet is one. */
  async function view(record: SessionRecord) {
    const { session } = record;
    const mark = session.revokedAt === undefined ? marks.revoked.get(session.id) : undefined;
    const shown: Session = mark
      ? { ...session, revokedAt: clock.now(), revokedBecause: mark.because }
      : session;
    return { session: shown, counters: await counters.read(session.id) };
  }

  return {
    issue: (input) => core.leases.issue(input.leaseId, (check) => issueSession(core, keyring, input, check)),
    authenticate: (guard, id, token, exchange) =>
      closed
        ? Promise.reject(new PosternError('store_unavailable', 'the sessions are closed'))
        : authenticate(guard, id, token, exchange),

    async get(id) {
      const row = await store.get(SESSION_SET, id);
      return row && view(readSession(row));
    },

    async list({ leaseId, guard } = {}) {
      const rows = await store.list(SESSION_SET, listQuery(leaseId, guard));
      const records = rows.map((row) => tryRead(row, log)).filter((record) => record !== undefined);
      return Promise.all(records.filter(({ session }) => !guard || session.guard === guard).map(view));
    },

    async renew(id, ttl) {
      const done = await changeSession(core, id, (record) => {
        const { session } = record;
        const now = clock.now();
        if (hasEnded(record) || marks.revoked.has(id) || now >= session.expiresAt) throw over(id, record);
        const asked = checkTtl(ttl ?? Math.min(record.ttl, settings.maxTtl), settings);
        const expiresAt = renewedExpiry(now, asked, session.hardExpiresAt);
        return { next: { ...record, session: { ...session, expiresAt } } };
      });
      if (!done) throw new PosternError('not_found', `there is no session ${id}`);
      await sessions.reload(id).catch(() => undefined); // it is renewed; whoever asks next meets the error
      const { session } = done.record;
      core.emit({ what: 'renewed', session });
      return session;
    },

    revoke: (id, because) => revoke(core, id, because),
    revokeLease: (leaseId, because) => revokeLease(core, leaseId, because),
    removeGrant: (id, grantId, because) => removeGrant(core, id, grantId, because),

    replaceSecret: (secretId, secret) =>
      custody.replace({ index: 'secret', value: secretId }, secret, counts),
    replaceGrant: (grantId, secret) => custody.replace({ index: 'grant', value: grantId }, secret, counts),

    liveCount(guard) {
      const now = clock.now();
      let count = 0;
      for (const session of open.values()) if (session.guard === guard && now < session.expiresAt) count++;
      return count;
    },

    onEvent(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },

    sweep: sweepNow,
    endAll: () => live.endAll('shutdown'),

    async close() {
      closed = true;
      stopWatching();
      for (const timer of timers) clearInterval(timer);
      live.close();
      await counters.close();
    },
  };
}

function listQuery(leaseId: string | undefined, guard: GuardName | undefined): ListQuery {
  if (leaseId !== undefined) return { where: { index: SESSION_INDEX.lease, value: leaseId } };
  if (guard !== undefined) return { where: { index: SESSION_INDEX.guard, value: guard } };
  return {};
}

function over(id: string, { session }: SessionRecord): PosternError {
  const how = session.revokedAt === undefined ? 'is past its time' : 'was revoked';
  return new PosternError('gone', `the session ${id} ${how}`, { remedy: 'issue another one' });
}
