// From parts to sessions: all GitHub grants of a lease become one session at the git guard, all kubeconfig grants one at
// the Kubernetes guard. A guard that refuses one credential (a forge that is not configured, namespaces outside the
// ceiling) costs the lease that grant; a guard that is down costs the lease everything, because the only other thing that
// could be delivered is the credential itself, at the very moment when what should narrow it is broken.

import { PosternError } from '../../common/errors.ts';
import type { IssuedGitSession, IssuedKubeSession } from '../../sessions/guards.ts';
import type { GuardName } from '../../sessions/session.ts';
import { compact } from '../compact.ts';
import type { Context } from '../context.ts';
import { reasonOf } from '../failure.ts';
import { parseKubeconfig } from '../kinds/kubeconfig.ts';
import type { Denied, Material } from '../material.ts';
import type { Requester } from '../requester.ts';
import type { PartOf } from './assemble.ts';
import type { HeldSession } from './record.ts';
import { unguardedGit, unguardedKube } from './unguarded.ts';

export interface For {
  readonly leaseId: string;
  readonly requester: Requester;
  readonly actor: string;
  readonly until: number;
}

export interface Guarded {
  readonly materials: readonly Material[];
  readonly sessions: readonly HeldSession[];
  readonly denied: readonly Denied[];
}

const NOTHING: Guarded = { materials: [], sessions: [], denied: [] };

export async function guardGit(context: Context, to: For, parts: readonly PartOf<'git'>[]): Promise<Guarded> {
  const { gitGuard } = context.deps;
  if (parts.length === 0) return NOTHING;
  if (gitGuard === 'down') throw down('git');
  if (gitGuard === 'off') return { ...NOTHING, materials: [unguardedGit(parts)] };
  const issue = (list: readonly PartOf<'git'>[]): Promise<IssuedGitSession> =>
    gitGuard.issue({ ...terms(context, to, list), credentials: list.map(({ part }) => part.credential) });
  const { admitted, issued, denied } = await issueWithout(context, parts, issue);
  if (!issued) return { ...NOTHING, denied };
  const { baseUrl, readOnly, upstreams, repos, pushRefs } = issued;
  const guard = 'git' as const;
  const facts = { baseUrl, readOnly, upstreams, repos, pushRefs };
  const { material, held } = await describe(context, admitted, issued, new URL(baseUrl).hostname);
  return {
    materials: [{ ...material, guard, facts, issued }],
    sessions: [{ ...held, guard, facts }],
    denied,
  };
}

export async function guardKube(
  context: Context,
  to: For,
  parts: readonly PartOf<'kube'>[],
): Promise<Guarded> {
  const { kubeGuard } = context.deps;
  if (parts.length === 0) return NOTHING;
  if (kubeGuard === 'down') throw down('kube');
  if (kubeGuard === 'off') {
    const { material, denied } = unguardedKube(parts);
    return { ...NOTHING, materials: material ? [material] : [], denied };
  }
  const issue = (list: readonly PartOf<'kube'>[]): Promise<IssuedKubeSession> =>
    kubeGuard.issue({ ...terms(context, to, list), clusters: list.map(({ part }) => part.cluster) });
  const { admitted, issued, denied } = await issueWithout(context, parts, issue);
  if (!issued) return { ...NOTHING, denied };
  const { readOnly, contexts, namespace, namespaces, verbs } = issued;
  const guard = 'kube' as const;
  const facts = { readOnly, contexts, ...compact({ namespace }), namespaces, verbs };
  const { material, held } = await describe(context, admitted, issued, kubeHost(issued));
  return {
    materials: [{ ...material, guard, facts, issued }],
    sessions: [{ ...held, guard, facts }],
    denied,
  };
}

