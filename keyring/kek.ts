// A key-encryption key as it is stored, in the set `keys`. A row holds what derives the key (salt, cost), a check value
// that tells a wrong passphrase from a damaged row, and no key. A retired key's row is replaced by one under
// `retired/<id>` that explains what a leftover refers to; its salt is gone, and with it the key for good.
//
// Other ids of the set: `primary` (which key seals now) and whatever rooms seal there under names of their own.

import { type KeyObject, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { newId } from '../common/ids.ts';
import { KEY_SET, type Row, type Write } from '../store/store.ts';
import { type Envelope, NotAuthentic, open, parseEnvelope, seal } from './envelope.ts';
import { isUsableCost, type ScryptCost } from './kdf.ts';

export interface Kek {
  readonly id: string;
  readonly rev: number;
  readonly salt: Buffer;
  readonly cost: ScryptCost;
  /** A known text, sealed under the key itself. */
  readonly check: Envelope;
  readonly createdAt: number;
  readonly createdBy: string;
}

export interface RetiredKek {
  readonly id: string;
  readonly createdAt: number;
  readonly createdBy: string;
  readonly retiredAt: number;
  readonly retiredBy: string;
}

const SALT_BYTES = 32;
const RETIRED = 'retired/';
const CHECK = 'postern key check 1';

/** Keys and retired keys carry it, for `list`. */
export const KEK_ROWS = { index: 'kind', value: 'kek' } as const;
const KEK_INDEX = { [KEK_ROWS.index]: [KEK_ROWS.value] };
export const PRIMARY_ROW = { set: KEY_SET, id: 'primary' } as const;

const made = { createdAt: z.number(), createdBy: z.string() };
const kekBody = z.strictObject({
  ...made,
  kdf: z.strictObject({
    name: z.literal('scrypt'),
    N: z.number(),
    r: z.number(),
    p: z.number(),
    salt: z.string(),
  }),
  check: z.unknown(),
});
const retiredBody = z.strictObject({ ...made, retiredAt: z.number(), retiredBy: z.string() });
const primaryBody = z.strictObject({ kek: z.string() });

/** What a new key is derived from. */
export function newKek(createdBy: string, cost: ScryptCost, now: number): Omit<Kek, 'rev' | 'check'> {
  return { id: newId('kek', now), salt: randomBytes(SALT_BYTES), cost, createdAt: now, createdBy };
}

/** `undefined` where the row is not one that `kekWrite` or `retireWrites` wrote. */
export function readKekRow(row: Row): Kek | RetiredKek | undefined {
  if (row.id.startsWith(RETIRED)) {
    const body = retiredBody.safeParse(row.body);
    return body.success ? { id: row.id.slice(RETIRED.length), ...body.data } : undefined;
  }
  const body = kekBody.safeParse(row.body);
  if (!body.success) return undefined;
  const { kdf, createdAt, createdBy } = body.data;
  const cost = { N: kdf.N, r: kdf.r, p: kdf.p };
  const check = parseEnvelope(body.data.check);
  if (!check || !isUsableCost(cost)) return undefined;
  const salt = Buffer.from(kdf.salt, 'base64url');
  return { id: row.id, rev: row.rev, salt, cost, check, createdAt, createdBy };
}

export function isRetired(kek: Kek | RetiredKek): kek is RetiredKek {
  return 'retiredAt' in kek;
}

/** `rev` is 0 where no key was ever made. `kek` is absent where the row is damaged. */
export function readPrimaryRow(row: Row | undefined): { kek?: string; rev: number } {
  const body = primaryBody.safeParse(row?.body);
  return { rev: row?.rev ?? 0, ...(body.success ? body.data : {}) };
}

/** A new key that seals from now on. `primaryRev`: of the pointer as it was read. */
export function promoteWrites(
  { id, salt, cost, check, createdAt, createdBy }: Omit<Kek, 'rev'>,
  primaryRev: number,
): Write[] {
  const kdf = { name: 'scrypt', ...cost, salt: salt.toString('base64url') };
  const kek = { id, body: { kdf, check: { ...check }, createdAt, createdBy }, index: KEK_INDEX };
  const primary = { id: PRIMARY_ROW.id, body: { kek: id }, index: {} };
  return [
    { op: 'put', set: KEY_SET, row: kek, expect: 0 },
    { op: 'put', set: KEY_SET, row: primary, expect: primaryRev },
  ];
}

/** The store refuses the deletion while any row is sealed under the key. */
export function retireWrites(kek: Kek, primaryRev: number, retiredBy: string, now: number): Write[] {
  const body = { createdAt: kek.createdAt, createdBy: kek.createdBy, retiredAt: now, retiredBy };
  return [
    { op: 'check', ...PRIMARY_ROW, expect: primaryRev },
    { op: 'delete', set: KEY_SET, id: kek.id, expect: kek.rev },
    { op: 'put', set: KEY_SET, row: { id: RETIRED + kek.id, body, index: KEK_INDEX }, expect: 0 },
  ];
}

export function makeCheck(key: KeyObject, id: string): Envelope {
  return seal(key, id, { set: KEY_SET, id }, Buffer.from(CHECK));
}

/** Whether this is the key that the check value was made with. */
export function checkHolds(key: KeyObject, { id, check }: Pick<Kek, 'id' | 'check'>): boolean {
  try {
    return open(key, { set: KEY_SET, id }, check).toString() === CHECK;
  } catch (error) {
    if (error instanceof NotAuthentic) return false;
    throw error;
  }
}
