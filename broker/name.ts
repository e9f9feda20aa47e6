// Names of secrets come from a small alphabet, so that no place that shows one (a record, a file name, a variable, a
// terminal) has to escape it. Refusing at the door is cheaper than escaping at every sink.

import { PosternError } from '../common/errors.ts';
import { looksSecret, safeRef } from './safe-ref.ts';

export const MAX_NAME_LENGTH = 64;
const NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_])?$/;
const ID_LIKE = /^(?:sec|grant|lease|req)_[0-9a-z]{26}$/i;

/** @throws PosternError `invalid_input`; the name is echoed shortened, it may be a pasted token */
export function checkName(name: string, key = 'name'): string {
  const problem = !NAME.test(name)
    ? `it must be 1 to ${MAX_NAME_LENGTH} letters, digits, ".", "_" or "-", beginning with a letter or digit`
    : ID_LIKE.test(name)
      ? 'it looks like an id'
      : looksSecret(name)
        ? 'it looks like a credential'
        : undefined;
  if (problem === undefined) return name;
  throw new PosternError(
    'invalid_input',
    `${key}: ${safeRef(name)} can't be the name of a secret: ${problem}.`,
    {
      key,
      remedy:
        'Name it after its use, for example prod-deploy-pat; the credential itself is read from a file.',
    },
  );
}
