// The writer's thread: takes everything that waits, writes it with one write, answers for the group, syncs where
// somebody needs it. All that touches the disk happens here; the thread that moves bytes only ever posts a message.

import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import type { Statement } from './checkpoint.ts';
import { type Disk, realDisk } from './disk.ts';
import { createChain } from './writer-chain.ts';
import type { Batch, FromWriter, ToWriter, WriterSettings } from './writer-protocol.ts';
import { appendStatement, compact, expired } from './writer-statements.ts';
import { createSyncer } from './writer-sync.ts';

/** Characters that one write takes at most, give or take one batch. */
const GROUP = 4 * 1024 * 1024;

if (!parentPort) throw new TypeError('audit/writer-thread.ts runs as a worker');
const port = parentPort;
const settings = workerData as WriterSettings;
const { dir } = settings;
const disk = await theDisk();
const tell = (message: FromWriter): void => port.postMessage(message);
const trouble = (what: string, error: unknown): void =>
  tell({ type: 'trouble', message: `${what}: ${(error as Error).message}` });

const chain = createChain(disk, settings, tell);
const signatures = new Map<number, (line: string) => void>();
let requests = 0;
const sign = (statement: Statement, then: (line: string) => void): void => {
  signatures.set(++requests, then);
  tell({ type: 'sign', request: requests, statement });
};
const syncer = createSyncer(disk, dir, chain, tell, ({ seq, hash }) =>
  sign({ kind: 'postern.audit.checkpoint', seq, hash }, (line) => {
    try {
      appendStatement(disk, dir, line);
    } catch (error) {
      trouble('a checkpoint could not be written', error);
    }
  }),
);

const queue: ToWriter[] = [];
let closing = false;
port.on('message', (message: ToWriter) => {
  queue.push(message);
  for (let more = receiveMessageOnPort(port); more; more = receiveMessageOnPort(port))
    queue.push(more.message);
  while (queue.length > 0) handle();
});
const timer = setInterval(() => syncer.checkpoint(), settings.checkpointMs);

function handle(): void {
  const group: Batch[] = [];
  let size = 0;
  while (queue[0]?.type === 'batch' && size < GROUP) {
    const batch = queue.shift() as Batch;
    group.push(batch);
    size += batch.text.length;
  }
  if (group.length > 0) write(group);
  else act(queue.shift() as Exclude<ToWriter, Batch>);
}

function write(group: readonly Batch[]): void {
  const from = Number(Atomics.load(settings.abandoned, 0));
  const kept = group.filter(({ id }) => id >= from);
  const [first] = group as [Batch];
  const keptFrom = kept[0]?.id ?? first.id + group.length;
  if (keptFrom > first.id)
    tell({ type: 'failed', from: first.id, to: keptFrom - 1, reason: 'the disk did not answer in time' });
  const last = kept.at(-1);
  if (!last) return;
  try {
    chain.append(kept);
  } catch (error) {
    tell({ type: 'failed', from: keptFrom, to: last.id, reason: (error as Error).message });
    return;
  }
  tell({ type: 'written', from: keptFrom, to: last.id });
  if (kept.some(({ sync }) => sync)) syncer.request(last.id);
  if (chain.hasRetired()) syncer.checkpoint();
}

function act(message: Exclude<ToWriter, Batch>): void {
  if (message.type === 'signed') {
    signatures.get(message.request)?.(message.line);
    signatures.delete(message.request);
  } else if (message.type === 'retain') {
    try {
      retain(message.before, message.now);
    } catch (error) {
      trouble('old segments could not be removed', error);
    }
  } else if (!closing) {
    closing = true;
    void close();
  }
}

function retain(before: string, now: string): void {
  const old = expired(disk, dir, before);
  if (!old) return;
  const { tail, segments, anchor } = old;
  sign({ kind: 'postern.audit.anchor', seq: tail.seq, hash: tail.hash }, (line) => {
    try {
      appendStatement(disk, dir, line);
      const reason = `Records up to ${tail.seq}, all older than ${before}, were removed`;
      chain.append(
        [{ text: '', now, gaps: [] }],
        [{ action: 'audit.retention', decision: 'allow', reason, anchor }],
      );
      for (const { path } of segments) disk.remove(path);
      compact(disk, dir);
      syncer.checkpoint();
    } catch (error) {
      trouble('old segments could not be removed', error);
    }
  });
}

async function close(): Promise<void> {
  clearInterval(timer);
  syncer.checkpoint();
  await syncer.idle();
  // The signature, if one was asked for, comes with a later message.
  while (signatures.size > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  await syncer.idle();
  tell({ type: 'closed' });
  port.close();
}

async function theDisk(): Promise<Disk> {
  if (settings.diskModule === undefined) return realDisk;
  const wrapper = (await import(settings.diskModule)) as { wrapDisk(disk: Disk): Disk };
  return wrapper.wrapDisk(realDisk);
}
