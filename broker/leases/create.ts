// A lease: everything that one executor may use for one project now, each credential cut down to its grant. Nothing that
// matches is an empty lease and no error. The order carries the safety: build, let the guards take custody, store with
// the promise that nothing has changed meanwhile, record, and only then answer; whatever fails on the way takes back what
// was done before it.

import { rfc3339 } from '../../common/clock.ts';
import { formatDuration } from '../../common/duration.ts';
import { PosternError } from '../../common/errors.ts';
import { newId } from '../../common/ids.ts';
import { type Caller, requireActor } from '../caller.ts';
import { compact } from '../compact.ts';
import { summarise } from '../constraints/constraints.ts';
import type { Context } from '../context.ts';
import { ATTEMPTS, busy, reasonOf } from '../failure.ts';
import type { Kind } from '../kind.ts';
import type { Denied, Lease, Material } from '../material.ts';
import { type Requester, type RequesterInput, readRequester } from '../requester.ts';
import { useWrites } from '../requests/uses.ts';
import { assemble } from './assemble.ts';
import { build } from './build.ts';
import { commitLease, tokensOf } from './commit.ts';
import { down, guardGit, guardKube } from './guards.ts';
import { withNoProxy } from './no-proxy.ts';
import { type LeaseRecord, leaseFields } from './record.ts';
import { endLease } from './release.ts';
import { retireEnded, type Selection, selectGrants, type Usable } from './select.ts';

export interface LeaseInput extends RequesterInput {
  /** Milliseconds, up to the limit; absent: the limit. */
  readonly ttl?: number | undefined;
}

/**
 * @throws PosternError `guard_unavailable` where a guard is needed and down, `ttl_too_long`, `invalid_input`,
 *   `audit_unavailable`, `store_unavailable`
 */
export async function createLease(context: Context, input: LeaseInput, caller: Caller): Promise<Lease> {
  const actor = requireActor(caller);
  const requester = readRequester(input);
  if (requester.executorId === undefined && requester.projectId === undefined)
    throw new PosternError('invalid_input', 'A lease is for an executor, a project or both.', {
      key: 'projectId',
    });
  const ttl = leaseTtl(context, input.ttl);
  const id = newId('lease', context.now());
  const fields = leaseFields({ id, ...requester });
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const selection = await selectGrants(context, requester);
    const outcome = await attemptLease(context, { id, requester, actor, ttl, selection }).catch(
      async (error: unknown) => {
        await takeBack(context, id, selection);
        await context
          .record({ action: 'secret.lease', decision: 'deny', actor, ...fields, reason: reasonOf(error) })
          .catch(() => {});
        throw error;
      },
    );
    if (!outcome) continue;
    try {
      await recordLease(context, outcome, actor);
      await retireEnded(context, selection, fields, actor);
    } catch (error) {
      await endLease(
        context,
        outcome.record.id,
        'secret.release',
        'the lease could not be recorded',
        actor,
      ).catch(() => {});
      throw error;
    }
    return leaseAnswer(outcome.record, outcome.materials, outcome.denied, []);
  }
  throw busy('What the lease is made of');
}

interface Attempt {
  readonly id: string;
  readonly requester: Requester;
  readonly actor: string;
  readonly ttl: number;
  readonly selection: Selection;
}

export interface Outcome {
  readonly record: LeaseRecord;
  readonly materials: readonly Material[];
  readonly delivered: readonly Usable[];
  readonly denied: readonly Denied[];
}

