// A lease as JSON for whoever runs the workload: the answer of `POST /v1/leases` and of a renewal. The one place where
// what a lease delivers becomes plain text; it is not kept, and must not be logged.

import type { Denied, GrantedDevice, GrantRef, Lease, RepoMount } from '../broker/material.ts';
import { rfc3339 } from '../common/clock.ts';
import { Credential } from '../common/credential.ts';
import type { Binding, Delivery } from './lease.ts';

/** Where the folder of a lease lies in a sandbox that says nothing else: /run is a tmpfs on every systemd host. */
export const SANDBOX_LEASE_ROOT = '/run/postern';

export function sandboxLeaseDir(leaseId: string): string {
  return `${SANDBOX_LEASE_ROOT}/postern-lease-${leaseId}`;
}

export interface LeaseAnswer {
  readonly leaseId: string;
  readonly executorId?: string;
  readonly projectId?: string;
  readonly runId?: string;
  readonly taskId?: string;
  readonly issuedAt: string;
  readonly expiresAt: string;
  readonly dir: string;
  readonly env: { readonly [name: string]: string };
  readonly sensitiveEnv: readonly string[];
  readonly files: readonly { readonly name: string; readonly mode: '0600'; readonly content: string }[];
  readonly keep: readonly string[];
  readonly mounts: readonly RepoMount[];
  readonly devices: readonly GrantedDevice[];
  readonly bindings: readonly Binding[];
  readonly sessions: readonly {
    readonly guard: 'git' | 'kube';
    readonly sessionId: string;
    readonly expiresAt: string;
    readonly summary: string;
    readonly grants: readonly string[];
  }[];
  /** For people: what each grant came to. */
  readonly summary: readonly { readonly grants: readonly GrantRef[]; readonly text: string }[];
  readonly denied: readonly Denied[];
  readonly revoked: readonly string[];
}

/** Reveals. */
export function leaseAnswer(lease: Lease, delivery: Delivery): LeaseAnswer {
  const { id, executorId, projectId, runId, taskId, materials, denied, revoked } = lease;
  const plain = Object.entries(delivery.env).map(([name, value]): [string, string] => [
    name,
    value instanceof Credential ? value.reveal() : value,
  ]);
  return {
    leaseId: id,
    ...(executorId !== undefined && { executorId }),
    ...(projectId !== undefined && { projectId }),
    ...(runId !== undefined && { runId }),
    ...(taskId !== undefined && { taskId }),
    issuedAt: rfc3339(lease.issuedAt),
    expiresAt: rfc3339(lease.expiresAt),
    dir: delivery.dir,
    env: Object.fromEntries(plain),
    sensitiveEnv: delivery.sensitiveEnv,
    files: Object.entries(delivery.files).map(([name, content]) => ({
      name,
      mode: '0600',
      content: content.reveal(),
    })),
    keep: delivery.keep,
    mounts: delivery.mounts,
    devices: delivery.devices,
    bindings: delivery.bindings,
    sessions: materials.flatMap((material) =>
      material.type === 'session'
        ? [
            {
              guard: material.guard,
              sessionId: material.sessionId,
              expiresAt: rfc3339(material.expiresAt),
              summary: material.summary,
              grants: material.grants.map(({ grantId }) => grantId),
            },
          ]
        : [],
    ),
    summary: materials.map(({ grants, summary }) => ({ grants, text: summary })),
    denied,
    revoked,
  };
}

/** The files of an answer, as credentials again, for the folder of whoever got it. */
export function answeredFiles(answer: Pick<LeaseAnswer, 'files'>): { readonly [name: string]: Credential } {
  return Object.fromEntries(answer.files.map(({ name, content }) => [name, new Credential(content)]));
}
