// Opens the trail: starts the writer's thread and joins it with the appending side. An event is encoded (and so
// redacted) here, on the thread that moves bytes, and posted by sender.ts; linking, writing and syncing happen in
// writer-thread.ts. A folder that cannot be used now is tried again, with the next append and on a timer.

import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { type Clock, rfc3339, systemClock } from '../common/clock.ts';
import { type Log, silentLog } from '../common/log.ts';
import { type Metrics, noMetrics } from '../common/metrics.ts';
import type { Redactor } from '../common/redact.ts';
import { type CheckpointSigner, type Statement, signStatement } from './checkpoint.ts';
import { createLedger } from './ledger.ts';
import type { AuditLog } from './log.ts';
import { encodeEvent } from './record.ts';
import { createSender } from './sender.ts';
import type { FromWriter, ToWriter, WriterSettings } from './writer-protocol.ts';

export interface AuditOptions {
  /** Made where it is missing, 0700. */
  readonly dir: string;
  readonly onFailure: 'refuse' | 'continue';
  /** `written` waits for fsync too. */
  readonly syncReads: boolean;
  /** Milliseconds; whole segments of older records are removed. */
  readonly retention: number;
  readonly signer: CheckpointSigner;
  readonly redactor: Redactor;
  readonly metrics?: Metrics;
  readonly log?: Log;
  readonly clock?: Clock;
  /** Size at which a segment is full; 32 MiB. */
  readonly segmentBytes?: number;
  /** How long the disk may take to answer, in milliseconds; 3 s. */
  readonly patience?: number;
  /** How often the end of the chain is signed for while it grows, in milliseconds; 5 s. */
  readonly checkpointEvery?: number;
  /** How often a failed disk is tried again, in milliseconds; 1 s. */
  readonly probeEvery?: number;
  /** How often old segments are looked for, in milliseconds; 1 h. */
  readonly retainEvery?: number;
  /** For tests: the URL of a module that exports `wrapDisk`. */
  readonly diskModule?: string;
}

const SEGMENT_BYTES = 32 * 1024 * 1024;
/** A quiet trail begins a segment a day, so that retention has whole segments to remove. */
const SEGMENT_MS = 86_400_000;
/** Before a writer that died is started again, in milliseconds. */
const SHORTEST_WAIT = 50;
const LONGEST_WAIT = 5000;
/** For a thread that runs to end. */
const TERMINATE_MS = 500;

export interface OpenAuditLog extends AuditLog {
  /**
   * After `close`: whether the writer hangs in a system call (a disk that does not answer). `process.exit` waits for every
   * thread, and for this one it would wait for ever.
   */
  hangs(): boolean;
}

/**
 * Opens the trail and writes `audit.started`. It resolves also where the folder cannot be used now: `health()` says
 * why, appends fail as `onFailure` says, and the folder is tried again until it can be used.
 */