/** `undefined` where something changed while it was built, and nothing of it is left. */
async function attemptLease(context: Context, attempt: Attempt): Promise<Outcome | undefined> {
  const { id, requester, actor, ttl, selection } = attempt;
  const { usable } = selection;
  const now = context.now();
  const until = leaseEnd(now + ttl, usable);
  refuseWhereDown(
    context,
    usable.map(({ grant }) => grant.kind),
  );
  const { built, denied } = await build(context, usable, until);
  const parts = assemble(built);
  const to = { leaseId: id, requester, actor, until: tokenEnd(until, parts.git) };
  const git = await guardGit(context, to, parts.git);
  const kube = await guardKube(context, to, parts.kube);
  const sessions = [...git.sessions, ...kube.sessions];
  const materials = withNoProxy([...parts.direct, ...git.materials, ...kube.materials], sessions);
  const grants = materials.flatMap((material) => material.grants);
  const delivered = usable.filter(({ grant }) => grants.some(({ grantId }) => grantId === grant.id));
  const refused = [...selection.denied, ...denied, ...parts.denied, ...git.denied, ...kube.denied];
  const record: LeaseRecord = {
    id,
    ...requester,
    actor,
    issuedAt: now,
    renewedAt: now,
    expiresAt: Math.min(to.until, ...sessions.map(({ expiresAt }) => expiresAt)),
    grants,
    sessions,
    withheld: [],
    denied: Object.fromEntries(refused.map(({ grantId, reason }) => [grantId, reason])),
    outstanding: [],
  };
  const stored = await commitLease(context, {
    lease: record,
    rev: 0,
    delivered,
    tokens: tokensOf(
      parts.git.filter(({ grant }) => grants.some(({ grantId }) => grantId === grant.ref.grantId)),
    ),
    more: await useWrites(context, record, delivered),
  });
  if (stored) return { record, materials, delivered, denied: refused };
  await takeBack(context, id, selection);
  return undefined;
}

/** Sessions that a guard issued for a lease that never came to be, and tokens that nobody holds. */
async function takeBack(context: Context, leaseId: string, { usable }: Selection): Promise<void> {
  await context.deps.sessions.revokeLease(leaseId, 'the lease was not made');
  for (const { grant } of usable)
    if (grant.kind === 'github_app') await context.appTokens.letGo(grant.id, 'postern').catch(() => {});
}

/** @throws PosternError `guard_unavailable` before anything is opened */
export function refuseWhereDown({ deps }: Context, kinds: readonly Kind[]): void {
  if (deps.gitGuard === 'down' && kinds.some((kind) => kind === 'github_pat' || kind === 'github_app'))
    throw down('git');
  if (deps.kubeGuard === 'down' && kinds.includes('kubeconfig')) throw down('kube');
}

/** @throws PosternError `ttl_too_long` */
export function leaseTtl({ limits }: Context, ttl = limits.leaseTtl): number {
  if (ttl <= 0 || !Number.isSafeInteger(ttl))
    throw new PosternError('invalid_input', 'ttl: a lease lives for some time.', { key: 'ttl' });
  if (ttl <= limits.leaseTtl) return ttl;
  throw new PosternError(
    'ttl_too_long',
    `ttl: a lease lives for ${formatDuration(limits.leaseTtl)} at most.`,
    {
      key: 'ttl',
      remedy: 'Renew it while the work goes on.',
    },
  );
}

/** A lease ends with the first of its grants: the next renewal goes on without that one. */
export function leaseEnd(wanted: number, usable: readonly Usable[]): number {
  return Math.min(wanted, ...usable.map(({ grant }) => grant.expiresAt ?? wanted));
}

/** And with an installation token that GitHub gave less time. */
export function tokenEnd(wanted: number, parts: ReturnType<typeof assemble>['git']): number {
  return Math.min(wanted, ...parts.map(({ part }) => part.app?.expiresAt ?? wanted));
}

async function recordLease(
  context: Context,
  { record, delivered, denied }: Outcome,
  actor: string,
): Promise<void> {
  const fields = {
    action: 'secret.lease',
    actor,
    ...leaseFields(record),
    expiresAt: rfc3339(record.expiresAt),
  } as const;
  const events = [
    ...delivered.map(({ grant }) => ({
      ...fields,
      decision: 'allow' as const,
      ...compact({ requestId: grant.requestId }),
      grantId: grant.id,
      secretId: grant.secretId,
      secretName: grant.secretName,
      kind: grant.kind,
      constraints: summarise(grant.constraints),
    })),
    ...denied.map(({ reason, ...ref }) => ({ ...fields, decision: 'deny' as const, ...ref, reason })),
  ];
  if (events.length === 0) await context.record({ ...fields, decision: 'allow', reason: 'no grant matches' });
  await Promise.all(events.map((event) => context.record(event)));
}

export function leaseAnswer(
  record: LeaseRecord,
  materials: readonly Material[],
  denied: readonly Denied[],
  revoked: readonly string[],
): Lease {
  const { id, executorId, projectId, runId, taskId, issuedAt, expiresAt } = record;
  return {
    id,
    ...compact({ executorId, projectId, runId, taskId }),
    issuedAt,
    expiresAt,
    materials,
    denied,
    revoked,
  };
}
