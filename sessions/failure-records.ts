// Failed authentications cost nothing to send and a record each to answer, so one address could fill the trail: it gets
// so many records at once and so many a second, and what goes beyond is counted and summed up in one record now and
// then. What such a request is told, and when, is the same.

import { LRUCache } from 'lru-cache';
import { after } from '../common/clock.ts';
import { networkOf } from '../common/network.ts';

export interface FailureRecords {
  /** Whether a failure from this address is to have a record of its own; if not it is counted. */
  admits(sourceIp: string): boolean;
  /** Writes the sums that are due, and resolves when they are written. */
  close(): Promise<void>;
}

export interface FailureLimits {
  readonly burst: number;
  readonly perSecond: number;
  /** Milliseconds between two sums of one address. */
  readonly sumEvery: number;
  /** Addresses that are told apart; the one that was quiet longest is summed up and forgotten. */
  readonly sources: number;
}

export const FAILURE_LIMITS: FailureLimits = { burst: 60, perSecond: 1, sumEvery: 10_000, sources: 10_000 };

interface Source {
  tokens: number;
  at: number;
  unrecorded: number;
}

/**
 * @param sum is told how many had no record, and never rejects; the source is an address, of IPv6 its /64
 * @param now milliseconds, from any beginning
 */
export function createFailureRecords(
  sum: (source: string, count: number) => Promise<void>,
  limits: FailureLimits = FAILURE_LIMITS,
  now: () => number = () => performance.now(),
): FailureRecords {
  const settle = async (source: Source, name: string): Promise<void> => {
    const count = source.unrecorded;
    source.unrecorded = 0;
    if (count > 0) await sum(name, count);
  };
  const sources = new LRUCache<string, Source>({
    max: limits.sources,
    dispose: (source, name) => void settle(source, name),
  });
  let timer: { cancel(): void } | undefined;
  const sumUp = async (): Promise<void> => {
    timer?.cancel();
    timer = undefined;
    await Promise.all([...sources.entries()].map(([name, source]) => settle(source, name)));
  };

  return {
    admits(sourceIp) {
      const name = networkOf(sourceIp);
      const at = now();
      let source = sources.get(name);
      if (!source) {
        source = { tokens: limits.burst, at, unrecorded: 0 };
        sources.set(name, source);
      }
      source.tokens = Math.min(limits.burst, source.tokens + ((at - source.at) / 1000) * limits.perSecond);
      source.at = at;
      if (source.tokens >= 1) {
        source.tokens -= 1;
        return true;
      }
      source.unrecorded += 1;
      timer ??= after(limits.sumEvery, () => void sumUp());
      return false;
    },
    close: sumUp,
  };
}

export function sumOf(count: number): string {
  return `${count} more failed authentications from this address were counted, not recorded`;
}
