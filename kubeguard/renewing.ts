// A credential that has to be fetched and goes stale: a token file, an exec plugin. One fetch at a time, whoever asks;
// fetched again a little before its end, and once after the cluster has refused it. While it still holds, a failed
// renewal is not the request's problem.

import type { Clock } from '../common/clock.ts';

export interface Renewing<T> {
  get(): Promise<T>;
  /** After the cluster refused `refused`. @returns another one, or `refused` itself where there is none to be had yet */
  renew(refused: T): Promise<T>;
}

export interface RenewingOptions<T> {
  readonly obtain: () => Promise<T>;
  /** Milliseconds since the epoch; undefined: until it is refused. */
  readonly expiresAt: (value: T) => number | undefined;
  readonly same: (a: T, b: T) => boolean;
  readonly clock: Clock;
  /** How long before its end it is fetched again; milliseconds. */
  readonly skewMs?: number;
  /** Between two fetches for refusals: a cluster that refuses everything must not make a storm of them. */
  readonly pauseMs?: number;
  /** How long a failure is the answer to whoever asks next: a program that fails is not started for every request. */
  readonly failedMs?: number;
}

export function createRenewing<T>(options: RenewingOptions<T>): Renewing<T> {
  const { obtain, expiresAt, same, clock, skewMs = 60_000, pauseMs = 10_000, failedMs = 3_000 } = options;
  let current: { readonly value: T; readonly at: number } | undefined;
  let running: Promise<T> | undefined;
  let lastForced = Number.NEGATIVE_INFINITY;
  let failed: { readonly error: unknown; readonly at: number } | undefined;

  const refresh = (): Promise<T> => {
    if (failed && clock.now() - failed.at < failedMs) return Promise.reject(failed.error);
    running ??= obtain()
      .then(
        (value) => {
          current = { value, at: clock.now() };
          failed = undefined;
          return value;
        },
        (error: unknown) => {
          failed = { error, at: clock.now() };
          throw error;
        },
      )
      .finally(() => {
        running = undefined;
      });
    return running;
  };

  return {
    async get() {
      if (!current) return refresh();
      const { value, at } = current;
      const end = expiresAt(value);
      if (end === undefined) return value;
      // One that is born with less than the skew left is used to its half.
      const now = clock.now();
      if (now < Math.max(end - skewMs, at + (end - at) / 2)) return value;
      return refresh().catch((error: unknown) => {
        if (clock.now() < end) return value;
        throw error;
      });
    },
    async renew(refused) {
      if (current && !same(current.value, refused)) return current.value;
      if (!running && clock.now() - lastForced < pauseMs) return refused;
      lastForced = clock.now();
      return refresh();
    },
  };
}
