// From grants to what they contribute: open, minimise, materialise. A grant whose material can't be made is denied with
// its reason and the others go on; only what concerns them all (the store, the audit trail) stops the lease.

import { PosternError } from '../../common/errors.ts';
import type { Context } from '../context.ts';
import { reasonOf } from '../failure.ts';
import { grantOf } from '../grants/grant.ts';
import type { Part } from '../kinds/kind-rules.ts';
import { rulesOf } from '../kinds/kinds.ts';
import type { Denied, GrantOf } from '../material.ts';
import { withPayload } from '../secrets/payload.ts';
import type { Usable } from './select.ts';

export interface Built {
  readonly grant: GrantOf;
  readonly part: Part;
}

export interface Building {
  readonly built: readonly Built[];
  readonly denied: readonly Denied[];
}

/** What concerns every grant and not the one at hand. */
export const STOPS_ALL = ['store_unavailable', 'audit_unavailable'];

export async function build(context: Context, usable: readonly Usable[], until: number): Promise<Building> {
  const outcomes = await Promise.all(usable.map((grant) => buildOne(context, grant, until)));
  return {
    built: outcomes.filter((outcome) => 'part' in outcome),
    denied: outcomes.filter((outcome) => 'reason' in outcome),
  };
}

async function buildOne(context: Context, { grant, stored }: Usable, until: number): Promise<Built | Denied> {
  const of = grantOf(grant);
  const rules = rulesOf(grant.kind);
  try {
    // What was valid when it was granted is held against the rules of today.
    rules.checkConstraints(grant.constraints);
    const minimised = await withPayload(context, stored, (payload) =>
      rules.minimise(payload, grant.constraints, stored.secret.name),
    );
    const part = await rules.materialise(minimised, {
      grant: of,
      until,
      upstreams: context.deps.upstreams,
      appTokens: context.appTokens,
    });
    return { grant: of, part };
  } catch (error) {
    if (error instanceof PosternError && STOPS_ALL.includes(error.code)) throw error;
    if (!(error instanceof PosternError))
      context.deps.log.error({ err: error, grantId: grant.id }, 'the material of a grant could not be built');
    return { ...of.ref, reason: reasonOf(error) };
  }
}
