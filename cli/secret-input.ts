// Secrets on their way into a command: from a file or from standard input, never from an argument, which every process
// of the machine can read. An error names the flag and not the value: who pastes the token where the file's name
// belongs would find it in a log.

import { readFile } from 'node:fs/promises';
import { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';

const MAX_BYTES = 1024 * 1024;

/** `-` is standard input. White space around the value is dropped. @throws PosternError `invalid_input` */
export async function secretInput(
  flag: string,
  path: string,
  stdin: NodeJS.ReadableStream,
  lines: 'one' | 'many',
): Promise<Credential> {
  const fail = (problem: string, cause?: unknown): PosternError =>
    new PosternError('invalid_input', `${flag}: ${problem}.`, {
      key: flag,
      remedy: `Name a file that holds the value alone, or give ${flag} - and pipe it in.`,
      cause,
    });
  let text: string;
  if (path === '-') text = await readAll(stdin, fail);
  else {
    try {
      text = await readFile(path, 'utf8');
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'failed';
      // The error's own message holds the path, so it is no cause to pass on either.
      throw fail(`the file that it names can't be read (${code})`);
    }
  }
  const value = text.trim();
  if (value === '') throw fail('it is empty');
  if (value.length > MAX_BYTES) throw fail('it is larger than 1 MiB');
  if (lines === 'one' && /[\s\p{Cc}]/u.test(value)) throw fail('it holds more than one word');
  return new Credential(value);
}

async function readAll(
  stdin: NodeJS.ReadableStream,
  fail: (problem: string) => PosternError,
): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > MAX_BYTES) throw fail('it is larger than 1 MiB');
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString('utf8');
}
