// A grant: one subject may use one secret, under constraints, until a time. It never changes but for its end, so that a
// session that was built from one is what the grant still says. A row tells by itself whose credential it was about,
// also when the secret is gone.

import { z } from 'zod';
import { rfc3339 } from '../../common/clock.ts';
import type { Row, Write } from '../../store/store.ts';
import { fromBody, toBody } from '../body.ts';
import { compact } from '../compact.ts';
import { type Constraints, parseConstraints } from '../constraints/constraints.ts';
import { KINDS, type Kind } from '../kind.ts';
import type { GrantOf } from '../material.ts';
import { SETS } from '../sets.ts';
import { formatSubject, parseSubject, type Subject, subjectKey } from '../subject.ts';

export interface Grant {
  readonly id: string;
  readonly secretId: string;
  readonly secretName: string;
  readonly kind: Kind;
  /** Of the secret, where it is a personal one. */
  readonly owner?: string;
  /** For people, to group and filter (`ci`). It decides nothing. */
  readonly scope?: string;
  /** The same: no lease and no guard looks at them. Those of an executor are another thing. */
  readonly labels?: { readonly [key: string]: string };
  readonly subject: Subject;
  readonly constraints: Constraints;
  /** Absent: no end, which only the import of a flat file makes. */
  readonly expiresAt?: number;
  readonly createdAt: number;
  readonly createdBy: string;
  readonly revokedAt?: number;
  readonly revokedBy?: string;
  /** The access request whose approval made it. */
  readonly requestId?: string;
}

export interface StoredGrant {
  readonly grant: Grant;
  readonly rev: number;
}

const body = z.object({
  secretId: z.string(),
  secretName: z.string(),
  kind: z.enum(KINDS),
  owner: z.string().min(1).optional(),
  scope: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  subject: z.string(),
  constraints: z.unknown(),
  expiresAt: z.number().optional(),
  createdAt: z.number(),
  createdBy: z.string(),
  revokedAt: z.number().optional(),
  revokedBy: z.string().optional(),
  requestId: z.string().optional(),
});

/** @throws PosternError for a row that cannot be read: it grants nothing */
export function readGrant(row: Row): StoredGrant {
  const { subject, constraints, ...rest } = fromBody(body, row, 'the grant');
  return {
    grant: {
      id: row.id,
      ...compact(rest),
      subject: parseSubject(subject),
      constraints: parseConstraints(constraints),
    },
    rev: row.rev,
  };
}

/**
 * @param expect the rev it was read at; 0 for a new one
 * @param found whether leases find it. A grant that has ended stays as history and is taken out of the index by the first
 *   lease that meets it, so that years of daily grants do not slow down every lease.
 */
export function writeGrant(grant: Grant, expect: number, found = true): Write {
  const { id, subject, ...rest } = grant;
  return {
    op: 'put',
    set: SETS.grants,
    expect,
    row: {
      id,
      body: toBody({ ...rest, subject: formatSubject(subject) }),
      index: { secret: [grant.secretId], ...(found && { subject: [subjectKey(subject)] }) },
    },
  };
}

/** Why a grant can't be used now, for the record; `undefined` where it can. */
export function endedBecause(grant: Grant, now: number): string | undefined {
  if (grant.revokedAt !== undefined) return `the grant was revoked at ${rfc3339(grant.revokedAt)}`;
  if (grant.expiresAt !== undefined && now >= grant.expiresAt)
    return `the grant ended at ${rfc3339(grant.expiresAt)}`;
  return undefined;
}

export function grantOf(grant: Grant): GrantOf {
  const { id: grantId, secretId, secretName, kind, owner, requestId, constraints } = grant;
  return { ref: { grantId, secretId, secretName, kind }, constraints, ...compact({ owner, requestId }) };
}
