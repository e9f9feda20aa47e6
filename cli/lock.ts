// One `serve` a data folder. The lock is SQLite's on `serve.lock`, taken by the operating system for the process: it is
// gone the moment the process is, however that ended, and nothing has to be cleaned up. A file with a pid in it would
// outlive a kill -9 and later name a stranger. The pid beside it (`serve.pid`) is only for the message.
//
// The lock is advisory and of one host: it guards a folder on a local file system, not one that two hosts mount.

import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { PosternError } from '../common/errors.ts';

// Whoever drops the answer of `lockDataFolder` must not lose the lock to the garbage collector.
const held = new Set<DatabaseSync>();

export interface DataFolderLock {
  release(): void;
}

/**
 * Makes the folder (mode 0700) where it is missing.
 * @throws PosternError `already_running` naming the process and the folder, `invalid_config` naming `dataDir`
 */
export function lockDataFolder(dataDir: string): DataFolderLock {
  const file = join(dataDir, 'serve.lock');
  const pidFile = join(dataDir, 'serve.pid');
  let database: DatabaseSync | undefined;
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    database = new DatabaseSync(file, { timeout: 0 });
    // An exclusive transaction that is never ended; it writes nothing and needs no journal on disk.
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    held.add(database);
    chmodSync(file, 0o600);
    writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 });
  } catch (error) {
    if (database) drop(database);
    throw isBusy(error) ? alreadyRunning(dataDir, pidFile) : unusable(dataDir, error);
  }
  const lock = database;
  return {
    release() {
      if (!lock.isOpen) return;
      rmSync(pidFile, { force: true }); // while the lock is held: a successor's would be removed after it
      drop(lock);
    },
  };
}

function drop(database: DatabaseSync): void {
  held.delete(database);
  database.close();
}

/** Whether some process serves the folder, and which one as far as is known. Takes nothing and makes nothing. */
export function lockHolder(dataDir: string): { readonly pid: number | undefined } | undefined {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(join(dataDir, 'serve.lock'), { readOnly: true, timeout: 0 });
    database.exec('BEGIN; SELECT count(*) FROM sqlite_schema; ROLLBACK');
    return undefined;
  } catch (error) {
    return isBusy(error) ? { pid: readPid(join(dataDir, 'serve.pid')) } : undefined;
  } finally {
    database?.close();
  }
}

function isBusy(error: unknown): boolean {
  const { errcode } = error as { errcode?: number };
  return errcode !== undefined && (errcode & 0xff) === 5; // SQLITE_BUSY and its extended codes
}

function alreadyRunning(dataDir: string, pidFile: string): PosternError {
  const pid = readPid(pidFile);
  const who = pid === undefined ? 'another process' : `process ${pid}`;
  const remedy = 'stop it, or give this one another dataDir';
  return new PosternError('already_running', `${who} serves the data folder ${dataDir}; ${remedy}`, {
    key: 'dataDir',
    remedy,
  });
}

function unusable(dataDir: string, cause: unknown): PosternError {
  const { code, errcode } = cause as { code?: string; errcode?: number };
  const why = errcode === undefined ? (code ?? 'unknown error') : `SQLite error ${errcode}`;
  const remedy = 'see its owner, mode and free space, or name another folder';
  return new PosternError('invalid_config', `dataDir: ${dataDir} cannot be used (${why}); ${remedy}`, {
    key: 'dataDir',
    remedy,
    cause,
  });
}

function readPid(file: string): number | undefined {
  try {
    const pid = Number(readFileSync(file, 'utf8').trim());
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}
