// A reference to where a credential lives, in place of the credential itself: a file, a variable of the server's
// environment, or one key of a Kubernetes Secret. Exactly one of them; an absent, empty, oversized or unreadable
// value is an error that names the reference and never quotes what it holds. Nothing falls back to a default.

import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
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

type Fail = (problem: string, remedy: string, cause?: unknown) => never;

/**
 * The value as it is now: nothing is kept, so that calling again sees a file that was replaced, also by the swap of a
 * mounted Secret's link. One newline at the end is dropped.
 * @throws PosternError `invalid_input` naming `key` and the reference
 */
export async function resolveValueFrom(ref: ValueFrom, sources: ValueSources): Promise<Credential> {
  const fail: Fail = (problem, remedy, cause) => {
    const message = `${sources.key}: ${describeValueFrom(ref)} ${problem}; ${remedy}`;
    throw new PosternError('invalid_input', message, { key: sources.key, remedy, cause });
  };
  const raw =
    'env' in ref
      ? (sources.env ?? process.env)[ref.env]
      : 'file' in ref
        ? await readValueFile(resolve(sources.baseDir ?? '.', ref.file), fail)
        : await readSecret(ref.secretKeyRef, sources.readSecret, fail);
  if (raw === undefined) return fail('is not set', 'set it, or name another');
  const value = raw.replace(/\r?\n$/, '');
  return value === '' ? fail('is empty', 'put the value there') : new Credential(value);
}

async function readSecret(
  ref: { readonly name: string; readonly key: string },
  reader: ValueSources['readSecret'],
  fail: Fail,
): Promise<string> {
  if (!reader) return fail('cannot be read', 'this server has no access to a cluster: use file or env');
  const raw = await reader(ref).catch((cause: unknown) =>
    fail('cannot be read', "see that the server's service account may get it", cause),
  );
  if (raw === undefined) return fail('does not exist', 'create it, or name another');
  return typeof raw === 'string' ? raw : decode(raw, fail);
}

async function readValueFile(path: string, fail: Fail): Promise<string> {
  // O_NONBLOCK: opening a FIFO that nobody writes to would hang the server.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(
    (cause: NodeJS.ErrnoException) => {
      const problem =
        cause.code === 'ENOENT' ? 'does not exist' : `cannot be read (${cause.code ?? 'unknown error'})`;
      return fail(problem, 'see its path, owner and mode', cause);
    },
  );
  const buffer = Buffer.alloc(MAX_VALUE_BYTES + 1);
  try {
    if (!(await file.stat()).isFile()) return fail('is not a regular file', 'name a file');
    let length = 0;
    for (let count = 1; count > 0 && length < buffer.length; length += count)
      count = (await file.read(buffer, length, buffer.length - length, length)).bytesRead;
    if (length > MAX_VALUE_BYTES)
      return fail(`is larger than ${MAX_VALUE_BYTES} bytes`, 'name the right file');
    return decode(buffer.subarray(0, length), fail);
  } finally {
    buffer.fill(0);
    await file.close();
  }
}

function decode(bytes: Uint8Array, fail: Fail): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return fail('is not UTF-8 text', 'name a text file');
  }
}
