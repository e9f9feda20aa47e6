// An access request: somebody asks for a grant that does not exist yet. It names a secret that does, and has no member
// that a credential could be in. What was asked never changes after it was opened; only its state does. The content hash
// is over all that was asked: a decision names the hash that the person read, and counts for nothing else.

import { createHash } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson } from '../../common/json.ts';
import type { Row, Write } from '../../store/store.ts';
import { fromBody, toBody } from '../body.ts';
import type { Caller } from '../caller.ts';
import { compact } from '../compact.ts';
import { type Constraints, parseConstraints } from '../constraints/constraints.ts';
import { KINDS, type Kind } from '../kind.ts';
import { SETS } from '../sets.ts';
import { formatSubject, parseSubject, type Subject } from '../subject.ts';

/** `expired` is not a way of saying `denied`: one is an answer, the other its absence. */
export const REQUEST_STATES = ['pending', 'approved', 'denied', 'withdrawn', 'expired'] as const;
export type RequestState = (typeof REQUEST_STATES)[number];

export interface AccessRequest {
  readonly id: string;
  readonly requestedBy: string;
  /** Other identities that are known to be the requester. */
  readonly aliases: readonly string[];
  readonly secretId: string;
  readonly secretName: string;
  readonly kind: Kind;
  readonly subject: Subject;
  readonly constraints: Constraints;
  readonly scope?: string;
  readonly labels?: { readonly [key: string]: string };
  /** Milliseconds of access that are asked for. */
  readonly ttl: number;
  readonly justification: string;
  readonly state: RequestState;
  readonly createdAt: number;
  /** When the request itself lapses. Its clock has nothing to do with `ttl`. */
  readonly expiresAt: number;
  readonly decidedBy?: string;
  readonly decidedAt?: number;
  readonly decisionNote?: string;
  readonly grantId?: string;
  readonly grantExpiresAt?: number;
}

export interface StoredRequest {
  readonly request: AccessRequest;
  readonly rev: number;
}

const body = z.object({
  requestedBy: z.string().min(1),
  aliases: z.array(z.string()),
  secretId: z.string(),
  secretName: z.string(),
  kind: z.enum(KINDS),
  subject: z.string(),
  constraints: z.unknown(),
  scope: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  ttl: z.number(),
  justification: z.string(),
  state: z.enum(REQUEST_STATES),
  createdAt: z.number(),
  expiresAt: z.number(),
  decidedBy: z.string().optional(),
  decidedAt: z.number().optional(),
  decisionNote: z.string().optional(),
  grantId: z.string().optional(),
  grantExpiresAt: z.number().optional(),
});

export function readRequest(row: Row): StoredRequest {
  const { subject, constraints, ...rest } = fromBody(body, row, 'the request');
  return {
    request: {
      id: row.id,
      ...compact(rest),
      subject: parseSubject(subject),
      constraints: parseConstraints(constraints),
    },
    rev: row.rev,
  };
}

export function writeRequest(request: AccessRequest, expect: number): Write {
  const { id, subject, ...rest } = request;
  return {
    op: 'put',
    set: SETS.requests,
    expect,
    row: {
      id,
      body: toBody({ ...rest, subject: formatSubject(subject) }),
      index: { state: [request.state], secret: [request.secretId] },
    },
  };
}

/** Hex SHA-256 of what was asked, by whom and for whom; computed from the row each time and never stored. */
export function contentHash(request: AccessRequest): string {
  const { id, requestedBy, secretId, secretName, kind, constraints } = request;
  const { scope, labels, ttl, justification, createdAt } = request;
  const asked = {
    id,
    requestedBy,
    secretId,
    secretName,
    kind,
    subject: formatSubject(request.subject),
    constraints,
    scope,
    labels,
    ttl,
    justification,
    createdAt,
    expiresAt: request.expiresAt,
  };
  return createHash('sha256').update(canonicalJson(asked)).digest('hex');
}

/** The clock counts as well as the state: whether a stale request can be approved must not hang on the last sweep. */
export function isPending(request: AccessRequest, now: number): boolean {
  return request.state === 'pending' && now < request.expiresAt;
}

export function isTerminal(state: RequestState): boolean {
  return state !== 'pending';
}

export function requesterOf(request: AccessRequest): Caller {
  return { actor: request.requestedBy, aliases: request.aliases };
}

export function requestEvent(request: AccessRequest) {
  const { id, secretId, secretName, kind } = request;
  return { requestId: id, secretId, secretName, kind, subject: formatSubject(request.subject) };
}
