// A kubeconfig, read strictly: one YAML document without anchors, tags or keys said twice, every key known. What is not
// understood is refused, because in this file an unread word can be the one that matters (`insecure-skip-tls-verify`
// misspelt, a second `token`). Messages name the place and never quote a value; the YAML parser's own messages show
// the lines around an error, and with them perhaps a token, so they are not used.

import { isMap, isPair, isScalar, parseAllDocuments, visit } from 'yaml';
import { z } from 'zod';
import { PosternError } from '../common/errors.ts';

const MAX_BYTES = 1024 * 1024;

const word = z.string().min(1).max(4096);
const text = z.string().max(MAX_BYTES);
const ignored = z
  .unknown()
  .optional()
  .transform(() => undefined);

const cluster = z.strictObject({
  server: word,
  'certificate-authority': text.optional(),
  'certificate-authority-data': text.optional(),
  'tls-server-name': text.optional(),
  'insecure-skip-tls-verify': z.boolean().optional(),
  'proxy-url': text.optional(),
  'disable-compression': z.boolean().optional(),
  extensions: ignored,
});

const exec = z.strictObject({
  apiVersion: word,
  command: word,
  args: z.array(text).nullish(),
  env: z.array(z.strictObject({ name: word, value: text })).nullish(),
  interactiveMode: text.optional(),
  provideClusterInfo: z.boolean().optional(),
  installHint: ignored,
});

const user = z.strictObject({
  token: text.optional(),
  tokenFile: text.optional(),
  username: text.optional(),
  password: text.optional(),
  'client-certificate': text.optional(),
  'client-certificate-data': text.optional(),
  'client-key': text.optional(),
  'client-key-data': text.optional(),
  as: text.optional(),
  'as-uid': text.optional(),
  'as-groups': z.array(text).optional(),
  'as-user-extra': z.record(z.string(), z.array(z.string())).optional(),
  exec: exec.nullish(),
  'auth-provider': z.unknown().optional(),
  extensions: ignored,
});

const context = z.strictObject({
  cluster: word,
  user: word,
  namespace: text.optional(),
  extensions: ignored,
});

const name = word;

const document = z.strictObject({
  apiVersion: z.literal('v1').optional(),
  kind: z.literal('Config').optional(),
  'current-context': text.nullish(),
  preferences: ignored,
  extensions: ignored,
  clusters: z.array(z.strictObject({ name, cluster })).nullish(),
  users: z.array(z.strictObject({ name, user })).nullish(),
  contexts: z.array(z.strictObject({ name, context })).nullish(),
});

export type Cluster = z.output<typeof cluster>;
export type User = z.output<typeof user>;
export type ExecPlugin = z.output<typeof exec>;
export type Context = z.output<typeof context>;

export interface Kubeconfig {
  readonly currentContext: string | undefined;
  readonly contexts: ReadonlyMap<string, Context>;
  readonly clusters: ReadonlyMap<string, Cluster>;
  readonly users: ReadonlyMap<string, User>;
}

/** @throws PosternError `invalid_input` naming the place, never a value */
export function parseKubeconfig(source: string): Kubeconfig {
  if (Buffer.byteLength(source) > MAX_BYTES) throw unusable(`it is larger than ${MAX_BYTES} bytes`);
  const parsed = document.safeParse(readYaml(source));
  if (!parsed.success) throw unusable(firstProblem(parsed.error));
  const { clusters, users, contexts, 'current-context': current } = parsed.data;
  return {
    currentContext: current ? current : undefined,
    contexts: byName('contexts', contexts, (entry) => entry.context),
    clusters: byName('clusters', clusters, (entry) => entry.cluster),
    users: byName('users', users, (entry) => entry.user),
  };
}

export function unusable(what: string, remedy?: string): PosternError {
  return new PosternError(
    'invalid_input',
    `kubeconfig: ${what}${remedy === undefined ? '' : `; ${remedy}`}`,
    {
      key: 'kubeconfig',
      ...(remedy === undefined ? {} : { remedy }),
    },
  );
}

function readYaml(source: string): unknown {
  const documents = parseAllDocuments(source, {
    prettyErrors: false,
    uniqueKeys: true,
    strict: true,
    stringKeys: true,
    merge: false,
    logLevel: 'error',
  });
  const only = documents[0];
  if (!only || documents.length !== 1 || !isMap(only.contents))
    throw unusable('it must be one YAML or JSON document, an object');
  const [problem] = only.errors;
  if (problem)
    throw unusable(
      `it is not valid YAML at character ${problem.pos[0]} (${problem.code.toLowerCase().replaceAll('_', ' ')})`,
    );
  visit(only, {
    Alias() {
      throw unusable('it uses a YAML alias', 'write the value out');
    },
    Node(_, node) {
      if (node.anchor !== undefined || node.tag !== undefined)
        throw unusable('it uses a YAML anchor or tag', 'write plain values');
    },
    Pair(_, pair) {
      if (isPair(pair) && isScalar(pair.key) && (pair.key.value === '<<' || pair.key.value === '__proto__'))
        throw unusable('it uses a merge key', 'write the values out');
    },
  });
  return only.toJS({ maxAliasCount: 0 });
}

/** Where the first problem is and of what kind, without the value. */
function firstProblem(error: z.ZodError): string {
  const [issue] = error.issues;
  const path = (issue?.path ?? [])
    .map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
    .join('');
  const at = path.replace(/^\./, '').slice(0, 120) || 'the document';
  if (issue?.code === 'unrecognized_keys')
    return `${at} has the unknown key ${issue.keys.map((key) => JSON.stringify(key.slice(0, 60))).join(', ')}`;
  if (issue?.code === 'invalid_type')
    return `${at} must be ${issue.expected === 'array' ? 'a list' : `of the type ${issue.expected}`}`;
  return `${at} cannot be used as it is`;
}

function byName<Entry extends { name: string }, T>(
  list: string,
  entries: readonly Entry[] | null | undefined,
  value: (entry: Entry) => T,
): Map<string, T> {
  const map = new Map<string, T>();
  for (const entry of entries ?? []) {
    if (map.has(entry.name))
      throw unusable(`${list} has two entries of the name ${JSON.stringify(entry.name.slice(0, 80))}`);
    map.set(entry.name, value(entry));
  }
  return map;
}
