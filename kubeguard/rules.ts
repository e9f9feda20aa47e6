// What one grant allows at one cluster, and what the deployment lets no session exceed (the ceiling). Written once, when
// a session is issued, and checked then: a word that cannot mean anything is an error at once, not a rule that silently
// never matches. Kept as plain JSON in the session's policy; compiled for the decisions.

import { PosternError } from '../common/errors.ts';
import { compileGlob, isExact } from '../common/glob.ts';
import { globsMeet } from './globs-meet.ts';
import { DNS_LABEL } from './request-info.ts';
import { overlap, parseResource, type ResourcePattern } from './resources.ts';
import { effectiveVerbs, VERBS } from './verbs.ts';

/** Of one grant. Plain JSON. */
export interface KubeRules {
  /** Effective ones: never empty, no `*`. */
  readonly verbs: readonly string[];
  /** Globs. Empty: the grant sets no limit, and cluster-wide requests are open. */
  readonly namespaces: readonly string[];
  /** Empty: everything but Secrets and the dangerous subresources. */
  readonly resources: readonly string[];
  /** Beyond discovery, version, openapi and health. */
  readonly nonResourcePaths: readonly string[];
}

/** `kube.ceiling` of the configuration; an empty list sets no ceiling. */
export interface Ceiling {
  readonly verbs: readonly string[];
  readonly namespaces: readonly string[];
  readonly resources: readonly string[];
}

/** One side of a decision: the grant or the ceiling. `undefined`: this side does not limit it. */
export interface Limits {
  /** For messages: `the session's grant`. */
  readonly side: string;
  readonly verbs: readonly string[] | undefined;
  readonly namespaces:
    | { readonly list: readonly string[]; readonly admits: (name: string) => boolean }
    | undefined;
  readonly resources: readonly ResourcePattern[] | undefined;
}

export const GRANT_SIDE = "the session's grant";
export const CEILING_SIDE = "this deployment's ceiling";

export interface RuleInput {
  readonly contexts?: readonly string[] | undefined;
  readonly namespaces?: readonly string[] | undefined;
  readonly verbs?: readonly string[] | undefined;
  readonly resources?: readonly string[] | undefined;
  readonly nonResourcePaths?: readonly string[] | undefined;
}

/** @throws PosternError `invalid_input` naming the key, the value and the remedy */
export function readRules(input: RuleInput): KubeRules {
  const { contexts = [], namespaces = [], verbs = [], resources = [], nonResourcePaths = [] } = input;
  if (namespaces.length === 0 && contexts.length === 0)
    throw new PosternError(
      'invalid_input',
      'namespaces: neither namespaces nor contexts are named, so the grant has no bounds',
      {
        key: 'namespaces',
        remedy:
          'name the namespaces (--namespace team-a), or the contexts that are opened whole (--context prod)',
      },
    );
  for (const glob of namespaces) checkNamespace(glob);
  for (const text of resources) parseResource(text);
  for (const path of nonResourcePaths)
    if (
      !/^\/[A-Za-z0-9._~/:-]*\*?$|^\*$/.test(path) ||
      path.includes('//') ||
      /(^|\/)\.{1,2}(\/|$)/.test(path)
    )
      throw new PosternError(
        'invalid_input',
        `nonResourcePaths: ${JSON.stringify(path.slice(0, 80))} is not a path such as /metrics or /logs/*`,
        {
          key: 'nonResourcePaths',
        },
      );
  return {
    verbs: effectiveVerbs(verbs),
    namespaces: [...new Set(namespaces)],
    resources: [...new Set(resources)],
    nonResourcePaths: [...new Set(nonResourcePaths)],
  };
}

function checkNamespace(glob: string): void {
  compileGlob(glob, { key: 'namespaces' });
  if (isExact(glob) ? DNS_LABEL.test(glob) : /^[a-z0-9*?[\]^!-]+$/.test(glob)) return;
  throw new PosternError(
    'invalid_input',
    `namespaces: ${JSON.stringify(glob)} is no namespace, nor a glob of namespaces such as team-*`,
    {
      key: 'namespaces',
      remedy:
        'namespaces are lower-case letters, digits and "-", at most 63 characters; wildcards are *, ? and [abc]',
    },
  );
}

const compiled = new WeakMap<KubeRules, Limits>();

/** The grant's side of a decision; compiled once for a session in memory. */
export function grantLimits(rules: KubeRules): Limits {
  let limits = compiled.get(rules);
  if (!limits) {
    limits = {
      side: GRANT_SIDE,
      verbs: rules.verbs,
      namespaces: rules.namespaces.length === 0 ? undefined : namespaceList(rules.namespaces),
      resources: rules.resources.map((text) => parseResource(text)),
    };
    compiled.set(rules, limits);
  }
  return limits;
}

/** @throws PosternError `invalid_config` naming the key of the configuration */
export function ceilingLimits(ceiling: Ceiling): Limits {
  const { verbs, namespaces, resources } = ceiling;
  try {
    return {
      side: CEILING_SIDE,
      verbs:
        verbs.length === 0 ? undefined : VERBS.filter((verb) => verbs.includes(verb) || verbs.includes('*')),
      namespaces: namespaces.length === 0 ? undefined : namespaceList(namespaces),
      resources:
        resources.length === 0
          ? undefined
          : resources.map((text) => parseResource(text, 'kube.ceiling.resources')),
    };
  } catch (error) {
    if (!(error instanceof PosternError)) throw error;
    throw new PosternError('invalid_config', error.message, {
      key: error.key ?? 'kube.ceiling',
      cause: error,
    });
  }
}

function namespaceList(list: readonly string[]): NonNullable<Limits['namespaces']> {
  const globs = list.map((glob) => compileGlob(glob));
  return { list, admits: (name) => globs.some((matches) => matches(name)) };
}

/** @throws PosternError `policy_refused` where the grant and the ceiling have nothing in common, naming both */
export function checkCeiling(grant: Limits, ceiling: Limits): void {
  const refuse = (what: string, wanted: readonly string[], bounds: readonly string[]): never => {
    throw new PosternError(
      'policy_refused',
      `the grant's ${what} (${wanted.join(', ') || 'everything but Secrets and the dangerous subresources'}) and this ` +
        `deployment's ceiling (kube.ceiling.${what}: ${bounds.join(', ')}) have nothing in common`,
      { key: what, remedy: `ask for ${what} within the ceiling, or have kube.ceiling.${what} widened` },
    );
  };
  const texts = (patterns: readonly ResourcePattern[] | undefined): string[] =>
    (patterns ?? []).map(({ text }) => text);
  if (ceiling.verbs && !ceiling.verbs.some((verb) => grant.verbs?.includes(verb)))
    refuse('verbs', grant.verbs ?? [], ceiling.verbs);
  const [mine, theirs] = [grant.namespaces?.list, ceiling.namespaces?.list];
  if (mine && theirs && !mine.some((a) => theirs.some((b) => globsMeet(a, b))))
    refuse('namespaces', mine, theirs);
  if (grant.resources && ceiling.resources && !overlap(grant.resources, ceiling.resources))
    refuse('resources', texts(grant.resources), texts(ceiling.resources));
}
