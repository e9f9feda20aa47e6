// Reading payloads without quoting them: JSON.parse and YAML parsers put the text into their messages, and that text is
// a credential.

import { PosternError } from '../../common/errors.ts';

export function malformed(kind: string, problem: string, remedy?: string): PosternError {
  return new PosternError('invalid_input', `payload: ${problem}, so it is not a ${kind}.`, {
    key: 'payload',
    ...(remedy === undefined ? {} : { remedy }),
  });
}

export function nothingLeft(problem: string): PosternError {
  return new PosternError('nothing_left', problem);
}

/** The payload as text, without a byte-order mark and without the newlines at its end. */
export function textOf(payload: Buffer, kind: string): string {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(payload);
  } catch {
    throw malformed(kind, 'it is not UTF-8 text');
  }
  return text.replace(/[\r\n]+$/, '');
}

/** @throws PosternError `invalid_input` */
export function jsonObject(text: string, kind: string): { [key: string]: unknown } {
  const value = jsonOf(text, kind);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw malformed(kind, 'it is not a JSON object');
  return value as { [key: string]: unknown };
}

export function jsonOf(text: string, kind: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw malformed(kind, 'it is not JSON');
  }
}

/** @throws PosternError `invalid_input` naming the member that is not known: a misspelt one would be ignored */
export function onlyKeys(object: object, known: readonly string[], kind: string): void {
  for (const key of Object.keys(object))
    if (!known.includes(key))
      throw malformed(kind, 'it has a member that is not known', `The members are ${known.join(', ')}.`);
}
