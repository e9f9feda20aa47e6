// What a session may do, decided on one page: a pure function of (the session's grants, the deployment's ceiling, what
// was parsed). Nothing here knows of HTTP.
//
//   which credential   Grants add up. The repository chooses the upstream: that of the most specific grant that covers
//                      it (exact, then owner/*, then any other pattern, then *); equally specific grants at two upstreams
//                      are ambiguous and refused. Of that upstream's grants that permit the operation the most specific
//                      is used, the first listed among equals. Writing includes reading.
//   which refs         A push is judged by the pushRefs of the one credential that it would spend, within the
//                      deployment's refs; all or nothing. An entry permits creating and updating, and deleting where the
//                      grant allows that; `create:`, `update:`, `delete:` (or several, `create,delete:`) in front make
//                      an entry permit just these. Push options are the deployment's alone to admit (push-options.ts).

import { compileGlob, isExact } from '../common/glob.ts';
import type { Reason, Refusal } from '../common/reason.ts';
import type { Session } from '../sessions/session.ts';
import { judgeOptions } from './push-options.ts';
import { operationOf, type RefCommand, type RefOperation } from './receive-pack.ts';
import { isPushableRef, showRef } from './ref-name.ts';

/** What one credential opens. Public metadata: stored with the session as JSON. */
export interface GitGrant {
  /** The CredentialRef's id. */
  readonly credentialId: string;
  /** Origin. */
  readonly upstream: string;
  readonly username: string;
  /** Lower case: `acme/tool`, `acme/*`, `*`. */
  readonly repos: readonly string[];
  readonly write: boolean;
  /** As granted; empty where the grant does not write. */
  readonly pushRefs: readonly string[];
  readonly allowDelete: boolean;
}

export interface GitPolicy {
  readonly grants: readonly GitGrant[];
}

/** What no session may exceed: `git.push`. */
export interface PushCeiling {
  /** Globs of full ref names; an empty list lets nothing be pushed. */
  readonly refs: readonly string[];
  /** `false`: no session deletes. */
  readonly allowDelete?: boolean | undefined;
  /** Push options, `*` for any characters; absent: `*`, which admits the harmless ones. See push-options.ts. */
  readonly options?: readonly string[] | undefined;
  readonly maxRefs: number;
  /** Of a whole push, commands and pack. */
  readonly maxPackBytes: number;
}

export type Operation = 'read' | 'write';

export type Choice =
  | { readonly ok: true; readonly grant: GitGrant; readonly rule: string }
  | { readonly ok: false; readonly refusal: Refusal };

/** Those whose credential the session still has: a grant may have been taken out of a live session. */
export function heldGrants({
  policy,
  credentials,
}: Pick<Session<GitPolicy>, 'policy' | 'credentials'>): readonly GitGrant[] {
  return policy.grants.filter(({ credentialId }) => credentials.some(({ id }) => id === credentialId));
}

/** A grant whose credential was taken out of the session counts for nothing. */
export function chooseGrant(
  { policy, credentials }: Pick<Session<GitPolicy>, 'policy' | 'credentials'>,
  repo: string,
  operation: Operation,
): Choice {
  const covering = heldGrants({ policy, credentials }).flatMap((grant) => cover(grant, repo));
  const best = Math.max(...covering.map(({ rank }) => rank));
  const upstreams = new Set(covering.filter(({ rank }) => rank === best).map(({ grant }) => grant.upstream));
  if (covering.length === 0)
    return refuse('repo_not_allowed', 'repos', `${repo} is not among the repositories of this session`);
  if (upstreams.size > 1)
    return refuse(
      'repo_not_allowed',
      'ambiguous-upstream',
      `${repo} could be at ${[...upstreams].join(' or ')}: the grants cover both equally`,
    );
  const permitting = covering
    .filter(({ grant }) => upstreams.has(grant.upstream) && (operation === 'read' || grant.write))
    .sort((a, b) => b.rank - a.rank); // stable: first listed first
  const chosen = permitting[0];
  if (!chosen)
    return refuse('push_not_allowed', 'permissions', `this session may read ${repo} but not push to it`);
  const { grant, pattern } = chosen;
  return {
    ok: true,
    grant,
    rule: `${pattern} with contents:${grant.write ? 'write' : 'read'} at ${grant.upstream}`,
  };
}