export async function openAuditLog(options: AuditOptions): Promise<OpenAuditLog> {
  const { onFailure, signer, redactor, retention, syncReads } = options;
  const { metrics = noMetrics, log = silentLog, clock = systemClock, patience = 3000 } = options;
  const abandoned = new BigInt64Array(new SharedArrayBuffer(8));
  const settings: WriterSettings = {
    dir: options.dir,
    segmentBytes: options.segmentBytes ?? SEGMENT_BYTES,
    segmentMs: Math.max(1, Math.min(SEGMENT_MS, retention / 4)),
    checkpointMs: options.checkpointEvery ?? 5000,
    publicKeyPem: signer.publicKeyPem,
    abandoned,
    diskModule: options.diskModule,
  };
  const ledger = createLedger(onFailure === 'refuse');
  let closed = false;
  let hung = false;
  let restart: NodeJS.Timeout | undefined;
  let wait = SHORTEST_WAIT;
  let ended = (): void => {};
  let worker = startWorker();
  const post = (message: ToWriter): void => worker.postMessage(message);
  const sender = createSender({
    refuse: onFailure === 'refuse',
    patience,
    ledger,
    metrics,
    log,
    now: () => clock.now(),
    post,
    giveUp: (before) => void Atomics.store(abandoned, 0, BigInt(before)),
    busy: (is) => (is ? worker.ref() : worker.unref()),
  });

  function startWorker(): Worker {
    const url = new URL('./writer-thread.ts', import.meta.url);
    const started = new Worker(url, { workerData: settings, execArgv: [], name: 'audit' });
    started.unref();
    started.on('message', receive);
    started.on('error', (error: Error) => died(started, error.message));
    started.on('exit', () => died(started, 'it ended'));
    return started;
  }

  /** A writer that cannot even start is tried again ever more slowly. */
  function died(which: Worker, reason: string): void {
    if (which !== worker || closed || restart) return;
    const lost = (): void => sender.disconnected(`the audit writer failed: ${reason}`);
    lost();
    restart = setTimeout(() => {
      restart = undefined;
      if (closed) return;
      worker = startWorker();
      lost();
    }, wait);
    wait = Math.min(2 * wait, LONGEST_WAIT);
  }

  function receive(message: FromWriter): void {
    if (message.type === 'sign') sign(message.request, message.statement);
    else if (message.type === 'own') {
      metrics.auditEvent(message.action);
      if (message.action === 'audit.gap') log.warn({ action: message.action }, message.reason);
      else log.info({ action: message.action }, message.reason);
    } else if (message.type === 'trouble') log.warn({}, message.message);
    else if (message.type === 'closed') ended();
    else {
      if (message.type === 'written') wait = SHORTEST_WAIT;
      sender.receive(message);
    }
  }

  function sign(request: number, statement: Statement): void {
    try {
      post({ type: 'signed', request, line: signStatement(statement, sender.stamp(), signer) });
    } catch (error) {
      log.error({ reason: (error as Error).message }, 'A checkpoint of the audit trail could not be signed');
    }
  }

  function retain(): void {
    post({ type: 'retain', before: rfc3339(clock.now() - retention), now: sender.stamp() });
  }

  async function close(): Promise<void> {
    if (closed) return;
    sender.flush();
    if (!ledger.isEmpty && sender.health().ok) void sender.probe();
    closed = true;
    worker.ref();
    await new Promise<void>((resolve) => {
      const limit = setTimeout(resolve, 2 * patience);
      ended = () => resolve(clearTimeout(limit));
      post({ type: 'close' });
    });
    for (const timer of timers) clearInterval(timer);
    sender.end('the trail is closed');
    const untold = ledger.take();
    if (untold.length > 0)
      log.error({ gaps: untold }, 'The audit trail was closed with a gap that is not on record');
    // A thread that hangs in a system call cannot be ended; nothing waits for it.
    worker.unref();
    hung = !(await Promise.race([worker.terminate().then(() => true), delay(TERMINATE_MS, false)]));
  }

  const timers = [
    setInterval(() => sender.watch(), options.probeEvery ?? Math.min(1000, patience / 3)),
    setInterval(retain, Math.min(options.retainEvery ?? 3_600_000, 2 ** 31 - 1)),
  ];
  for (const timer of timers) timer.unref();

  await sender.probe().catch(() => {});
  retain();

  return {
    append(event, durability) {
      metrics.auditEvent(event.action);
      const at = sender.stamp();
      if (closed) return sender.lost(at, 'the trail is closed');
      let text: string;
      try {
        text = encodeEvent(event, at, redactor);
      } catch (error) {
        return sender.lost(at, `the event cannot be recorded (${(error as Error).name})`);
      }
      return sender.add(text, at, syncReads || durability === 'durable');
    },
    health: () => (closed ? { ok: false, reason: 'the trail is closed' } : sender.health()),
    hangs: () => hung,
    close,
  };
}
