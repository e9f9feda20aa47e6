// Who may be asking, and what each may do: a table of users with bearer tokens, passwords and RBAC-like rules, that
// tests change while the server runs. `system:masters` may do everything, everybody signed in may read discovery and
// review himself.

import { randomBytes } from 'node:crypto';

export interface Rule {
  verbs: readonly string[];
  apiGroups?: readonly string[];
  /** `pods`, `pods/exec`, `*`; subresources are apart from their resource, as in RBAC. */
  resources?: readonly string[];
  resourceNames?: readonly string[];
  /** Where the rule holds, as a RoleBinding would say; absent: everywhere, cluster-scoped resources included. */
  namespaces?: readonly string[];
  nonResourceURLs?: readonly string[];
}

export interface UserSpec {
  name: string;
  uid?: string;
  groups?: readonly string[];
  tokens?: readonly string[];
  password?: string;
  rules?: readonly Rule[];
}

export interface Identity {
  username: string;
  uid: string;
  groups: readonly string[];
}

/** What a request wants, in the terms of an authorizer. */
export interface Attributes {
  verb: string;
  group: string;
  resource: string;
  subresource: string;
  namespace: string;
  name: string;
  /** Set for requests that are for no resource. */
  path?: string;
}

const EVERYBODY: readonly Rule[] = [
  {
    verbs: ['create'],
    apiGroups: ['authorization.k8s.io'],
    resources: ['selfsubjectaccessreviews', 'selfsubjectrulesreviews'],
  },
  { verbs: ['create'], apiGroups: ['authentication.k8s.io'], resources: ['selfsubjectreviews'] },
  {
    verbs: ['get'],
    nonResourceURLs: [
      '/api',
      '/api/*',
      '/apis',
      '/apis/*',
      '/healthz',
      '/livez',
      '/openapi',
      '/openapi/*',
      '/readyz',
      '/version',
      '/version/',
    ],
  },
];
const MASTERS: readonly Rule[] = [
  { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
  { verbs: ['*'], nonResourceURLs: ['*'] },
];

export interface Users {
  add(spec: UserSpec): void;
  names(): string[];
  byToken(token: string): Identity | undefined;
  byPassword(name: string, password: string): Identity | undefined;
  /** A user of the table, or what a certificate says of one that isn't in it. */
  identity(name: string, groups?: readonly string[]): Identity;
  rulesFor(identity: Identity): readonly Rule[];
  allows(identity: Identity, attributes: Attributes): boolean;
  /** A token that works now. @throws Error for a user without one */
  tokenOf(name: string): string;
  passwordOf(name: string): string;
  /** Gives a user a new token and makes the ones before it worthless. */
  rotate(name: string): string;
  /** A further token for a user, which need not be in the table (service accounts). */
  issue(name: string, groups: readonly string[], token: string): void;
  /** Nobody is admitted with it from now on. */
  revoke(token: string): void;
}

export function createUsers(specs: readonly UserSpec[]): Users {
  const table = new Map<string, UserSpec>();
  const tokens = new Map<string, { name: string; groups: readonly string[] }>();

  const identity = (name: string, groups: readonly string[] = []): Identity => {
    const spec = table.get(name);
    const all = new Set([...(spec?.groups ?? []), ...groups, 'system:authenticated']);
    return { username: name, uid: spec?.uid ?? '', groups: [...all] };
  };
  const rulesFor = (who: Identity): readonly Rule[] => [
    ...(who.groups.includes('system:masters') ? MASTERS : []),
    ...(table.get(who.username)?.rules ?? []),
    ...EVERYBODY,
  ];
  const add = (spec: UserSpec): void => {
    table.set(spec.name, spec);
    for (const token of spec.tokens ?? []) tokens.set(token, { name: spec.name, groups: [] });
  };
  for (const spec of specs) add(spec);

  return {
    add,
    names: () => [...table.keys()],
    byToken(token) {
      const owner = tokens.get(token);
      return owner && identity(owner.name, owner.groups);
    },
    byPassword(name, password) {
      const spec = table.get(name);
      return spec?.password !== undefined && spec.password === password ? identity(name) : undefined;
    },
    identity,
    rulesFor,
    allows: (who, attributes) => rulesFor(who).some((rule) => covers(rule, attributes)),
    tokenOf(name) {
      for (const [token, owner] of tokens) if (owner.name === name) return token;
      throw new Error(`the test user ${name} has no token`);
    },
    passwordOf(name) {
      const password = table.get(name)?.password;
      if (password === undefined) throw new Error(`the test user ${name} has no password`);
      return password;
    },
    rotate(name) {
      for (const [token, owner] of tokens) if (owner.name === name) tokens.delete(token);
      const token = `${name}-${randomBytes(24).toString('base64url')}`;
      tokens.set(token, { name, groups: [] });
      return token;
    },
    issue: (name, groups, token) => void tokens.set(token, { name, groups }),
    revoke: (token) => void tokens.delete(token),
  };
}

function covers(rule: Rule, wanted: Attributes): boolean {
  const has = (list: readonly string[] | undefined, value: string): boolean =>
    list !== undefined && (list.includes('*') || list.includes(value));
  if (!has(rule.verbs, wanted.verb)) return false;
  if (wanted.path !== undefined) {
    const path = wanted.path;
    return (rule.nonResourceURLs ?? []).some(
      (url) => url === '*' || url === path || (url.endsWith('*') && path.startsWith(url.slice(0, -1))),
    );
  }
  const full = wanted.subresource ? `${wanted.resource}/${wanted.subresource}` : wanted.resource;
  const resources = rule.resources ?? [];
  if (!has(resources, full) && !(wanted.subresource && resources.includes(`*/${wanted.subresource}`)))
    return false;
  if (!has(rule.apiGroups ?? [''], wanted.group)) return false;
  if (rule.namespaces && !has(rule.namespaces, wanted.namespace)) return false;
  if (rule.namespaces && wanted.namespace === '') return false;
  return !rule.resourceNames || rule.resourceNames.includes(wanted.name);
}
