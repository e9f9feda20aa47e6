// Puts a parcel on disk: a folder of mode 0700 with files of mode 0600. A folder that exists is used only when it is
// empty or when an earlier parcel made it, and only when it is ours; a symbolic link is refused in its place, because
// whoever placed it decides where the files end up. In a fresh folder every file is created exclusively; over an older
// parcel each file is replaced by a rename, so that a reader sees the old one or the new one and never half of one.

import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, lstat, mkdir, open, readdir, rename, rm, rmdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import { type Environment, readEnvFile } from './env.ts';
import { FILE_NAMES, type Parcel } from './parcel.ts';

/** Far over what the variables of any lease take. */
const MAX_ENV_BYTES = 1024 * 1024;

export interface Folder {
  /** Absolute. */
  readonly dir: string;
  /** What an earlier parcel in it said; empty in a fresh folder. */
  readonly env: Environment;
  write(parcel: Parcel): Promise<void>;
  /** Takes the folder away again where it was made for this and nothing is in it. */
  discard(): Promise<void>;
}

/**
 * Makes or checks the folder, before anything is issued that would have to go into it.
 * @throws PosternError `invalid_input` or `conflict` naming `key`
 */
export async function openFolder(path: string, key = '--out'): Promise<Folder> {
  const dir = resolve(path);
  const fresh = await makeFresh(dir, key);
  const env = fresh ? {} : await adopt(dir, key);
  return {
    dir,
    env,
    async write({ files }) {
      // `env` comes last in FILE_NAMES: who waits for it finds the others in place.
      for (const name of FILE_NAMES) {
        const content = files[name];
        if (content) await placeFile(dir, name, content);
      }
    },
    async discard() {
      if (fresh) await rmdir(dir).catch(() => {});
    },
  };
}

async function makeFresh(dir: string, key: string): Promise<boolean> {
  try {
    await mkdir(dirname(dir), { recursive: true });
    await mkdir(dir, { mode: 0o700 });
    await chmod(dir, 0o700);
    return true;
  } catch (cause) {
    if (errno(cause) === 'EEXIST' && (await lstat(dir).catch(() => undefined))) return false;
    throw new PosternError('invalid_input', `${key}: the folder ${dir} can't be made (${errno(cause)}).`, {
      key,
      remedy: 'Name a folder in a place that you may write to, best on a tmpfs such as /dev/shm.',
      cause,
    });
  }
}

async function adopt(dir: string, key: string): Promise<Environment> {
  const refuse = (why: string): PosternError =>
    new PosternError('conflict', `${key}: ${dir} ${why}.`, {
      key,
      remedy: 'Name a folder that does not exist yet.',
    });
  const stat = await lstat(dir);
  if (stat.isSymbolicLink()) throw refuse('is a symbolic link');
  if (!stat.isDirectory()) throw refuse('is not a folder');
  if (stat.uid !== process.getuid?.()) throw refuse('belongs to another user');
  const names = await readdir(dir);
  const env = names.length === 0 ? {} : await readEnv(join(dir, 'env'));
  if (!env) throw refuse('holds files that postern did not write');
  await chmod(dir, 0o700);
  return env;
}

/** `undefined` where this is not a file that an earlier parcel left. */
async function readEnv(path: string): Promise<Environment | undefined> {
  try {
    return readEnvFile(await readOwn(path, MAX_ENV_BYTES));
  } catch {
    return undefined;
  }
}

/**
 * Reads a file that was written here earlier and that a workload may have replaced since: no link is followed, no pipe
 * waited for, and no more is read than such a file can hold.
 * @throws where it is not a regular file, or larger than `maxBytes`
 */
export async function readOwn(path: string, maxBytes: number): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stat = await file.stat();
    if (!stat.isFile() || stat.size > maxBytes) throw new Error('not a file of ours');
    const text = Buffer.alloc(stat.size);
    const { bytesRead } = await file.read(text, 0, text.length, 0);
    return text.toString('utf8', 0, bytesRead);
  } finally {
    await file.close();
  }
}

/** One file: made exclusively, or put in the place of an older one by a rename. `name` is a bare name. */
export async function placeFile(dir: string, name: string, content: Credential): Promise<void> {
  const target = join(dir, name);
  const exists = await lstat(target).then(
    () => true,
    () => false,
  );
  if (!exists) return create(target, content);
  const next = join(dir, `.${name}.${randomBytes(6).toString('hex')}`);
  try {
    await create(next, content);
    await rename(next, target);
  } catch (error) {
    await rm(next, { force: true });
    throw error;
  }
}

/** Whether the file is there and is this, so that it need not be put again. Follows no link and waits for nothing. */
export async function holds(path: string, content: Credential): Promise<boolean> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch(() => undefined);
  if (!file) return false;
  try {
    const stat = await file.stat();
    const bytes = Buffer.from(content.reveal(), 'utf8');
    return stat.isFile() && stat.size === bytes.length && (await file.readFile()).equals(bytes);
  } finally {
    await file.close();
  }
}

async function create(path: string, content: Credential): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.chmod(0o600);
    await file.writeFile(content.reveal());
  } finally {
    await file.close();
  }
}

function errno(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'failed';
}
