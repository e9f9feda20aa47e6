// What the broker is built from. It sees two small guard interfaces and one to end sessions, and nothing else of either
// guard. A guard is one of three things, and the difference is the point: there, switched off by configuration ("this
// deployment does not guard that"), or down ("it should and can't now"), which fails every lease that needs it.

import type { AuditLog } from '../audit/log.ts';
import type { Clock } from '../common/clock.ts';
import type { Credential } from '../common/credential.ts';
import type { Log } from '../common/log.ts';
import type { Metrics } from '../common/metrics.ts';
import type { Redactor } from '../common/redact.ts';
import type { ValueFrom } from '../common/value-from.ts';
import type { Keyring } from '../keyring/keyring.ts';
import type { GitGuard, KubeGuard } from '../sessions/guards.ts';
import type { Session } from '../sessions/session.ts';
import type { Store } from '../store/store.ts';
import type { GitHubApi } from './github-app/api.ts';

/** The part of the session registry that the broker needs: it never issues, reads or sees a token. */
export interface SessionEnder {
  get(id: string): Promise<{ readonly session: Session } | undefined>;
  /** @throws PosternError `not_found`, `gone` */
  renew(id: string, ttl: number): Promise<Session>;
  revokeLease(leaseId: string, because: string): Promise<unknown>;
  revoke(id: string, because: string): Promise<unknown>;
  removeGrant(id: string, grantId: string, because: string): Promise<unknown>;
  /** What every live session has in custody of a secret, or of one grant only, is this from the next request on. */
  replaceSecret(secretId: string, secret: Credential): Promise<number>;
  replaceGrant(grantId: string, secret: Credential): Promise<number>;
}

export interface Limits {
  /** Milliseconds. */
  readonly leaseTtl: number;
  readonly grantTtl: number;
}

export interface BrokerDeps {
  readonly store: Store;
  readonly keyring: Keyring;
  readonly audit: AuditLog;
  readonly gitGuard: GitGuard | 'off' | 'down';
  readonly kubeGuard: KubeGuard | 'off' | 'down';
  /** Origins that `git.upstreams` lists. */
  readonly upstreams: readonly string[];
  readonly sessions: SessionEnder;
  readonly github: GitHubApi;
  /** Reads a reference that stands in for a payload; absent: references are refused. */
  readonly readReference?: (ref: ValueFrom) => Promise<Credential>;
  readonly redactor?: Pick<Redactor, 'add' | 'remove'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics?: Metrics;
  readonly limits?: Partial<Limits>;
}

/** A grant made without a time of its own. */
export const DEFAULT_GRANT_TTL = 24 * 3_600_000;
/**
 * A day's grant must not put a usable credential into a container for a day: a lease is short, renewed while the work
 * goes on, and each renewal looks at the grants anew.
 */
export const MAX_LEASE_TTL = 15 * 60_000;

export const DEFAULT_LIMITS: Limits = { leaseTtl: MAX_LEASE_TTL, grantTtl: DEFAULT_GRANT_TTL };
