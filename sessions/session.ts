// A session: one lease's access through one guard. Its policy is public metadata that a guard's own room defines;
// its credentials are in custody, each sealed in a row of its own, so that one grant can be taken out of a live session.
//
// The room, from here: registry.ts puts it together; authenticate.ts is what every request passes (token.ts, judge.ts);
// ending.ts takes access away again (live.ts knows what is under way); custody.ts holds the credentials; fresh.ts
// bounds how old an answer may be. failure.ts and floor.ts are for the guards: what a refusal says, and when.

import type { Credential } from '../common/credential.ts';

export type GuardName = 'git' | 'kube';

/** Labels carry no authority. The named ones go to the records. */
export interface Labels {
  readonly projectId?: string;
  readonly executorId?: string;
  readonly runId?: string;
  readonly taskId?: string;
  readonly actor?: string;
  readonly owner?: string;
  readonly [label: string]: string | undefined;
}

/** One credential that the session can spend; `id` is unique within the session, the policy refers to it. */
export interface CredentialRef {
  readonly id: string;
  readonly secretId?: string;
  readonly secretName?: string;
  readonly grantId?: string;
}

export interface Session<Policy = unknown> {
  readonly id: string;
  readonly guard: GuardName;
  readonly leaseId: string;
  readonly labels: Labels;
  /** A policy entry whose credential is no longer here counts for nothing: its grant was taken out. */
  readonly credentials: readonly CredentialRef[];
  readonly policy: Policy;
  /** Milliseconds since the epoch, as all times here. */
  readonly createdAt: number;
  /** Rolling: moved by renewals, never past `hardExpiresAt`. */
  readonly expiresAt: number;
  /** `exp` of the token. */
  readonly hardExpiresAt: number;
  readonly revokedAt?: number;
  readonly revokedBecause?: string;
}

export interface Counters {
  readonly requests: number;
  readonly denied: number;
  readonly bytesUp: number;
  readonly bytesDown: number;
  readonly lastUsedAt?: number;
}

/** Why an exchange is ended from outside. */
export type EndReason = 'revoked' | 'expired' | 'grant_removed' | 'shutdown';

/**
 * What is under way for a session: a clone, a push, a watch, an exec. The registry calls `end` when the session
 * ends; the exchange stops moving bytes at once, says so the way its protocol can, and resolves when nothing of it
 * can still be used.
 */
export interface LiveExchange {
  /**
   * The credential that it spends; only its exchanges end when a grant is removed. Unknown until decided: the registry
   * sets it when the credential is opened.
   */
  credentialId?: string;
  /** At any moment after `authenticate` was called, also before its answer has arrived. At most once. */
  end(why: EndReason): Promise<void> | void;
}

/** Handed out by the registry for one exchange; `done` exactly once, with what it moved. */
export interface Live<Policy> {
  readonly session: Session<Policy>;
  /**
   * Opens the credential in custody. The only way to it.
   * @throws PosternError `gone` where the session has ended or the grant was taken out; what `Keyring.open` throws;
   *   `store_unavailable`
   */
  credential(id: string): Promise<Credential>;
  done(outcome: { denied: boolean; bytesUp: number; bytesDown: number }): void;
}

export interface NewSession<Policy> {
  readonly guard: GuardName;
  readonly leaseId: string;
  readonly labels: Labels;
  readonly policy: Policy;
  readonly credentials: readonly (CredentialRef & { readonly secret: Credential })[];
  /** Milliseconds; absent: the configured `sessions.ttl`. Over `maxTtl`: PosternError `ttl_too_long`. */
  readonly ttl?: number;
  /** Whether `replaceSecret` and `replaceGrant` reach it; only for sessions whose ids the broker itself vouches for. */
  readonly managedBy?: 'broker' | undefined;
}

/** Outside, all but `expired` look alike; the record says which. */
export type AuthFailure =
  | 'missing'
  | 'malformed'
  | 'unknown'
  | 'wrong'
  | 'wrong_guard'
  | 'mismatched'
  | 'revoked'
  | 'expired'
  /** A live session with `maxConcurrent` exchanges under way. */
  | 'too_many';

export type Authentication<Policy> =
  | { readonly ok: true; readonly live: Live<Policy> }
  | {
      readonly ok: false;
      readonly failure: AuthFailure;
      /** Only what a token with a right signature says. */
      readonly sessionId?: string;
      readonly session?: Session<Policy>;
    };

/** What happened to a session, told once, by the process that did it. Issuing is known to the guard that asked for it. */
export interface SessionEvent {
  readonly what: 'renewed' | 'revoked' | 'expired' | 'grant_removed';
  readonly session: Session;
  readonly because?: string;
  readonly grantId?: string;
}

export interface SessionRegistry {
  /** Stored and durable when it resolves. The token is in no other place. */
  issue<P>(input: NewSession<P>): Promise<{ session: Session<P>; token: Credential }>;
  /**
   * Checks the token (signature, audience, `jti` = id where an id is given) and the session (known, live), and
   * enters `exchange` among the session's live ones in the same step, so that no revocation can miss it.
   * @throws PosternError `store_unavailable`
   */
  authenticate<P>(
    guard: GuardName,
    id: string | undefined,
    token: string,
    exchange: LiveExchange,
  ): Promise<Authentication<P>>;
  get(id: string): Promise<{ session: Session; counters: Counters } | undefined>;
  list(filter?: { leaseId?: string; guard?: GuardName }): Promise<{ session: Session; counters: Counters }[]>;
  /**
   * From now on for `ttl` milliseconds (absent: as long as it was issued for), never past the hard end.
   * @throws PosternError `not_found`, `gone` (revoked or expired), `ttl_too_long`
   */
  renew(id: string, ttl?: number): Promise<Session>;
  /**
   * Idempotent; resolves when nothing of the session can still be used in this process. `undefined`: no such session.
   * Where the store fails it rejects, and the session is over here all the same; it is written down as soon as it can be.
   */
  revoke(id: string, because: string): Promise<Session | undefined>;
  /** @returns the sessions that this call ended */
  revokeLease(leaseId: string, because: string): Promise<Session[]>;
  /** Takes the credentials of one grant out of a live session. A session left with none is revoked. */
  removeGrant(id: string, grantId: string, because: string): Promise<Session | undefined>;
  /** Replaces what is in custody for every live session's credentials of this secret, from the next request on. */
  replaceSecret(secretId: string, secret: Credential): Promise<number>;
  /** The same for what one grant put there: an installation token is as narrow as its grant, and its secret has many. */
  replaceGrant(grantId: string, secret: Credential): Promise<number>;
  /** Sessions that are neither revoked nor past their time, used or not. */
  liveCount(guard: GuardName): number;
  /** @returns the function that stops it */
  onEvent(listener: (event: SessionEvent) => void): () => void;
  /** Ends every live exchange with `shutdown`. */
  endAll(): Promise<void>;
  close(): Promise<void>;
}
