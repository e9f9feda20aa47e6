// `postern explain git`: what the guard would decide about a request of a session, by the very functions that decide,
// and without doing it.

import type { Reason } from '../common/reason.ts';
import type { Explanation } from '../sessions/guards.ts';
import type { Session } from '../sessions/session.ts';
import {
  chooseGrant,
  describePush,
  type GitPolicy,
  judgePush,
  type PushCeiling,
  wouldBeAllowed,
} from './policy.ts';
import type { RefOperation } from './receive-pack.ts';
import { placeOf } from './records.ts';
import { parseRoute, repositoryName, upstreamPath } from './route.ts';

export interface ExplainInput {
  /** `acme/tool`, or a request target such as `/acme/tool.git/info/refs?service=git-receive-pack`. */
  readonly target: string;
  /** Default: what git would use for the target. */
  readonly method?: string;
  /** Refs of a push, to be judged too. */
  readonly refs?: readonly { readonly ref: string; readonly operation: RefOperation }[];
}

export function explain(
  session: Session<GitPolicy>,
  state: { readonly now: number; readonly ceiling: PushCeiling },
  input: ExplainInput,
): Explanation {
  const short = /^\/?([^/?]+\/[^/?]+?)(?:\.git)?\/?$/.exec(input.target)?.[1];
  const service = input.refs ? 'git-receive-pack' : 'git-upload-pack';
  const target = short === undefined ? input.target : `/${short}.git/info/refs?service=${service}`;
  const posts = /\/(git-(?:upload|receive)-pack)(?:\?|$)/.exec(target)?.[1];
  const method = input.method ?? (posts ? 'POST' : 'GET');
  const contentType = posts && `application/x-${posts}-request`;
  const request: { [field: string]: unknown } = { method };
  const deny = (code: Reason, rule: string, reason: string): Explanation => ({
    decision: 'deny',
    code,
    rule,
    reason,
    request,
  });

  const parsed = parseRoute({ method, target, contentType, hasBody: false });
  if (!parsed.ok) return deny(parsed.refusal.code, `route: ${parsed.refusal.rule}`, parsed.refusal.message);
  const { route } = parsed;
  request.repo = repositoryName(route.repo);
  request.service = route.kind === 'lfs' ? 'lfs' : route.service;
  if (route.kind === 'lfs') return deny('lfs_not_allowed', 'route: lfs', 'Git LFS is not served');
  if (session.revokedAt !== undefined) return deny('session_revoked', 'session', 'the session was revoked');
  if (state.now >= session.expiresAt)
    return deny('session_expired', 'session', 'the session is past its time');

  const operation = route.service === 'git-receive-pack' ? 'write' : 'read';
  const choice = chooseGrant(session, repositoryName(route.repo), operation);
  if (!choice.ok) {
    const { code, rule, message } = choice.refusal;
    return deny(code, rule, [message, ...wouldBeAllowed(session, { code })].join('; '));
  }
  Object.assign(request, placeOf(choice.grant.upstream));

  const push = describePush(choice.grant, state.ceiling);
  if (operation === 'write' && input.refs) {
    const zero = '0'.repeat(40);
    const some = '1'.repeat(40);
    const verdict = judgePush(
      choice.grant,
      state.ceiling,
      input.refs.map(({ ref, operation: op }) => ({
        ref: Buffer.from(ref).toString('latin1'),
        old: op === 'create' ? zero : some,
        new: op === 'delete' ? zero : some,
      })),
    );
    if (!verdict.ok)
      return deny(
        verdict.refusal.code,
        verdict.refusal.rule,
        `${verdict.refusal.message}; the session may ${push}`,
      );
  }
  return {
    decision: 'allow',
    rule: choice.rule,
    reason:
      operation === 'write'
        ? `may ${push}; the refs of each push are judged by that`
        : `asks ${choice.grant.upstream}${upstreamPath(route)}`,
    request,
  };
}
