// A stored credential without the credential: its kind, its name, whose it is. The payload is sealed in the same row, or
// lives elsewhere and the row says where. There is no member that a payload could be in, so that a Secret can be listed,
// logged and answered as it is.

import { z } from 'zod';
import { type ValueFrom, valueFromSchema } from '../../common/value-from.ts';
import type { Envelope } from '../../keyring/envelope.ts';
import type { Row, Write } from '../../store/store.ts';
import { fromBody, toBody } from '../body.ts';
import { compact } from '../compact.ts';
import { KINDS, type Kind } from '../kind.ts';
import { SETS } from '../sets.ts';

export interface Secret {
  readonly id: string;
  readonly name: string;
  readonly kind: Kind;
  /** Present: a personal secret of this identity. Absent: one of everybody's. */
  readonly owner?: string;
  /** For people (a ticket, a date). It goes to records and decides nothing. */
  readonly metadata: { readonly [key: string]: string };
  /** What a grant can list of it: variables, contexts, registries, devices. Names only. */
  readonly names: readonly string[];
  readonly reference?: ValueFrom;
  readonly createdAt: number;
  readonly createdBy: string;
  readonly updatedAt: number;
  readonly updatedBy: string;
  /** Its deletion has begun: nothing can be granted or leased of it any more. */
  readonly deleting?: true;
}

export interface StoredSecret {
  readonly secret: Secret;
  readonly rev: number;
  readonly sealed?: Envelope;
}

const body = z.object({
  name: z.string(),
  kind: z.enum(KINDS),
  owner: z.string().min(1).optional(),
  metadata: z.record(z.string(), z.string()),
  names: z.array(z.string()),
  reference: valueFromSchema.optional(),
  createdAt: z.number(),
  createdBy: z.string(),
  updatedAt: z.number(),
  updatedBy: z.string(),
  deleting: z.literal(true).optional(),
});

export function readSecret(row: Row): StoredSecret {
  const secret = { id: row.id, ...compact(fromBody(body, row, 'the secret')) };
  return { secret, rev: row.rev, ...compact({ sealed: row.sealed }) };
}

/** @param expect the rev it was read at; 0 for a new one */
export function writeSecret({ secret, sealed }: Omit<StoredSecret, 'rev'>, expect: number): Write {
  const { id, ...rest } = secret;
  return {
    op: 'put',
    set: SETS.secrets,
    expect,
    row: { id, body: toBody(rest), ...compact({ sealed }), index: { name: [nameKey(secret.name)] } },
  };
}

/** Names are the same in any case: two secrets `Prod` and `prod` would be granted by mistake. */
export function nameKey(name: string): string {
  return name.toLowerCase();
}

/**
 * The row that keeps a name to one secret. Personal names are kept apart from the shared ones and from each other's: a
 * name that is refused because of a secret that one may not see would tell that it exists.
 */
export function nameRow(secret: Pick<Secret, 'name' | 'owner'>): {
  readonly set: string;
  readonly id: string;
} {
  const owner = secret.owner === undefined ? 'shared' : `personal:${secret.owner}`;
  return { set: SETS.names, id: `${owner}:${nameKey(secret.name)}` };
}
