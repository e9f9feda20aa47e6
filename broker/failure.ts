import { PosternError } from '../common/errors.ts';

/** How often a commit is tried again when somebody else was faster. */
export const ATTEMPTS = 8;

export function busy(what: string): PosternError {
  return new PosternError('conflict', `${what} was being changed by others all the time; nothing was done.`, {
    remedy: 'Try again.',
  });
}

/** A message for the record. An error that is not ours says only that it happened: its text may quote anything. */
export function reasonOf(error: unknown): string {
  return error instanceof PosternError ? error.message : 'an internal error, see the log';
}
