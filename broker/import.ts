// Bringing a flat file of keys and values under the broker. Until now every workload got all of them; narrowing that in
// the same step would break running projects at a moment that nobody chose, and silently. So each entry becomes an `env`
// secret with a grant for everybody and without an end, on the record, and tightening is left to an operator who can do
// it one grant at a time. The only door to a grant without an end. Idempotent: what is there already is left alone, also
// where its wide grant was revoked since.

import { PosternError } from '../common/errors.ts';
import { type Caller, requireActor } from './caller.ts';
import type { Context } from './context.ts';
import { draftGrant, grantEvent } from './grants/create.ts';
import { writeGrant } from './grants/grant.ts';
import { ENV_NAME } from './kinds/env.ts';
import { prepareSecret, recordMint } from './secrets/mint.ts';
import { nameRow } from './secrets/secret.ts';
import { SETS } from './sets.ts';

export interface ImportResult {
  readonly imported: readonly string[];
  readonly skipped: readonly string[];
}

/**
 * @param file JSON object of strings, or lines of NAME=value; zeroed on return
 * @throws PosternError `invalid_input` before anything is imported
 */
export async function importFlat(context: Context, file: Buffer, caller: Caller): Promise<ImportResult> {
  requireActor(caller);
  try {
    const entries = readFlat(file);
    const imported: string[] = [];
    const skipped: string[] = [];
    for (const [key, value] of entries)
      ((await importOne(context, key, value, caller)) ? imported : skipped).push(key);
    return { imported, skipped };
  } finally {
    file.fill(0);
  }
}

/** The secret and its grant are one commit: half an entry would be skipped by the next run. */
async function importOne(context: Context, key: string, value: string, caller: Caller): Promise<boolean> {
  const { store } = context.deps;
  if (await store.get(SETS.names, nameRow({ name: key }).id)) return false;
  const payload = Buffer.from(JSON.stringify({ [key]: value }), 'utf8');
  try {
    const { secret, writes } = await prepareSecret(context, { name: key, kind: 'env', payload }, caller);
    const grant = draftGrant(context, secret, { subject: 'any', scope: 'import' }, caller, {
      noExpiry: true,
    });
    await recordMint(context, secret, caller);
    await context.record({
      ...grantEvent(grant, caller),
      decision: 'allow',
      reason: 'imported; without an end',
    });
    return store.commit([...writes, writeGrant(grant, 0)]);
  } finally {
    payload.fill(0);
  }
}

function readFlat(file: Buffer): [string, string][] {
  const text = file.toString('utf8').replace(/^\ufeff/, '');
  const entries = text.trimStart().startsWith('{') ? readJson(text) : readLines(text);
  for (const [key, value] of entries)
    if (!ENV_NAME.test(key) || value === '' || value.includes('\0'))
      throw bad('an entry is empty, or its key is not the name of a variable');
  if (new Set(entries.map(([key]) => key.toLowerCase())).size !== entries.length)
    throw bad('two keys are the same but for their case');
  return entries;
}

function readJson(text: string): [string, string][] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw bad('it is not JSON');
  }
  return Object.entries(value as object).map(([key, entry]: [string, unknown]) => {
    if (typeof entry !== 'string') throw bad('it is not flat: a value is not a string');
    return [key, entry];
  });
}

function readLines(text: string): [string, string][] {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '' && !line.trimStart().startsWith('#'));
  return lines.map((line, i) => {
    const [, key, value] = /^(?:export\s+)?([^=\s]+)=(.*)$/.exec(line) ?? [];
    if (key === undefined || value === undefined) throw bad(`entry ${i + 1} is not NAME=value`);
    const [, , inner] = /^(["'])(.*)\1$/.exec(value) ?? [];
    return [key, inner ?? value];
  });
}

function bad(problem: string): PosternError {
  return new PosternError('invalid_input', `The file to import cannot be used: ${problem}.`, { key: 'file' });
}
