// A session as a row of the set `sessions`: its public metadata, nothing sealed. Indexed by lease and guard for the
// calls that need it, and by whether it has ended for the sweep.

import { z } from 'zod';
import { PosternError } from '../common/errors.ts';
import type { Json } from '../common/json.ts';
import type { Row, Write } from '../store/store.ts';
import type { CredentialRef, Labels, Session } from './session.ts';

export interface SessionRecord {
  readonly session: Session;
  /** What it was issued for, in milliseconds; a renewal that names no time gives the same again. */
  readonly ttl: number;
  /** Found expired and closed: its custody is gone. */
  readonly closedAt?: number | undefined;
  readonly rev: number;
}

export const SESSION_SET = 'sessions';
export const SESSION_INDEX = { lease: 'lease', guard: 'guard', state: 'state' } as const;
export type SessionState = 'open' | 'ended';

const credential = z.strictObject({
  id: z.string(),
  secretId: z.string().optional(),
  secretName: z.string().optional(),
  grantId: z.string().optional(),
});
const body = z.strictObject({
  guard: z.enum(['git', 'kube']),
  leaseId: z.string(),
  labels: z.record(z.string(), z.string()),
  credentials: z.array(credential),
  policy: z.unknown(),
  ttl: z.number(),
  createdAt: z.number(),
  expiresAt: z.number(),
  hardExpiresAt: z.number(),
  revokedAt: z.number().optional(),
  revokedBecause: z.string().optional(),
  closedAt: z.number().optional(),
});

/** Revoked, or closed after its time; nothing changes it any more. */
export function hasEnded({ session, closedAt }: SessionRecord): boolean {
  return session.revokedAt !== undefined || closedAt !== undefined;
}

export function putSession(record: SessionRecord): Write {
  const { session, ttl, closedAt, rev } = record;
  const { id, ...fields } = session;
  const state: SessionState = hasEnded(record) ? 'ended' : 'open';
  return {
    op: 'put',
    set: SESSION_SET,
    row: {
      id,
      // A policy is the guard's own JSON; the round trip leaves out what JSON has no form for.
      body: JSON.parse(JSON.stringify({ ...fields, ttl, closedAt })) as { [key: string]: Json },
      index: {
        [SESSION_INDEX.lease]: [session.leaseId],
        [SESSION_INDEX.guard]: [session.guard],
        [SESSION_INDEX.state]: [state],
      },
    },
    expect: rev,
  };
}

/** @throws PosternError `internal` for a row that `putSession` did not write: it authenticates nobody */
export function readSession(row: Row): SessionRecord {
  const parsed = body.safeParse(row.body);
  if (!parsed.success) throw new PosternError('internal', `the stored session ${row.id} cannot be read`);
  const { ttl, closedAt, revokedAt, revokedBecause, credentials, labels, ...rest } = parsed.data;
  const session: Session = {
    id: row.id,
    ...rest,
    labels: labels as Labels,
    credentials: credentials as CredentialRef[],
    ...(revokedAt === undefined ? {} : { revokedAt }),
    ...(revokedBecause === undefined ? {} : { revokedBecause }),
  };
  return { session, ttl, closedAt, rev: row.rev };
}
