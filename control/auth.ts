// Who is calling. At the Unix socket: whoever the file's mode lets in (0600 in a 0700 folder), as `admin`, on record
// as `cli:<user>`; the name is the client's own word, which is as much as an admin's word is worth. At the TLS
// address: the holder of a bearer token, of which the configuration has the SHA-256 only.

import { createHash, timingSafeEqual } from 'node:crypto';
import { userInfo } from 'node:os';
import { PosternError } from '../common/errors.ts';
import type { Caller, Role } from './roles.ts';

export interface TokenEntry {
  readonly name: string;
  readonly role: Role;
  /** Hex. */
  readonly sha256: string;
}

interface Headers {
  readonly [name: string]: string | string[] | undefined;
}

export type Authenticate = (headers: Headers) => Caller;

/** The client's user, for the record. */
export const USER_HEADER = 'postern-user';

export function atSocket(): Authenticate {
  const own = userName();
  return (headers) => {
    const claimed = headers[USER_HEADER];
    const user = typeof claimed === 'string' && /^[\w.@-]{1,64}$/.test(claimed) ? claimed : own;
    return { actor: `cli:${user}`, role: 'admin' };
  };
}

/** Every entry is compared, each in constant time, so that the time tells nothing of which came close. */
export function withTokens(tokens: readonly TokenEntry[]): Authenticate {
  const entries = tokens.map(({ name, role, sha256 }) => ({
    name,
    role,
    digest: Buffer.from(sha256, 'hex'),
  }));
  return (headers) => {
    const given = headers.authorization;
    const token = typeof given === 'string' ? /^Bearer ([\x21-\x7e]{1,4096})$/i.exec(given)?.[1] : undefined;
    if (token === undefined)
      throw new PosternError('unauthorized', 'The call carries no bearer token.', {
        key: 'Authorization',
        remedy: 'Send Authorization: Bearer TOKEN, with a token of control.tokens.',
      });
    const digest = createHash('sha256').update(token).digest();
    let found: Caller | undefined;
    for (const entry of entries)
      if (timingSafeEqual(digest, entry.digest)) found = { actor: entry.name, role: entry.role };
    if (!found)
      throw new PosternError('unauthorized', 'The bearer token is not one that this server knows.', {
        key: 'Authorization',
        remedy: 'See that the SHA-256 of the token stands in control.tokens.',
      });
    return found;
  };
}

/** `os.userInfo()` throws where the user has no entry, as in many containers. */
export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid-${process.getuid?.() ?? 'unknown'}`;
  }
}
