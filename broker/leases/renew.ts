// Renewing a lease works everything out anew from the store: a grant that was revoked a minute ago is gone, and is cut
// out of the session now and not when that would have lapsed; a grant that was made meanwhile is there. A session that
// stays keeps its token, so the sandbox notices nothing. What a session can't take up (a new grant, twelve hours that
// are over) goes into a new one, and the old one is renewed beside it for whoever has not changed over.

import { rfc3339 } from '../../common/clock.ts';
import { PosternError } from '../../common/errors.ts';
import { type Caller, requireActor } from '../caller.ts';
import { compact } from '../compact.ts';
import type { Context } from '../context.ts';
import { ATTEMPTS, busy } from '../failure.ts';
import { grantOf } from '../grants/grant.ts';
import type { Denied, GrantRef, Lease, Material, SessionMaterial } from '../material.ts';
import { useWrites } from '../requests/uses.ts';
import { assemble } from './assemble.ts';
import { build } from './build.ts';
import { commitLease, tokensOf } from './commit.ts';
import { leaseAnswer, leaseEnd, leaseTtl, refuseWhereDown, tokenEnd } from './create.ts';
import { findLease } from './find.ts';
import { guardGit, guardKube } from './guards.ts';
import { keepSessions, lasting, latest, renewCustody } from './keep.ts';
import { withNoProxy } from './no-proxy.ts';
import { type HeldSession, type LeaseRecord, leaseFields, type StoredLease } from './record.ts';
import { endLease } from './release.ts';
import { retireEnded, type Selection, selectGrants, type Usable } from './select.ts';

export interface RenewInput {
  readonly leaseId: string;
  /** Milliseconds, up to the limit; absent: the limit. */
  readonly ttl?: number | undefined;
}

/** @throws PosternError `not_found`, `lease_expired`, `guard_unavailable`, `ttl_too_long`, `audit_unavailable` */
export async function renewLease(context: Context, input: RenewInput, caller: Caller): Promise<Lease> {
  const actor = requireActor(caller);
  const ttl = leaseTtl(context, input.ttl);
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const before = await findLease(context, input.leaseId, 'refused').catch(async (error: unknown) => {
      if (error instanceof PosternError && error.code === 'lease_expired')
        await endLease(context, input.leaseId, 'secret.lease_expire', 'not renewed in time', actor);
      throw error;
    });
    const selection = await selectGrants(context, before);
    const outcome = await attemptRenewal(context, before, selection, ttl, actor);
    if (!outcome) continue;
    await recordRenewal(context, before, outcome, actor);
    await retireEnded(context, selection, leaseFields(before), actor);
    return leaseAnswer(outcome.record, outcome.materials, outcome.denied, outcome.record.outstanding);
  }
  throw busy('The lease');
}

interface Renewal {
  readonly record: LeaseRecord;
  readonly materials: readonly Material[];
  readonly denied: readonly Denied[];
}

