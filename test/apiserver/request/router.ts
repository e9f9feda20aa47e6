// From a decoded path and a method to what serves it, in the shapes of go-restful's route table: a path that no
// template has is 404, one that a template has without this method is 405. `{name}` matches an empty part, as there.

import type { Registry, ResourceType, Subresource } from '../kinds/resources.ts';

export type Action =
  | 'list'
  | 'create'
  | 'deletecollection'
  | 'get'
  | 'update'
  | 'patch'
  | 'delete'
  | 'watch'
  | 'connect';

export interface ResourceRoute {
  type: ResourceType;
  action: Action;
  namespace: string;
  name: string;
  subresource: Subresource | undefined;
  /** What follows `proxy/`. */
  rest: string;
}

export type Routed = ResourceRoute | 'not-found' | 'method-not-allowed' | 'not-api';

const ITEM_ACTIONS: Record<string, Action> = { GET: 'get', PUT: 'update', PATCH: 'patch', DELETE: 'delete' };
const COLLECTION_ACTIONS: Record<string, Action> = {
  GET: 'list',
  POST: 'create',
  DELETE: 'deletecollection',
};

/** `not-api` where no served group and version owns the path: another handler answers. */
export function routeResource(method: string, path: string, registry: Registry): Routed {
  const owner = /^\/api\/([^/]+)(?=\/)()/.exec(path) ?? /^\/apis\/([^/]+)\/([^/]+)(?=\/)/.exec(path);
  if (!owner) return 'not-api';
  const [prefix, one = '', two = ''] = owner;
  const group = two === '' ? '' : one;
  const version = two === '' ? one : two;
  if (!registry.hasVersion(group, version)) return 'not-api';
  const tail = path.slice(prefix.length + 1).replace(/\/+$/, '');
  if (tail === '') return 'not-api';
  const tokens = tail.split('/');

  const watching = tokens[0] === 'watch';
  if (watching) tokens.shift();
  const find = (resource: string | undefined): ResourceType | undefined =>
    registry.find(group, version, resource ?? '');

  let namespace = '';
  let scoped = false;
  const isNamespaceItself = tokens.length <= 2 || tokens[2] === 'status' || tokens[2] === 'finalize';
  if (tokens[0] === 'namespaces' && !isNamespaceItself) {
    namespace = tokens[1] ?? '';
    scoped = true;
    tokens.splice(0, 2);
  }
  const type = find(tokens[0]);
  if (!type || (scoped && !type.namespaced)) return 'not-found';
  const [, name, subName, ...more] = tokens;
  const base = { type, namespace, name: name ?? '', subresource: undefined, rest: '' };
  const allLists = type.namespaced && !scoped;

  if (watching) {
    if (!type.verbs.includes('watch') || tokens.length > 2 || (allLists && name !== undefined))
      return 'not-found';
    return method === 'GET' ? { ...base, action: 'watch' } : 'method-not-allowed';
  }
  if (name === undefined) {
    if (allLists && !type.verbs.includes('list')) return 'not-found';
    const action = COLLECTION_ACTIONS[method];
    if (!action || !type.verbs.includes(action) || (allLists && action !== 'list'))
      return 'method-not-allowed';
    return { ...base, action };
  }
  if (allLists) return 'not-found';
  if (subName === undefined) {
    if (!type.verbs.includes('get')) return 'not-found';
    const action = ITEM_ACTIONS[method];
    return action && type.verbs.includes(action) ? { ...base, action } : 'method-not-allowed';
  }
  const subresource = type.subresources.find((sub) => sub.name === subName);
  if (!subresource) return 'not-found';
  if (subName === 'proxy') return { ...base, action: 'connect', subresource, rest: more.join('/') };
  if (more.length > 0) return 'not-found';
  if (['exec', 'attach', 'portforward'].includes(subName))
    return method === 'GET' || method === 'POST'
      ? { ...base, action: 'connect', subresource }
      : 'method-not-allowed';
  const action = method === 'POST' ? 'create' : ITEM_ACTIONS[method];
  return action && subresource.verbs.includes(action)
    ? { ...base, action, subresource }
    : 'method-not-allowed';
}
