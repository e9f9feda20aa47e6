// A registry over a store of its own, for tests.

import { type Clock, manualClock } from '../../common/clock.ts';
import { Credential } from '../../common/credential.ts';
import { silentLog } from '../../common/log.ts';
import { noMetrics } from '../../common/metrics.ts';
import type { Keyring } from '../../keyring/keyring.ts';
import { openSessions, type SessionSettings, type Sessions } from '../../sessions/registry.ts';
import type {
  Authentication,
  EndReason,
  GuardName,
  LiveExchange,
  NewSession,
  SessionEvent,
  SessionRegistry,
} from '../../sessions/session.ts';
import { openStore } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import { cheapKeyring } from '../keyring/cheap.ts';

export const MINUTE = 60_000;
export const SETTINGS: SessionSettings = {
  ttl: 15 * MINUTE,
  maxTtl: 12 * 60 * MINUTE,
  recheck: 5000,
  maxConcurrent: 64,
};

export interface Bench {
  readonly store: Store;
  readonly keyring: Keyring;
  readonly sessions: Sessions;
  readonly clock: ReturnType<typeof manualClock>;
  readonly events: SessionEvent[];
  readonly announced: string[];
  /** Another registry over the same store, as another replica would have. */
  replica(settings?: Partial<SessionSettings>): Promise<Sessions>;
  close(): Promise<void>;
}

const opened = new Set<Bench>();

/** After each test. */
export async function closeBenches(): Promise<void> {
  for (const bench of opened) await bench.close();
  opened.clear();
}

export async function openBench(
  options: { settings?: Partial<SessionSettings>; store?: Store; clock?: Clock } = {},
): Promise<Bench> {
  const store = options.store ?? (await openStore({ sqlite: ':memory:' }));
  const keyring = await cheapKeyring(store);
  const clock = manualClock();
  const announced: string[] = [];
  const redactor = {
    add: (value: string) => void announced.push(value),
    remove() {},
    text: (text: string) => text,
    value: (value: unknown) => value,
  };
  const all: Sessions[] = [];
  const replica = async (settings: Partial<SessionSettings> = {}) => {
    const registry = await openSessions({
      store,
      keyring,
      clock: options.clock ?? clock,
      log: silentLog,
      metrics: noMetrics,
      redactor,
      settings: { ...SETTINGS, ...options.settings, ...settings },
    });
    all.push(registry);
    return registry;
  };
  const sessions = await replica();
  const events: SessionEvent[] = [];
  sessions.onEvent((event) => events.push(event));
  const bench: Bench = {
    store,
    keyring,
    sessions,
    clock,
    events,
    announced,
    replica,
    async close() {
      for (const registry of all) await registry.close();
      keyring.close();
      await store.close();
    },
  };
  opened.add(bench);
  return bench;
}

export function newSession(more: Partial<NewSession<{ rule: string }>> = {}): NewSession<{ rule: string }> {
  return {
    guard: 'git',
    leaseId: 'L1',
    labels: { projectId: '/srv/app' },
    policy: { rule: 'acme/*' },
    credentials: [
      { id: 'c1', grantId: 'g1', secretId: 's1', secretName: 'pat', secret: new Credential('ghp_one') },
    ],
    managedBy: 'broker',
    ...more,
  };
}

/** An exchange that remembers how it was ended. */
export function exchange(end?: (why: EndReason) => Promise<void>): LiveExchange & { ended: EndReason[] } {
  const ended: EndReason[] = [];
  return {
    ended,
    end(why) {
      ended.push(why);
      return end?.(why);
    },
  };
}

export async function enter(
  sessions: SessionRegistry,
  token: Credential | string,
  options: { guard?: GuardName; id?: string; exchange?: LiveExchange } = {},
): Promise<Authentication<{ rule: string }>> {
  const text = typeof token === 'string' ? token : token.reveal();
  return sessions.authenticate(options.guard ?? 'git', options.id, text, options.exchange ?? exchange());
}

/** `ok`, or why not. */
export async function verdict(...args: Parameters<typeof enter>): Promise<string> {
  const answer = await enter(...args);
  return answer.ok ? 'ok' : answer.failure;
}

export async function mustEnter(...args: Parameters<typeof enter>) {
  const answer = await enter(...args);
  if (!answer.ok) throw new Error(`not authenticated: ${answer.failure}`);
  return answer.live;
}
