// Where the passphrase comes from: the environment or a file that the configuration names, else a key file of our own,
// made at the first start in the data folder (0600). That one protects copies of the database, not of the folder, and
// doctor says so. A store that has keys and lost its key file is not given a new one: it could not open anything.

import { randomBytes } from 'node:crypto';
import { link, mkdir, open, readFile, unlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';

/** `secretKey` of the configuration. */
export type PassphraseSource = { readonly env: string } | { readonly file: string };

export interface Passphrase {
  readonly passphrase: Credential;
  readonly from: 'env' | 'file' | 'key file';
  /** Of `file` and `key file`. */
  readonly path?: string;
}

export interface PassphraseContext {
  readonly dataDir: string;
  /** Whether the store was given keys before (`hasKeys`). */
  readonly storeHasKeys: boolean;
  readonly env?: NodeJS.ProcessEnv;
}

/** An attacker with the database guesses offline; scrypt makes that slow, not impossible. */
export const MIN_PASSPHRASE_LENGTH = 12;
const KEY_FILE = 'secret.key';

/** @throws PosternError `key_missing` (not there, not readable), `invalid_config` (empty, too short), naming the key */
export async function readPassphrase(
  source: PassphraseSource | undefined,
  { dataDir, storeHasKeys, env = process.env }: PassphraseContext,
): Promise<Passphrase> {
  if (source && 'env' in source) {
    const value = env[source.env];
    if (value === undefined) throw missing('secretKey.env', `the environment has no ${source.env}`);
    return { passphrase: checked(value, 'secretKey.env', source.env), from: 'env' };
  }
  if (source) {
    const value = await read(source.file, 'secretKey.file');
    if (value === undefined) throw missing('secretKey.file', `there is no file ${source.file}`);
    return { passphrase: checked(value, 'secretKey.file', source.file), from: 'file', path: source.file };
  }
  const path = join(dataDir, KEY_FILE);
  const value = (await read(path, 'secretKey')) ?? (storeHasKeys ? undefined : await makeKeyFile(path));
  if (value === undefined) throw missing('secretKey', `the store has keys, but its key file ${path} is gone`);
  return { passphrase: checked(value, 'secretKey', path), from: 'key file', path };
}

function checked(text: string, key: string, where: string): Credential {
  const value = text.replace(/\r?\n$/, ''); // what an editor or `echo` adds
  if ([...value].length >= MIN_PASSPHRASE_LENGTH) return new Credential(value);
  const problem = value === '' ? 'is empty' : `is shorter than ${MIN_PASSPHRASE_LENGTH} characters`;
  throw new PosternError('invalid_config', `${key}: the passphrase in ${where} ${problem}`, {
    key,
    remedy: 'make one with `openssl rand -base64 32`',
  });
}

function missing(key: string, message: string): PosternError {
  return new PosternError('key_missing', `${key}: ${message}`, {
    key,
    remedy: 'give the passphrase that the store was made with, by secretKey: { env } or { file }',
  });
}

async function read(path: string, key: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw missing(key, `the file ${path} cannot be read (${code})`);
  }
}

/** Complete or not there: written beside its place, synced, and linked. Of two processes the first one's key counts. */
async function makeKeyFile(path: string): Promise<string> {
  const folder = dirname(path);
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeFile(draft, `${randomBytes(32).toString('base64url')}\n`, {
      flag: 'wx',
      mode: 0o600,
      flush: true,
    });
    await link(draft, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    await unlink(draft);
    // The name has to survive the host too: the store is about to be sealed under this key.
    const handle = await open(folder);
    await handle.sync().finally(() => handle.close());
    return await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new PosternError('invalid_config', `secretKey: the key file ${path} cannot be made (${code})`, {
      key: 'secretKey',
      remedy: 'let this user write to dataDir, or name a passphrase by secretKey: { env } or { file }',
    });
  }
}
