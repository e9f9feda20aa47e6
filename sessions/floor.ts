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

/**
 * Resolves when a failure may be answered.
 * @param startedAt `performance.now()` when the request's head had arrived, before anything was looked at
 */
export function failureFloor(startedAt: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, untilFloor(performance.now() - startedAt));
  });
}
