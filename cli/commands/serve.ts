// `serve`: runs until it is told to stop. The first SIGTERM or SIGINT drains; a second one exits at once.

import type { Context } from '../command.ts';
import { VERSION } from '../version.ts';
import { startServer } from '../wiring.ts';

/** A signal to a whole process group arrives twice where a launcher passes it on as well. */
const SAME_SIGNAL_MS = 300;

/** Longer than everything in `stop` is meant to take. */
const LAST_MS = 20_000;

export async function serve(context: Context): Promise<number> {
  const config = await context.config();
  const stop = Promise.race([signalled(), orphaned(context.env)]);
  const server = await startServer(config, VERSION);
  const { log } = server;
  const crash = (error: unknown): void => {
    log.error({ err: error }, 'the server failed in a way that nobody foresaw, and ends');
    void log.flush().finally(() => process.exit(1));
  };
  process.on('uncaughtException', crash).on('unhandledRejection', crash);
  log.announce({ ...server.addresses, version: VERSION }, 'ready');
  await stop;
  log.info({}, 'stopping');
  // What can't be closed in time is cut with the process.
  await Promise.race([server.stop(), new Promise((resolve) => setTimeout(resolve, LAST_MS))]);
  // Whatever still holds the event loop (a socket that the system keeps) must not hold the process.
  process.exit(0);
}

/**
 * npm and npx put a shell between themselves and this process, which dies of their signal and does not pass it on; the
 * server that is left would hold the data folder. Anywhere else losing the parent means nothing.
 */
export function orphaned(env: Context['env']): Promise<void> {
  return new Promise((resolve) => {
    if (env.npm_command === undefined) return;
    const parent = process.ppid;
    const timer = setInterval(() => {
      if (process.ppid === parent) return;
      clearInterval(timer);
      resolve();
    }, 250);
    timer.unref();
  });
}

/** Resolves at the first signal; from then on the next one ends the process. */
function signalled(): Promise<void> {
  return new Promise((resolve) => {
    let first: number | undefined;
    const on = (signal: NodeJS.Signals): void => {
      if (first === undefined) {
        first = performance.now();
        resolve();
      } else if (performance.now() - first > SAME_SIGNAL_MS) process.exit(signal === 'SIGINT' ? 130 : 143);
    };
    process.on('SIGTERM', on).on('SIGINT', on);
  });
}
