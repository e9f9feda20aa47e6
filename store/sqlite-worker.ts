// The worker thread that owns the database: one message in, one message out, a batch each. Reads are answered from
// before the batch's commits, which nobody has been told of yet.

import { parentPort, workerData } from 'node:worker_threads';
import { PosternError } from '../common/errors.ts';
import {
  type Failure,
  type Outcome,
  openDb,
  type RowText,
  unavailable,
  type WriteText,
} from './sqlite-db.ts';
import type { ListQuery } from './store.ts';

export type Call =
  | { readonly op: 'get'; readonly set: string; readonly id: string }
  | { readonly op: 'list'; readonly set: string; readonly query: ListQuery }
  | { readonly op: 'countSealed' }
  | { readonly op: 'commit'; readonly writes: readonly WriteText[] }
  | { readonly op: 'probe' }
  | { readonly op: 'close' };

export interface Answers {
  readonly get: RowText | undefined;
  readonly list: RowText[];
  readonly countSealed: { [set: string]: { [kek: string]: number } };
  readonly commit: boolean;
  readonly probe: undefined;
  readonly close: undefined;
}

export type Reply = { readonly ok: unknown } | { readonly failed: Failure };

const port = parentPort;
if (!port) throw new Error('the store worker is a thread, not a program');

const db = openOrReport();
if (db) {
  port.on('message', (batch: readonly Call[]) => {
    const replies: Reply[] = new Array(batch.length);
    const commits: { at: number; writes: readonly WriteText[] }[] = [];
    for (const [at, call] of batch.entries()) {
      if (call.op === 'commit') commits.push({ at, writes: call.writes });
      else if (call.op !== 'close') replies[at] = answer(call);
    }
    if (commits.length > 0) {
      const outcomes = db.commit(commits.map(({ writes }) => writes));
      for (const [n, { at }] of commits.entries()) replies[at] = fromOutcome(outcomes[n] ?? false);
    }
    const closing = batch.findIndex(({ op }) => op === 'close');
    if (closing >= 0) {
      db.close();
      replies[closing] = { ok: undefined };
    }
    port.postMessage(replies);
    if (closing >= 0) port.close();
  });
  port.postMessage({ ok: undefined } satisfies Reply);
}

function openOrReport() {
  try {
    return openDb(String(workerData.file));
  } catch (error) {
    port?.postMessage({ failed: failure(error) } satisfies Reply);
    port?.close();
    return undefined;
  }
}

function answer(call: Exclude<Call, { op: 'commit' | 'close' }>): Reply {
  try {
    switch (call.op) {
      case 'get':
        return { ok: db?.get(call.set, call.id) };
      case 'list':
        return { ok: db?.list(call.set, call.query) };
      case 'countSealed':
        return { ok: db?.countSealed() };
      case 'probe':
        return { ok: db?.probe() };
    }
  } catch (error) {
    return { failed: failure(error) };
  }
}

function fromOutcome(outcome: Outcome): Reply {
  return typeof outcome === 'boolean' ? { ok: outcome } : { failed: outcome };
}

function failure(error: unknown): Failure {
  const { code, message, key, remedy } = error instanceof PosternError ? error : unavailable(error);
  return { code, message, key, remedy };
}
