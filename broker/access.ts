// Asking before acting, for code that runs beside the broker and uses a granted credential itself: a call that a guard or
// a network policy would have refused is refused before it is made. Each answer is on the record.

import { PosternError } from '../common/errors.ts';
import { type Caller, requireActor } from './caller.ts';
import type { Constraints } from './constraints/constraints.ts';
import { coversHost, normaliseHost } from './constraints/host.ts';
import { allowsPermission } from './constraints/permission.ts';
import { coversRepo, normaliseRepo } from './constraints/repo.ts';
import type { Context } from './context.ts';
import { grantFields } from './grants/create.ts';
import type { Kind } from './kind.ts';
import { selectGrants } from './leases/select.ts';
import { type RequesterInput, readRequester } from './requester.ts';

/**
 * Whether the requester has a GitHub grant for this repository.
 * @param permission as `contents:read`
 * @throws PosternError `policy_refused`
 */
export async function checkRepo(
  context: Context,
  requester: RequesterInput,
  repo: string,
  caller: Caller,
  permission = 'contents:read',
): Promise<void> {
  const hosts = ['github.com', ...context.deps.upstreams.map((upstream) => new URL(upstream).hostname)];
  await check(context, requester, caller, ['github_pat', 'github_app'], {
    what: () => ({ repo: normaliseRepo(repo, hosts) }),
    allows: (constraints, { repo: name = '' }) =>
      coversRepo(constraints.repos ?? [], name) && allowsPermission(constraints.permissions, permission),
    refusal: `No grant covers ${permission} on this repository.`,
  });
}

/** Whether the requester has a proxy grant for this host. @throws PosternError `policy_refused` */
export async function checkHost(
  context: Context,
  requester: RequesterInput,
  host: string,
  caller: Caller,
): Promise<void> {
  await check(context, requester, caller, ['egress_proxy'], {
    what: () => ({ host: normaliseHost(host) }),
    allows: (constraints, { host: name = '' }) => coversHost(constraints.hosts ?? [], name),
    refusal: 'No grant covers this host.',
  });
}

type What = { readonly repo?: string; readonly host?: string };

async function check(
  context: Context,
  input: RequesterInput,
  caller: Caller,
  kinds: readonly Kind[],
  question: { what(): What; allows(constraints: Constraints, what: What): boolean; refusal: string },
): Promise<void> {
  const actor = requireActor(caller);
  const requester = readRequester(input);
  const { executorId, projectId, runId, taskId } = requester;
  const event = { action: 'secret.access_check', actor, executorId, projectId, runId, taskId } as const;
  let what: What;
  try {
    what = question.what();
  } catch (error) {
    if (error instanceof PosternError)
      await context.record({ ...event, decision: 'deny', reason: error.message });
    throw error;
  }
  const { usable } = await selectGrants(context, requester);
  const found = usable.find(
    ({ grant }) => kinds.includes(grant.kind) && question.allows(grant.constraints, what),
  );
  if (found)
    return context.record({ ...event, ...what, ...grantFields(found.grant), decision: 'allow' }, 'written');
  await context.record({ ...event, ...what, decision: 'deny', reason: question.refusal });
  throw new PosternError('policy_refused', question.refusal);
}
