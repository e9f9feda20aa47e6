// The one interface of every kind of secret. `minimise` is the heart: it turns a payload and the constraints of a grant
// into what is left of the payload, and what it left out can't be got back from the result. `materialise` makes what a
// lease carries from that; only there may a kind touch the outside (a clock, a disk, GitHub).

import type { Credential } from '../../common/credential.ts';
import type { GitCredentialInput, KubeClusterInput } from '../../sessions/guards.ts';
import type { ConstraintName, Constraints } from '../constraints/constraints.ts';
import type { AppTokens } from '../github-app/tokens.ts';
import type { Kind } from '../kind.ts';
import type { DirectMaterial, GrantOf } from '../material.ts';

/** What one grant contributes; parts of one type are put together for the lease. */
export type Part =
  | {
      readonly type: 'git';
      readonly credential: GitCredentialInput;
      /** The installation token behind it, where there is one. */
      readonly app?: { readonly tokenId: string; readonly expiresAt: number };
    }
  | { readonly type: 'kube'; readonly cluster: KubeClusterInput }
  | {
      readonly type: 'registry';
      readonly logins: { readonly [registry: string]: Credential };
      readonly summary: string;
    }
  | ({ readonly type: 'direct' } & Pick<DirectMaterial, 'env' | 'files' | 'mounts' | 'devices' | 'summary'>);

export interface MaterialContext {
  readonly grant: GrantOf;
  /** The lease's end at the latest; an installation token has to live until then. */
  readonly until: number;
  /** The origins that the git guard is configured for. */
  readonly upstreams: readonly string[];
  readonly appTokens: AppTokens;
}

export interface KindRules<Minimised = unknown> {
  readonly kind: Kind;
  /** The constraints that narrow it; any other is refused when the grant is made. */
  readonly constraints: readonly ConstraintName[];
  /**
   * Whether a payload is what the kind needs, when it is stored, in front of the person who can mend it.
   * @returns the names in it that a grant can list (variables, contexts, registries, devices); never a value
   * @throws PosternError `invalid_input`; the payload is never quoted
   */
  inspect(payload: Buffer, secretName: string): Promise<readonly string[]> | readonly string[];
  /** What of the payload is a credential, for whoever keeps those out of logs; a path or a host name is none. */
  credentials(payload: Buffer, secretName: string): readonly string[];
  /**
   * Where a session takes the credential, where the session fixed that when it was issued: a new payload must go to the
   * same place, or a token for one forge would be sent to another.
   */
  destination?(payload: Buffer): string;
  /** @throws PosternError `invalid_input` where a list that must gate is absent or a pattern can't be used */
  checkConstraints(constraints: Constraints): void;
  /**
   * What the constraints leave of the payload.
   * @throws PosternError `nothing_left`, `invalid_input`
   */
  minimise(payload: Buffer, constraints: Constraints, secretName: string): Minimised;
  materialise(minimised: Minimised, context: MaterialContext): Promise<Part> | Part;
}

export const direct = (
  part: Partial<Pick<DirectMaterial, 'env' | 'files' | 'mounts' | 'devices'>> & { summary: string },
): Part => ({ type: 'direct', env: {}, files: [], mounts: [], devices: [], ...part });
