// What went wrong around a decision, for the sandbox: no more than it needs to know. What the policy refuses has its own
// words (refusals.ts).

import { PosternError } from '../common/errors.ts';
import type { Outcome } from '../relay/forward.ts';
import type { EndReason } from '../sessions/session.ts';
import { TooManyNamespaces } from './namespaces.ts';
import type { Words } from './status.ts';

export function wordsOf(error: unknown): Words {
  const code = error instanceof PosternError ? error.code : undefined;
  if (code === 'audit_unavailable')
    return {
      code: 'audit_unavailable',
      message: 'the decision cannot be recorded now, so nothing is done; try later',
    };
  if (code === 'gone') return endedWords(undefined);
  if (code === 'unreachable' || code === 'upstream_not_listed')
    return {
      code: 'upstream_refused',
      message:
        'the credential in custody for this cluster cannot be had now; whoever runs this guard can see why',
    };
  return { code: 'guard_unavailable', message: 'the guard cannot decide now; try later' };
}

export function endedWords(why: EndReason | undefined): Words {
  if (why === 'shutdown')
    return { code: 'guard_unavailable', message: 'the guard is shutting down; try again soon' };
  if (why === 'expired') return { code: 'session_expired', message: 'the session is past its time' };
  return { code: 'unauthenticated', message: 'the session has ended' };
}

/** For an exchange whose answer was not passed on; pure. Nothing that the cluster said is in it but its status. */
export function outcomeWords(
  outcome: Pick<Outcome, 'how' | 'why' | 'status' | 'error'>,
  context: string,
  maxBodyBytes: number,
): Words {
  const { how, status } = outcome;
  const cluster = `the cluster of the context ${context}`;
  if (how === 'ended') return endedWords(outcome.why);
  if (how === 'over_limit')
    return {
      code: 'body_too_large',
      message: `the body of the request is larger than ${maxBodyBytes} bytes`,
    };
  if (how === 'echoed')
    return {
      code: 'upstream_refused',
      message: `the answer of ${cluster} held the credential in custody and is withheld`,
    };
  if (outcome.error instanceof TooManyNamespaces)
    return {
      code: 'cluster_scope',
      message: `${cluster} has too many namespaces to look for the allowed ones among them; ask for one by its name`,
    };
  if (how === 'idle') return { code: 'upstream_unreachable', message: `${cluster} has not answered in time` };
  if (status === 401)
    return {
      code: 'upstream_refused',
      message: `${cluster} does not accept the credential in custody; whoever runs this guard can give it another one`,
    };
  if (status !== undefined && status >= 300 && status < 400)
    return {
      code: 'upstream_redirect',
      message: `${cluster} answered with a redirect, and those are never followed`,
    };
  if (how === 'declined')
    return {
      code: 'upstream_refused',
      message: `${cluster} answered in a form that was not asked for and cannot be searched for the credential in custody`,
    };
  return { code: 'upstream_unreachable', message: `${cluster} could not be reached` };
}
