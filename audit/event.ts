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
  'key.add',
  'key.rotate',
  'key.retire',
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

/**
 * `dropped`: events that could not be written. `late`: events written after their caller had been told that they were
 * not. `torn`: a last line that a killed process or a full disk left unfinished. `file_replaced`: the segment was
 * deleted, replaced, cut or written to by something else while it was open. `tail_missing`: the chain ends before its
 * last signed checkpoint. `checkpoint_mismatch`: the checkpointed record is not the one in the chain.
 */
export const GAP_CAUSES = [
  'dropped',
  'late',
  'torn',
  'file_replaced',
  'tail_missing',
  'checkpoint_mismatch',
] as const;

/** In `audit.gap`: what the chain lacks or cannot vouch for. Written by the log itself, never by a room. */
export interface GapRecord {
  readonly cause: (typeof GAP_CAUSES)[number];
  /** Of events; absent where it cannot be known. */
  readonly count?: number;
  /** RFC 3339, of the first and the last event concerned. */
  readonly first?: string;
  readonly last?: string;
  readonly firstSeq?: number;
  readonly lastSeq?: number;
}

/** In `audit.retention`: the last of the records that were removed, to which the rest of the chain is linked. */
export interface AnchorRecord {
  readonly lastSeq: number;
  readonly lastHash: string;
  /** How many records went. */
  readonly count: number;
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
  /** How many more refs the push named than the record keeps. */
  readonly refsOmitted?: number | undefined;
  /** The names of a push's options, without their values. */
  readonly pushOptions?: readonly string[] | undefined;
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
  readonly gap?: GapRecord | undefined;
  readonly anchor?: AnchorRecord | undefined;
}

export interface AuditRecord extends AuditEvent {
  readonly v: 1;
  readonly seq: number;
  readonly time: string;
  /** Hex SHA-256 of the record before; 64 zeros for the first. */
  readonly prev: string;
  readonly hash: string;
}
