// Issuing a session: what the hub says of each credential becomes a grant of the policy, or an error that names the key.
// Nothing is repaired silently: a pattern that could never match, a permission that means nothing here, a ref rule
// outside of everything that the deployment lets be pushed are all refused, because whoever wrote them meant something.

import type { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import type { GitCredentialInput } from '../sessions/guards.ts';
import type { CredentialRef } from '../sessions/session.ts';
import {
  type GitGrant,
  type GitPolicy,
  list,
  type PushCeiling,
  pushRules,
  refMatcher,
  repoMatcher,
} from './policy.ts';

/** One of `git.upstreams`. */
export interface GitUpstream {
  /** An origin: https, or http to a loopback address. */
  readonly url: string;
  readonly caFile?: string | undefined;
  /** Sent with a token; default `x-access-token`. */
  readonly username?: string | undefined;
}

export interface Prepared {
  readonly policy: GitPolicy;
  readonly credentials: readonly (CredentialRef & { readonly secret: Credential })[];
}

const PERMISSIONS = ['contents:read', 'contents:write', '*'];
/** Where a writing grant names none. */
const DEFAULT_PUSH_REFS = ['refs/heads/**'];

/** @throws PosternError `invalid_input`, `upstream_not_listed`, `policy_refused` */
export function prepareSession(
  inputs: readonly GitCredentialInput[],
  upstreams: readonly GitUpstream[],
  ceiling: PushCeiling,
): Prepared {
  if (inputs.length === 0) throw invalid('credentials', 'a session needs at least one credential');
  const grants = inputs.map((input, i) => prepareGrant(input, `credentials[${i}]`, `c${i + 1}`, upstreams));
  checkCeiling(grants, ceiling);
  const credentials = inputs.map((input, i) => ({
    id: `c${i + 1}`,
    secret: input.token,
    ...(input.secretId === undefined ? {} : { secretId: input.secretId }),
    ...(input.secretName === undefined ? {} : { secretName: input.secretName }),
    ...(input.grantId === undefined ? {} : { grantId: input.grantId }),
  }));
  return { policy: { grants }, credentials };
}

function prepareGrant(
  input: GitCredentialInput,
  key: string,
  credentialId: string,
  upstreams: readonly GitUpstream[],
): GitGrant {
  const token = input.token.reveal();
  if (token === '' || /[\s\x00-\x1f\x7f]/.test(token))
    throw invalid(`${key}.token`, 'the token is empty or has white space in it; give the bare token');
  const upstream = listedUpstream(input.upstream, `${key}.upstream`, upstreams);
  const username = input.username ?? upstream.username ?? 'x-access-token';
  if (!/^[\x21-\x39\x3b-\x7e]{1,255}$/.test(username))
    throw invalid(
      `${key}.username`,
      'that is no user name: no colon, no white space; a token belongs to token',
    );

  if (input.repos.length === 0)
    throw invalid(`${key}.repos`, 'name at least one repository: acme/tool, acme/* or *');
  const repos = input.repos.map((pattern, i) => checkRepo(pattern, `${key}.repos[${i}]`));

  const permissions = input.permissions ?? [];
  for (const [i, permission] of permissions.entries())
    if (!PERMISSIONS.includes(permission))
      throw invalid(
        `${key}.permissions[${i}]`,
        `${shown(permission)} is not a permission of this guard; write ${PERMISSIONS.join(', ')}`,
      );
  const write = permissions.includes('contents:write') || permissions.includes('*');

  const named = input.pushRefs ?? [];
  const pushRefs = write && named.length === 0 ? DEFAULT_PUSH_REFS : named;
  const grant: GitGrant = {
    credentialId,
    upstream: upstream.url,
    username,
    repos,
    write,
    pushRefs,
    allowDelete: input.allowDelete ?? false,
  };
  for (const [i, entry] of pushRefs.entries()) {
    const at = `${key}.pushRefs[${i}]`;
    const [rule] = readable(entry, at, () => pushRules({ pushRefs: [entry], allowDelete: false }));
    if (!rule?.glob.startsWith('refs/'))
      throw invalid(at, `${shown(entry)} is not a glob of full ref names; write refs/heads/… in front`);
  }
  // Ref rules without the permission come from grants that were narrowed to reading: they are checked and mean nothing.
  return write ? grant : { ...grant, pushRefs: [], allowDelete: false };
}

function listedUpstream(text: string, key: string, upstreams: readonly GitUpstream[]): GitUpstream {
  let url: URL | undefined;
  try {
    url = new URL(text);
  } catch {}
  if (!url || url.username || url.password || url.search || url.hash || url.pathname !== '/')
    throw invalid(key, 'an upstream is an origin such as https://github.com: no path, user or query');
  const { origin } = url;
  const found = upstreams.find((upstream) => upstream.url === origin);
  if (!found)
    throw new PosternError(
      'upstream_not_listed',
      `${key}: ${origin} is not one of git.upstreams (${list(upstreams.map((upstream) => upstream.url))})`,
      { key, remedy: 'add it to git.upstreams in the configuration, or name one of those' },
    );
  return found;
}

function checkRepo(text: string, key: string): string {
  const pattern = text.toLowerCase();
  if (pattern === '*') return pattern;
  const [owner, name, more] = pattern.split('/');
  if (
    !owner ||
    !name ||
    more !== undefined ||
    !/^[a-z0-9._*?[\]!^-]+$/.test(owner + name) ||
    name.endsWith('.git')
  )
    throw invalid(key, `${shown(text)} is no repository pattern; write acme/tool, acme/* or *`);
  readable(pattern, key, () => repoMatcher(pattern));
  return pattern;
}

/** A session that may push and to no ref at all is an error of whoever asked for it. */
function checkCeiling(grants: readonly GitGrant[], ceiling: PushCeiling): void {
  for (const [i, grant] of grants.entries()) {
    if (!grant.write) continue;
    const rules = pushRules(grant);
    if (rules.some(({ glob }) => ceiling.refs.some((limit) => mayMeet(glob, limit)))) continue;
    throw new PosternError(
      'policy_refused',
      `credentials[${i}].pushRefs: ${list(rules.map(({ glob }) => glob))} has nothing in common with git.push.refs ` +
        `(${list(ceiling.refs)}), so nothing could be pushed`,
      {
        key: `credentials[${i}].pushRefs`,
        remedy: 'name refs within git.push.refs, or leave out contents:write',
      },
    );
  }
}

/** Whether two globs could match one ref: by what stands before their first wildcards. Errs toward yes. */
function mayMeet(a: string, b: string): boolean {
  const fixed = (glob: string): string => glob.slice(0, glob.search(/[*?[]|$/));
  const [x, y] = [fixed(a), fixed(b)];
  if (x === a) return refMatcher(b)(a);
  if (y === b) return refMatcher(a)(b);
  return x.startsWith(y) || y.startsWith(x);
}

/** A value in an error, unless it could be a credential that was pasted in the wrong place. */
function shown(value: string): string {
  return isPlain(value) ? JSON.stringify(value) : `what is there (${value.length} characters)`;
}

function isPlain(value: string): boolean {
  return value.length <= 60 && !/[:@]|[A-Za-z0-9_+=-]{20}/.test(value);
}

function readable<T>(pattern: string, key: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof PosternError)) throw error;
    throw invalid(key, isPlain(pattern) ? error.message : `${shown(pattern)} is no pattern`);
  }
}

function invalid(key: string, message: string): PosternError {
  return new PosternError('invalid_input', `${key}: ${message}`, { key });
}

/** For people: `read-only, acme/*` or `read-write, acme/tool (push: refs/heads/agent/**)`. */
export function summarize(policy: GitPolicy): string {
  const unique = (words: readonly string[]): string[] => [...new Set(words)];
  const parts = [true, false].flatMap((write) => {
    const grants = policy.grants.filter((grant) => grant.write === write);
    if (grants.length === 0) return [];
    const repos = list(unique(grants.flatMap((grant) => grant.repos)));
    const refs = list(unique(grants.flatMap((grant) => grant.pushRefs)));
    return write ? [`read-write, ${repos} (push: ${refs})`] : [`read-only, ${repos}`];
  });
  return parts.join('; ');
}
