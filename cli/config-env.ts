// POSTERN_… variables: one for every scalar of the configuration, taken before the values are checked, so that a bad
// one is refused like a bad key. Other names that begin so belong to the product's commands or to a workload's
// environment; a name that is none of these is probably a misspelled override, and doctor is told.

import { resolve } from 'node:path';
import { type ConfigProblem, suggest } from './config-problems.ts';
import type { Leaf } from './config-reference.ts';

type Env = { readonly [name: string]: string | undefined };
type Block = { [key: string]: unknown };

/** Names of the contract that are no overrides. */
export const OTHER_VARIABLES: readonly string[] = [
  'POSTERN_SECRET_KEY',
  'POSTERN_SERVER',
  'POSTERN_TOKEN_FILE',
  'POSTERN_CA_FILE',
  'POSTERN_GIT_URL',
  'POSTERN_GIT_SESSION',
  'POSTERN_GIT_MODE',
  'POSTERN_GIT_REPOS',
  'POSTERN_GIT_PUSH_REFS',
  'POSTERN_KUBE_SESSION',
  'POSTERN_KUBE_NAMESPACE',
  'POSTERN_KUBE_NAMESPACES',
  'POSTERN_KUBE_VERBS',
];

// What Kubernetes puts into every Pod beside a Service named `postern` or `postern-…`.
const SERVICE_LINK =
  /_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)$/;

export interface Overridden {
  readonly settings: unknown;
  /** Dotted key → the variable that set it. */
  readonly from: ReadonlyMap<string, string>;
}

/**
 * Lays the variables over what the file says. A relative path in a variable is relative to `cwd`, where whoever set it
 * was; one in the file is relative to the file. Choosing one store by a variable drops the file's choice of another.
 */
export function overrideFromEnv(
  settings: unknown,
  leaves: readonly Leaf[],
  env: Env,
  cwd: string,
): Overridden {
  const from = new Map<string, string>();
  const root: unknown = settings === null || settings === undefined ? {} : structuredClone(settings);
  for (const leaf of leaves) {
    const name = spellings(leaf).find((spelling) => env[spelling] !== undefined);
    const value = name === undefined ? undefined : env[name];
    if (name === undefined || value === undefined || !isBlock(root)) continue;
    if (!from.has('store.sqlite') && leaf.key.startsWith('store.')) delete root.store;
    if (!from.has('secretKey') && leaf.key.startsWith('secretKey.')) {
      delete root.secretKey;
      from.set('secretKey', name);
    }
    put(root, leaf.key.split('.'), convert(value, leaf, cwd));
    from.set(leaf.key, name);
  }
  return { settings: root, from };
}

/** `sessions.maxTtl` is POSTERN_SESSIONS_MAX_TTL; without the inner underscore it means the same. */
function spellings({ env, key }: Leaf): string[] {
  return env === undefined ? [] : [...new Set([env, `POSTERN_${key.replaceAll('.', '_').toUpperCase()}`])];
}

/** Variables that look like overrides and override nothing. */
export function unknownVariables(
  env: Env,
  leaves: readonly Leaf[],
  used: readonly string[],
): ConfigProblem[] {
  const overrides = leaves.flatMap(spellings);
  const known = new Set([...overrides, ...OTHER_VARIABLES, ...used]);
  return Object.keys(env)
    .filter((name) => name.startsWith('POSTERN_') && !known.has(name))
    .filter((name) => !name.startsWith('POSTERN_TEST_') && !SERVICE_LINK.test(name))
    .sort()
    .map((name) => ({ key: name, message: `overrides nothing and is not read${suggest(name, overrides)}` }));
}

/** A text that is not of the leaf's type is passed on as it is: the schema refuses it with the right words. */
function convert(text: string, leaf: Leaf, cwd: string): unknown {
  if (leaf.nullable && text === 'null') return null;
  if (leaf.type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  if (leaf.type === 'integer' && /^(?:0|[1-9]\d{0,15})$/.test(text)) return Number(text);
  if (leaf.kind === 'path' && text !== '') return resolve(cwd, text);
  return text;
}

function isBlock(value: unknown): value is Block {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function put(root: Block, path: readonly string[], value: unknown): void {
  let block = root;
  for (const name of path.slice(0, -1)) {
    const next = block[name];
    if (next !== undefined && next !== null && !isBlock(next)) return; // the schema refuses it with its own words
    const inner: Block = isBlock(next) ? next : {};
    block[name] = inner;
    block = inner;
  }
  block[path[path.length - 1] ?? ''] = value;
}
