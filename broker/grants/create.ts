// The one way in which a grant comes to be: by hand, by an approval, by the import. Here its constraints are held against
// the kind of its secret, here is its record. A second way would be a second place for that to be missing.

import { rfc3339 } from '../../common/clock.ts';
import { formatDuration } from '../../common/duration.ts';
import { PosternError } from '../../common/errors.ts';
import { newId } from '../../common/ids.ts';
import type { Write } from '../../store/store.ts';
import { type Caller, requireActor } from '../caller.ts';
import { compact } from '../compact.ts';
import { type Constraints, parseConstraints, summarise } from '../constraints/constraints.ts';
import type { Context } from '../context.ts';
import { ATTEMPTS, busy } from '../failure.ts';
import { rulesOf } from '../kinds/kinds.ts';
import { LABEL_KEY, LABEL_VALUE } from '../requester.ts';
import { looksSecret } from '../safe-ref.ts';
import { findSpendable } from '../secrets/find.ts';
import { isPersonal } from '../secrets/ownership.ts';
import type { Secret } from '../secrets/secret.ts';
import { SETS } from '../sets.ts';
import { formatSubject, isWildcard, parseSubject, type Subject } from '../subject.ts';
import { type Grant, writeGrant } from './grant.ts';

export interface GrantInput {
  /** Id or name. */
  readonly secret: string;
  /** As `--to` takes it. */
  readonly subject: string;
  readonly constraints?: unknown;
  readonly scope?: string | undefined;
  readonly labels?: { readonly [key: string]: string } | undefined;
  /** Milliseconds. Absent: a day. */
  readonly ttl?: number | undefined;
}

/**
 * No grant lives longer, through whatever door it comes: the broker is there in place of the credential that lives for
 * ever, and a ten-year grant would be that again.
 */
export const MAX_GRANT_TTL = 90 * 86_400_000;

/** What only the broker's own parts may ask for. */
export interface Origin {
  /** Committed with the grant, or neither is. */
  readonly alongside?: (grant: Grant) => readonly Write[];
  readonly requestId?: string;
  readonly noExpiry?: boolean;
}

/**
 * @throws PosternError `not_found`, `not_owner`, `personal_wildcard`, `invalid_input`, `ttl_too_long`, `conflict`,
 *   `audit_unavailable`
 */
export function createGrant(context: Context, input: GrantInput, caller: Caller): Promise<Grant> {
  return createGrantWith(context, input, caller, {});
}

export async function createGrantWith(
  context: Context,
  input: GrantInput,
  caller: Caller,
  origin: Origin,
): Promise<Grant> {
  let stored = await findSpendable(context, input.secret, caller);
  const grant = draftGrant(context, stored.secret, input, caller, origin);
  const event = grantEvent(grant, caller);
  await context.record({ ...event, decision: 'allow' });
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    // The check makes a secret that is deleted meanwhile win, so that no grant is left behind it.
    const check: Write = { op: 'check', set: SETS.secrets, id: stored.secret.id, expect: stored.rev };
    if (await context.deps.store.commit([writeGrant(grant, 0), check, ...(origin.alongside?.(grant) ?? [])]))
      return grant;
    const again = await findSpendable(context, stored.secret.id, caller).catch(() => undefined);
    if (again === undefined || again.rev === stored.rev) break;
    stored = again;
  }
  await context.record({
    ...event,
    decision: 'error',
    reason: 'something changed meanwhile; there is no such grant',
  });
  throw busy('What the grant is about');
}

/** The grant as it would be, checked. */
export function draftGrant(
  context: Context,
  secret: Secret,
  input: Omit<GrantInput, 'secret'>,
  caller: Caller,
  origin: Origin = {},
): Grant {
  const createdBy = requireActor(caller);
  const subject = parseSubject(input.subject);
  const constraints = checkScope(secret, subject, input.constraints);
  const ttl = grantTtl(input.ttl ?? context.limits.grantTtl);
  const createdAt = context.now();
  return {
    id: newId('grant', createdAt),
    secretId: secret.id,
    secretName: secret.name,
    kind: secret.kind,
    subject,
    constraints,
    createdAt,
    createdBy,
    ...compact({
      owner: secret.owner,
      scope: checkWord(input.scope, 'scope'),
      labels: checkLabels(input.labels),
      expiresAt: origin.noExpiry ? undefined : createdAt + ttl,
      requestId: origin.requestId,
    }),
  };
}

/**
 * Whether this subject may have this secret under these constraints at all; asked when a grant is made and already when
 * one is requested, where somebody is there to mend it.
 */
export function checkScope(secret: Secret, subject: Subject, input: unknown): Constraints {
  if (isPersonal(secret) && isWildcard(subject))
    throw new PosternError(
      'personal_wildcard',
      `The personal secret ${secret.name} can't go to ${formatSubject(subject)}: whoever runs next would get it.`,
      { key: 'subject', remedy: 'Grant it to one project or one executor.' },
    );
  const constraints = parseConstraints(input);
  rulesOf(secret.kind).checkConstraints(constraints);
  return constraints;
}

export function grantTtl(ttl: number, key = 'ttl'): number {
  if (!Number.isSafeInteger(ttl) || ttl < 1000)
    throw new PosternError('invalid_input', `${key}: a grant lives for a second at least.`, { key });
  if (ttl <= MAX_GRANT_TTL) return ttl;
  throw new PosternError(
    'ttl_too_long',
    `${key}: a grant lives for ${formatDuration(MAX_GRANT_TTL)} at most.`,
    {
      key,
      remedy: 'Grant it for less, and again when it is needed.',
    },
  );
}

export function checkWord(text: string | undefined, key: string): string | undefined {
  if (text === undefined || text === '') return undefined;
  if (!/^[A-Za-z0-9][A-Za-z0-9 ._:/@-]{0,63}$/.test(text) || looksSecret(text))
    throw new PosternError('invalid_input', `${key}: it must be a short word.`, { key });
  return text;
}

/** Notes for people, of which nobody makes a decision; they go to whoever lists grants. */
export function checkLabels(
  labels: { readonly [key: string]: string } | undefined,
): { readonly [key: string]: string } | undefined {
  const entries = Object.entries(labels ?? {});
  if (entries.length > 16) throw new PosternError('invalid_input', 'labels: at most 16.', { key: 'labels' });
  for (const [key, value] of entries)
    if (!LABEL_KEY.test(key) || !LABEL_VALUE.test(value) || looksSecret(value))
      throw new PosternError('invalid_input', 'labels: a label is a short word under a name.', {
        key: 'labels',
        remedy: 'Write key=value with letters, digits and . _ / - in between.',
      });
  return entries.length > 0 ? Object.fromEntries(entries) : undefined;
}

export function grantEvent(grant: Grant, caller: Caller) {
  return {
    action: 'secret.grant',
    actor: caller.actor,
    ...grantFields(grant),
    subject: formatSubject(grant.subject),
    constraints: summarise(grant.constraints),
    expiresAt: grant.expiresAt === undefined ? undefined : rfc3339(grant.expiresAt),
  } as const;
}

/** Which credential a record is about. */
export function grantFields(grant: Grant) {
  const { id, secretId, secretName, kind, requestId } = grant;
  return { grantId: id, secretId, secretName, kind, requestId };
}
