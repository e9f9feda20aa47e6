// The SQL, synchronous: only the worker thread calls it. Commits come in groups that share one transaction and so one
// fsync; a savepoint around each keeps it all-or-none by itself, so that a neighbour's failed expectation costs it
// nothing. Bodies and envelopes stay text here: the thread that asked for a row is the one that parses it.

import { closeSync, fchmodSync, fstatSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type ErrorCode, PosternError } from '../common/errors.ts';
import { migrate } from './sqlite-schema.ts';
import { KEY_SET, type ListQuery } from './store.ts';

export interface RowText {
  readonly id: string;
  readonly rev: number;
  readonly body: string;
  readonly sealed: string | null;
  readonly indexed: string;
}

export type WriteText =
  | (Omit<RowText, 'rev'> & {
      readonly op: 'put';
      readonly set: string;
      readonly kek: string | null;
      readonly expect: number | undefined;
    })
  | {
      readonly op: 'delete' | 'check';
      readonly set: string;
      readonly id: string;
      readonly expect: number | undefined;
    };

/** `true`: written. `false`: an expectation did not hold. Otherwise why it could not be done. */
export type Outcome = boolean | Failure;

export interface Failure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly key?: string | undefined;
  readonly remedy?: string | undefined;
}

export interface SqliteDb {
  get(set: string, id: string): RowText | undefined;
  list(set: string, query: ListQuery): RowText[];
  countSealed(): { [set: string]: { [kek: string]: number } };
  /** One transaction for all; an outcome for each. Never throws. */
  commit(group: readonly (readonly WriteText[])[]): Outcome[];
  /** Writes and syncs. @throws PosternError `store_unavailable` */
  probe(): void;
  close(): void;
}

/** How long a lock that another process holds is waited for. */
const LOCK_WAIT_MS = 5000;

