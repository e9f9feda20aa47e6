// The tables, and how an older file becomes a current one. `user_version` of the file counts the migrations that it
// has seen; `application_id` says that the file is ours, so that a wrong path never gets tables of ours written into it.

import type { DatabaseSync } from 'node:sqlite';
import { PosternError } from '../common/errors.ts';

const APPLICATION_ID = 0x506f7374; // "Post"

/** One string a version, applied in order. A released entry is never edited. */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE rows (
    set_name TEXT NOT NULL,
    id       TEXT NOT NULL,
    rev      INTEGER NOT NULL,
    body     TEXT NOT NULL,
    sealed   TEXT,
    kek      TEXT,
    indexed  TEXT NOT NULL,
    PRIMARY KEY (set_name, id)
  ) STRICT;
  CREATE INDEX rows_by_kek ON rows (kek, set_name, id) WHERE kek IS NOT NULL;

  CREATE TABLE entries (
    set_name   TEXT NOT NULL,
    index_name TEXT NOT NULL,
    value      TEXT NOT NULL,
    id         TEXT NOT NULL,
    PRIMARY KEY (set_name, index_name, value, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX entries_by_row ON entries (set_name, id);

  CREATE TABLE probe (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL) STRICT;
  INSERT INTO probe VALUES (1, 0);
  `,
];

export const SCHEMA_VERSION = MIGRATIONS.length;

/** @throws PosternError `invalid_config` where the file is not ours or newer than this program */
export function migrate(db: DatabaseSync): void {
  // The version is read inside the write lock: of two processes that open one old file, the second finds it done.
  db.exec('BEGIN IMMEDIATE');
  try {
    const version = pragma(db, 'user_version');
    const owner = pragma(db, 'application_id');
    const empty = db.prepare('SELECT count(*) AS n FROM sqlite_schema').get()?.n === 0;
    if (owner !== APPLICATION_ID && !(empty && owner === 0))
      throw unusable(
        'is a database of another program',
        'name another file, or take that one out of the way',
      );
    if (version > SCHEMA_VERSION)
      throw unusable(
        `was written by a newer Postern (schema ${version}; this program knows ${SCHEMA_VERSION})`,
        'start that version again, or restore a backup made before the upgrade',
      );
    for (const step of MIGRATIONS.slice(version)) db.exec(step);
    db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${SCHEMA_VERSION}; COMMIT`);
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

function unusable(what: string, remedy: string): PosternError {
  return new PosternError('invalid_config', `store.sqlite: the file ${what}`, {
    key: 'store.sqlite',
    remedy,
  });
}

function pragma(db: DatabaseSync, name: 'user_version' | 'application_id'): number {
  return Number(db.prepare(`PRAGMA ${name}`).get()?.[name]);
}
