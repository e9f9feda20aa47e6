// The line to the worker thread. Calls of one tick travel as one message, and while a batch is under way the next one
// gathers: under load the batches grow by themselves, and with them the groups of commits that share an fsync.
//
// A worker that dies fails every call under way with `store_unavailable`. The next call starts another one, at most
// once a second; until that works every call fails at once and says why. Nothing is retried here: only the caller knows
// whether its write may be repeated.

import type { Worker } from 'node:worker_threads';
import { PosternError } from '../common/errors.ts';
import type { Answers, Call, Reply } from './sqlite-worker.ts';

export interface Link {
  call<Op extends Call['op']>(call: Extract<Call, { op: Op }>): Promise<Answers[Op]>;
  /** Resolves when a worker is open. @throws what opening failed with */
  ready(): Promise<void>;
  close(): Promise<void>;
}

interface Waiting {
  readonly call: Call;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

/** Bounds the time that one message keeps either thread busy. */
const BATCH = 512;
const RESTART_AFTER_MS = 1000;

export interface LinkOptions {
  readonly spawn: () => Worker;
  /** Whether the data outlives the worker. Where it does not (`:memory:`) a dead worker stays dead. */
  readonly restart: boolean;
}

export function openLink({ spawn, restart }: LinkOptions): Link {
  let queue: Waiting[] = [];
  let worker: Worker | undefined;
  let inFlight: Waiting[] | 'opening' | undefined;
  let opening: PromiseWithResolvers<void> | undefined;
  let failed: { at: number; error: PosternError } | undefined;
  let sending = false;
  let closing: Promise<void> | undefined;

  function start(): void {
    const started = spawn();
    worker = started;
    inFlight = 'opening';
    opening = Promise.withResolvers<void>();
    opening.promise.catch(() => {}); // heard by ready() where somebody waits, and by the queue in any case
    started.on('message', (message: Reply | Reply[]) => receive(started, message));
    started.on('error', (error) => died(started, String(error)));
    started.on('exit', (code) => died(started, `the thread ended with ${code}`));
  }

  function receive(from: Worker, message: Reply | Reply[]): void {
    if (from !== worker || inFlight === undefined) return;
    if (inFlight === 'opening') {
      const reply = message as Reply;
      if ('failed' in reply) {
        stop(toError(reply.failed));
        return;
      }
      failed = undefined;
      inFlight = undefined;
      opening?.resolve();
    } else {
      const batch = inFlight;
      inFlight = undefined;
      for (const [at, reply] of (message as Reply[]).entries()) {
        const waiting = batch[at];
        if ('failed' in reply) waiting?.reject(toError(reply.failed));
        else waiting?.resolve(reply.ok as never);
      }
    }
    send();
  }

  function died(who: Worker, why: string): void {
    if (who !== worker) return;
    stop(
      new PosternError('store_unavailable', `the store's thread stopped: ${why}`, {
        remedy: restart ? 'it is started again with the next call' : 'start again',
      }),
    );
  }

  function stop(error: PosternError): void {
    const batch = inFlight;
    worker = undefined;
    inFlight = undefined;
    failed = { at: performance.now(), error: asUnavailable(error) };
    if (batch === 'opening') opening?.reject(error);
    else for (const waiting of batch ?? []) waiting.reject(error);
    const rest = queue;
    queue = [];
    for (const waiting of rest) waiting.reject(failed.error);
  }

  function send(): void {
    sending = false;
    if (!worker || inFlight !== undefined) return;
    if (queue.length === 0) {
      worker.unref(); // an idle store does not keep a command from ending
      return;
    }
    inFlight = queue.splice(0, BATCH);
    worker.ref();
    worker.postMessage(inFlight.map(({ call }) => call));
  }

  function enqueue(waiting: Waiting): void {
    if (!worker) {
      const again = restart && (!failed || performance.now() - failed.at >= RESTART_AFTER_MS);
      if (failed && !again) {
        waiting.reject(failed.error);
        return;
      }
      start();
    }
    queue.push(waiting);
    if (sending || inFlight !== undefined) return;
    sending = true;
    queueMicrotask(send);
  }

  async function shut(): Promise<void> {
    const last = worker;
    if (!last) return;
    const closed = new Promise<undefined>((resolve, reject) => {
      enqueue({ call: { op: 'close' }, resolve, reject });
    });
    await closed.catch(() => {}); // a worker that is already gone is closed
    await last.terminate();
  }

  start();
  return {
    call<Op extends Call['op']>(call: Extract<Call, { op: Op }>): Promise<Answers[Op]> {
      if (closing) return Promise.reject(new PosternError('store_unavailable', 'the store is closed'));
      return new Promise<Answers[Op]>((resolve, reject) => enqueue({ call, resolve, reject }));
    },
    ready: () => opening?.promise ?? Promise.resolve(),
    close() {
      closing ??= shut();
      return closing;
    },
  };
}

/** Once open, the store has one way to fail, whatever starting it again met. */
function asUnavailable(error: PosternError): PosternError {
  if (error.code === 'store_unavailable') return error;
  return new PosternError('store_unavailable', error.message, { cause: error });
}

function toError({
  code,
  message,
  key,
  remedy,
}: Extract<Reply, { failed: unknown }>['failed']): PosternError {
  return new PosternError(code, message, {
    ...(key === undefined ? {} : { key }),
    ...(remedy === undefined ? {} : { remedy }),
  });
}
