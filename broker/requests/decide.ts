// Deciding. An approval makes its grant through the one function that makes grants, and the grant and the state of the
// request are one commit: there is exactly one grant for an approval, none for anything else, and of two decisions at the
// same moment one is told that it was late.

import { rfc3339 } from '../../common/clock.ts';
import { PosternError } from '../../common/errors.ts';
import { type Caller, requireActor } from '../caller.ts';
import { compact } from '../compact.ts';
import { summarise } from '../constraints/constraints.ts';
import type { Context } from '../context.ts';
import { createGrantWith } from '../grants/create.ts';
import type { Grant } from '../grants/grant.ts';
import { formatSubject } from '../subject.ts';
import { expireOne } from './expire.ts';
import { findRequest } from './open.ts';
import { type AccessRequest, requestEvent, type StoredRequest, writeRequest } from './request.ts';
import {
  checkNote,
  type Delegation,
  delegatedTtl,
  mustBeAnother,
  mustBePending,
  mustBeRead,
  mustBeRequester,
} from './rules.ts';

export interface DecideInput {
  readonly requestId: string;
  /** Of the request as the person read it. */
  readonly contentHash: string;
  readonly note?: string | undefined;
}

export interface ApproveInput extends DecideInput {
  /** Milliseconds; cuts the access down, never raises it. */
  readonly ttl?: number | undefined;
  readonly delegation?: Delegation | undefined;
}

/**
 * @throws PosternError `not_found`, `request_decided`, `request_expired`, `request_changed`, `self_approval`,
 *   `delegation_exceeded`, and what making a grant throws
 */
export async function approveRequest(
  context: Context,
  input: ApproveInput,
  caller: Caller,
): Promise<{ request: AccessRequest; grant: Grant }> {
  const { request, rev } = await refusalsRecorded(
    context,
    input,
    caller,
    'secret.request_approve',
    (asked) => {
      mustBeAnother(asked, caller);
      delegatedTtl(asked, input.delegation ?? {}, input.ttl);
    },
  );
  const note = checkNote(input.note, false);
  const ttl = delegatedTtl(request, input.delegation ?? {}, input.ttl);
  const ask = {
    secret: request.secretId,
    subject: formatSubject(request.subject),
    constraints: request.constraints,
    scope: request.scope,
    labels: request.labels,
    ttl,
  };
  let approved = request;
  const grant = await createGrantWith(context, ask, caller, {
    requestId: request.id,
    alongside(made) {
      approved = {
        ...request,
        state: 'approved',
        decidedBy: caller.actor,
        decidedAt: context.now(),
        ...compact({ decisionNote: note, grantExpiresAt: made.expiresAt }),
        grantId: made.id,
      };
      return [writeRequest(approved, rev)];
    },
  }).catch((error: unknown) => lateOr(context, request.id, error));
  await context.record({
    action: 'secret.request_approve',
    decision: 'allow',
    actor: caller.actor,
    ...requestEvent(request),
    grantId: grant.id,
    constraints: summarise(request.constraints),
    expiresAt: grant.expiresAt === undefined ? undefined : rfc3339(grant.expiresAt),
    reason: note,
  });
  return { request: approved, grant };
}

/** @throws PosternError `not_found`, `request_decided`, `request_expired`, `request_changed`, `invalid_input` (no note) */
export async function denyRequest(
  context: Context,
  input: DecideInput,
  caller: Caller,
): Promise<AccessRequest> {
  const note = checkNote(input.note, true);
  const stored = await refusalsRecorded(context, input, caller, 'secret.request_deny', () => {});
  return close(context, stored, 'denied', 'secret.request_deny', caller, note);
}

/** @throws PosternError `not_found`, `request_decided`, `request_expired`, `not_requester` */
export async function withdrawRequest(context: Context, id: string, caller: Caller): Promise<AccessRequest> {
  requireActor(caller);
  const stored = await findRequest(context, id);
  mustBeRequester(stored.request, caller);
  await stillPending(context, stored);
  return close(context, stored, 'withdrawn', 'secret.request_withdraw', caller);
}

/** Every refused decision is on the record: reaching for one's own approval is what the rule is there to show. */
async function refusalsRecorded(
  context: Context,
  { requestId, contentHash }: DecideInput,
  caller: Caller,
  action: 'secret.request_approve' | 'secret.request_deny',
  rules: (request: AccessRequest) => void,
): Promise<StoredRequest> {
  const stored = await findRequest(context, requestId);
  try {
    requireActor(caller);
    await stillPending(context, stored);
    mustBeRead(stored.request, contentHash);
    rules(stored.request);
    return stored;
  } catch (error) {
    if (error instanceof PosternError)
      await context.record({
        action,
        decision: 'deny',
        actor: caller.actor || undefined,
        ...requestEvent(stored.request),
        reason: error.message,
      });
    throw error;
  }
}

/** A request that is past its time becomes expired here and now, whoever looks at it first. */
async function stillPending(context: Context, stored: StoredRequest): Promise<void> {
  const { request } = stored;
  if (request.state === 'pending' && context.now() >= request.expiresAt) await expireOne(context, stored);
  mustBePending(request, context.now());
}

async function close(
  context: Context,
  { request, rev }: StoredRequest,
  state: 'denied' | 'withdrawn',
  action: 'secret.request_deny' | 'secret.request_withdraw',
  caller: Caller,
  note?: string,
): Promise<AccessRequest> {
  const closed: AccessRequest = {
    ...request,
    state,
    decidedBy: caller.actor,
    decidedAt: context.now(),
    ...compact({ decisionNote: note }),
  };
  if (!(await context.deps.store.commit([writeRequest(closed, rev)])))
    await lateOr(context, request.id, new PosternError('conflict', 'The request changed meanwhile.'));
  await context.record({
    action,
    decision: action === 'secret.request_deny' ? 'deny' : 'allow',
    actor: caller.actor,
    ...requestEvent(request),
    reason: note,
  });
  return closed;
}

/** The clearer error, where the reason is that somebody else decided first. */
async function lateOr(context: Context, id: string, error: unknown): Promise<never> {
  if (error instanceof PosternError && error.code === 'conflict')
    mustBePending((await findRequest(context, id)).request, context.now());
  throw error;
}
