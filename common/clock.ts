// Time is passed in, so that a test can move it. `now()` is milliseconds since the epoch.

export interface Clock {
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

/** A clock that stands still until a test moves it. */
export function manualClock(start = Date.UTC(2026, 0, 1)): Clock & { advance(ms: number): void } {
  let at = start;
  return {
    now: () => at,
    advance(ms) {
      at += ms;
    },
  };
}

/** RFC 3339 in UTC with milliseconds, the form of every time that leaves Postern. */
export function rfc3339(ms: number): string {
  return new Date(ms).toISOString();
}

const MAX_TIMEOUT = 2 ** 31 - 1;

/**
 * Calls `fire` once `ms` have passed. Node fires a `setTimeout` beyond 2^31-1 ms at once, which would end a
 * 30-day grant the moment it starts; longer waits are walked in steps. The timer never holds the process open.
 */
export function after(ms: number, fire: () => void): { cancel(): void } {
  let timer: NodeJS.Timeout;
  const step = (left: number): void => {
    timer = setTimeout(
      () => (left > MAX_TIMEOUT ? step(left - MAX_TIMEOUT) : fire()),
      Math.min(left, MAX_TIMEOUT),
    );
    timer.unref();
  };
  step(Math.max(0, ms));
  return { cancel: () => clearTimeout(timer) };
}
