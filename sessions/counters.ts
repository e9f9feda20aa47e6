// What each session has done: gathered in memory, added to the row of the set `session_counters` every few seconds and
// at close. Figures for people: a process that is killed loses the last seconds of them and nothing else.

import type { Clock } from '../common/clock.ts';
import type { Log } from '../common/log.ts';
import type { Row, Store, Write } from '../store/store.ts';
import type { Counters } from './session.ts';

export const COUNTER_SET = 'session_counters';
const FLUSH_MS = 5000;
const ATTEMPTS = 5;
const NONE: Counters = { requests: 0, denied: 0, bytesUp: 0, bytesDown: 0 };

export interface SessionCounters {
  add(sessionId: string, outcome: { denied: boolean; bytesUp: number; bytesDown: number }): void;
  read(sessionId: string): Promise<Counters>;
  flush(): Promise<void>;
  /** Flushes a last time. */
  close(): Promise<void>;
}

export function sessionCounters(store: Store, clock: Clock, log: Log): SessionCounters {
  let pending = new Map<string, Counters>();
  let flushing = Promise.resolve();

  function flush(): Promise<void> {
    flushing = flushing.then(async () => {
      const batch = pending;
      pending = new Map();
      await Promise.all([...batch].map(([id, more]) => write(id, more)));
    });
    return flushing;
  }

  async function write(id: string, more: Counters): Promise<void> {
    try {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const row = await store.get(COUNTER_SET, id);
        if (await store.commit([putCounters(id, sum(toCounters(row), more), row?.rev ?? 0)])) return;
      }
      keep(id, more);
    } catch (error) {
      keep(id, more);
      log.debug({ sessionId: id, err: error }, 'counters are written later');
    }
  }

  function keep(id: string, more: Counters): void {
    pending.set(id, sum(more, pending.get(id) ?? NONE));
  }

  const timer = setInterval(() => void flush(), FLUSH_MS).unref();

  return {
    add(id, { denied, bytesUp, bytesDown }) {
      keep(id, { requests: 1, denied: denied ? 1 : 0, bytesUp, bytesDown, lastUsedAt: clock.now() });
    },

    async read(id) {
      await flushing; // what is on its way is counted once
      const stored = toCounters(await store.get(COUNTER_SET, id));
      return sum(stored, pending.get(id) ?? NONE);
    },

    flush,

    async close() {
      clearInterval(timer);
      await flush();
    },
  };
}

function sum(a: Counters, b: Counters): Counters {
  const lastUsedAt = Math.max(a.lastUsedAt ?? 0, b.lastUsedAt ?? 0);
  return {
    requests: a.requests + b.requests,
    denied: a.denied + b.denied,
    bytesUp: a.bytesUp + b.bytesUp,
    bytesDown: a.bytesDown + b.bytesDown,
    ...(lastUsedAt > 0 ? { lastUsedAt } : {}),
  };
}

function putCounters(id: string, counters: Counters, expect: number): Write {
  return { op: 'put', set: COUNTER_SET, row: { id, body: { ...counters }, index: {} }, expect };
}

function toCounters(row: Row | undefined): Counters {
  const number = (name: string): number => {
    const value = row?.body[name];
    return typeof value === 'number' ? value : 0;
  };
  const lastUsedAt = number('lastUsedAt');
  return {
    requests: number('requests'),
    denied: number('denied'),
    bytesUp: number('bytesUp'),
    bytesDown: number('bytesDown'),
    ...(lastUsedAt > 0 ? { lastUsedAt } : {}),
  };
}
