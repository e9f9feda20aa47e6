// Which grants a requester may use now. Found by index, decided by `selects` and by their end. What matched and can't be
// used is on the record once, with its reason, and is then taken out of the index.

import { readRows } from '../body.ts';
import type { Context } from '../context.ts';
import { reasonOf } from '../failure.ts';
import { grantFields } from '../grants/create.ts';
import { endedBecause, grantOf, readGrant, type StoredGrant, writeGrant } from '../grants/grant.ts';
import type { Denied } from '../material.ts';
import type { Requester } from '../requester.ts';
import { readSecret, type StoredSecret } from '../secrets/secret.ts';
import { SETS } from '../sets.ts';
import { breadth, requesterKeys, selects } from '../subject.ts';

export interface Usable extends StoredGrant {
  readonly stored: StoredSecret;
}

export interface Selection {
  /** Narrow subjects first, then the older. */
  readonly usable: readonly Usable[];
  readonly denied: readonly Denied[];
  readonly ended: readonly (StoredGrant & { readonly reason: string })[];
}

/** A grant in its last second would make a lease that is over when it arrives. */
const LAST_MOMENT = 1000;

export async function selectGrants(context: Context, requester: Requester): Promise<Selection> {
  const { store } = context.deps;
  const found = await Promise.all(
    requesterKeys(requester).map((value) => store.list(SETS.grants, { where: { index: 'subject', value } })),
  );
  const rows = new Map(found.flat().map((row) => [row.id, row]));
  const ended: (StoredGrant & { reason: string })[] = [];
  const denied: Denied[] = [];
  const live: StoredGrant[] = [];
  for (const row of rows.values()) {
    try {
      const stored = readGrant(row);
      if (!selects(stored.grant.subject, requester)) continue;
      const reason = endedBecause(stored.grant, context.now() + LAST_MOMENT - 1);
      if (reason === undefined) live.push(stored);
      else ended.push({ ...stored, reason });
    } catch (error) {
      denied.push({ grantId: row.id, reason: reasonOf(error) });
    }
  }
  live.sort(
    (a, b) => breadth(a.grant.subject) - breadth(b.grant.subject) || (a.grant.id < b.grant.id ? -1 : 1),
  );
  const usable: Usable[] = [];
  const secrets = await loadSecrets(context, live);
  for (const { grant, rev } of live) {
    const stored = secrets.get(grant.secretId);
    if (stored && !stored.secret.deleting && stored.secret.kind === grant.kind)
      usable.push({ grant, rev, stored });
    else denied.push({ ...grantOf(grant).ref, reason: 'the secret is gone, or its row cannot be read' });
  }
  return { usable, denied, ended };
}

async function loadSecrets(
  { deps }: Context,
  live: readonly StoredGrant[],
): Promise<Map<string, StoredSecret>> {
  const ids = [...new Set(live.map(({ grant }) => grant.secretId))];
  const rows = await Promise.all(ids.map((id) => deps.store.get(SETS.secrets, id)));
  const found = rows.filter((row) => row !== undefined);
  return new Map(readRows(found, readSecret, deps.log).map((stored) => [stored.secret.id, stored]));
}

/** Records what has ended and takes it out of the index; whoever loses the race leaves the record to the other. */
export async function retireEnded(
  context: Context,
  { ended }: Selection,
  fields: object,
  actor: string,
): Promise<void> {
  for (const { grant, rev, reason } of ended) {
    if (!(await context.deps.store.commit([writeGrant(grant, rev, false)]))) continue;
    await context.record(
      { action: 'secret.lease', decision: 'deny', actor, ...fields, ...grantFields(grant), reason },
      'written',
    );
  }
}
