// How a server ends: not ready at once, no new connections, what is under way gets a bounded time, then its protocol's
// own end, then the connections are cut.

/** For what is under way to finish by itself. Together with the rest it stays below the 10 s that `docker stop` waits. */
export const GRACE_MS = 7_000;
/** For the honest end (a Status frame, an ERR line) to reach the client. */
const LAST_WORDS_MS = 1_500;

export interface Draining {
  /** Accepts no more, and resolves when what is under way has ended; cuts it after `ms`. */
  readonly fronts: readonly ((ms: number) => Promise<void>)[];
  /** Ends what is under way the way its protocol can. */
  endAll(): Promise<void>;
}

export async function drain({ fronts, endAll }: Draining, graceMs = GRACE_MS): Promise<void> {
  const closed = Promise.all(fronts.map((close) => close(graceMs + LAST_WORDS_MS)));
  if (await within(graceMs, closed)) return;
  await within(LAST_WORDS_MS, endAll());
  await within(2 * LAST_WORDS_MS, closed);
}

async function within(ms: number, what: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([what.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
