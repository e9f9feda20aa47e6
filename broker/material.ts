// What a lease hands over, as data: variables, files, mounts, devices, sessions. Everything here is already narrowed to
// the grant it came from. A value that is a credential is a `Credential`, so a lease that is printed or turned into JSON
// says `[redacted]`; only delivery/ reveals, and only into the workload's own folder or answer.

import { Credential } from '../common/credential.ts';
import type { IssuedGitSession, IssuedKubeSession } from '../sessions/guards.ts';
import type { GuardName } from '../sessions/session.ts';
import type { Constraints } from './constraints/constraints.ts';
import type { Kind } from './kind.ts';

/** Which grant something came from: names only. */
export interface GrantRef {
  readonly grantId: string;
  readonly secretId: string;
  readonly secretName: string;
  readonly kind: Kind;
}

/** A plain value is a constraint that the workload may read; a Credential is scrubbed from its output. */
export type EnvValue = string | Credential;

export interface MaterialFile {
  /** A bare file name in the lease's folder. */
  readonly name: string;
  readonly content: Credential;
  /** Gets the file's absolute path, or its folder's. */
  readonly variable?: { readonly name: string; readonly pointsAt: 'file' | 'folder' };
}

export interface RepoMount {
  readonly name: string;
  /** On the executor's host, symbolic links resolved, inside the granted folder. */
  readonly source: string;
  /** In the sandbox. */
  readonly target: string;
  readonly readOnly: boolean;
}

export interface GrantedDevice {
  readonly name: string;
  readonly source: string;
  readonly target: string;
  /** Of `r`, `w` and `m`. */
  readonly permissions: string;
}

/** What the workload gets as it is: no guard stands between it and the use of this. */
export interface DirectMaterial {
  readonly type: 'direct';
  readonly grants: readonly GrantRef[];
  readonly env: { readonly [name: string]: EnvValue };
  readonly files: readonly MaterialFile[];
  readonly mounts: readonly RepoMount[];
  readonly devices: readonly GrantedDevice[];
  readonly summary: string;
}

/** What a workload may know of its session; nothing in it opens anything. */
export type GitFacts = Pick<IssuedGitSession, 'baseUrl' | 'readOnly' | 'upstreams' | 'repos' | 'pushRefs'>;
export type KubeFacts = Pick<
  IssuedKubeSession,
  'readOnly' | 'contexts' | 'namespace' | 'namespaces' | 'verbs'
>;

/** One session at a guard for all the grants that it serves. */
interface SessionMaterialOf<Guard extends GuardName, Facts, Issued> {
  readonly type: 'session';
  readonly guard: Guard;
  readonly grants: readonly GrantRef[];
  readonly sessionId: string;
  readonly expiresAt: number;
  readonly summary: string;
  readonly facts: Facts;
  /** Only in the answer that created the session: its token is in no other place. */
  readonly issued?: Issued;
}

export type SessionMaterial =
  | SessionMaterialOf<'git', GitFacts, IssuedGitSession>
  | SessionMaterialOf<'kube', KubeFacts, IssuedKubeSession>;

export type Material = DirectMaterial | SessionMaterial;

/** A grant that matched and is not delivered, and why. */
export interface Denied extends Partial<GrantRef> {
  readonly grantId: string;
  readonly reason: string;
}

export interface Lease {
  readonly id: string;
  readonly executorId?: string;
  readonly projectId?: string;
  readonly runId?: string;
  readonly taskId?: string;
  readonly issuedAt: number;
  readonly expiresAt: number;
  readonly materials: readonly Material[];
  readonly denied: readonly Denied[];
  /** Grants that an earlier answer of this lease delivered and that are gone: what came from them must go too. */
  readonly revoked: readonly string[];
}

export function isEmpty(lease: Pick<Lease, 'materials'>): boolean {
  return lease.materials.length === 0;
}

export function isExpired(lease: Pick<Lease, 'expiresAt'>, now: number): boolean {
  return now >= lease.expiresAt;
}

/** Milliseconds left, never below zero. */
export function timeLeft(lease: Pick<Lease, 'expiresAt'>, now: number): number {
  return Math.max(0, lease.expiresAt - now);
}

/** Sorted, each once: a lease with two tokens of a kind is one lease that has the kind. */
export function leaseKinds(lease: Pick<Lease, 'materials'>): Kind[] {
  return distinct(lease.materials.flatMap((material) => material.grants.map((grant) => grant.kind)));
}

export function leaseSecretNames(lease: Pick<Lease, 'materials'>): string[] {
  return distinct(lease.materials.flatMap((material) => material.grants.map((grant) => grant.secretName)));
}

/** The variables whose values are credentials, for whoever scrubs a workload's output; names only. */
export function sensitiveEnv(material: Material): string[] {
  if (material.type !== 'direct') return [];
  return Object.keys(material.env).filter((name) => material.env[name] instanceof Credential);
}

function distinct<T extends string>(values: readonly T[]): T[] {
  return [...new Set(values)].sort();
}

/** A grant with everything that its material is built from. */
export interface GrantOf {
  readonly ref: GrantRef;
  readonly constraints: Constraints;
  readonly owner?: string;
  readonly requestId?: string;
}
