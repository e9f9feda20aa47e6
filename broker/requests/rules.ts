// The rules of a decision. Pure: the request as it is, who decides, what they may hand out, and the time. Whatever the
// answer, the reason is one that the person can be told.

import { formatDuration } from '../../common/duration.ts';
import { PosternError } from '../../common/errors.ts';
import { type Caller, couldBeSamePerson, identities } from '../caller.ts';
import { MAX_GRANT_TTL } from '../grants/create.ts';
import { looksSecret } from '../safe-ref.ts';
import { formatSubject, isWildcard } from '../subject.ts';
import { isPlain } from '../text.ts';
import { type AccessRequest, contentHash, requesterOf } from './request.ts';

const DAY = 86_400_000;
/** Long enough for a weekend, short enough that a decision is made about a reason that still holds. */
export const DEFAULT_REQUEST_TTL = 3 * DAY;
export const MAX_REQUEST_TTL = 30 * DAY;
/** What an approver hands out who was given no limit. */
export const DEFAULT_DELEGATION_TTL = 7 * DAY;
/** What nobody exceeds, as for grants made by hand. */
export const MAX_DELEGATION_TTL = MAX_GRANT_TTL;
/** Bytes of UTF-8: a paragraph and a link. */
export const MAX_JUSTIFICATION = 4096;

/** What one approver may hand out. Whoever calls knows who that is; left out, it is the narrow answer. */
export interface Delegation {
  /** Milliseconds. */
  readonly maxTtl?: number | undefined;
  /**
   * A grant for everybody is not a grant that lasts too long: it reaches every project there is and every one to come,
   * so it is a right of its own.
   */
  readonly allowWildcardSubject?: boolean | undefined;
}

/** @throws PosternError `request_decided`, `request_expired` */
export function mustBePending(request: AccessRequest, now: number): void {
  if (request.state === 'expired' || (request.state === 'pending' && now >= request.expiresAt))
    throw new PosternError('request_expired', `Nobody decided the request ${request.id} in time.`, {
      remedy: 'It has to be opened again.',
    });
  if (request.state !== 'pending')
    throw new PosternError('request_decided', `The request ${request.id} is ${request.state} already.`);
}

/** @throws PosternError `request_changed` */
export function mustBeRead(request: AccessRequest, hash: string): void {
  if (hash === contentHash(request)) return;
  throw new PosternError(
    'request_changed',
    `What was decided about is not the request ${request.id} as it is.`,
    {
      key: 'contentHash',
      remedy: 'Read it again, and decide about that.',
    },
  );
}

/** Two people. @throws PosternError `self_approval`, also where an identity is missing or could be the same person's */
export function mustBeAnother(request: AccessRequest, decider: Caller): void {
  if (!couldBeSamePerson(requesterOf(request), decider)) return;
  throw new PosternError(
    'self_approval',
    'Who asked for access, or could be the same person, cannot approve it.',
    {
      remedy: 'Somebody else has to.',
    },
  );
}

/** Withdrawing is the requester's own; an approver who wants a request gone denies it, on the record. */
export function mustBeRequester(request: AccessRequest, caller: Caller): void {
  const own = identities(requesterOf(request));
  if (identities(caller).some((identity) => own.includes(identity))) return;
  throw new PosternError('not_requester', 'Only who opened the request may withdraw it.', {
    remedy: 'Deny it instead.',
  });
}

/**
 * The life of the grant: what was asked, cut down by the approver and by what the approver may hand out, never raised.
 * @throws PosternError `delegation_exceeded`, `invalid_input`
 */
export function delegatedTtl(request: AccessRequest, delegation: Delegation, shorten?: number): number {
  if (isWildcard(request.subject) && delegation.allowWildcardSubject !== true)
    throw new PosternError(
      'delegation_exceeded',
      `The request is for ${formatSubject(request.subject)}, and this approver may not hand out anything that wide.`,
      { key: 'subject', remedy: 'Have it asked for one project or one executor.' },
    );
  if (shorten !== undefined && (!Number.isSafeInteger(shorten) || shorten < 1000))
    throw new PosternError('invalid_input', 'ttl: a grant lives for a second at least.', { key: 'ttl' });
  const ceiling = Math.min(delegation.maxTtl ?? DEFAULT_DELEGATION_TTL, MAX_DELEGATION_TTL);
  return Math.max(1000, Math.min(request.ttl, shorten ?? request.ttl, ceiling));
}

/** @throws PosternError `invalid_input` */
export function checkJustification(text: string): string {
  const trimmed = text.trim();
  if (trimmed === '') throw bad('justification', 'a request without a reason can only be waved through');
  return checkText(trimmed, 'justification');
}

/** A denial needs one: without a reason the requester can only ask again. @throws PosternError `invalid_input` */
export function checkNote(text: string | undefined, required: boolean): string | undefined {
  const trimmed = text?.trim() ?? '';
  if (trimmed === '' && required) throw bad('note', 'a denial says why');
  return trimmed === '' ? undefined : checkText(trimmed, 'note');
}

function checkText(text: string, key: string): string {
  if (Buffer.byteLength(text) > MAX_JUSTIFICATION)
    throw bad(key, `it is longer than ${MAX_JUSTIFICATION} bytes`);
  // Lines and tabs are fine; what turns the direction of text around would show an approver something else.
  const line = text.replaceAll(/\r?\n|\t/g, ' ');
  if (!isPlain(line, MAX_JUSTIFICATION) || /[\u202a-\u202e\u2066-\u2069]/.test(line))
    throw bad(key, 'it has characters that cannot be shown');
  if (looksSecret(text)) throw bad(key, 'it looks as if it held a credential');
  return text;
}

/** @throws PosternError `invalid_input`, `ttl_too_long` */
export function requestTtl(ttl = DEFAULT_REQUEST_TTL): number {
  if (!Number.isSafeInteger(ttl) || ttl < 1000)
    throw bad('requestTtl', 'a request waits for a second at least');
  if (ttl <= MAX_REQUEST_TTL) return ttl;
  throw new PosternError(
    'ttl_too_long',
    `requestTtl: a request waits for ${formatDuration(MAX_REQUEST_TTL)} at most.`,
    {
      key: 'requestTtl',
    },
  );
}

function bad(key: string, problem: string): PosternError {
  return new PosternError('invalid_input', `${key}: ${problem}.`, { key });
}
