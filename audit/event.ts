// One audit record, as contract: what happened, to whom it belongs, what was decided. It is metadata only; no field
// is meant for a credential, and redact.ts makes sure that none holds one all the same.

import type { Reason } from '../common/reason.ts';

export const ACTIONS = [
  'audit.started',
  'audit.gap',
  'audit.retention',
  'server.started',
  'server.stopped',
  'ca.created',
  'ca.certificate_issued',
  'ca.rotated',
  'git.session_minted',
  'git.session_renewed',
  'git.session_closed',
  'git.grant_removed',
  'git.fetch',
  'git.fetch_result',
  'git.push_allowed',
  'git.push_denied',
  'git.push_result',
  'git.rejected',
  'kube.session_minted',
  'kube.session_renewed',
  'kube.session_closed',
  'kube.grant_removed',
  'kube.request_allowed',
  'kube.request_denied',
  'kube.request_result',
  'kube.rejected',
  'control.refused',
  'secret.mint',
  'secret.replace',
  'secret.delete',
  'secret.grant',
  'secret.revoke',
  'secret.lease',
  'secret.renew',
  'secret.release',
  'secret.lease_expire',
  'secret.access_check',
  'secret.request',
  'secret.request_approve',
  'secret.request_deny',
  'secret.request_withdraw',
  'secret.request_expire',
  'lease.revoke_sent',
  'lease.revoke_acked',
  'lease.revoke_failed',
  'github_app.token_destroy',
  // Written by whatever relays a sandbox's egress into the same chain; the broker itself only grants the proxy.
  'egress.grant',
  'egress.revoke',
  'egress.redeem',
  'egress.connect',
  'egress.request',
  'egress.close',
] as const;

export type Action = (typeof ACTIONS)[number];

export interface RefRecord {
  readonly ref: string;
  readonly op: 'create' | 'update' | 'delete';
  readonly old: string;
  readonly new: string;
  /** From the upstream's report, or `ng` where the guard refused. */
  readonly result?: 'ok' | 'ng';
  readonly reason?: string;
}

/** Absent fields are left out of the record. Times are RFC 3339 UTC. */
export interface AuditEvent {
  readonly action: Action;
  readonly decision: 'allow' | 'deny' | 'error';
  readonly exchangeId?: string | undefined;
  readonly actor?: string | undefined;
  readonly subject?: string | undefined;
  readonly secretId?: string | undefined;
  readonly secretName?: string | undefined;
  readonly kind?: string | undefined;
  readonly grantId?: string | undefined;
  readonly requestId?: string | undefined;
  readonly leaseId?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly executorId?: string | undefined;
  readonly projectId?: string | undefined;
  readonly runId?: string | undefined;
  readonly taskId?: string | undefined;
  readonly constraints?: string | undefined;
  readonly expiresAt?: string | undefined;
  /** For a person. */
  readonly reason?: string | undefined;
  readonly code?: Reason | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  /** From the sandbox's point of view. */
  readonly bytesUp?: number | undefined;
  readonly bytesDown?: number | undefined;
  readonly guard?: 'git' | 'kube' | undefined;
  readonly method?: string | undefined;
  readonly repo?: string | undefined;
  readonly service?: string | undefined;
  readonly refs?: readonly RefRecord[] | undefined;
  readonly verb?: string | undefined;
  readonly apiGroup?: string | undefined;
  readonly resource?: string | undefined;
  readonly subresource?: string | undefined;
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  readonly command?: readonly string[] | undefined;
  /** The upstream's HTTP status in a result, the guard's own in a denial. */
  readonly status?: number | undefined;
  readonly durationMs?: number | undefined;
  readonly sourceIp?: string | undefined;
  readonly userAgent?: string | undefined;
}

export interface AuditRecord extends AuditEvent {
  readonly v: 1;
  readonly seq: number;
  readonly time: string;
  /** Hex SHA-256 of the record before; 64 zeros for the first. */
  readonly prev: string;
  readonly hash: string;
}