async function attemptRenewal(
  context: Context,
  before: StoredLease,
  selection: Selection,
  ttl: number,
  actor: string,
): Promise<Renewal | undefined> {
  const { usable } = selection;
  const now = context.now();
  refuseWhereDown(
    context,
    usable.map(({ grant }) => grant.kind),
  );
  let until = leaseEnd(now + ttl, usable);

  const tokens = await renewCustody(context, before, usable, until);
  const standing = usable.filter(({ grant }) => !tokens.denied.some(({ grantId }) => grantId === grant.id));
  until = Math.min(until, ...tokens.ends);
  const kept = await keepSessions(context, before, standing, until, ttl);

  const covered = new Set(
    kept.sessions.filter(({ outlives }) => outlives).flatMap(({ held }) => held.grants),
  );
  const withheld = new Set([...before.withheld, ...kept.lost]);
  const wanted = standing.filter(({ grant }) => !withheld.has(grant.id));
  // One new grant of a guard means a new session for all of its grants: one gitconfig serves a sandbox.
  const fresh = (guard: 'git' | 'kube'): boolean =>
    wanted.some(({ grant }) => guardOf(grant.kind) === guard && !covered.has(grant.id));
  const toBuild = wanted.filter(({ grant }) => {
    const guard = guardOf(grant.kind);
    return guard === undefined || isOff(context, guard) || fresh(guard);
  });

  const { built, denied } = await build(context, toBuild, until);
  const parts = assemble(built);
  until = tokenEnd(until, parts.git);
  const to = { leaseId: before.id, requester: before, actor: before.actor, until };
  const git = await guardGit(context, to, parts.git);
  const kube = await guardKube(context, to, parts.kube);

  const issued = [...git.sessions, ...kube.sessions];
  const sessions = [...kept.sessions.map(({ held }) => held), ...issued];
  const replaced = new Set(issued.map(({ guard }) => guard));
  const materials = withNoProxy(
    [
      ...parts.direct,
      ...git.materials,
      ...kube.materials,
      ...latest(kept)
        .filter((held) => !replaced.has(held.guard))
        .map((held) => sessionMaterial(held, usable)),
    ],
    sessions,
  );
  const grants = distinct(materials.flatMap((material) => material.grants));
  const delivered = standing.filter(({ grant }) => grants.some(({ grantId }) => grantId === grant.id));
  const refused = [
    ...selection.denied,
    ...tokens.denied,
    ...denied,
    ...parts.denied,
    ...git.denied,
    ...kube.denied,
  ];
  const record: LeaseRecord = {
    ...before,
    renewedAt: now,
    // An old session that is in its last hour does not end the lease: the new one goes on.
    expiresAt: Math.min(until, ...issued.map(({ expiresAt }) => expiresAt), ...lasting(kept)),
    grants,
    sessions,
    withheld: [...withheld],
    denied: Object.fromEntries(refused.map(({ grantId, reason }) => [grantId, reason])),
    outstanding: outstanding(before, grants),
  };
  const stored = await commitLease(context, {
    lease: record,
    rev: before.rev,
    delivered,
    tokens: new Map(
      [...tokens.held, ...tokensOf(parts.git)].filter(([id]) => grants.some(({ grantId }) => grantId === id)),
    ),
    more: await useWrites(context, record, delivered),
  });
  if (!stored) {
    for (const { id } of issued) await context.deps.sessions.revoke(id, 'the renewal was begun anew');
    return undefined;
  }
  for (const { grantId, kind } of before.grants)
    if (kind === 'github_app' && !grants.some((grant) => grant.grantId === grantId))
      await context.appTokens.letGo(grantId, actor);
  return { record, materials, denied: refused };
}

function sessionMaterial(held: HeldSession, usable: readonly Usable[]): SessionMaterial {
  const grants = usable
    .filter(({ grant }) => held.grants.includes(grant.id))
    .map(({ grant }) => grantOf(grant).ref);
  const { id: sessionId, expiresAt, summary } = held;
  const common = { type: 'session', grants, sessionId, expiresAt, summary } as const;
  return held.guard === 'git'
    ? { ...common, guard: held.guard, facts: held.facts }
    : { ...common, guard: held.guard, facts: held.facts };
}

/** What was delivered directly, is not any more, and is not reported as taken away. */
function outstanding(before: StoredLease, grants: readonly GrantRef[]): string[] {
  const stands = (id: string): boolean => grants.some(({ grantId }) => grantId === id);
  const inSession = new Set(before.sessions.flatMap((session) => session.grants));
  const gone = before.grants.map(({ grantId }) => grantId).filter((id) => !inSession.has(id));
  return [...new Set([...before.outstanding, ...gone])].filter((id) => !stands(id));
}

function guardOf(kind: GrantRef['kind']): 'git' | 'kube' | undefined {
  if (kind === 'github_pat' || kind === 'github_app') return 'git';
  return kind === 'kubeconfig' ? 'kube' : undefined;
}

function isOff({ deps }: Context, guard: 'git' | 'kube'): boolean {
  return (guard === 'git' ? deps.gitGuard : deps.kubeGuard) === 'off';
}

function distinct(grants: readonly GrantRef[]): GrantRef[] {
  return [...new Map(grants.map((grant) => [grant.grantId, grant])).values()];
}

async function recordRenewal(
  context: Context,
  before: StoredLease,
  { record, denied }: Renewal,
  actor: string,
) {
  const fields = { action: 'secret.renew', actor, ...leaseFields(record) } as const;
  const gone = before.grants.filter(
    ({ grantId }) => !record.grants.some((grant) => grant.grantId === grantId),
  );
  const news = denied.filter(({ grantId, reason }) => before.denied[grantId] !== reason);
  const events = [
    {
      ...fields,
      decision: 'allow' as const,
      expiresAt: rfc3339(record.expiresAt),
      reason: `${record.grants.length} grants`,
    },
    ...gone
      .filter(({ grantId }) => !news.some((other) => other.grantId === grantId))
      .map((ref) => ({
        ...fields,
        decision: 'deny' as const,
        ...ref,
        reason: 'the grant does not stand any more',
      })),
    ...news.map(({ reason, ...ref }) => ({ ...fields, decision: 'deny' as const, ...compact(ref), reason })),
  ];
  await Promise.all(events.map((event) => context.record(event, 'written')));
}
