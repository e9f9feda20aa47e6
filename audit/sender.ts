// Collects events into a batch, posts it to the writer, and answers everybody in it with one shared promise. One batch
// is being written at a time and what comes meanwhile is the next one: alone, an event leaves at once; under load the
// batches grow by themselves, and with them what one message and one write carry. What fails, or is not answered in time, is refused (or, with `continue`, let pass) and
// entered in the ledger; while the disk does not answer at all, nothing more is sent to it and everything is lost at
// once instead of waiting in line.

import { rfc3339 } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import type { Log } from '../common/log.ts';
import type { Metrics } from '../common/metrics.ts';
import type { Ledger } from './ledger.ts';
import type { Batch, FromWriter, Gap } from './writer-protocol.ts';

/** Encoded text that may wait for a slow disk; beyond it events are lost events. */
const MOST_WAITING = 64 * 1024 * 1024;

export interface SenderParts {
  readonly refuse: boolean;
  /** How long an answer may take, in milliseconds. */
  readonly patience: number;
  readonly ledger: Ledger;
  readonly metrics: Metrics;
  readonly log: Log;
  now(): number;
  post(batch: Batch): void;
  /** Batches below this id are not to be written any more. */
  giveUp(before: number): void;
  /** Whether answers are awaited: the writer must keep the process alive. */
  busy(is: boolean): void;
}

export interface Sender {
  /** RFC 3339 of now; never runs backward. */
  stamp(): string;
  /** `text` made with the last `stamp`. */
  add(text: string, at: string, durable: boolean): Promise<void>;
  lost(at: string, reason: string): Promise<void>;
  flush(): void;
  /** Sends an empty batch: tries the disk, and has the ledger recorded. */
  probe(): Promise<void>;
  receive(message: Extract<FromWriter, { type: 'written' | 'synced' | 'failed' | 'unsynced' }>): void;
  /** To be called now and then: notices a disk that does not answer, and tries a failed one. */
  watch(): void;
  /** The writer is gone: nobody will answer what is under way. */
  disconnected(reason: string): void;
  /** The trail is closed; what is still under way will not be answered. */
  end(reason: string): void;
  health(): { ok: boolean; reason?: string };
}

interface Collected {
  readonly texts: string[];
  readonly first: string;
  readonly written: Settle;
  readonly synced: Settle;
  count: number;
  durable: number;
  bytes: number;
}

interface Sent extends Readonly<Collected> {
  readonly id: number;
  readonly last: string;
  readonly gaps: readonly Gap[];
  readonly sentAt: number;
  isWritten: boolean;
}

