// A reference to where a credential lives, in place of the credential itself: a file, a variable of the server's
// environment, or one key of a Kubernetes Secret. Exactly one of them; an absent, empty, oversized or unreadable
// value is an error that names the reference and never quotes what it holds. Nothing falls back to a default.

import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import { Credential } from './credential.ts';
import { PosternError } from './errors.ts';

export type ValueFrom =
  | { readonly file: string }
  | { readonly env: string }
  | { readonly secretKeyRef: { readonly name: string; readonly key: string } };

/** 1 MiB: more than a Kubernetes Secret can hold. */
export const MAX_VALUE_BYTES = 1024 * 1024;

const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,255}$/;
const SECRET_NAME = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;
const SECRET_KEY = /^[-._A-Za-z0-9]{1,253}$/;

const text = (rule: string) => z.string({ error: () => rule });
const FORM = 'exactly one of file, env and secretKeyRef';

/** The shape as the configuration and the control API take it. Its issues never quote a value. */
export const valueFromSchema = z
  .strictObject(
    {
      file: text('the path of a file')
        .min(1, { error: 'the path of a file' })
        .refine((path) => !path.includes('\0'), { error: 'the path of a file' })
        .meta({
          'x-kind': 'path',
          description: 'A file that holds the value; one newline at its end is dropped.',
        })
        .optional(),
      env: text('the name of a variable')
        .regex(ENV_NAME, { error: 'the name of a variable (letters, digits and _)' })
        .meta({ description: "The name of a variable in the server's environment." })
        .optional(),
      secretKeyRef: z
        .strictObject(
          {
            name: text('the name of a Secret')
              .regex(SECRET_NAME, {
                error: "the name of a Secret (a DNS name: lower case letters, digits, '-' and '.')",
              })
              .meta({ description: "A Kubernetes Secret in the server's own namespace." }),
            key: text('a key of the Secret')
              .regex(SECRET_KEY, { error: "a key of the Secret (letters, digits, '-', '_' and '.')" })
              .meta({ description: 'The key in that Secret.' }),
          },
          { error: () => '{ name, key }' },
        )
        .optional(),
    },
    { error: () => FORM },
  )
  .refine((value) => Object.values(value).filter((part) => part !== undefined).length === 1, { error: FORM })
  .meta({ minProperties: 1, maxProperties: 1 })
  .transform((value): ValueFrom => {
    if (value.file !== undefined) return { file: value.file };
    if (value.env !== undefined) return { env: value.env };
    return { secretKeyRef: value.secretKeyRef as { name: string; key: string } };
  });

/**
 * Reads a reference that did not come through a zod schema already.
 * @throws PosternError `invalid_input` naming `key`
 */
export function parseValueFrom(value: unknown, key = 'valueFrom'): ValueFrom {
  const result = valueFromSchema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const path = [key, ...(issue?.path ?? [])].join('.');
  const what =
    issue?.code === 'unrecognized_keys'
      ? `the key ${JSON.stringify(issue.keys[0])} is unknown`
      : 'it must be';
  const rule = issue?.code === 'unrecognized_keys' ? FORM : issue?.message;
  throw new PosternError(
    'invalid_input',
    `${path}: ${what}${what === 'it must be' ? ' ' : '; write '}${rule}`,
    {
      key: path,
    },
  );
}

/** `file /run/secrets/pat`, `variable GITHUB_PAT`, `Secret git-pat, key token`: for messages. */
export function describeValueFrom(ref: ValueFrom): string {
  if ('file' in ref) return `file ${ref.file}`;
  if ('env' in ref) return `variable ${ref.env}`;
  return `Secret ${ref.secretKeyRef.name}, key ${ref.secretKeyRef.key}`;
}

