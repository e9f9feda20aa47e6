// Who acts. Two questions are asked about people, with opposite ways to be careful:
// - "is this yours" (ownership) opens something, so identities must be equal;
// - "are these two people" (the second person of an approval) opens something too, so anything that could be one
//   person under two logins counts as one: case, the login's prefix, an e-mail address and its local part.

import { PosternError } from '../common/errors.ts';

export interface Caller {
  /** On the record: a control token's name, an OIDC subject, `cli:<user>`. */
  readonly actor: string;
  /** Other identities that are known to be the same person (the e-mail address beside the subject). */
  readonly aliases?: readonly string[];
  /** Sees and deletes other people's personal secrets, for offboarding. Never lets anyone spend one. */
  readonly admin?: boolean;
}

/** For the server's own acts and for callers that hold full authority over the store: grep for it to list them. */
export function privileged(actor: string): Caller {
  return { actor, admin: true };
}

/** The names under which a caller may own something, in the form that is stored. */
export function identities(caller: Caller): string[] {
  return [
    ...new Set([caller.actor, ...(caller.aliases ?? [])].map(normaliseOwner).filter((id) => id !== '')),
  ];
}

/**
 * The stored form of an owner: trimmed and lower-case, because identity providers are inconsistent about the case of an
 * address. `sub:` subjects are opaque and case-sensitive (OpenID Connect Core, section 2), so they stay as they are.
 */
export function normaliseOwner(identity: string): string {
  const trimmed = identity.normalize('NFC').trim();
  const subject = /^sub:(.*)$/is.exec(trimmed);
  return subject ? `sub:${subject[1]}` : trimmed.toLowerCase();
}

/** @throws PosternError `invalid_input` where the caller has no name: nothing is done anonymously */
export function requireActor(caller: Caller): string {
  if (caller.actor.trim() !== '') return caller.actor;
  throw new PosternError(
    'invalid_input',
    'actor: the call has no identity, and nothing is decided anonymously.',
    {
      key: 'actor',
      remedy: 'Use a control token that has a name, or the socket.',
    },
  );
}

/** Whether two callers could be one person. Missing identities count as the same one. */
export function couldBeSamePerson(a: Caller, b: Caller): boolean {
  const [left, right] = [loosely(a), loosely(b)];
  if (left.length === 0 || right.length === 0) return true;
  return left.some((x) => right.some((y) => alike(x, y)));
}

const LOGIN = /^(?:cli|token|oidc|user|sub|hub|ui|email|mailto):/;

function loosely(caller: Caller): string[] {
  return [caller.actor, ...(caller.aliases ?? [])].map(fold).filter((id) => id !== '');
}

function fold(identity: string): string {
  let text = identity
    .normalize('NFKC')
    .replaceAll(/[\p{White_Space}\p{Cf}]/gu, '')
    .toLowerCase();
  while (LOGIN.test(text)) text = text.replace(LOGIN, '');
  return text;
}

/** `alice@corp` and `alice` may be one person; two full addresses of different domains are two. */
function alike(a: string, b: string): boolean {
  if (a === b) return true;
  const [localA = '', domainA] = a.split('@');
  const [localB = '', domainB] = b.split('@');
  const plain = (local: string): string => local.replace(/\+.*$/, '');
  if (plain(localA) !== plain(localB) || plain(localA) === '') return false;
  return domainA === undefined || domainB === undefined || domainA === domainB;
}
