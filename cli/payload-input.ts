// Where the payload of a secret comes from: a file, standard input, or a reference that the server resolves.

import { isAbsolute, resolve } from 'node:path';
import { PosternError } from '../common/errors.ts';
import { parseValueFrom, type ValueFrom } from '../common/value-from.ts';
import type { Context } from './command.ts';
import { secretInput } from './secret-input.ts';

const FLAGS = ['file', 'from-secret', 'from-file', 'from-env'];

/** As the control API takes it; reveals. @throws PosternError `invalid_input` */
export async function payloadInput(
  context: Context,
): Promise<{ readonly payload: string } | { readonly valueFrom: ValueFrom }> {
  const given = FLAGS.filter((flag) => context.has(flag));
  if (given.length > 1)
    throw new PosternError(
      'invalid_input',
      `Give only one of ${given.map((flag) => `--${flag}`).join(', ')}.`,
      {
        key: `--${given[1]}`,
      },
    );
  const valueFrom = reference(context);
  if (valueFrom) return { valueFrom };
  if (given.length === 0 && 'isTTY' in context.stdin && context.stdin.isTTY)
    throw new PosternError('invalid_input', '--file is missing, and nothing is piped in.', {
      key: '--file',
      remedy: 'Name a file that holds the payload, or pipe it in.',
    });
  const payload = await secretInput('--file', context.flag('file') ?? '-', context.stdin, 'many');
  return { payload: payload.reveal() };
}

function reference(context: Context): ValueFrom | undefined {
  const [secret, file, env] = ['from-secret', 'from-file', 'from-env'].map(context.flag);
  if (secret !== undefined) {
    const [name, key, ...more] = secret.split('/');
    if (!name || !key || more.length > 0)
      throw new PosternError('invalid_input', '--from-secret: write it as NAME/KEY.', {
        key: '--from-secret',
      });
    return parseValueFrom({ secretKeyRef: { name, key } }, '--from-secret');
  }
  if (file !== undefined) {
    if (context.remote && !isAbsolute(file))
      throw new PosternError(
        'invalid_input',
        "--from-file: a file of the server's host has an absolute path.",
        {
          key: '--from-file',
        },
      );
    return parseValueFrom({ file: resolve(context.cwd, file) }, '--from-file');
  }
  return env === undefined ? undefined : parseValueFrom({ env }, '--from-env');
}
