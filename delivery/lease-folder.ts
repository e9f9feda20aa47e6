// The private folder of a lease on this host: on a tmpfs, 0700, files 0600, for one run, overwritten and removed at its
// end. Its name is chosen and its intent recorded before anything is on disk. A process that is killed in between leaves a
// record that the next start acts on (lease-sweep.ts); one that is killed before leaves nothing at all; there is no moment
// at which a folder with credentials exists that nothing knows about.

import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, lstat, mkdir, open, readdir, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, isAbsolute, join } from 'node:path';
import type { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import { holds, placeFile } from './folder.ts';
import { forget, type LeaseRecords, remember } from './lease-records.ts';

/** By this every sweep knows a folder as one of ours; nothing without it is ever wiped. */
export const LEASE_FOLDER_PREFIX = 'postern-lease-';
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const TMPFS = 0x01021994;
/** The unit of `st_blocks` (stat(3type)). */
const BLOCK = 512;
const ZEROS = Buffer.alloc(64 * 1024);

export interface LeaseFolder {
  readonly dir: string;
  /** Puts those of these files there that are new or changed; what an earlier call put and is neither among them nor in `keep` is wiped. */
  write(files: { readonly [name: string]: Credential }, keep?: readonly string[]): Promise<void>;
  /** Overwrites and removes everything. Idempotent. */
  wipe(): Promise<void>;
}

/** An unused path: 96 random bits, so that two hosts' processes on one shared tmpfs never meet. Makes nothing. */
export async function newLeaseFolderPath(base?: string): Promise<string> {
  return join(base ?? (await chooseBase()), LEASE_FOLDER_PREFIX + randomBytes(12).toString('hex'));
}

/** The user's own tmpfs, else the shared one, else the temporary folder (a disk, where wiping is the only thing left). */
export async function chooseBase(env: NodeJS.ProcessEnv = process.env): Promise<string> {
  for (const base of [env.XDG_RUNTIME_DIR, '/dev/shm']) {
    if (!base || !isAbsolute(base)) continue;
    if ((await statfs(base).catch(() => undefined))?.type === TMPFS && (await isUsable(base))) return base;
  }
  return tmpdir();
}

async function isUsable(base: string): Promise<boolean> {
  const probe = join(base, `.postern-${randomBytes(8).toString('hex')}`);
  try {
    await mkdir(probe, { mode: 0o700 });
    await rm(probe, { recursive: true });
    return true;
  } catch {
    return false;
  }
}

/**
 * Records and makes the folder.
 * @throws PosternError `invalid_input`; `conflict` where it is there already: two leases in one folder would end with
 *   the first of them
 */
export async function makeLeaseFolder(path: string, records: LeaseRecords): Promise<LeaseFolder> {
  if (!isAbsolute(path) || !basename(path).startsWith(LEASE_FOLDER_PREFIX))
    throw new PosternError(
      'invalid_input',
      `The folder of a lease is an absolute path to ${LEASE_FOLDER_PREFIX}….`,
    );
  await remember(records, path);
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (cause) {
    await forget(records, path);
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'failed';
    throw new PosternError(
      code === 'EEXIST' ? 'conflict' : 'invalid_input',
      `The folder ${path} can't be made (${code}).`,
      {
        cause,
      },
    );
  }
  const written = new Set<string>();
  return {
    dir: path,
    async write(files, keep = []) {
      for (const name of Object.keys(files))
        if (!NAME.test(name))
          throw new PosternError('invalid_input', 'A file of a lease has a bare name.', { key: 'files' });
      for (const [name, content] of Object.entries(files)) {
        if (!(await holds(join(path, name), content))) await placeFile(path, name, content);
        written.add(name);
      }
      for (const name of written)
        if (!Object.hasOwn(files, name) && !keep.includes(name)) {
          await wipeFile(join(path, name));
          written.delete(name);
        }
    },
    async wipe() {
      await wipeFolder(path);
      await forget(records, path);
    },
  };
}

/**
 * Overwrites and removes a folder of ours and all that is in it. One that is not there, or not ours, is left alone. What
 * the workload did to it does not matter: a file that can't be overwritten is removed all the same.
 * @throws what the removal meets
 */
export async function wipeFolder(path: string): Promise<boolean> {
  const stat = await lstat(path).catch(() => undefined);
  if (
    !stat?.isDirectory() ||
    stat.uid !== process.getuid?.() ||
    !basename(path).startsWith(LEASE_FOLDER_PREFIX)
  )
    return false;
  await openUp(path);
  for (const entry of await readdir(path, { withFileTypes: true }).catch(() => []))
    if (entry.isFile()) await wipeFile(join(path, entry.name)).catch(() => {});
  // What the workload made inside goes too. rm does not follow links.
  await rm(path, { recursive: true, force: true });
  return true;
}

/** Folders in it may be closed to their owner, who can't empty them then. Links are not followed. */
async function openUp(path: string): Promise<void> {
  if (!(await lstat(path).catch(() => undefined))?.isDirectory()) return;
  await chmod(path, 0o700).catch(() => {});
  for (const entry of await readdir(path, { withFileTypes: true }).catch(() => []))
    if (entry.isDirectory()) await openUp(join(path, entry.name));
}

/**
 * Overwrites and removes one file; one that is not there is left at that. It is removed also where it can't be overwritten,
 * and whatever a workload has put in its place: a folder there must not keep the other files from their end.
 */
export async function wipeFile(path: string): Promise<void> {
  await overwrite(path).catch(() => {});
  await openUp(path);
  await rm(path, { recursive: true, force: true });
}

async function overwrite(path: string): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stat = await file.stat();
    // A second name for the inode means that somebody linked a file of theirs here: it is not ours to overwrite.
    if (!stat.isFile() || stat.nlink !== 1) return;
    // Holes hold nothing, and a file of holes is as long as its maker likes. A file system that keeps small files in
    // the inode counts no blocks for them.
    const end = Math.min(stat.size, Math.max(stat.blocks * BLOCK, ZEROS.length));
    for (let at = 0; at < end; ) {
      const { bytesWritten } = await file.write(ZEROS, 0, Math.min(ZEROS.length, end - at), at);
      at += bytesWritten;
    }
    await file.datasync();
  } finally {
    await file.close();
  }
}
