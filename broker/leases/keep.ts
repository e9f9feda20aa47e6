// What of a lease's sessions goes on at a renewal. Custody is brought up to date, grants that no longer stand are cut out,
// and the rest is renewed; a session that somebody ended by hand stays ended.

import { PosternError } from '../../common/errors.ts';
import type { Context } from '../context.ts';
import { reasonOf } from '../failure.ts';
import { parseApp } from '../github-app/payload.ts';
import { grantOf } from '../grants/grant.ts';
import type { Denied } from '../material.ts';
import { followReference } from '../secrets/follow.ts';
import { withPayload } from '../secrets/payload.ts';
import { STOPS_ALL } from './build.ts';
import type { HeldSession, StoredLease } from './record.ts';
import type { Usable } from './select.ts';

/**
 * What sessions have in custody is brought up to date before anything else: installation tokens that would end before the
 * lease are minted anew, references are looked at again.
 */
export async function renewCustody(
  context: Context,
  before: StoredLease,
  usable: readonly Usable[],
  until: number,
) {
  const held = new Map<string, string>();
  const ends: number[] = [];
  const denied: Denied[] = [];
  const inSession = new Set(before.sessions.flatMap(({ grants }) => grants));
  for (const { grant, stored } of usable) {
    if (!inSession.has(grant.id)) continue;
    try {
      await followReference(context, stored, { actor: before.actor });
      if (grant.kind !== 'github_app') continue;
      const token = await context.appTokens.obtain(grantOf(grant), until, () =>
        withPayload(context, stored, parseApp),
      );
      held.set(grant.id, token.tokenId);
      ends.push(token.expiresAt);
    } catch (error) {
      if (!(error instanceof PosternError) || STOPS_ALL.includes(error.code)) throw error;
      denied.push({ ...grantOf(grant).ref, reason: reasonOf(error) });
    }
  }
  return { held, ends, denied };
}

export interface Kept {
  readonly sessions: readonly { readonly held: HeldSession; readonly outlives: boolean }[];
  /** Grants whose session was ended by somebody else. */
  readonly lost: readonly string[];
}

/** Cuts what no longer stands out of each session, and renews the rest. */
export async function keepSessions(
  context: Context,
  before: StoredLease,
  standing: readonly Usable[],
  until: number,
  ttl: number,
): Promise<Kept> {
  const { sessions } = context.deps;
  const kept: { held: HeldSession; outlives: boolean }[] = [];
  const lost: string[] = [];
  for (const session of before.sessions) {
    const grants = session.grants.filter((id) => standing.some(({ grant }) => grant.id === id));
    for (const id of session.grants)
      if (!grants.includes(id))
        await sessions.removeGrant(session.id, id, 'the grant does not stand any more');
    if (grants.length === 0) continue;
    try {
      const { expiresAt, hardExpiresAt } = await sessions.renew(session.id, until - context.now());
      kept.push({
        held: { ...session, grants, expiresAt, hardExpiresAt },
        outlives: hardExpiresAt - context.now() > ttl,
      });
    } catch (error) {
      if (!(error instanceof PosternError) || !['gone', 'not_found'].includes(error.code)) throw error;
      lost.push(...grants);
    }
  }
  // What another session of the lease still serves is not lost.
  const served = new Set(kept.flatMap(({ held }) => held.grants));
  return { sessions: kept, lost: lost.filter((id) => !served.has(id)) };
}

/** The session that serves each guard's grants now; older ones live on for whoever still uses their files. */
export function latest({ sessions }: Kept): HeldSession[] {
  return [...new Map(sessions.map(({ held }) => [held.guard, held])).values()];
}

export function lasting({ sessions }: Kept): number[] {
  return sessions.filter(({ outlives }) => outlives).map(({ held }) => held.expiresAt);
}
