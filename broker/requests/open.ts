// Opening and reading requests. What is asked is checked like a grant when it is opened: an ask that could never be
// approved should fail in front of the person who can mend it, not days later in front of an approver who has to guess.

import { PosternError } from '../../common/errors.ts';
import { newId } from '../../common/ids.ts';
import type { Write } from '../../store/store.ts';
import { readRows } from '../body.ts';
import { type Caller, identities, requireActor } from '../caller.ts';
import { compact } from '../compact.ts';
import { summarise } from '../constraints/constraints.ts';
import type { Context } from '../context.ts';
import { ATTEMPTS, busy } from '../failure.ts';
import { checkLabels, checkScope, checkWord, grantTtl } from '../grants/create.ts';
import { safeRef } from '../safe-ref.ts';
import { findSecret } from '../secrets/find.ts';
import { isPersonal } from '../secrets/ownership.ts';
import { SETS } from '../sets.ts';
import { parseSubject } from '../subject.ts';
import { rowKey } from '../text.ts';
import {
  type AccessRequest,
  isPending,
  type RequestState,
  readRequest,
  requestEvent,
  type StoredRequest,
  writeRequest,
} from './request.ts';
import { checkJustification, requestTtl } from './rules.ts';

export interface RequestInput {
  /** Id or name of a secret that exists. */
  readonly secret: string;
  readonly subject: string;
  readonly constraints?: unknown;
  readonly scope?: string | undefined;
  readonly labels?: { readonly [key: string]: string } | undefined;
  /** Milliseconds of access. */
  readonly ttl?: number | undefined;
  readonly justification: string;
  /** Milliseconds to wait for a decision. */
  readonly requestTtl?: number | undefined;
}

/** @throws PosternError `not_found`, `invalid_input`, `ttl_too_long`, `policy_refused` for a personal secret */
export async function openRequest(
  context: Context,
  input: RequestInput,
  caller: Caller,
): Promise<AccessRequest> {
  const requestedBy = requireActor(caller);
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const { secret, rev } = await findSecret(context, input.secret, caller);
    if (isPersonal(secret))
      throw new PosternError(
        'policy_refused',
        `The secret ${secret.name} is personal: its owner grants it directly.`,
        {
          key: 'secret',
        },
      );
    const subject = parseSubject(input.subject);
    const createdAt = context.now();
    const request: AccessRequest = {
      id: newId('req', createdAt),
      requestedBy,
      aliases: identities({ ...caller, actor: '' }),
      secretId: secret.id,
      secretName: secret.name,
      kind: secret.kind,
      subject,
      constraints: checkScope(secret, subject, input.constraints),
      ...compact({ scope: checkWord(input.scope, 'scope'), labels: checkLabels(input.labels) }),
      ttl: grantTtl(input.ttl ?? context.limits.grantTtl),
      justification: checkJustification(input.justification),
      state: 'pending',
      createdAt,
      expiresAt: createdAt + requestTtl(input.requestTtl),
    };
    const check: Write = { op: 'check', set: SETS.secrets, id: secret.id, expect: rev };
    if (attempt === 0)
      await context.record({
        action: 'secret.request',
        decision: 'allow',
        actor: requestedBy,
        ...requestEvent(request),
        constraints: summarise(request.constraints),
        reason: request.justification,
      });
    if (await context.deps.store.commit([writeRequest(request, 0), check])) return request;
  }
  throw busy('The secret');
}

/** @throws PosternError `not_found` */
export async function findRequest({ deps }: Context, id: string): Promise<StoredRequest> {
  const row = await deps.store.get(SETS.requests, rowKey(id));
  if (row) return readRequest(row);
  throw new PosternError('not_found', `There is no request ${safeRef(id)}.`, {
    key: 'request',
    remedy: 'postern request list shows them.',
  });
}

export interface RequestFilter {
  readonly state?: RequestState | undefined;
  readonly requestedBy?: string | undefined;
  /** Id or name of a secret. */
  readonly secret?: string | undefined;
  /** Those that can still be decided, whatever the last sweep saw. */
  readonly pendingOnly?: boolean | undefined;
}

/** Newest first. */
export async function listRequests(
  context: Context,
  filter: RequestFilter,
  caller: Caller,
): Promise<AccessRequest[]> {
  const secret =
    filter.secret === undefined ? undefined : (await findSecret(context, filter.secret, caller)).secret.id;
  const state = filter.pendingOnly ? 'pending' : filter.state;
  const rows = await context.deps.store.list(
    SETS.requests,
    state === undefined ? {} : { where: { index: 'state', value: state } },
  );
  return readRows(rows, readRequest, context.deps.log)
    .map(({ request }) => request)
    .filter((request) => secret === undefined || request.secretId === secret)
    .filter((request) => filter.state === undefined || request.state === filter.state)
    .filter((request) => filter.requestedBy === undefined || request.requestedBy === filter.requestedBy)
    .filter((request) => !filter.pendingOnly || isPending(request, context.now()))
    .reverse();
}
