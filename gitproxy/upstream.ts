// The upstream's side of an exchange. `buildUpstreamRequest` is the one place in this guard where the credential is
// attached: after the decision, to a request that is built from the parsed route, set and not added. `judgeAnswer` is
// what of an answer may pass: git's own content types and nothing else; redirects, challenges, cookies and error pages
// stay here, and become words of ours.

import type { Credential } from '../common/credential.ts';
import type { Reason } from '../common/reason.ts';
import { formsOf, type Needles, needlesOf } from '../relay/echo.ts';
import type { Answer, BodyTransform, Outcome, UpstreamHead } from '../relay/forward.ts';
import { DetourError } from './band-scan.ts';
import { type Route, repositoryName, upstreamPath } from './route.ts';

export type GitRoute = Exclude<Route, { kind: 'lfs' }>;

export interface UpstreamRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: readonly string[];
  /** Forms in which the credential must not come back. */
  readonly needles: Needles;
}

interface Spent {
  readonly username: string;
  readonly authorization: string;
  readonly needles: Needles;
}

/** Encoding a credential for every request costs more than the rest of the head; it lives as long as the credential. */
const spent = new WeakMap<Credential, Spent>();

function spend(credential: Credential, username: string): Spent {
  const known = spent.get(credential);
  if (known?.username === username) return known;
  const token = credential.reveal();
  const basic = Buffer.from(`${username}:${token}`).toString('base64');
  const made = {
    username,
    authorization: `Basic ${basic}`, // github.com wants Basic, not Bearer, at git endpoints
    needles: needlesOf(formsOf(token)),
  };
  spent.set(credential, made);
  return made;
}

/**
 * @param client what of the client's own head has a meaning for the upstream: its version of git, and the length of a
 *   body that is passed on as it is
 */
export function buildUpstreamRequest(
  route: GitRoute,
  credential: Credential,
  username: string,
  client: { readonly userAgent?: string | undefined; readonly contentLength?: string | undefined },
): UpstreamRequest {
  const { authorization, needles } = spend(credential, username);
  const version = /^git\/([0-9][0-9A-Za-z.-]{0,40})/.exec(client.userAgent ?? '')?.[1];
  const headers = ['Authorization', authorization, 'User-Agent', `git/${version ?? '2'}`];
  if (route.protocol !== undefined) headers.push('Git-Protocol', `version=${route.protocol}`);
  if (route.kind === 'advertise') headers.push('Accept', '*/*');
  else {
    headers.push('Accept', `application/x-${route.service}-result`);
    headers.push('Content-Type', `application/x-${route.service}-request`);
    if (route.gzip) headers.push('Content-Encoding', 'gzip');
    if (client.contentLength !== undefined) headers.push('Content-Length', client.contentLength);
  }
  return { method: route.kind === 'advertise' ? 'GET' : 'POST', path: upstreamPath(route), headers, needles };
}

export function answerType(route: GitRoute): string {
  return `application/x-${route.service}-${route.kind === 'advertise' ? 'advertisement' : 'result'}`;
}

/** @returns undefined where the answer is not git's: the client gets words of ours */
export function judgeAnswer(
  route: GitRoute,
  head: UpstreamHead,
  transform?: BodyTransform,
): Answer | undefined {
  const { status, headers } = head;
  const encoding = headers['content-encoding'];
  if (status !== 200 || headers['content-type'] !== answerType(route)) return undefined;
  // It was not asked for, and what is compressed cannot be searched.
  if (encoding !== undefined && encoding !== 'identity') return undefined;
  // No Content-Length: both the advertisement and the bands of an exchange are framed anew.
  return { status: 200, headers: gitHeaders(answerType(route)), ...(transform ? { transform } : {}) };
}

export function gitHeaders(contentType: string): string[] {
  return ['Content-Type', contentType, 'Cache-Control', 'no-cache, max-age=0, must-revalidate'];
}

export interface UpstreamFailure {
  readonly status: number;
  readonly code: Reason;
  readonly message: string;
  /** What can be done about it, a line each. */
  readonly remedies: readonly string[];
}

/** What went wrong upstream, for the person; pure. Nothing that the upstream said is in it but its status. */
export function upstreamFailure(route: GitRoute, upstream: string, outcome: Outcome): UpstreamFailure {
  const repo = repositoryName(route.repo);
  const failure = (
    status: number,
    code: Reason,
    message: string,
    ...remedies: string[]
  ): UpstreamFailure => ({
    status,
    code,
    message,
    remedies,
  });
  if (outcome.how === 'echoed')
    return failure(
      502,
      'upstream_refused',
      `the answer of ${upstream} held the credential in custody; it is withheld`,
    );
  if (outcome.how === 'idle')
    return failure(502, 'upstream_unreachable', `nothing has moved between you and ${upstream} for too long`);
  if (outcome.error instanceof DetourError)
    return failure(
      502,
      'upstream_redirect',
      `${upstream} would send you to another host for ${repo}, and that is not passed on`,
      'leave out transfer.bundleURI and fetch.uriProtocols: the guard does not offer them',
    );
  const status = outcome.status;
  if (status === undefined) return failure(502, 'upstream_unreachable', `${upstream} could not be reached`);
  if (status >= 300 && status < 400)
    return failure(
      502,
      'upstream_redirect',
      `${repo} has moved: ${upstream} answered with a redirect, and those are never followed`,
      `look up the repository's present name at ${upstream}, have the session's grant name it, and set your remote to it`,
    );
  const ask = 'whoever runs this guard can give it another credential';
  if (status === 401)
    return failure(502, 'upstream_refused', `${upstream} does not accept the credential in custody`, ask);
  if (status === 403)
    return failure(
      403,
      'upstream_refused',
      `${upstream} forbids this for ${repo} to the credential in custody`,
      ask,
    );
  if (status === 404)
    return failure(
      404,
      'upstream_refused',
      `${upstream} has no repository ${repo}, or the credential in custody may not see it`,
      ask,
    );
  if (status === 429)
    return failure(
      429,
      'rate_limited',
      `${upstream} limits how often the credential in custody may ask; try later`,
    );
  if (status === 200)
    return failure(
      502,
      'upstream_unreachable',
      `${upstream} answered for ${repo} with something that is not git`,
    );
  return failure(502, 'upstream_unreachable', `${upstream} answered for ${repo} with status ${status}`);
}
