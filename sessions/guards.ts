// The two small interfaces that the broker and the control API see: custody in, substitute out.

import type { Credential } from '../common/credential.ts';
import type { Labels } from './session.ts';

export interface GitCredentialInput {
  readonly token: Credential;
  /** Default: the upstream's configured user name, else `x-access-token`. */
  readonly username?: string;
  /** An origin that `git.upstreams` lists, for example `https://github.com`. */
  readonly upstream: string;
  /** `acme/tool`, `acme/*`, `*`; at least one. */
  readonly repos: readonly string[];
  /** `contents:read` (the default), `contents:write`, `*`. */
  readonly permissions?: readonly string[];
  /** Globs of full ref names; `create:`, `update:` or `delete:` in front narrows an entry to that operation. */
  readonly pushRefs?: readonly string[];
  readonly allowDelete?: boolean;
  readonly secretId?: string;
  readonly secretName?: string;
  readonly grantId?: string;
}

export interface IssueRequest {
  readonly leaseId: string;
  /** Milliseconds. */
  readonly ttl?: number;
  readonly labels?: Labels;
  /** Who asked, for the record. */
  readonly actor: string;
  /**
   * Set by the broker alone, never from a request: what it later puts into custody for a secret or a grant reaches this
   * session too. Whoever else names such an id in a session only labels it.
   */
  readonly managedBy?: 'broker';
}

export interface IssuedGitSession {
  readonly sessionId: string;
  /** `https://host:port` of the guard, no path. */
  readonly baseUrl: string;
  readonly username: string;
  readonly password: Credential;
  readonly expiresAt: number;
  readonly readOnly: boolean;
  /** For people: `read-only, acme/*`. */
  readonly summary: string;
  readonly upstreams: readonly string[];
  /** For the workload's environment. */
  readonly repos: readonly string[];
  readonly pushRefs: readonly string[];
}

export interface GitGuard {
  /** @throws PosternError `invalid_input`, `upstream_not_listed`, `ttl_too_long`, `policy_refused`, `audit_unavailable` */
  issue(
    request: IssueRequest & { readonly credentials: readonly GitCredentialInput[] },
  ): Promise<IssuedGitSession>;
}

export interface KubeClusterInput {
  readonly kubeconfig: Credential;
  /** Empty: every context of the document. */
  readonly contexts?: readonly string[];
  readonly namespaces?: readonly string[];
  readonly verbs?: readonly string[];
  readonly resources?: readonly string[];
  readonly nonResourcePaths?: readonly string[];
  readonly secretId?: string;
  readonly secretName?: string;
  readonly grantId?: string;
}

export interface IssuedKubeSession {
  readonly sessionId: string;
  /** The document for the sandbox: the guard's address, its CA, the session token; nothing of the cluster. */
  readonly kubeconfig: Credential;
  readonly contexts: readonly string[];
  readonly expiresAt: number;
  readonly readOnly: boolean;
  readonly summary: string;
  /** For the workload's environment: the namespace that kubectl starts in, and the lists. */
  readonly namespace?: string;
  readonly namespaces: readonly string[];
  readonly verbs: readonly string[];
}

export interface KubeGuard {
  /** @throws PosternError `invalid_input`, `ttl_too_long`, `policy_refused` (an empty intersection names both sides) */
  issue(
    request: IssueRequest & { readonly clusters: readonly KubeClusterInput[] },
  ): Promise<IssuedKubeSession>;
}

/** What a guard would decide, without doing it: `postern explain`. `request` is what was parsed, in record fields. */
export interface Explanation {
  readonly decision: 'allow' | 'deny';
  readonly code?: string;
  readonly rule: string;
  readonly reason: string;
  readonly request: { readonly [field: string]: unknown };
}