/** What a session that was refused may do instead: a line for the person. */
export function wouldBeAllowed(
  session: Pick<Session<GitPolicy>, 'policy' | 'credentials'>,
  { code }: Pick<Refusal, 'code'>,
): string[] {
  const grants = heldGrants(session);
  const repos = (writing: boolean): string =>
    list([...new Set(grants.filter(({ write }) => write || !writing).flatMap((grant) => grant.repos))]);
  if (code === 'push_not_allowed') return [`this session may push to ${repos(true)}`];
  return [`this session may read ${repos(false)} and push to ${repos(true)}`];
}

function cover(grant: GitGrant, repo: string): { grant: GitGrant; pattern: string; rank: number }[] {
  const matching = grant.repos
    .filter((pattern) => repoMatcher(pattern)(repo))
    .map((pattern) => ({ grant, pattern, rank: specificity(pattern) }))
    .sort((a, b) => b.rank - a.rank);
  return matching.slice(0, 1);
}

function specificity(pattern: string): number {
  if (pattern === '*') return 0;
  if (isExact(pattern)) return 3;
  return /^[^*?[]+\/\*$/.test(pattern) ? 2 : 1;
}

/** `*` alone is every repository. @throws PosternError where the pattern cannot be used */
export function repoMatcher(pattern: string, key?: string): (repo: string) => boolean {
  if (pattern === '*') return () => true;
  return compiled(`repo ${pattern}`, () =>
    compileGlob(pattern, { caseInsensitive: true, ...(key === undefined ? {} : { key }) }),
  );
}

export type PushVerdict =
  | { readonly ok: true }
  | {
      readonly ok: false;
      readonly refusal: Refusal;
      /** For each command, in order: one line that says why; those that were in order say that another was not. */
      readonly reasons: readonly string[];
    };

interface RefRefusal extends Refusal {
  /** The message without the ref, which stands beside it. */
  readonly what: string;
}

export function judgePush(
  grant: GitGrant,
  ceiling: PushCeiling,
  commands: readonly RefCommand[],
  options: readonly string[] = [],
): PushVerdict {
  if (commands.length > ceiling.maxRefs) {
    const refusal: Refusal = {
      code: 'too_many_refs',
      rule: 'git.push.maxRefs',
      message: `one push may name ${ceiling.maxRefs} refs, this one names ${commands.length}`,
    };
    return { ok: false, refusal, reasons: commands.map(() => `${refusal.code}: ${refusal.message}`) };
  }
  const seen = new Set<string>();
  const refusals = commands.map((command) => {
    const again = seen.has(command.ref);
    seen.add(command.ref);
    if (again) return refusalOf('malformed_request', 'duplicate-ref', command.ref, 'named twice in one push');
    return judgeRef(grant, ceiling, command);
  });
  const refusal = refusals.find((each) => each !== undefined);
  if (!refusal) {
    const option = judgeOptions(ceiling.options ?? ['*'], options);
    if (!option) return { ok: true };
    return { ok: false, refusal: option, reasons: commands.map(() => `${option.code}: ${option.message}`) };
  }
  const innocent = `refused as a whole: another ref was (${refusal.code})`;
  const reasons = refusals.map((each) => (each ? `${each.code}: ${each.what}` : innocent));
  return { ok: false, refusal, reasons };
}

function judgeRef(grant: GitGrant, ceiling: PushCeiling, command: RefCommand): RefRefusal | undefined {
  const { ref } = command;
  if (!isPushableRef(ref))
    return refusalOf('ref_not_allowed', 'ref-name', ref, 'not a name that git takes for a ref');
  const operation = operationOf(command);
  if (operation === 'nothing')
    return refusalOf('malformed_request', 'zero-update', ref, 'neither created, updated nor deleted');
  const inCeiling = ceiling.refs.some((glob) => refMatcher(glob)(ref));
  const rules = pushRules(grant).filter((rule) => rule.matches(ref));
  if (!inCeiling)
    return refusalOf(
      'ref_not_allowed',
      'git.push.refs',
      ref,
      'outside of what the deployment lets be pushed',
    );
  if (rules.length === 0)
    return refusalOf('ref_not_allowed', 'pushRefs', ref, 'not among the refs that this session may push');
  if (operation === 'delete' && ceiling.allowDelete === false)
    return refusalOf(
      'delete_not_allowed',
      'git.push.allowDelete',
      ref,
      'the deployment lets nothing be deleted',
    );
  if (rules.some((rule) => rule.operations.has(operation))) return undefined;
  if (operation === 'delete')
    return refusalOf('delete_not_allowed', 'allowDelete', ref, 'this session may not delete it');
  return refusalOf('ref_not_allowed', 'pushRefs', ref, `this session may push it, but not ${operation} it`);
}

export interface PushRule {
  readonly operations: ReadonlySet<RefOperation>;
  readonly glob: string;
  readonly matches: (ref: string) => boolean;
}

/** What the grant's entries permit. @throws PosternError naming `key` where an entry cannot be used */
export function pushRules(grant: Pick<GitGrant, 'pushRefs' | 'allowDelete'>, key?: string): PushRule[] {
  return grant.pushRefs.map((entry, i) => {
    const [, prefix, glob = entry] =
      /^((?:create|update|delete)(?:,(?:create|update|delete))*):(.*)$/s.exec(entry) ?? [];
    const operations: RefOperation[] = prefix
      ? (prefix.split(',') as RefOperation[])
      : ['create', 'update', ...(grant.allowDelete ? (['delete'] as const) : [])];
    return {
      operations: new Set(operations),
      glob,
      matches: refMatcher(glob, key === undefined ? undefined : `${key}[${i}]`),
    };
  });
}

export function refMatcher(glob: string, key?: string): (ref: string) => boolean {
  return compiled(`ref ${glob}`, () =>
    compileGlob(glob, { globstar: true, ...(key === undefined ? {} : { key }) }),
  );
}

/** For people: `create and update refs/heads/agent/**; delete nothing`. */
export function describePush(grant: GitGrant, ceiling: PushCeiling): string {
  const of = (operation: RefOperation): string =>
    list(
      operation === 'delete' && ceiling.allowDelete === false
        ? []
        : pushRules(grant)
            .filter((rule) => rule.operations.has(operation))
            .map((rule) => rule.glob),
    );
  const [create, update, remove] = [of('create'), of('update'), of('delete')];
  const first = create === update ? `create and update ${create}` : `create ${create}; update ${update}`;
  return `${first}; delete ${remove}; within the deployment's limit: ${list(ceiling.refs)}`;
}

/** At most six, and how many more. */
export function list(words: readonly string[]): string {
  if (words.length === 0) return 'nothing';
  const shown = words.slice(0, 6).join(', ');
  return words.length > 6 ? `${shown} and ${words.length - 6} more` : shown;
}

function refuse(code: Reason, rule: string, message: string): Choice {
  return { ok: false, refusal: { code, rule, message } };
}

function refusalOf(code: Reason, rule: string, ref: string, what: string): RefRefusal {
  return { code, rule, what, message: `${showRef(ref)}: ${what}` };
}

// Compiling costs more than matching, and a session's patterns are the same on every request.
const patterns = new Map<string, (text: string) => boolean>();
const MAX_PATTERNS = 5_000;

function compiled(name: string, compile: () => (text: string) => boolean): (text: string) => boolean {
  const known = patterns.get(name);
  if (known) return known;
  const matcher = compile();
  if (patterns.size >= MAX_PATTERNS) patterns.clear();
  patterns.set(name, matcher);
  return matcher;
}
