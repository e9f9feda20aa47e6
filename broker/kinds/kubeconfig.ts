// A kubeconfig, cut down to what the grant allows: the contexts that survive, the clusters and users that they use, one
// allowed namespace pinned on each. What is taken out can't be got back from the result. The Kubernetes guard takes the
// reduced document into custody and keeps namespaces, verbs and resources on every request; where that guard is switched
// off the reduced document itself is delivered, and then a document that runs programs or points at files of this host
// is refused.

import { Document, parseDocument, visit } from 'yaml';
import { Credential } from '../../common/credential.ts';
import { isExact } from '../../common/glob.ts';
import { compact } from '../compact.ts';
import { type Constraints, onlyFor, requireOne } from '../constraints/constraints.ts';
import { allowsContext, allowsNamespace, checkKube, kubeVerbs } from '../constraints/kube.ts';
import type { KindRules } from './kind-rules.ts';
import { malformed, nothingLeft, textOf } from './payload.ts';

const WHAT = 'kubeconfig';
type Mapping = { readonly [key: string]: unknown };

export interface KubeContext {
  readonly name: string;
  readonly cluster: string;
  readonly user: string;
  readonly namespace?: string;
}

/** The parts of a kubeconfig that are ever looked at; entries of clusters and users are carried as they are. */
export interface Kubeconfig {
  readonly current?: string;
  readonly contexts: readonly KubeContext[];
  readonly clusters: ReadonlyMap<string, Mapping>;
  readonly users: ReadonlyMap<string, Mapping>;
}

export const kubeconfig: KindRules<{ readonly document: Kubeconfig; readonly constraints: Constraints }> = {
  kind: 'kubeconfig',
  constraints: ['contexts', 'namespaces', 'verbs', 'resources'],
  inspect: (payload) => parseKubeconfig(textOf(payload, WHAT)).contexts.map(({ name }) => name),
  credentials: (payload) => [payload.toString('utf8')],
  checkConstraints(constraints) {
    onlyFor(constraints, ['contexts', 'namespaces', 'verbs', 'resources'], WHAT);
    requireOne(constraints, ['namespaces', 'contexts'], WHAT);
    checkKube(constraints, 'constraints');
  },
  minimise: (payload, constraints) => ({
    document: minimiseKubeconfig(parseKubeconfig(textOf(payload, WHAT)), constraints),
    constraints,
  }),
  materialise({ document, constraints }, { grant }) {
    const { secretId, secretName, grantId } = grant.ref;
    return {
      type: 'kube',
      cluster: {
        kubeconfig: new Credential(printKubeconfig(document)),
        contexts: document.contexts.map(({ name }) => name),
        ...compact({ namespaces: constraints.namespaces, resources: constraints.resources }),
        verbs: kubeVerbs(constraints),
        secretId,
        secretName,
        grantId,
      },
    };
  },
};

/** @throws PosternError `invalid_input`; the parser's own message is dropped, it quotes the text */
export function parseKubeconfig(text: string): Kubeconfig {
  const document = parseDocument(text, { uniqueKeys: true, logLevel: 'silent', strict: true });
  if (document.errors.length > 0) throw malformed(WHAT, 'it is not one YAML document');
  visit(document, {
    Alias() {
      throw malformed(WHAT, 'it has YAML aliases');
    },
  });
  const root: unknown = document.toJS();
  if (!isMapping(root) || (root.kind ?? 'Config') !== 'Config')
    throw malformed(WHAT, 'its kind is not Config');
  const clusters = named(root.clusters, 'clusters', 'cluster');
  const users = named(root.users, 'users', 'user');
  const contexts = [...named(root.contexts, 'contexts', 'context')].map(([name, context]) => {
    const { cluster, user, namespace } = context;
    if (typeof cluster !== 'string' || !clusters.has(cluster))
      throw malformed(WHAT, 'a context names no cluster of it');
    if (typeof user !== 'string' || !users.has(user)) throw malformed(WHAT, 'a context names no user of it');
    if (namespace !== undefined && typeof namespace !== 'string')
      throw malformed(WHAT, 'a namespace is not a name');
    return { name, cluster, user, ...compact({ namespace: namespace || undefined }) };
  });
  if (contexts.length === 0) throw malformed(WHAT, 'it has no context');
  const current = root['current-context'];
  return {
    contexts,
    clusters,
    users,
    ...compact({ current: typeof current === 'string' ? current : undefined }),
  };
}

