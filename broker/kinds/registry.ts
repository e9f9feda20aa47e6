// Logins of container registries. Payload: a docker configuration (`{"auths": {…}}`), or `user:password`, which belongs
// to the registries that the grant names. What is delivered holds the allowed registries and no other; helpers and
// stores that the document points at are programs of the host that wrote it, and never travel.

import { Credential } from '../../common/credential.ts';
import { type Constraints, onlyFor, requireOne } from '../constraints/constraints.ts';
import { checkHostPattern, coversHost, normaliseHost } from '../constraints/host.ts';
import type { KindRules } from './kind-rules.ts';
import { jsonObject, malformed, nothingLeft, textOf } from './payload.ts';

/** Registry as the document names it → its entry, as JSON. */
type Logins = { readonly [registry: string]: Credential };

const WHAT = 'registry login';

export const registry: KindRules<Logins> = {
  kind: 'registry',
  constraints: ['registries'],
  inspect(payload) {
    const parsed = parse(payload);
    return typeof parsed === 'string' ? [] : Object.keys(parsed).sort();
  },
  credentials(payload) {
    const parsed = parse(payload);
    return typeof parsed === 'string' ? [parsed, parsed.replace(/^[^:]*:/, '')] : [payload.toString('utf8')];
  },
  checkConstraints(constraints) {
    onlyFor(constraints, ['registries'], WHAT);
    requireOne(constraints, ['registries'], WHAT);
    for (const pattern of constraints.registries ?? []) checkHostPattern(pattern, 'constraints.registries');
  },
  minimise(payload, constraints) {
    const parsed = parse(payload);
    return typeof parsed === 'string' ? forNamed(parsed, constraints) : filter(parsed, constraints);
  },
  materialise: (logins) => ({
    type: 'registry',
    logins,
    summary: `registries ${Object.keys(logins).sort().join(', ')}`,
  }),
};

export function allowsRegistry(constraints: Constraints, name: string): boolean {
  const host = registryHost(name);
  return host !== undefined && coversHost(constraints.registries ?? [], host);
}

/** Docker writes `https://index.docker.io/v1/` for its own registry; others may add a port or a path. */
function registryHost(name: string): string | undefined {
  try {
    return normaliseHost(name.replace(/^https?:\/\//, '').replace(/\/.*$/s, ''));
  } catch {
    return undefined;
  }
}

function parse(payload: Buffer): string | { [name: string]: object } {
  const text = textOf(payload, WHAT).trim();
  if (!text.startsWith('{')) {
    if (!/^[^:\s]+:[^\s]+$/.test(text))
      throw malformed(WHAT, 'it is neither a docker configuration nor user:password');
    return text;
  }
  const { auths } = jsonObject(text, WHAT);
  if (typeof auths !== 'object' || auths === null || Array.isArray(auths) || Object.keys(auths).length === 0)
    throw malformed(WHAT, 'it has no auths');
  const entries = Object.entries(auths as object).map(([name, entry]): [string, object] => {
    if (registryHost(name) === undefined)
      throw malformed(WHAT, 'a name among its auths is not that of a registry');
    return [name, readLogin(entry)];
  });
  return Object.fromEntries(entries);
}

/** The members that a client reads, and only where they are text. */
function readLogin(entry: unknown): object {
  if (typeof entry !== 'object' || entry === null)
    throw malformed(WHAT, 'an entry of its auths is not an object');
  const login: { [key: string]: string } = {};
  for (const key of ['auth', 'username', 'password', 'email', 'identitytoken', 'registrytoken']) {
    const value = (entry as { [key: string]: unknown })[key];
    if (typeof value === 'string' && value !== '') login[key] = value;
  }
  if (!login.auth && !login.password && !login.identitytoken && !login.registrytoken)
    throw malformed(
      WHAT,
      'an entry of its auths has no login; a document that points at a credential helper has none',
    );
  return login;
}

function filter(auths: { [name: string]: object }, constraints: Constraints): Logins {
  const kept = Object.entries(auths).filter(([name]) => allowsRegistry(constraints, name));
  if (kept.length === 0) throw nothingLeft('The secret has no login for a registry that the grant allows.');
  return Object.fromEntries(kept.map(([name, entry]) => [name, new Credential(JSON.stringify(entry))]));
}

function forNamed(login: string, constraints: Constraints): Logins {
  const named = (constraints.registries ?? []).filter((pattern) => !pattern.includes('*'));
  if (named.length === 0)
    throw nothingLeft(
      'A user:password login does not say its registry, and the grant names none, only patterns.',
    );
  const entry = new Credential(JSON.stringify({ auth: Buffer.from(login).toString('base64') }));
  return Object.fromEntries(named.map((name) => [name, entry]));
}
