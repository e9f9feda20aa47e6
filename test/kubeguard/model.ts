// What should get through, said a second time and as plainly as possible, to be compared with what does. It knows nothing of
// the guard's code: a request comes as the parts that it was made of, never as a path to be read, and every rule is
// spelled out by its own loop over words. Slow and naive on purpose.

export interface Rules {
  readonly verbs: readonly string[];
  readonly namespaces: readonly string[];
  readonly resources: readonly string[];
  readonly nonResourcePaths?: readonly string[];
}

export interface Asked {
  readonly method: string;
  /** Absent: a path outside the API. */
  readonly resource?: {
    readonly group: string;
    readonly version: string;
    readonly namespace: string;
    readonly plural: string;
    readonly name: string;
    readonly subresource: string;
    /** `/watch/` or `/proxy/` before it. */
    readonly prefix: '' | 'watch' | 'proxy';
  };
  readonly path?: string;
  readonly watch?: string;
  readonly contentType?: string;
}

const READING = ['get', 'list', 'watch'];
const EVERY = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection'];

export function mayPass(grant: Rules, ceiling: Rules, asked: Asked): boolean {
  if (!['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'].includes(asked.method)) return false;
  if (asked.path !== undefined) return passesOutside(grant, asked.path, asked.method);
  const { resource: thing } = asked;
  if (!thing) return false;
  if (asksAboutItself(asked)) return true;
  const grantVerbs = grant.verbs.length === 0 ? READING : grant.verbs.includes('*') ? EVERY : grant.verbs;
  const ceilingVerbs = ceiling.verbs.length === 0 || ceiling.verbs.includes('*') ? EVERY : ceiling.verbs;
  const mayDo = (verb: string): boolean => grantVerbs.includes(verb) && ceilingVerbs.includes(verb);

  if (thing.prefix === 'proxy') return false;
  if (isDoor(thing)) {
    if (thing.prefix !== '') return false;
    if (!named(grant.resources, thing)) return false;
    if (ceiling.resources.length > 0 && !named(ceiling.resources, thing)) return false;
    if (!mayDo('create')) return false;
  } else {
    if (thing.prefix === 'watch' && asked.method !== 'GET') return false;
    const verb = verbOf(asked);
    if (!mayDo(verb)) return false;
    if (verb === 'patch' && asked.contentType === 'application/apply-patch+yaml' && !mayDo('create'))
      return false;
    if (verb === 'update' && madeByPut(thing) && !mayDo('create')) return false;
    if (!covered(grant.resources, thing)) return false;
    if (ceiling.resources.length > 0 && !covered(ceiling.resources, thing)) return false;
  }

  const lists = [grant.namespaces, ceiling.namespaces].filter((list) => list.length > 0);
  if (lists.length === 0) return true;
  const inside = (name: string): boolean => lists.every((list) => list.some((glob) => fits(glob, name)));
  if (thing.plural === 'namespaces' && thing.group === '') {
    const verb = verbOf(asked);
    if (thing.name === '') return verb === 'list' || verb === 'watch';
    if (!inside(thing.name)) return false;
    if (verb === 'get' || verb === 'watch') return true;
    const spelled = (list: readonly string[]): boolean =>
      ['namespaces', 'namespaces/*', `namespaces/${thing.subresource}`].some((word) => list.includes(word));
    return spelled(grant.resources) && (ceiling.resources.length === 0 || spelled(ceiling.resources));
  }
  // In any group, what stands behind `namespaces/` is read as the namespace.
  const namespace = thing.plural === 'namespaces' ? thing.name : thing.namespace;
  return namespace !== '' && inside(namespace);
}

function verbOf({ method, resource: thing, watch }: Asked): string {
  if (thing?.prefix === 'watch') return 'watch';
  if (method === 'POST') return 'create';
  if (method === 'PUT') return 'update';
  if (method === 'PATCH') return 'patch';
  if (method === 'DELETE') return thing?.name === '' ? 'deletecollection' : 'delete';
  if (thing?.name !== '') return 'get';
  return watch === undefined || watch === '0' || watch === 'false' ? 'list' : 'watch';
}