/** Each entry is `{name, <member>: {…}}`; two of one name make it a guess which is meant. */
function named(list: unknown, plural: string, member: string): Map<string, Mapping> {
  const found = new Map<string, Mapping>();
  if (list === undefined || list === null) return found;
  if (!Array.isArray(list)) throw malformed(WHAT, `its ${plural} are not a list`);
  for (const entry of list as unknown[]) {
    const body = isMapping(entry) ? entry[member] : undefined;
    if (!isMapping(entry) || typeof entry.name !== 'string' || entry.name === '' || !isMapping(body))
      throw malformed(WHAT, `an entry of its ${plural} has no name or no ${member}`);
    if (found.has(entry.name)) throw malformed(WHAT, `two of its ${plural} have one name`);
    found.set(entry.name, body);
  }
  return found;
}

/**
 * - a context survives where the grant allows its name;
 * - where the grant lists namespaces, each is pinned to one: its own where that is allowed, else the first that the list
 *   names outright; a context that can't be pinned is dropped, not guessed at;
 * - clusters and users that no surviving context uses are left out.
 * @throws PosternError `nothing_left`: an empty document would look like a credential that mysteriously fails
 */
export function minimiseKubeconfig(document: Kubeconfig, constraints: Constraints): Kubeconfig {
  const contexts = document.contexts
    .filter(({ name }) => allowsContext(constraints, name))
    .map((context) => pin(context, constraints))
    .filter((context) => context !== undefined);
  const first = contexts[0];
  if (first === undefined)
    throw nothingLeft('No context of the kubeconfig is left under the constraints of the grant.');
  const used = (map: ReadonlyMap<string, Mapping>, key: 'cluster' | 'user') =>
    new Map([...map].filter(([name]) => contexts.some((context) => context[key] === name)));
  return {
    current: contexts.find(({ name }) => name === document.current)?.name ?? first.name,
    contexts,
    clusters: used(document.clusters, 'cluster'),
    users: used(document.users, 'user'),
  };
}

function pin(context: KubeContext, constraints: Constraints): KubeContext | undefined {
  if (!constraints.namespaces?.length) return context;
  const own = context.namespace ?? 'default';
  if (allowsNamespace(constraints, own)) return { ...context, namespace: own };
  const namespace = constraints.namespaces.find(isExact);
  return namespace === undefined ? undefined : { ...context, namespace };
}

/** The document as kubectl reads it. */
export function printKubeconfig({ current, contexts, clusters, users }: Kubeconfig): string {
  const entries = (map: ReadonlyMap<string, Mapping>, member: string) =>
    [...map].map(([name, body]) => ({ name, [member]: body }));
  return new Document(
    {
      apiVersion: 'v1',
      kind: 'Config',
      ...compact({ 'current-context': current }),
      contexts: contexts.map(({ name, ...context }) => ({ name, context })),
      clusters: entries(clusters, 'cluster'),
      users: entries(users, 'user'),
    },
    { aliasDuplicateObjects: false },
  ).toString({ lineWidth: 0 });
}

/** `prod (team-a), staging`: names only. */
export function describeKubeconfig({ contexts }: Kubeconfig): string {
  return contexts.map(({ name, namespace }) => (namespace ? `${name} (${namespace})` : name)).join(', ');
}

const POINTS_OUTSIDE = [
  'exec',
  'auth-provider',
  'client-certificate',
  'client-key',
  'tokenFile',
  'certificate-authority',
];

/**
 * Why a document can't be handed to a sandbox as it is: it would run a program or read a file that only this host has.
 * `undefined` where it can.
 */
export function hostBound({ clusters, users }: Kubeconfig): string | undefined {
  for (const entry of [...clusters.values(), ...users.values()])
    for (const key of POINTS_OUTSIDE) if (entry[key] !== undefined) return key;
  return undefined;
}

/** Several documents as one; names that two of them use are told apart by the name of the secret. */
export function mergeKubeconfigs(
  documents: readonly { readonly from: string; readonly document: Kubeconfig }[],
): Kubeconfig {
  const contexts: KubeContext[] = [];
  const clusters = new Map<string, Mapping>();
  const users = new Map<string, Mapping>();
  const taken = (name: string): boolean => contexts.some((context) => context.name === name);
  documents.forEach(({ from, document }, i) => {
    // Entries are renamed always: a cluster of one document and a user of another must never meet under one name.
    const prefix = documents.length === 1 ? '' : `${from}-${i + 1}/`;
    for (const [name, body] of document.clusters) clusters.set(prefix + name, body);
    for (const [name, body] of document.users) users.set(prefix + name, body);
    for (const context of document.contexts) {
      let name = context.name;
      for (let n = 1; taken(name); n++)
        name = n === 1 ? `${context.name}-${from}` : `${context.name}-${from}-${n}`;
      contexts.push({ ...context, name, cluster: prefix + context.cluster, user: prefix + context.user });
    }
  });
  const current = documents[0]?.document.current;
  return { contexts, clusters, users, ...compact({ current }) };
}

function isMapping(value: unknown): value is Mapping {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