/** @throws PosternError `invalid_config`, `store_unavailable` */
export function openDb(file: string): SqliteDb {
  if (file !== ':memory:') makePrivateFile(file);
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { timeout: LOCK_WAIT_MS, enableForeignKeyConstraints: true });
    db.enableDefensive(true);
    // secure_delete: a retired key's salt and a deleted credential are overwritten in the file, not only unlinked.
    db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;
             PRAGMA trusted_schema = OFF; PRAGMA journal_size_limit = 67108864`);
    migrate(db);
    return statements(db);
  } catch (error) {
    db?.close();
    throw error instanceof PosternError ? error : openFailure(error);
  }
}

function makePrivateFile(file: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    // SQLite gives its -wal and -shm files the mode of the database.
    const fd = openSync(file, 'a', 0o600);
    try {
      if ((fstatSync(fd).mode & 0o077) !== 0) fchmodSync(fd, 0o600);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    throw new PosternError('invalid_config', `store.sqlite: ${file} cannot be used: ${text(error)}`, {
      key: 'store.sqlite',
      remedy: 'name a file in a folder that this user may write to',
    });
  }
}

function openFailure(error: unknown): PosternError {
  if (sqliteCode(error) === 26)
    return new PosternError('invalid_config', 'store.sqlite: the file is not an SQLite database', {
      key: 'store.sqlite',
      remedy: 'name another file, or take that one out of the way',
    });
  return unavailable(error);
}

export function unavailable(error: unknown): PosternError {
  return new PosternError('store_unavailable', `the store does not work: ${text(error)}`, {
    key: 'store.sqlite',
    remedy: 'see that the disk has room and works, and that no other program holds the file',
  });
}

function statements(db: DatabaseSync): SqliteDb {
  const getRow = db.prepare('SELECT id, rev, body, sealed, indexed FROM rows WHERE set_name = ? AND id = ?');
  const getState = db.prepare('SELECT rev, indexed FROM rows WHERE set_name = ? AND id = ?');
  const putRow = db.prepare(
    `INSERT INTO rows (set_name, id, rev, body, sealed, kek, indexed) VALUES (?, ?, 1, ?, ?, ?, ?)
     ON CONFLICT (set_name, id) DO UPDATE SET
       rev = rev + 1, body = excluded.body, sealed = excluded.sealed, kek = excluded.kek, indexed = excluded.indexed`,
  );
  const deleteRow = db.prepare('DELETE FROM rows WHERE set_name = ? AND id = ?');
  const deleteEntries = db.prepare('DELETE FROM entries WHERE set_name = ? AND id = ?');
  const putEntry = db.prepare(
    'INSERT OR IGNORE INTO entries (set_name, index_name, value, id) VALUES (?, ?, ?, ?)',
  );
  const sealsAny = db.prepare('SELECT 1 FROM rows WHERE kek = ? LIMIT 1');
  const countKeks = db.prepare(
    'SELECT set_name, kek, count(*) AS n FROM rows WHERE kek IS NOT NULL GROUP BY kek, set_name',
  );
  const touch = db.prepare('UPDATE probe SET count = count + 1');
  const listBy = {
    all: db.prepare(
      'SELECT id, rev, body, sealed, indexed FROM rows WHERE set_name = ? AND id > ? ORDER BY id LIMIT ?',
    ),
    kek: db.prepare(
      `SELECT id, rev, body, sealed, indexed FROM rows
       WHERE set_name = ? AND kek = ? AND id > ? ORDER BY id LIMIT ?`,
    ),
    entry: db.prepare(
      `SELECT r.id, r.rev, r.body, r.sealed, r.indexed FROM entries e
       JOIN rows r ON r.set_name = e.set_name AND r.id = e.id
       WHERE e.set_name = ? AND e.index_name = ? AND e.value = ? AND e.id > ? AND (? IS NULL OR r.kek = ?)
       ORDER BY e.id LIMIT ?`,
    ),
  };

  function apply(write: WriteText): Outcome {
    const state = getState.get(write.set, write.id);
    if (write.expect !== undefined && Number(state?.rev ?? 0) !== write.expect) return false;
    if (write.op === 'put') {
      if (write.kek !== null && getState.get(KEY_SET, write.kek) === undefined) return keyGone(write.kek);
      putRow.run(write.set, write.id, write.body, write.sealed, write.kek, write.indexed);
      if (state?.indexed !== write.indexed) {
        if (state) deleteEntries.run(write.set, write.id);
        const index = JSON.parse(write.indexed) as { [name: string]: string[] };
        for (const [name, values] of Object.entries(index))
          for (const value of values) putEntry.run(write.set, name, value, write.id);
      }
    } else if (write.op === 'delete' && state) {
      if (write.set === KEY_SET && sealsAny.get(write.id)) return keyInUse(write.id);
      deleteRow.run(write.set, write.id);
      deleteEntries.run(write.set, write.id);
    }
    return true;
  }

  function applyAll(writes: readonly WriteText[]): Outcome {
    db.exec('SAVEPOINT one');
    let outcome: Outcome = true;
    for (const write of writes) {
      outcome = apply(write);
      if (outcome !== true) break;
    }
    db.exec(outcome === true ? 'RELEASE one' : 'ROLLBACK TO one; RELEASE one');
    return outcome;
  }

  return {
    get: (set, id) => getRow.get(set, id) as RowText | undefined,

    list(set, { where, sealedBy, after = '', limit = -1 }) {
      const kek = sealedBy ?? null;
      const rows = where
        ? listBy.entry.all(set, where.index, where.value, after, kek, kek, limit)
        : kek !== null
          ? listBy.kek.all(set, kek, after, limit)
          : listBy.all.all(set, after, limit);
      return rows as unknown as RowText[];
    },

    countSealed() {
      const counts: { [set: string]: { [kek: string]: number } } = {};
      for (const { set_name, kek, n } of countKeks.all()) {
        const set = String(set_name);
        counts[set] = { ...counts[set], [String(kek)]: Number(n) };
      }
      return counts;
    },

    commit(group) {
      try {
        db.exec('BEGIN IMMEDIATE');
        const outcomes = group.map(applyAll);
        db.exec('COMMIT');
        return outcomes;
      } catch (error) {
        // A full disk or a failed write may already have rolled back; a group that half happened is never reported.
        if (db.isTransaction) db.exec('ROLLBACK');
        const { code, message, key, remedy } = unavailable(error);
        return group.map(() => ({ code, message, key, remedy }));
      }
    },

    probe() {
      try {
        touch.run();
      } catch (error) {
        throw unavailable(error);
      }
    },

    close: () => db.close(),
  };
}

function keyGone(kek: string): Failure {
  return {
    code: 'key_unknown',
    message: `the row was sealed under the key ${kek}, which the store does not have: it was retired in the meantime, or it belongs to another store`,
    remedy: 'try again: the row is then sealed under the present primary key',
  };
}

function keyInUse(kek: string): Failure {
  return {
    code: 'key_in_use',
    message: `the key ${kek} still seals rows, so it cannot go`,
    remedy: 'run `postern key rotate` first',
  };
}

function sqliteCode(error: unknown): number | undefined {
  const code = (error as { errcode?: unknown } | undefined)?.errcode;
  return typeof code === 'number' ? code & 0xff : undefined;
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
