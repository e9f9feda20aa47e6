// A GitHub personal access token. GitHub can't narrow one that exists, so the narrowing is done where it is used: the git
// guard takes the token into custody and keeps the repository list, the permissions and the branches on every request.
// Payload: the token alone, or JSON `{"token", "upstream"?, "username"?}` where it is for another forge than the default.

import { Credential } from '../../common/credential.ts';
import { PosternError } from '../../common/errors.ts';
import { compact } from '../compact.ts';
import { type ConstraintName, type Constraints, onlyFor, requireOne } from '../constraints/constraints.ts';
import { checkPermission, permissionMap } from '../constraints/permission.ts';
import { checkRefs } from '../constraints/refs.ts';
import { checkRepoPattern } from '../constraints/repo.ts';
import type { KindRules, MaterialContext } from './kind-rules.ts';
import { jsonObject, malformed, nothingLeft, onlyKeys, textOf } from './payload.ts';

export const GITHUB = 'https://github.com';
export const GITHUB_USERNAME = 'x-access-token';
export const GITHUB_CONSTRAINTS: readonly ConstraintName[] = [
  'repos',
  'permissions',
  'pushRefs',
  'allowDelete',
];

export interface Pat {
  readonly token: Credential;
  readonly upstream?: string;
  readonly username?: string;
}

export const githubPat: KindRules<Pat & { readonly constraints: Constraints }> = {
  kind: 'github_pat',
  constraints: GITHUB_CONSTRAINTS,
  inspect(payload) {
    parsePat(payload);
    return [];
  },
  destination: (payload) => parsePat(payload).upstream ?? 'the default forge',
  credentials: (payload) => [parsePat(payload).token.reveal()],
  checkConstraints: checkGithub,
  minimise: (payload, constraints) => ({ ...parsePat(payload), constraints }),
  materialise: ({ token, upstream, username, constraints }, context) => ({
    type: 'git',
    credential: {
      token,
      upstream: chooseUpstream(upstream, context.upstreams),
      ...compact({ username }),
      ...githubScope(constraints, context),
    },
  }),
};

/**
 * The members of a guard's credential that come from the grant. Of its permissions the guard knows those on contents; the
 * others are for GitHub (an App's token) and for callers that ask `broker.access`.
 * @throws PosternError `nothing_left` where the grant gives nothing that git could use
 */
export function githubScope(constraints: Constraints, { grant }: Pick<MaterialContext, 'grant'>) {
  const { secretId, secretName, grantId } = grant.ref;
  const { repos = [], pushRefs, allowDelete } = constraints;
  const map = permissionMap(constraints.permissions);
  const contents =
    map === undefined ? '*' : map.contents === undefined ? undefined : `contents:${map.contents}`;
  if (contents === undefined)
    throw nothingLeft('The grant gives no permission on contents, so git has no use for it.');
  const permissions = [contents === 'contents:admin' ? 'contents:write' : contents];
  return { repos, permissions, ...compact({ pushRefs, allowDelete }), secretId, secretName, grantId };
}

/** @throws PosternError `invalid_input` */
export function checkGithub(constraints: Constraints): void {
  const key = 'constraints';
  onlyFor(constraints, GITHUB_CONSTRAINTS, 'GitHub credential');
  requireOne(constraints, ['repos'], 'GitHub credential');
  for (const repo of constraints.repos ?? []) checkRepoPattern(repo, `${key}.repos`);
  for (const permission of constraints.permissions ?? []) checkPermission(permission, `${key}.permissions`);
  checkRefs(constraints, key);
}

/** @throws PosternError `invalid_input`; nothing of the payload is quoted */
export function parsePat(payload: Buffer): Pat {
  const text = textOf(payload, 'GitHub token').trim();
  const json = text.startsWith('{') ? jsonObject(text, 'GitHub token') : { token: text };
  onlyKeys(json, ['token', 'upstream', 'username'], 'GitHub token');
  const { token, upstream, username } = json;
  if (typeof token !== 'string' || !/^[\x21-\x7e]{1,4096}$/.test(token))
    throw malformed('GitHub token', 'it is empty, or has white space or characters that no token has');
  if (
    username !== undefined &&
    (typeof username !== 'string' || !/^[\x21-\x39\x3b-\x7e]{1,255}$/.test(username))
  )
    throw malformed('GitHub token', 'its username has a colon or white space');
  return {
    token: new Credential(token),
    ...compact({ upstream: readUpstream(upstream), username: username as string | undefined }),
  };
}

/** @throws PosternError `invalid_input` */
export function readUpstream(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  const url = typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined;
  if (!url || !['https:', 'http:'].includes(url.protocol) || url.username !== '' || url.password !== '')
    throw malformed('GitHub credential', 'its upstream is not an origin such as https://github.com');
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '')
    throw malformed('GitHub credential', 'its upstream has a path; it must be an origin');
  return url.origin;
}

/**
 * The forge that a credential is for: the one it names, else github.com, else the only one that is configured. A
 * credential never goes to a forge that somebody would have to guess.
 * @throws PosternError `upstream_not_listed`
 */
export function chooseUpstream(named: string | undefined, configured: readonly string[]): string {
  if (named !== undefined) return named;
  if (configured.includes(GITHUB) || configured.length === 0) return GITHUB;
  if (configured.length === 1 && configured[0] !== undefined) return configured[0];
  throw new PosternError(
    'upstream_not_listed',
    'The token does not say which of the configured forges it is for.',
    {
      key: 'payload.upstream',
      remedy: 'Store it as {"token": "…", "upstream": "https://…"}.',
    },
  );
}