export interface ValueSources {
  /** The configuration key or JSON path that holds the reference. */
  readonly key: string;
  readonly env?: { readonly [name: string]: string | undefined };
  /** What a relative file path is relative to; the working directory where absent. */
  readonly baseDir?: string;
  /** Reads one key of a Secret; absent where the server runs outside a cluster. */
  readonly readSecret?: (ref: { name: string; key: string }) => Promise<Uint8Array | string | undefined>;
}

/**
 * Reads the value now.
 * @throws PosternError `invalid_input` naming `key` and the reference
 */
export async function resolveValueFrom(ref: ValueFrom, sources: ValueSources): Promise<Credential> {
  return (await read(ref, sources)).value;
}

/**
 * The value as it is at each call: a file is read again when it changes (also when a mounted Secret swaps the
 * symbolic link), a variable is as it is, a Secret is asked for each time. A file that was replaced by a bad one
 * is an error, not the value of yesterday.
 */
export function followValueFrom(ref: ValueFrom, sources: ValueSources): () => Promise<Credential> {
  let last: { value: Credential; signature: string } | undefined;
  return async () => {
    last = await read(ref, sources, last);
    return last.value;
  };
}

type Read = { value: Credential; signature: string };

async function read(ref: ValueFrom, sources: ValueSources, last?: Read): Promise<Read> {
  const fail = (problem: string, remedy: string, cause?: unknown): never => {
    throw new PosternError(
      'invalid_input',
      `${sources.key}: ${describeValueFrom(ref)} ${problem}; ${remedy}`,
      {
        key: sources.key,
        remedy,
        cause,
      },
    );
  };
  const accept = (raw: string | undefined, signature = ''): Read => {
    if (raw === undefined) return fail('is not set', 'set it, or name another');
    const value = raw.replace(/\r?\n$/, '');
    if (value === '') return fail('is empty', 'put the value there');
    return { value: new Credential(value), signature };
  };

  if ('env' in ref) return accept((sources.env ?? process.env)[ref.env]);

  if ('secretKeyRef' in ref) {
    if (!sources.readSecret)
      return fail('cannot be read', 'this server has no access to a cluster: use file or env');
    let raw: Uint8Array | string | undefined;
    try {
      raw = await sources.readSecret(ref.secretKeyRef);
    } catch (cause) {
      return fail('cannot be read', "see that the server's service account may get it", cause);
    }
    if (raw === undefined) return fail('does not exist', 'create it, or name another');
    return accept(typeof raw === 'string' ? raw : decode(raw, fail));
  }

  const path = isAbsolute(ref.file) ? ref.file : resolve(sources.baseDir ?? '.', ref.file);
  // O_NONBLOCK: opening a FIFO that nobody writes to would hang the server.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(
    (cause: NodeJS.ErrnoException) =>
      fail(
        cause.code === 'ENOENT' ? 'does not exist' : `cannot be read (${cause.code ?? 'unknown error'})`,
        'see its path, owner and mode',
        cause,
      ),
  );
  try {
    const stat = await file.stat({ bigint: true });
    if (!stat.isFile()) return fail('is not a regular file', 'name a file');
    const signature = `${stat.dev}:${stat.ino}:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`;
    if (last?.signature === signature) return last;
    if (stat.size > MAX_VALUE_BYTES)
      return fail(`is larger than ${MAX_VALUE_BYTES} bytes`, 'name the right file');
    const buffer = Buffer.alloc(MAX_VALUE_BYTES + 1);
    let length = 0;
    for (let count = 1; count > 0 && length < buffer.length; length += count)
      count = (await file.read(buffer, length, buffer.length - length, length)).bytesRead;
    if (length > MAX_VALUE_BYTES)
      return fail(`is larger than ${MAX_VALUE_BYTES} bytes`, 'name the right file');
    return accept(decode(buffer.subarray(0, length), fail), signature);
  } finally {
    await file.close();
  }
}

function decode(bytes: Uint8Array, fail: (problem: string, remedy: string) => never): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return fail('is not UTF-8 text', 'name a text file');
  }
}
