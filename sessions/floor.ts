// When a failed authentication is answered. A forged token costs a signature check, an unknown session a read besides,
// a revoked one neither where it is remembered: differences that a patient client can measure. So no failure is
// answered before a fixed time after the request began, and one that took longer waits for the next multiple.

/** Long for every check on a busy machine, short for a person. */
export const FAILURE_FLOOR_MS = 25;

/** `took` milliseconds already; how many more until the next multiple of the floor, the first included. Pure. */
export function untilFloor(took: number, floor = FAILURE_FLOOR_MS): number {
  const steps = Math.max(1, Math.ceil(took / floor));
  return steps * floor - took;
}

/** Requests that wait here at a time, each with its head in memory. No number of clients' mistakes comes near it. */
export const MAX_WAITING = 1_024;

let waiting = 0;

/**
 * Resolves when a failure may be answered.
 * @param startedAt `performance.now()` when the request's head had arrived, before anything was looked at
 * @returns false at once where too many wait: the request gets no answer, because any would tell its kind by its time
 */
export function failureFloor(startedAt: number): Promise<boolean> {
  if (waiting >= MAX_WAITING) return Promise.resolve(false);
  waiting += 1;
  return new Promise((resolve) => {
    setTimeout(
      () => {
        waiting -= 1;
        resolve(true);
      },
      untilFloor(performance.now() - startedAt),
    );
  });
}
