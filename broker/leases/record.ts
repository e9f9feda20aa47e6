// A lease as it is stored: whom it is for, what it delivered and through which sessions, when it ends. No credential is
// in it: what a lease hands out is worked out from the grants each time. A restart finds every lease here.

import { z } from 'zod';
import type { Row, Write } from '../../store/store.ts';
import { fromBody, toBody } from '../body.ts';
import { compact } from '../compact.ts';
import { KINDS } from '../kind.ts';
import type { GitFacts, GrantRef, KubeFacts } from '../material.ts';
import type { Requester } from '../requester.ts';
import { SETS } from '../sets.ts';

interface Held {
  readonly id: string;
  readonly grants: readonly string[];
  readonly expiresAt: number;
  readonly hardExpiresAt: number;
  readonly summary: string;
  /** Of the guard, which a proxy of the same lease must not stand before. */
  readonly host: string;
}

/** `facts` are what a workload's environment says of it, and nothing that opens it. */
export type HeldSession =
  | (Held & { readonly guard: 'git'; readonly facts: GitFacts })
  | (Held & { readonly guard: 'kube'; readonly facts: KubeFacts });

export interface LeaseRecord extends Requester {
  readonly id: string;
  readonly actor: string;
  readonly issuedAt: number;
  readonly renewedAt: number;
  readonly expiresAt: number;
  /** Delivered. */
  readonly grants: readonly GrantRef[];
  readonly sessions: readonly HeldSession[];
  /** Their session was ended by hand while the grant stands; this lease does not bring them back. */
  readonly withheld: readonly string[];
  /** What is on the record as denied already, so that no renewal says it again. */
  readonly denied: { readonly [grantId: string]: string };
  /** Revoked, delivered directly, and not yet reported as taken from the workload. */
  readonly outstanding: readonly string[];
}

export interface StoredLease extends LeaseRecord {
  readonly rev: number;
}

const words = z.array(z.string());
const held = {
  id: z.string(),
  grants: words,
  expiresAt: z.number(),
  hardExpiresAt: z.number(),
  summary: z.string(),
  host: z.string(),
};

const body = z.object({
  executorId: z.string().optional(),
  projectId: z.string().optional(),
  labels: z.record(z.string(), z.string()),
  runId: z.string().optional(),
  taskId: z.string().optional(),
  actor: z.string(),
  issuedAt: z.number(),
  renewedAt: z.number(),
  expiresAt: z.number(),
  grants: z.array(
    z.object({ grantId: z.string(), secretId: z.string(), secretName: z.string(), kind: z.enum(KINDS) }),
  ),
  sessions: z.array(
    z.discriminatedUnion('guard', [
      z.object({
        ...held,
        guard: z.literal('git'),
        facts: z.object({
          baseUrl: z.string(),
          readOnly: z.boolean(),
          upstreams: words,
          repos: words,
          pushRefs: words,
        }),
      }),
      z.object({
        ...held,
        guard: z.literal('kube'),
        facts: z
          .object({
            readOnly: z.boolean(),
            contexts: words,
            namespace: z.string().optional(),
            namespaces: words,
            verbs: words,
          })
          .transform(compact),
      }),
    ]),
  ),
  withheld: z.array(z.string()),
  denied: z.record(z.string(), z.string()),
  outstanding: z.array(z.string()),
});

export function readLease(row: Row): StoredLease {
  return { id: row.id, ...compact(fromBody(body, row, 'the lease')), rev: row.rev };
}

/** @param expect the rev it was read at; 0 for a new one */
export function writeLease(lease: LeaseRecord & { readonly rev?: number }, expect: number): Write {
  const { id, rev: _, ...rest } = lease;
  const ids = (held: readonly GrantRef[]): string[] => held.map(({ grantId }) => grantId);
  return {
    op: 'put',
    set: SETS.leases,
    expect,
    row: {
      id,
      body: toBody(rest),
      index: {
        grant: ids(lease.grants),
        app: ids(lease.grants.filter(({ kind }) => kind === 'github_app')),
      },
    },
  };
}

/** What every record about a lease says of it. */
export function leaseFields(
  lease: Pick<LeaseRecord, 'id' | 'executorId' | 'projectId' | 'runId' | 'taskId'>,
) {
  const { id, executorId, projectId, runId, taskId } = lease;
  return { leaseId: id, executorId, projectId, runId, taskId };
}
