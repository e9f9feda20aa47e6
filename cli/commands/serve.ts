// `serve`: runs until it is told to stop. The first SIGTERM or SIGINT drains; a second one ends the process at once.
// `process.exit` waits for every thread, and one that hangs in a system call (the audit trail's, on a disk that does not
// answer) never comes: so a second signal is the kernel's business, and so is an end that such a thread would hold up.

import type { Context } from '../command.ts';
import type { Logger } from '../logger.ts';
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
    void log.flush().finally(() => leave(1));
  };
  process.on('uncaughtException', crash).on('unhandledRejection', crash);
  log.announce({ ...server.addresses, version: VERSION }, 'ready');
  await stop;
  log.info({}, 'stopping');
  // What can't be closed in time is cut with the process.
  const late = new Promise<{ hangs: boolean }>((resolve) => setTimeout(resolve, LAST_MS, { hangs: true }));
  const { hangs } = await Promise.race([server.stop(), late]);
  return end(hangs, log);
}

/** Ends the process, whatever still holds the event loop (a socket that the system keeps). */
export async function end(hangs: boolean, log: Pick<Logger, 'error' | 'flush'>): Promise<never> {
  if (hangs) {
    log.error({}, 'a part of the server hangs and is cut with the process');
    await Promise.race([log.flush(), new Promise((resolve) => setTimeout(resolve, SAME_SIGNAL_MS))]);
    process.kill(process.pid, 'SIGKILL');
  }
  return leave(0);
}

/** From here on a signal needs nobody to handle it. */
function leave(status: number): never {
  process.removeAllListeners('SIGTERM').removeAllListeners('SIGINT');
  process.exit(status);
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
      } else if (performance.now() - first > SAME_SIGNAL_MS) {
        // With nobody listening the kernel ends the process, unless it is the first of a container.
        process.removeAllListeners('SIGTERM').removeAllListeners('SIGINT');
        process.kill(process.pid, signal);
        setImmediate(() => process.exit(signal === 'SIGINT' ? 130 : 143));
      }
    };
    process.on('SIGTERM', on).on('SIGINT', on);
  });
}
