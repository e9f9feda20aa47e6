// One request upstream and its answer back, as both guards need it. The caller has decided: it gives the dispatcher, the
// raw path, a header list that is complete, and a pure function that turns the upstream's head into what the client
// gets, or declines it. Bytes move both ways with backpressure and are never gathered; silence is limited, time is not.
//
//     const under = forward({ upstream, method, path, headers, req, res, answer, ... });
//     live.end = under.end;                        // session over: cut at once
//     const outcome = await under.done;            // never rejects
//     if (outcome.sent === 'nothing') refuse(…)    // `res` is untouched: the caller answers
//
// Whatever ends it: a client that leaves takes the upstream with it; an upstream that breaks off is never made to look
// like a clean end (the connection is cut, unless `lastWords` can say it in the protocol that is spoken); a credential in
// an answer is not passed on. `done` resolves when neither side moves any more.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { EndReason } from '../sessions/session.ts';
import { ClientLeft, dropBody, OverLimit, type Upload, uploadStream } from './body.ts';
import { anyHolds, createEchoScan, type EchoScan, type Needles, needlesOf } from './echo.ts';

export interface UpstreamHead {
  readonly status: number;
  /** Names in lower case; one that came twice is a list. */
  readonly headers: IncomingHttpHeaders;
}

/** What the client gets for an upstream's head. */
export interface Answer {
  readonly status: number;
  /** Flat list of names and values, allow-listed. Content-Length only where no transform changes the length. */
  readonly headers: readonly string[];
  readonly transform?: BodyTransform;
}

/** Sees the body pass; may change it. Throwing cuts the answer. Called in order, `end` last and only on a clean end. */
export interface BodyTransform {
  /** The head waits for what this gives: while that is nothing, throwing leaves the answer to the caller. */
  readonly whole?: true;
  push(chunk: Buffer): Buffer;
  end(): Buffer;
}

export interface ForwardOptions {
  readonly upstream: Dispatcher;
  readonly method: string;
  /** Sent as it is. Built from parsed parts, with the upstream's base path. */
  readonly path: string;
  /** Flat list, complete but for Connection and the framing; Host is the origin's unless it is listed. */
  readonly headers: readonly string[];
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** Absent: none is sent. Bytes: sent whole. */
  readonly body?: Upload | Buffer | undefined;
  /** undefined declines: nothing is passed on and the caller answers. */
  readonly answer: (head: UpstreamHead) => Answer | undefined;
  /** Forms of the credential that must not come back: see echo.ts; cheaper where made once for each credential. */
  readonly needles?: Needles | readonly Buffer[];
  /** How that is searched for, where not in the bytes as they lie. What it throws ends the exchange as a failure. */
  readonly scan?: (needles: Needles) => EchoScan;
  /** Silence allowed until the upstream's head has come; milliseconds, 0 for no limit. */
  readonly headMs: number;
  /** Silence allowed after it. */
  readonly idleMs: number;
  /** What to add to an answer that breaks off, so that it ends in its own protocol; undefined: the connection is cut. */
  readonly lastWords?: (outcome: Outcome) => Buffer | undefined;
  /** How much of a body that is no longer wanted is read and dropped, so that the client gets to read its answer. */
  readonly dropBytes?: number;
  /** And for how long at most; milliseconds. */
  readonly dropMs?: number;
}

export type Ending =
  | 'complete'
  /** `answer` declined the upstream's head. */
  | 'declined'
  | 'client_gone'
  /** Not reached, broken off, or not HTTP; `error` says what. */
  | 'upstream_failed'
  /** Nothing moved for too long. */
  | 'idle'
  | 'over_limit'
  /** The answer held the credential. */
  | 'echoed'
  /** From outside; `why` says. */
  | 'ended';

export interface Outcome {
  readonly how: Ending;
  readonly why?: EndReason;
  /** The upstream's, when its head has come. */
  readonly status?: number;
  readonly headers?: IncomingHttpHeaders;
  /** What the client had been sent; `nothing`: the caller answers. */
  readonly sent: 'nothing' | 'head' | 'body';
  readonly bytesUp: number;
  readonly bytesDown: number;
  /** From sending to the upstream's head (or to the end without one). */
  readonly upstreamMs: number;
  readonly error?: Error;
}

export interface Forwarding {
  /** What came of it, as soon as that is known; the client may still send what is dropped. */
  readonly outcome: Promise<Outcome>;
  /** The same, when neither side moves any more. */
  readonly done: Promise<Outcome>;
  /** Cuts it; resolves when nothing of it can still be used. */
  end(why: EndReason): Promise<void>;
}

