// `kubectl auth can-i --list`: the cluster's rules, less what the guard does not let through. RBAC's rules cannot say
// "everything but Secrets"; where the guard leaves them out of a `*`, the answer says so in its own words.

import { decide, type Facts, OPEN_PATHS } from './policy.ts';
import { parseRequest } from './request-info.ts';
import type { ResourcePattern } from './resources.ts';
import type { Limits } from './rules.ts';

export interface ResourceRule {
  readonly verbs: readonly string[];
  readonly apiGroups?: readonly string[] | null;
  readonly resources?: readonly string[] | null;
  readonly resourceNames?: readonly string[] | null;
}

export interface NonResourceRule {
  readonly verbs: readonly string[];
  readonly nonResourceURLs?: readonly string[] | null;
}

export interface ClusterRules {
  readonly resourceRules?: readonly ResourceRule[] | null;
  readonly nonResourceRules?: readonly NonResourceRule[] | null;
  readonly incomplete?: boolean;
  readonly evaluationError?: string;
}

const ASKING = /^selfsubject(?:access|rules)?reviews$/;
const LEFT_OUT = 'the guard leaves Secrets and the dangerous subresources out of *';

export function intersectRules(cluster: ClusterRules, namespace: string, facts: Facts): ClusterRules {
  const outside = namespaceRefused(namespace, facts);
  const asking = (cluster.resourceRules ?? []).filter(({ resources }) =>
    resources?.every((name) => ASKING.test(name)),
  );
  let rules = (cluster.resourceRules ?? []).filter((rule) => !asking.includes(rule));
  for (const side of facts.sides) rules = rules.flatMap((rule) => limitRule(rule, side));
  if (outside !== undefined) rules = [];
  const wide = rules.some(({ resources }) => resources?.includes('*'));
  const leftOut = wide && facts.sides.some(({ resources }) => resources?.length === 0);
  const errors = [cluster.evaluationError, outside, leftOut ? LEFT_OUT : undefined].filter((text) => text);
  return {
    resourceRules: [...rules, ...asking],
    nonResourceRules: limitPaths(cluster.nonResourceRules ?? [], facts),
    incomplete: cluster.incomplete === true || errors.length > 0,
    ...(errors.length > 0 ? { evaluationError: errors.join('; ') } : {}),
  };
}

function namespaceRefused(namespace: string, facts: Facts): string | undefined {
  const parsed = parseRequest(
    'GET',
    namespace === '' ? '/api/v1/pods' : `/api/v1/namespaces/${namespace}/pods`,
  );
  if (!parsed.ok) return parsed.refusal.message;
  // Of the decision only the namespaces matter here.
  const sides = facts.sides.map((side) => ({ ...side, verbs: undefined, resources: undefined }));
  const decision = decide(parsed.info, { ...facts, sides });
  return decision.allow ? undefined : `the guard refuses: ${decision.refusal.message}`;
}

function limitRule(rule: ResourceRule, { verbs, resources }: Limits): ResourceRule[] {
  const all = rule.verbs.includes('*');
  const kept = verbs === undefined ? rule.verbs : verbs.filter((verb) => all || rule.verbs.includes(verb));
  if (kept.length === 0) return [];
  if (resources === undefined) return [{ ...rule, verbs: kept }];
  if (resources.length === 0) {
    const names = (rule.resources ?? []).filter((name) => !LEFT.test(name));
    return names.length === 0 ? [] : [{ ...rule, verbs: kept, resources: names }];
  }
  return resources.flatMap((pattern) => limitResources({ ...rule, verbs: kept }, pattern));
}

/** What an empty list of resources leaves out, where RBAC names it. */
const LEFT =
  /^secrets$|\/(?:exec|attach|portforward|proxy|ephemeralcontainers|secrets)$|^serviceaccounts\/token$|^certificatesigningrequests\/approval$/;

function limitResources(rule: ResourceRule, pattern: ResourcePattern): ResourceRule[] {
  const groups = rule.apiGroups ?? [];
  const any = pattern.group === undefined || pattern.group === '*';
  const kept = any
    ? groups
    : groups.some((group) => group === '*' || group === pattern.group)
      ? [pattern.group as string]
      : [];
  const names = (rule.resources ?? []).flatMap((name) => meet(name, pattern));
  if (kept.length === 0 || names.length === 0) return [];
  const dangerous = names.every((name) => LEFT.test(name) && name !== 'secrets');
  const verbs = dangerous ? rule.verbs.filter((verb) => verb === 'create') : rule.verbs;
  return verbs.length === 0 ? [] : [{ ...rule, apiGroups: kept, resources: [...new Set(names)], verbs }];
}

/** One name of an RBAC rule (`pods`, `pods/log`, `*`, `*\/scale`) with one pattern of the guard. */
function meet(name: string, { resource, subresource }: ResourcePattern): string[] {
  if (name === '*') {
    if (subresource === '*')
      return [resource === '*' ? '*' : resource, ...(resource === '*' ? [] : [`${resource}/*`])];
    return [subresource === undefined ? resource : `${resource}/${subresource}`];
  }
  const [own = '', sub] = name.split('/');
  if (own !== '*' && resource !== '*' && own !== resource) return [];
  const first = own === '*' ? resource : own;
  if (subresource === undefined)
    return LEFT.test(name) && name !== 'secrets' ? [] : [sub === undefined ? first : `${first}/${sub}`];
  if (subresource === '*') return [sub === undefined ? first : `${first}/${sub}`];
  return sub === subresource || sub === '*' ? [`${first}/${subresource}`] : [];
}

/** The guard's paths, as far as the cluster's rules open them, for reading. */
function limitPaths(rules: readonly NonResourceRule[], { nonResourcePaths }: Facts): NonResourceRule[] {
  const mine = [...OPEN_PATHS, ...nonResourcePaths];
  const covers = (wide: string, path: string): boolean =>
    wide === path || (wide.endsWith('*') && path.startsWith(wide.slice(0, -1)));
  return rules.flatMap(({ verbs, nonResourceURLs }) => {
    if (!verbs.includes('*') && !verbs.includes('get')) return [];
    const urls = nonResourceURLs ?? [];
    const paths = [
      ...mine.filter((path) => urls.some((url) => covers(url, path))),
      ...urls.filter((url) => mine.some((path) => covers(path, url))),
    ];
    return paths.length === 0 ? [] : [{ verbs: ['get'], nonResourceURLs: [...new Set(paths)] }];
  });
}
