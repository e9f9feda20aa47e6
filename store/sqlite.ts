// The store over SQLite: node:sqlite is synchronous and an fsync takes what the disk takes, so both live in a worker
// thread (sqlite-worker.ts), reached in batches (worker-link.ts). This file turns rows into text and back, and tells
// the watchers. Other processes' commits are not heard of: on SQLite one process serves, and the caches of the rooms
// re-check in any case.

import { Worker } from 'node:worker_threads';
import type { Json } from '../common/json.ts';
import type { Envelope } from '../keyring/envelope.ts';
import type { RowText, WriteText } from './sqlite-db.ts';
import type { Change, Row, Store, Write } from './store.ts';
import { openLink } from './worker-link.ts';

/** `spawn` is for tests that end the worker. */
export async function openSqliteStore(file: string, spawn = () => startWorker(file)): Promise<Store> {
  const link = openLink({ spawn, restart: file !== ':memory:' });
  await link.ready();
  const watchers = new Set<(changes: readonly Change[]) => void>();
  let probing: Promise<void> | undefined;

  return {
    async get(set, id) {
      const row = await link.call({ op: 'get', set, id });
      return row && fromText(row);
    },

    async list(set, query = {}) {
      return (await link.call({ op: 'list', set, query })).map(fromText);
    },

    countSealed: () => link.call({ op: 'countSealed' }),

    async commit(writes) {
      const written = await link.call({ op: 'commit', writes: writes.map(toText) });
      if (written && watchers.size > 0) {
        const changes = changesOf(writes);
        if (changes.length > 0) for (const tell of watchers) tell(changes);
      }
      return written;
    },

    watch(onChange) {
      const tell = (changes: readonly Change[]): void => onChange(changes);
      watchers.add(tell);
      return () => watchers.delete(tell);
    },

    ping() {
      probing ??= link.call({ op: 'probe' }).finally(() => {
        probing = undefined;
      });
      return probing;
    },

    close: () => link.close(),
  };
}

function startWorker(file: string): Worker {
  // No environment: the thread needs none, and the passphrase may be in it.
  return new Worker(new URL('./sqlite-worker.ts', import.meta.url), {
    name: 'postern-store',
    workerData: { file },
    env: {},
    execArgv: [],
  });
}

function changesOf(writes: readonly Write[]): Change[] {
  const changes: Change[] = [];
  for (const write of writes) {
    if (write.op === 'put') changes.push({ set: write.set, id: write.row.id });
    else if (write.op === 'delete') changes.push({ set: write.set, id: write.id });
  }
  return changes;
}

// Text is made at the call, so that a caller may change its objects while the batch waits.
function toText(write: Write): WriteText {
  const { set, expect } = write;
  checkName(set, 'set');
  if (write.op !== 'put') {
    checkName(write.id, 'id');
    return { op: write.op, set, id: write.id, expect };
  }
  const { id, body, sealed, index } = write.row;
  checkName(id, 'id');
  for (const name of Object.keys(index)) {
    checkName(name, 'index');
    for (const value of index[name] ?? []) checkName(value, 'index value');
  }
  return {
    op: 'put',
    set,
    id,
    body: JSON.stringify(body),
    sealed: sealed === undefined ? null : JSON.stringify(sealed),
    kek: sealed?.kek ?? null,
    indexed: JSON.stringify(index),
    expect,
  };
}

// Text that is not well-formed would be stored as another text, and two names could become one; no backend keeps NUL.
function checkName(name: string, what: string): void {
  if (name === '' || name.includes('\0') || !name.isWellFormed())
    throw new TypeError(`store: ${what} ${JSON.stringify(name)} is empty or not well-formed text`);
}

function fromText({ id, rev, body, sealed, indexed }: RowText): Row {
  const row = {
    id,
    rev,
    body: JSON.parse(body) as { [key: string]: Json },
    index: JSON.parse(indexed) as { [name: string]: string[] },
  };
  return sealed === null ? row : { ...row, sealed: JSON.parse(sealed) as Envelope };
}