/** Small declined answers are read to their end, which keeps the connection; larger ones are not worth it. */
const DRAIN_BYTES = 64 * 1024;
const DRAIN_MS = 5_000;
/** For an answer that is complete while the client still sends. */
const DROP_BYTES = 16 * 1024 * 1024;
const DROP_IDLE_MS = 30_000;
const DROP_TOTAL_MS = 120_000;
/** For one whose session has ended: nothing counts it any more. */
const DROP_ENDED_MS = 30_000;
/** For last words to leave. */
const FAREWELL_MS = 1_000;

export function forward(options: ForwardOptions): Forwarding {
  const { req, res, answer } = options;
  const needles = Array.isArray(options.needles)
    ? needlesOf(options.needles.map(String))
    : (options.needles as Needles | undefined);
  const scan = needles && (options.scan ?? createEchoScan)(needles);
  const started = performance.now();
  let controller: Dispatcher.DispatchController | undefined;
  let head: UpstreamHead | undefined;
  let decided: Answer | undefined; // and not begun
  let transform: BodyTransform | undefined;
  let lengthLeft = -1; // of an answer with Content-Length
  let sent: Outcome['sent'] = 'nothing';
  let bytesUp = 0;
  let bytesDown = 0;
  let upstreamMs = -1;
  let moved = true;
  let over = false; // decided how it ends; nothing more is passed on
  let flushing = false; // the upstream is done, the client still reads
  let dropping: Promise<void> | undefined; // what the client still sends
  let draining = 0;
  let retried = false;
  let resolve: (outcome: Outcome) => void;
  let tell: (outcome: Outcome) => void;
  const done = new Promise<Outcome>((r) => {
    resolve = r;
  });
  const known = new Promise<Outcome>((r) => {
    tell = r;
  });
  const settle = (outcome: Outcome): void => {
    tell(outcome);
    if (dropping && outcome.how !== 'ended') void dropping.then(() => resolve(outcome));
    else resolve(outcome); // the end of a session waits for no client
  };

  const upload: Readable | undefined =
    options.body && !Buffer.isBuffer(options.body)
      ? uploadStream(options.body, (count) => {
          bytesUp += count;
          moved = true;
        })
      : undefined;
  upload?.on('error', (error) => {
    if (error instanceof OverLimit) finish('over_limit', error);
    else if (error instanceof ClientLeft) finish('client_gone');
  });

  // One timer an exchange, looked at when it fires: no work per chunk but a flag.
  let timer: NodeJS.Timeout | undefined;
  const watch = (ms: number): void => {
    clearTimeout(timer);
    if (ms <= 0) return;
    timer = setTimeout(function look() {
      if (!moved) return finish('idle');
      moved = false;
      timer?.refresh();
    }, ms);
    timer.unref();
  };

  const onClose = (): void => {
    if (flushing && res.writableFinished) finish('complete');
    else finish('client_gone');
  };
  const onDrain = (): void => {
    moved = true;
    controller?.resume();
  };
  res.on('close', onClose);

  function finish(how: Ending, error?: Error, why?: EndReason): void {
    if (over) return;
    over = true;
    clearTimeout(timer);
    res.off('close', onClose);
    const outcome: Outcome = {
      how,
      sent,
      bytesUp: Buffer.isBuffer(options.body) ? options.body.length : bytesUp,
      bytesDown,
      upstreamMs: upstreamMs < 0 ? performance.now() - started : upstreamMs,
      ...(why === undefined ? {} : { why }),
      ...(head === undefined ? {} : { status: head.status, headers: head.headers }),
      ...(error === undefined ? {} : { error }),
    };
    if (how === 'declined') {
      draining = 1;
      timer = setTimeout(() => controller?.abort(new Error('not wanted')), DRAIN_MS).unref();
    } else if (!flushing) controller?.abort(error ?? new Error(how));
    if (how !== 'complete') upload?.destroy();
    if (dropping && how !== 'complete') req.socket.destroy();
    if (how === 'complete' || sent === 'nothing' || res.closed) return void settle(outcome);

    const words = lengthLeft < 0 && !res.destroyed && !flushing ? options.lastWords?.(outcome) : undefined;
    if (words === undefined) {
      res.once('close', () => settle(outcome));
      res.destroy();
      return;
    }
    res.end(words);
    // What still moves is ours: the words, and a body that is dropped so that the client comes to read them.
    const { socket } = req;
    drop(how === 'ended' ? DROP_ENDED_MS : undefined);
    void dropping?.then(() => {
      socket.destroySoon();
      setTimeout(() => socket.destroy(), FAREWELL_MS).unref();
    });
    settle(outcome);
  }

  const drop = (totalMs = options.dropMs ?? DROP_TOTAL_MS): void => {
    dropping = dropBody(req, options.dropBytes ?? DROP_BYTES, DROP_IDLE_MS, totalMs);
  };

  const flush = (): void => {
    if (over) return;
    flushing = true;
    upload?.destroy();
    if (!req.complete) drop();
    if (res.writableFinished) finish('complete');
    else res.once('finish', () => finish('complete'));
  };

  const begin = (): void => {
    if (!decided) return;
    res.writeHead(decided.status, decided.headers as string[]);
    decided = undefined;
    sent = 'head';
  };

  const write = (chunk: Buffer): void => {
    if (chunk.length === 0) return;
    begin();
    sent = 'body';
    bytesDown += chunk.length;
    if (lengthLeft >= 0) {
      lengthLeft -= chunk.length;
      if (lengthLeft === 0) return void res.end(chunk); // head, body and end in one write
    }
    if (res.write(chunk) || !controller) return;
    if (!controller.paused) res.once('drain', onDrain);
    controller.pause();
  };

  const handler: Dispatcher.DispatchHandler = {
    onRequestStart(c) {
      controller = c;
      if (over) c.abort(new Error('over'));
    },
    onResponseStart(_c, status, headers) {
      if (over || status < 200) return;
      moved = true;
      upstreamMs = performance.now() - started;
      head = { status, headers };
      // It was not asked for, and what is compressed cannot be searched.
      const coding = headers['transfer-encoding'];
      if (coding !== undefined && String(coding).toLowerCase() !== 'chunked')
        return finish('upstream_failed', new Error('the answer has an unknown transfer coding'));
      const given = answer(head);
      if (!given) return finish('declined');
      if (needles && anyHolds(given.headers, needles))
        return finish('echoed', new Error('an answer header holds the credential'));
      decided = given;
      transform = given.transform;
      lengthLeft = contentLength(given.headers);
      if (options.idleMs !== options.headMs) watch(options.idleMs);
      // A head alone must not wait for its body. One whose body came with it leaves in one write, once the beginning of
      // the body was looked at: until then the caller can still answer something else.
      process.nextTick(() => {
        if (!decided || over || transform?.whole) return;
        begin();
        res.flushHeaders();
      });
    },
    onResponseData(c, chunk) {
      if (draining > 0) {
        draining += chunk.length;
        if (draining > DRAIN_BYTES) c.abort(new Error('not wanted'));
        return;
      }
      if (over) return;
      moved = true;
      try {
        const out = scan ? scan.push(chunk) : chunk;
        if (out === undefined) return finish('echoed', new Error('the answer holds the credential'));
        write(transform ? transform.push(out) : out);
      } catch (error) {
        finish('upstream_failed', error as Error);
      }
    },
    onResponseEnd() {
      if (draining > 0) clearTimeout(timer);
      if (over) return;
      try {
        const rest = scan?.end();
        if (rest && rest.length > 0) write(transform ? transform.push(rest) : rest);
        if (transform) write(transform.end());
      } catch (error) {
        return finish('upstream_failed', error as Error);
      }
      begin();
      if (!res.writableEnded) res.end();
      flush();
    },
    onResponseError(_c, error) {
      if (draining > 0) clearTimeout(timer);
      if (over) return;
      // A kept connection that the upstream closed just now. Whether it had acted already is not known, so what can
      // change something is not asked again.
      const asks = options.method === 'GET' || options.method === 'HEAD';
      if (!retried && head === undefined && asks && !options.body && isStale(error)) {
        retried = true;
        return void dispatch();
      }
      finish(res.destroyed ? 'client_gone' : 'upstream_failed', error);
    },
  };

  const dispatch = (): boolean =>
    options.upstream.dispatch(
      {
        path: options.path,
        method: options.method as Dispatcher.HttpMethod,
        headers: options.headers as string[],
        body: upload ?? (Buffer.isBuffer(options.body) ? options.body : null),
      },
      handler,
    );

  watch(options.headMs);
  if (res.destroyed || res.writableEnded) finish('client_gone');
  else dispatch();

  return {
    outcome: known,
    done,
    async end(why) {
      if (over && dropping) req.socket.destroy();
      finish('ended', undefined, why);
      await done;
    },
  };
}

function contentLength(headers: readonly string[]): number {
  for (let i = 0; i + 1 < headers.length; i += 2)
    if ((headers[i] as string).toLowerCase() === 'content-length') return Number(headers[i + 1]);
  return -1;
}

function isStale(error: Error): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === 'UND_ERR_SOCKET' || code === 'ECONNRESET' || code === 'EPIPE';
}
