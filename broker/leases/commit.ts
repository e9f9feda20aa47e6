// Storing a lease together with the promise that nothing changed while it was built: every grant and every secret that
// went into it is as it was read, and every installation token is the one that was handed out. Where that no longer
// holds, what was built is thrown away; so a revocation that happens during a lease is never missed by it.

import type { Write } from '../../store/store.ts';
import type { Context } from '../context.ts';
import { ATTEMPTS } from '../failure.ts';
import { SETS } from '../sets.ts';
import type { PartOf } from './assemble.ts';
import { type LeaseRecord, writeLease } from './record.ts';
import type { Usable } from './select.ts';

export interface Commit {
  readonly lease: LeaseRecord;
  /** 0 for a new one. */
  readonly rev: number;
  readonly delivered: readonly Usable[];
  /** Grant → the installation token that it was given. */
  readonly tokens: ReadonlyMap<string, string>;
  readonly more: readonly Write[];
}

/** @returns whether it was stored */
export async function commitLease(
  context: Context,
  { lease, rev, delivered, tokens, more }: Commit,
): Promise<boolean> {
  const { store } = context.deps;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const held = await context.appTokens.hold(tokens);
    if (!held) return false;
    const writes = [writeLease(lease, rev), ...checks(delivered), ...held, ...more];
    if (await store.commit(writes)) return true;
    // Another lease of the same installation token moves its row: that alone is no reason to build everything again.
    if (tokens.size === 0 || !(await unchanged(context, lease.id, rev, delivered))) return false;
  }
  return false;
}

function checks(delivered: readonly Usable[]): Write[] {
  const secrets = new Map(delivered.map(({ stored }) => [stored.secret.id, stored.rev]));
  return [
    ...delivered.map(
      ({ grant, rev }): Write => ({ op: 'check', set: SETS.grants, id: grant.id, expect: rev }),
    ),
    ...[...secrets].map(([id, expect]): Write => ({ op: 'check', set: SETS.secrets, id, expect })),
  ];
}

async function unchanged(
  { deps }: Context,
  leaseId: string,
  rev: number,
  delivered: readonly Usable[],
): Promise<boolean> {
  const same = async (set: string, id: string, expect: number): Promise<boolean> =>
    ((await deps.store.get(set, id))?.rev ?? 0) === expect;
  const all = await Promise.all([
    same(SETS.leases, leaseId, rev),
    ...delivered.flatMap(({ grant, rev: grantRev, stored }) => [
      same(SETS.grants, grant.id, grantRev),
      same(SETS.secrets, stored.secret.id, stored.rev),
    ]),
  ]);
  return all.every(Boolean);
}

/** Grant → token, of the parts that have one. */
export function tokensOf(parts: readonly PartOf<'git'>[]): Map<string, string> {
  return new Map(
    parts.flatMap(({ grant, part }) => (part.app ? [[grant.ref.grantId, part.app.tokenId] as const] : [])),
  );
}
