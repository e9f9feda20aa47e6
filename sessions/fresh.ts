// Answers that may be at most `maxAge` old, in memory, so that a busy session costs no read a request. Never the only
// copy: what falls out is read again. A change that the store tells of drops the entry and any read under way, whose
// answer may be from before it; a change that nobody told of is seen when `maxAge` is over.

import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';

export interface Fresh<T> {
  /** What is known and fresh. Never waits; past half its time it is read again in the background. */
  peek(id: string): T | undefined;
  /** What is fresh, read where nothing is. */
  load(id: string): Promise<T | undefined>;
  /** Read now. */
  reload(id: string): Promise<T | undefined>;
  drop(id: string): void;
}

export interface FreshOptions<T> {
  /** `before`: what was known, fresh or not. */
  readonly read: (id: string, before: T | undefined) => Promise<T | undefined>;
  readonly clock: Clock;
  /** Milliseconds, counted from before the read. */
  readonly maxAge: number;
  readonly max: number;
  /** Each answer that holds. */
  readonly onRead?: (id: string, value: T | undefined) => void;
}

export function freshCache<T extends object>({
  read,
  clock,
  maxAge,
  max,
  onRead,
}: FreshOptions<T>): Fresh<T> {
  const entries = new LRUCache<string, { readonly value: T; readonly readAt: number }>({ max });
  const reading = new Map<string, { readonly ticket: Ticket; readonly answer: Promise<T | undefined> }>();

  function start(id: string): Promise<T | undefined> {
    overtake(id);
    const ticket = { overtaken: false };
    const answer = run(id, ticket);
    reading.set(id, { ticket, answer });
    return answer;
  }

  async function run(id: string, ticket: Ticket): Promise<T | undefined> {
    const readAt = clock.now();
    try {
      const value = await read(id, entries.peek(id)?.value);
      if (ticket.overtaken) return await load(id);
      if (value) entries.set(id, { value, readAt });
      else entries.delete(id);
      onRead?.(id, value);
      return value;
    } finally {
      if (reading.get(id)?.ticket === ticket) reading.delete(id);
    }
  }

  function overtake(id: string): void {
    const under = reading.get(id);
    if (!under) return;
    under.ticket.overtaken = true;
    reading.delete(id);
  }

  function peek(id: string): T | undefined {
    const entry = entries.get(id);
    if (!entry) return undefined;
    const age = clock.now() - entry.readAt;
    if (age < 0 || age >= maxAge) return undefined; // a clock that was set back makes nothing younger
    if (age >= maxAge / 2 && !reading.has(id)) start(id).catch(() => {}); // who needs it next meets the error
    return entry.value;
  }

  function load(id: string): Promise<T | undefined> {
    const known = peek(id);
    return known ? Promise.resolve(known) : (reading.get(id)?.answer ?? start(id));
  }

  return {
    peek,
    load,
    reload: start,

    drop(id) {
      entries.delete(id);
      overtake(id);
    },
  };
}

/** Of one read. Overtaken: something changed, or a later read began; its answer may be old and counts for nothing. */
interface Ticket {
  overtaken: boolean;
}
