// The decision, on one page: pure, from what the session's grant and the deployment's ceiling say and what the request
// asks for. Both sides must allow. The order is the one that gives the most useful message: what the method or the path
// itself rules out, then dangerous subresources, paths outside the API, the verb, the resource, and the namespace last,
// because "use -n" helps only somebody who may do the thing at all.

import { isExact } from '../common/glob.ts';
import type { Refusal } from '../common/reason.ts';
import { refuse } from './refusals.ts';
import type { RequestInfo } from './request-info.ts';
import { admits, isCreatedByUpdate, isDangerous, namesExactly } from './resources.ts';
import type { Limits } from './rules.ts';

export interface Allowed {
  readonly allow: true;
  /** What allowed it. */
  readonly rule: string;
  /** A list or watch of namespaces: show those only that pass. `only`: where the list names a single one. */
  readonly narrow?: { readonly admits: (namespace: string) => boolean; readonly only?: string };
  /** A question about the session's own rights: answered by both the guard and the cluster. */
  readonly review?: SelfReview;
}

export type SelfReview = 'selfsubjectaccessreviews' | 'selfsubjectrulesreviews' | 'selfsubjectreviews';

export type Decision = Allowed | { readonly allow: false; readonly refusal: Refusal };

export interface Facts {
  /** The grant's and the ceiling's. */
  readonly sides: readonly Limits[];
  /** Of the grant. */
  readonly nonResourcePaths: readonly string[];
  /** Lower case, without parameters. */
  readonly contentType?: string | undefined;
}

/** Discovery, version, openapi and health: without them no client can ask for anything else. Never filtered. */
export const OPEN_PATHS = [
  '/api',
  '/api/*',
  '/apis',
  '/apis/*',
  '/version',
  '/openapi',
  '/openapi/*',
  '/healthz',
  '/healthz/*',
  '/livez',
  '/livez/*',
  '/readyz',
  '/readyz/*',
];

export function decide(info: RequestInfo, facts: Facts): Decision {
  const { sides } = facts;
  const review = selfReview(info);
  if (review) return { allow: true, rule: 'self-review', review };

  if (info.isResource && !METHODS.has(info.method)) return refuse.method(info);
  const dangerous = isDangerous(info, info.verb);
  if (dangerous) {
    const side = sides.find(({ resources }) => !admits(resources ?? EVERYTHING, info, info.verb));
    // Nothing dangerous is served under the old prefixes, where the verb says nothing about the method.
    if (side || info.verbFromPath) return refuse.dangerous(info, side);
  }
  if (info.verbFromPath && info.method !== 'GET') return refuse.method(info);
  if (!info.isResource) return nonResource(info, facts);

  // A WebSocket exec is a GET; what it does is create.
  for (const verb of dangerous ? ['create'] : neededVerbs(info, facts.contentType)) {
    const side = sides.find(({ verbs }) => verbs && !verbs.includes(verb));
    if (side) return refuse.verb(info, verb, side);
  }
  const side = sides.find(({ resources }) => !admits(resources ?? EVERYTHING, info));
  if (side) return refuse.resource(info, side);
  return inNamespaces(info, sides);
}

/** Those that a verb belongs to. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']);
const EVERYTHING = [{ text: '*/*', resource: '*', subresource: '*' }];

/** Server-side apply, and a PUT of some kinds, create what is not there: without `create` none must be made so. */
function neededVerbs(info: RequestInfo, contentType: string | undefined): string[] {
  const { verb } = info;
  const creates =
    (verb === 'patch' && contentType?.startsWith('application/apply-patch')) ||
    (verb === 'update' && isCreatedByUpdate(info));
  return creates ? [verb, 'create'] : [verb];
}

function nonResource(info: RequestInfo, { nonResourcePaths }: Facts): Decision {
  const path = info.path.length > 1 ? info.path.replace(/\/$/, '') : info.path;
  const open = OPEN_PATHS.some((pattern) => covers(pattern, path));
  if (!open && !nonResourcePaths.some((pattern) => covers(pattern, path)))
    return refuse.path(info, nonResourcePaths);
  if (info.method !== 'GET' && info.method !== 'HEAD') return refuse.method(info);
  return { allow: true, rule: open ? 'discovery' : 'non-resource-paths' };
}

/** As in RBAC: a `*` at the end stands for anything. */
function covers(pattern: string, path: string): boolean {
  return pattern.endsWith('*')
    ? path.startsWith(pattern.slice(0, -1))
    : pattern.replace(/(.)\/$/, '$1') === path;
}

function inNamespaces(info: RequestInfo, sides: readonly Limits[]): Decision {
  const bounded = sides.filter((side) => side.namespaces);
  const [first] = bounded;
  if (!first) return { allow: true, rule: 'grant' };
  const outside = (name: string): Limits | undefined =>
    bounded.find((side) => !side.namespaces?.admits(name));

  // The Namespace objects themselves: the allowed ones can be seen; changing one (its labels hold the Pod security
  // level) or deleting it with all that is in it has to be granted by name.
  if (info.apiGroup === '' && info.resource === 'namespaces') {
    if (info.namespace === '') {
      if (info.verb !== 'list' && info.verb !== 'watch') return refuse.clusterScope(info, first);
      const single = bounded.find((one) => one.namespaces?.list.length === 1)?.namespaces?.list[0];
      const only = single !== undefined && isExact(single) ? { only: single } : {};
      return {
        allow: true,
        rule: 'namespaces',
        narrow: { admits: (name) => outside(name) === undefined, ...only },
      };
    }
    const reads = info.verb === 'get' || info.verb === 'watch';
    const unnamed = sides.find(({ resources }) => resources && !namesExactly(resources, info));
    if (!reads && unnamed && !outside(info.namespace)) return refuse.namespaceObject(info, first);
  }
  if (info.namespace === '') return refuse.clusterScope(info, first);
  const side = outside(info.namespace);
  return side ? refuse.namespace(info, side) : { allow: true, rule: 'grant' };
}

function selfReview(info: RequestInfo): SelfReview | undefined {
  const { apiGroup, resource, method, name, namespace, subresource, verbFromPath } = info;
  if (method !== 'POST' || verbFromPath || name !== '' || namespace !== '' || subresource !== '')
    return undefined;
  if (apiGroup === 'authorization.k8s.io')
    return resource === 'selfsubjectaccessreviews' || resource === 'selfsubjectrulesreviews'
      ? resource
      : undefined;
  if (apiGroup === 'authentication.k8s.io' && resource === 'selfsubjectreviews') return resource;
  return undefined;
}