export function createSender(parts: SenderParts): Sender {
  const { refuse, ledger, metrics, log } = parts;
  let nextId = 0;
  let time = '';
  let timeMs = Number.NEGATIVE_INFINITY;
  let open: Collected | undefined;
  /** Oldest first. One that waits for a sync stays here after it is written. */
  let sent: Sent[] = [];
  let waiting = 0;
  /** Given up while the disk hung, in case they are written after all. */
  const givenUp = new Map<number, Sent>();
  let failure: { step: 'write' | 'sync'; reason: string } | undefined;
  let stuck: 'write' | 'sync' | undefined;
  /** The batch that was unanswered for too long when last looked at. */
  let suspect: number | undefined;

  function stamp(): string {
    const now = parts.now();
    if (now > timeMs) {
      timeMs = now;
      time = rfc3339(now);
    }
    return time;
  }

  function collect(first: string): Collected {
    return { texts: [], first, written: settle(), synced: settle(), count: 0, durable: 0, bytes: 0 };
  }

  /** No batch is on its way to the disk. Those that only wait for a sync do not count: the writer takes more meanwhile. */
  function isIdle(): boolean {
    return sent.every(({ isWritten }) => isWritten);
  }

  function flushOpen(): void {
    const batch = open;
    open = undefined;
    if (batch) send(batch);
  }

  function lost(at: string, reason: string): Promise<void> {
    ledger.dropped(1, at, at, reason);
    metrics.auditFailure();
    const answer = settle();
    if (refuse) answer.reject(unavailable(reason));
    else answer.resolve();
    return answer.promise;
  }

  function send(batch: Collected): void {
    const id = nextId++;
    const gaps = ledger.take();
    if (sent.length === 0) parts.busy(true);
    sent.push({ ...batch, id, last: stamp(), gaps, sentAt: performance.now(), isWritten: false });
    const sync = batch.durable > 0 || batch.count === 0;
    parts.post({ type: 'batch', id, text: batch.texts.join('\n'), sync, now: batch.first, gaps });
  }

  function remove(gone: (batch: Sent) => boolean): void {
    const before = sent.length;
    sent = sent.filter((batch) => !gone(batch));
    if (before > 0 && sent.length === 0) parts.busy(false);
  }

  function fail(batches: readonly Sent[], step: 'write' | 'sync', reason: string): void {
    if (!failure) log.error({ reason }, 'The audit trail cannot be written');
    failure = { step, reason };
    metrics.auditFailure();
    const error = unavailable(reason);
    const failed = new Set(batches);
    remove((batch) => failed.has(batch));
    for (const batch of batches) {
      if (!batch.isWritten) {
        waiting -= batch.bytes;
        ledger.giveBack(batch.gaps);
        if (batch.count > 0) ledger.dropped(batch.count, batch.first, batch.last, reason);
      } else if (refuse && batch.durable > 0) {
        ledger.late(batch.durable, batch.first, batch.last);
      }
      for (const { resolve, reject } of [batch.written, batch.synced]) refuse ? reject(error) : resolve();
    }
  }

  function works(step: 'write' | 'sync'): void {
    if (stuck === step) stuck = undefined;
    if (!failure || (failure.step === 'sync' && step === 'write')) return;
    failure = undefined;
    log.info({}, 'The audit trail can be written again');
  }

  function written(from: number, to: number): void {
    metrics.auditWritten(parts.now());
    for (let id = from; id <= to && givenUp.size > 0; id++) {
      const batch = givenUp.get(id);
      if (!batch || !givenUp.delete(id) || batch.count === 0) continue;
      ledger.recovered(batch.count);
      if (refuse) ledger.late(batch.count, batch.first, batch.last);
    }
    works('write');
    for (const batch of sent) {
      if (batch.id < from || batch.id > to) continue;
      batch.isWritten = true;
      waiting -= batch.bytes;
      batch.written.resolve();
    }
    remove(({ isWritten, durable, count }) => isWritten && durable === 0 && count > 0);
  }

  function synced(to: number): void {
    works('sync');
    const safe = (batch: Sent): boolean => batch.id <= to && batch.isWritten;
    for (const batch of sent) if (safe(batch)) batch.synced.resolve();
    remove(safe);
  }

  function answered(message: Parameters<Sender['receive']>[0]): void {
    if (message.type === 'written') written(message.from, message.to);
    else if (message.type === 'synced') synced(message.to);
    else if (message.type === 'unsynced') {
      if (stuck === 'sync') stuck = undefined;
      fail(
        sent.filter(({ id, isWritten }) => isWritten && id <= message.to),
        'sync',
        message.reason,
      );
    } else {
      if (stuck === 'write') stuck = undefined;
      for (let id = message.from; id <= message.to; id++) givenUp.delete(id);
      const batches = sent.filter(({ id }) => id >= message.from && id <= message.to);
      if (batches.length > 0) fail(batches, 'write', message.reason);
    }
  }

  /** What was collected while a batch was on its way follows as soon as that one is written or lost. */
  function carryOn(): void {
    if (open && isIdle()) flushOpen();
  }

  return {
    stamp,
    lost,
    add(text, at, durable) {
      if (stuck === 'write' || (stuck === 'sync' && durable)) return lost(at, failure?.reason ?? NO_ANSWER);
      if (waiting > MOST_WAITING) {
        failure ??= { step: 'write', reason: TOO_SLOW };
        return lost(at, TOO_SLOW);
      }
      if (!open) {
        open = collect(at);
        if (isIdle()) setImmediate(this.flush);
      }
      open.texts.push(text);
      open.count++;
      open.bytes += text.length;
      waiting += text.length;
      if (!durable) return open.written.promise;
      open.durable++;
      return open.synced.promise;
    },
    flush: flushOpen,
    probe() {
      const batch = collect(stamp());
      send(batch);
      return batch.synced.promise;
    },
    receive(message) {
      answered(message);
      carryOn();
    },
    watch() {
      const [oldest] = sent;
      const late = oldest !== undefined && performance.now() - oldest.sentAt > parts.patience;
      // Looked at twice: after a pause of this thread its answer may lie in the queue.
      if (late && suspect !== oldest.id) suspect = oldest.id;
      else if (late) {
        flushOpen(); // it would wait for the same disk
        const unwritten = sent.filter(({ isWritten }) => !isWritten);
        stuck = unwritten.length > 0 ? 'write' : 'sync';
        parts.giveUp(nextId);
        for (const batch of unwritten) givenUp.set(batch.id, batch);
        fail(sent, stuck, NO_ANSWER);
      } else if (failure && sent.length === 0 && givenUp.size === 0 && !open && !stuck) {
        void this.probe();
      }
    },
    disconnected(reason) {
      stuck = undefined;
      givenUp.clear();
      flushOpen();
      fail(sent, 'write', reason);
    },
    end(reason) {
      flushOpen();
      if (sent.length > 0) fail(sent, 'write', reason);
    },
    health: () => (failure ? { ok: false, reason: failure.reason } : { ok: true }),
  };
}

const NO_ANSWER = 'the disk does not answer';
const TOO_SLOW = 'too many records wait for the disk';

function unavailable(reason: string): PosternError {
  return new PosternError('audit_unavailable', `The audit trail cannot be written: ${reason}.`, {
    remedy: 'Free or repair the disk under audit.dir; Postern goes on by itself once it can write there.',
  });
}

interface Settle {
  readonly promise: Promise<void>;
  resolve(): void;
  reject(error: Error): void;
}

/** A promise that nobody has to await: its rejection belongs to everybody who does. */
function settle(): Settle {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  promise.catch(() => {});
  return { promise, resolve, reject };
}