/** What a lease answers of a session, and what it keeps of it. */
async function describe(
  { deps }: Context,
  admitted: readonly PartOf<'git' | 'kube'>[],
  { sessionId, expiresAt, summary }: IssuedGitSession | IssuedKubeSession,
  host: string,
) {
  const refs = admitted.map(({ grant }) => grant.ref);
  const live = await deps.sessions.get(sessionId);
  const hardExpiresAt = live?.session.hardExpiresAt ?? expiresAt;
  return {
    material: { type: 'session', grants: refs, sessionId, expiresAt, summary } as const,
    held: {
      id: sessionId,
      grants: refs.map(({ grantId }) => grantId),
      expiresAt,
      hardExpiresAt,
      summary,
      host,
    },
  };
}

/** Issues for as many as the guard admits. Its refusal names the entry; where it does not, each is tried alone. */
async function issueWithout<P extends PartOf<'git' | 'kube'>, I extends { readonly sessionId: string }>(
  context: Context,
  parts: readonly P[],
  issue: (parts: readonly P[]) => Promise<I>,
): Promise<{ admitted: readonly P[]; issued?: I; denied: readonly Denied[] }> {
  let left = [...parts];
  const denied: Denied[] = [];
  const deny = (part: P, error: unknown): void => {
    denied.push({ ...part.grant.ref, reason: reasonOf(error) });
    left = left.filter((other) => other !== part);
  };
  while (left.length > 0) {
    try {
      return { admitted: left, issued: await issue(left), denied };
    } catch (error) {
      if (!refusesOne(error)) throw error;
      const index = /^(?:credentials|clusters)\[(\d+)\]/.exec(error.key ?? '')?.[1];
      const named = left.length === 1 ? left[0] : left[Number(index ?? -1)];
      if (named) deny(named, error);
      else {
        const before = left.length;
        for (const part of left) {
          const refusal = await refusalOf(context, part, issue);
          if (refusal) deny(part, refusal);
        }
        if (left.length === before) throw error;
      }
    }
  }
  return { admitted: [], denied };
}

async function refusalOf<P, I extends { readonly sessionId: string }>(
  { deps }: Context,
  part: P,
  issue: (parts: readonly P[]) => Promise<I>,
): Promise<PosternError | undefined> {
  try {
    const { sessionId } = await issue([part]);
    await deps.sessions.revoke(sessionId, 'tried alone to find the credential that is refused');
    return undefined;
  } catch (error) {
    if (refusesOne(error)) return error;
    throw error;
  }
}

/** Codes by which a guard says that something of a credential is wrong, and not that it can't work. */
const REFUSALS = ['invalid_input', 'policy_refused', 'upstream_not_listed', 'nothing_left'];

function refusesOne(error: unknown): error is PosternError {
  return error instanceof PosternError && REFUSALS.includes(error.code);
}

function terms(
  context: Context,
  { leaseId, requester, actor, until }: For,
  parts: readonly PartOf<'git' | 'kube'>[],
) {
  const { projectId, executorId, runId, taskId } = requester;
  const owners = [...new Set(parts.map(({ grant }) => grant.owner).filter((owner) => owner !== undefined))];
  const owner = owners.length > 0 ? owners.join(',') : undefined;
  return {
    leaseId,
    actor,
    managedBy: 'broker' as const,
    ttl: until - context.now(),
    labels: compact({ projectId, executorId, runId, taskId, actor, owner }),
  };
}

function kubeHost(issued: IssuedKubeSession): string {
  try {
    const [cluster] = parseKubeconfig(issued.kubeconfig.reveal()).clusters.values();
    return new URL(String(cluster?.server)).hostname;
  } catch {
    return '';
  }
}

/** @throws PosternError `guard_unavailable` */
export function down(guard: GuardName): PosternError {
  return new PosternError(
    'guard_unavailable',
    `The ${guard} guard is configured and does not run, so nothing that it should hold is delivered.`,
    { key: `${guard}.enabled`, remedy: 'See `postern doctor`; mend the guard, or switch it off on purpose.' },
  );
}