function passesOutside(grant: Rules, path: string, method: string): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  const open = ['/api', '/apis', '/version', '/openapi', '/healthz', '/livez', '/readyz'];
  const below = ['/api/', '/apis/', '/openapi/', '/healthz/', '/livez/', '/readyz/'];
  if (open.includes(path) || below.some((start) => path.startsWith(start))) return true;
  for (const granted of grant.nonResourcePaths ?? []) {
    if (granted === path) return true;
    if (granted.endsWith('/*') && path.startsWith(granted.slice(0, -1))) return true;
  }
  return false;
}

function asksAboutItself({ method, resource: thing }: Asked): boolean {
  if (method !== 'POST' || !thing || thing.namespace || thing.name || thing.subresource || thing.prefix)
    return false;
  const both = `${thing.group}/${thing.plural}`;
  return [
    'authorization.k8s.io/selfsubjectaccessreviews',
    'authorization.k8s.io/selfsubjectrulesreviews',
    'authentication.k8s.io/selfsubjectreviews',
  ].includes(both);
}

type Thing = NonNullable<Asked['resource']>;

function isDoor({ plural, subresource }: Thing): boolean {
  if (['exec', 'attach', 'portforward', 'proxy', 'ephemeralcontainers'].includes(subresource)) return true;
  if (plural === 'serviceaccounts' && subresource === 'token') return true;
  return plural === 'certificatesigningrequests' && subresource === 'approval';
}

/** Of the kinds that are tried here, those that an API server makes where a PUT finds none. */
function madeByPut({ group, plural, subresource }: Thing): boolean {
  if (subresource !== '') return false;
  return group === '' ? plural === 'services' : group === 'coordination.k8s.io' && plural === 'leases';
}

/** Spelled with its subresource, or by `/*`. */
function named(list: readonly string[], { plural, group, subresource }: Thing): boolean {
  for (const rule of list) {
    const [front = '', sub] = rule.split('/');
    if (sub !== subresource && sub !== '*') continue;
    if (frontFits(front, plural, group)) return true;
  }
  return false;
}

function covered(list: readonly string[], thing: Thing): boolean {
  if (list.length === 0) return thing.plural !== 'secrets';
  for (const rule of list) {
    const [front = '', sub] = rule.split('/');
    if (!frontFits(front, thing.plural, thing.group)) continue;
    if (sub === undefined || sub === '*' || sub === thing.subresource) return true;
  }
  return false;
}

function frontFits(front: string, plural: string, group: string): boolean {
  if (front === '*') return true;
  const dot = front.indexOf('.');
  if (dot < 0) return front === plural;
  return (front.slice(0, dot) === '*' || front.slice(0, dot) === plural) && front.slice(dot + 1) === group;
}

/** `*` only. */
function fits(glob: string, name: string): boolean {
  const star = glob.indexOf('*');
  if (star < 0) return glob === name;
  const [before, after] = [glob.slice(0, star), glob.slice(star + 1)];
  return name.length >= before.length + after.length && name.startsWith(before) && name.endsWith(after);
}

export function targetOf({ resource: thing, path, watch }: Asked): string {
  const query = watch === undefined ? '' : `?watch=${watch}`;
  if (path !== undefined) return path + query;
  if (!thing) return '/';
  const parts = thing.group === '' ? ['api', thing.version] : ['apis', thing.group, thing.version];
  if (thing.prefix) parts.push(thing.prefix);
  if (thing.namespace && thing.plural !== 'namespaces') parts.push('namespaces', thing.namespace);
  parts.push(thing.plural);
  if (thing.name) parts.push(thing.name);
  if (thing.name && thing.subresource) parts.push(thing.subresource);
  return `/${parts.join('/')}${query}`;
}
