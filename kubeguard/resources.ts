// Resources as kubectl writes them: `pods`, `pods/log`, `deployments.apps`, `*.apps`, `*/scale`, `*`, `*/*`. A name
// without a group stands for that resource in every group, and no pattern knows versions: what is left out is left out
// of every version. A pattern without a subresource admits the harmless ones; the dangerous ones (identity handed out,
// a door into a workload or around the API) are admitted only where the pattern names them, or by `/*`.

import { PosternError } from '../common/errors.ts';
import { distance } from './verbs.ts';

/** What of a RequestInfo the patterns look at. */
export interface ResourceName {
  readonly apiGroup: string;
  readonly resource: string;
  readonly subresource: string;
}

const DOORS: ReadonlySet<string> = new Set(['exec', 'attach', 'portforward', 'proxy', 'ephemeralcontainers']);

/**
 * exec, attach, portforward and proxy whatever they are of (an aggregated API has them too), debug containers, tokens of
 * service accounts and the approval of certificates. `/api/v1/proxy/…`, the old spelling, is one by its verb.
 */
export function isDangerous({ resource, subresource }: ResourceName, verb = ''): boolean {
  if (verb === 'proxy' || DOORS.has(subresource)) return true;
  if (subresource === 'token') return resource === 'serviceaccounts';
  return subresource === 'approval' && resource === 'certificatesigningrequests';
}

/** Secrets, and the pull secrets that OpenShift hands out as a subresource of image streams. */
export function isSecret({ resource, subresource }: ResourceName): boolean {
  return resource === 'secrets' || subresource === 'secrets';
}

/**
 * Kinds that the API server makes where a PUT finds none (AllowCreateOnUpdate of their strategies in pkg/registry), over
 * all its versions. Custom resources are not; an aggregated API can have more.
 */
const CREATED_BY_UPDATE: ReadonlySet<string> = new Set([
  ...['endpoints', 'events', 'limitranges', 'services'].map((name) => `${name}.`),
  ...['roles', 'rolebindings', 'clusterroles', 'clusterrolebindings'].map(
    (name) => `${name}.rbac.authorization.k8s.io`,
  ),
  'leases.coordination.k8s.io',
  'leasecandidates.coordination.k8s.io',
  'events.events.k8s.io',
  'runtimeclasses.node.k8s.io',
]);

export function isCreatedByUpdate({ apiGroup, resource, subresource }: ResourceName): boolean {
  return subresource === '' && CREATED_BY_UPDATE.has(`${resource}.${apiGroup}`);
}

export interface ResourcePattern {
  readonly text: string;
  /** `*` or a name. */
  readonly resource: string;
  /** Absent or `*`: any group. */
  readonly group?: string;
  /** Absent: the thing itself and its harmless subresources. `*`: all of them. */
  readonly subresource?: string;
}

const NAME = '[a-z0-9](?:[a-z0-9-]*[a-z0-9])?';
const PATTERN = new RegExp(
  `^(\\*|${NAME})(?:\\.(\\*|${NAME}(?:\\.${NAME})*))?(?:/(\\*|[a-z0-9][a-z0-9_-]*))?$`,
);
const VERSION = /^v[0-9]+(?:(?:alpha|beta)[0-9]+)?(?:\.|$)/;

/** Singulars and short names that kubectl resolves with the cluster's help; the guard does not ask it. */
const PLURALS = new Map(
  `po:pods svc:services cm:configmaps ns:namespaces no:nodes sa:serviceaccounts ep:endpoints ev:events
   pv:persistentvolumes pvc:persistentvolumeclaims rc:replicationcontrollers quota:resourcequotas
   limits:limitranges deploy:deployments ds:daemonsets rs:replicasets sts:statefulsets cj:cronjobs
   hpa:horizontalpodautoscalers ing:ingresses ingress:ingresses netpol:networkpolicies
   networkpolicy:networkpolicies pdb:poddisruptionbudgets crd:customresourcedefinitions sc:storageclasses
   storageclass:storageclasses csr:certificatesigningrequests pc:priorityclasses pod:pods secret:secrets
   service:services node:nodes namespace:namespaces configmap:configmaps deployment:deployments
   daemonset:daemonsets replicaset:replicasets statefulset:statefulsets job:jobs cronjob:cronjobs
   event:events role:roles rolebinding:rolebindings clusterrole:clusterroles
   clusterrolebinding:clusterrolebindings serviceaccount:serviceaccounts log:pods/log logs:pods/log
   exec:pods/exec attach:pods/attach port-forward:pods/portforward portforward:pods/portforward
   scale:*/scale crds:customresourcedefinitions all:*`
    .split(/\s+/)
    .map((pair) => pair.split(':') as [string, string]),
);

const SUBRESOURCES = [
  ...DOORS,
  ...'token approval log status scale eviction binding finalize resize secrets'.split(' '),
];

/** @throws PosternError `invalid_input` naming the text and what to write */
export function parseResource(text: string, key = 'resources'): ResourcePattern {
  const [, resource, group, subresource] = PATTERN.exec(text) ?? [];
  const problem =
    resource === undefined
      ? 'cannot be read; write pods, pods/log, deployments.apps, *.apps, * or */*, in lower case'
      : wordProblem(resource, group, subresource);
  if (resource === undefined || problem !== undefined)
    throw new PosternError('invalid_input', `${key}: ${JSON.stringify(text.slice(0, 80))} ${problem}`, {
      key,
    });
  return {
    text,
    resource,
    ...(group === undefined ? {} : { group }),
    ...(subresource === undefined ? {} : { subresource }),
  };
}

/** A word that would silently never match. */
function wordProblem(
  resource: string,
  group: string | undefined,
  subresource: string | undefined,
): string | undefined {
  if (group !== undefined && VERSION.test(group))
    return `names a version; a rule holds for every version: write ${[resource, group.replace(VERSION, '')].filter(Boolean).join('.')}`;
  const plural = group === undefined ? PLURALS.get(resource) : undefined;
  if (plural !== undefined) return `is no plural resource name; write ${plural}`;
  if (subresource === undefined || SUBRESOURCES.includes(subresource)) return undefined;
  const near = SUBRESOURCES.find((word) => distance(word, subresource) === 1);
  return near === undefined ? undefined : `names no subresource; did you mean ${resource}/${near}?`;
}

/** Whether the list admits it. An empty list is everything but Secrets and the dangerous subresources. */
export function admits(patterns: readonly ResourcePattern[], name: ResourceName, verb = ''): boolean {
  const dangerous = isDangerous(name, verb);
  if (patterns.length === 0) return !dangerous && !isSecret(name);
  const named = dangerous || name.subresource === 'secrets';
  return patterns.some((pattern) => {
    if (pattern.resource !== '*' && pattern.resource !== name.resource) return false;
    if (pattern.group !== undefined && pattern.group !== '*' && pattern.group !== name.apiGroup) return false;
    if (pattern.subresource === undefined) return !named;
    return pattern.subresource === '*' || pattern.subresource === name.subresource;
  });
}

/** Whether an entry that admits it names its resource, rather than taking it in with a wildcard or by being empty. */
export function namesExactly(patterns: readonly ResourcePattern[], name: ResourceName): boolean {
  const naming = patterns.filter(
    ({ resource, group = name.apiGroup }) => resource === name.resource && group === name.apiGroup,
  );
  return naming.length > 0 && admits(naming, name);
}

/** Whether one thing exists that both lists admit; what is not known of names is decided for `yes`. */
export function overlap(a: readonly ResourcePattern[], b: readonly ResourcePattern[]): boolean {
  if (a.length === 0 && b.length === 0) return true;
  if (a.length === 0) return b.some(reachesHarmless);
  if (b.length === 0) return a.some(reachesHarmless);
  return a.some((x) => b.some((y) => meet(x, y)));
}

/** Whether a pattern holds anything that an empty list admits. */
function reachesHarmless({ resource, subresource }: ResourcePattern): boolean {
  if (resource === 'secrets') return false;
  if (subresource === undefined || subresource === '*') return true;
  const name = { apiGroup: '', resource, subresource };
  return (
    !isDangerous(name) &&
    !isSecret(name) &&
    !(resource === '*' && ['token', 'approval'].includes(subresource))
  );
}

/** Where Kubernetes' own resources live, so that `pods` and `*.apps` are known to have nothing in common. */
const GROUPS = new Map<string, readonly string[]>();
for (const [group, names] of [
  [
    '',
    'pods services secrets configmaps endpoints namespaces nodes serviceaccounts persistentvolumes events',
  ],
  ['', 'persistentvolumeclaims replicationcontrollers resourcequotas limitranges bindings podtemplates'],
  ['apps', 'deployments daemonsets replicasets statefulsets controllerrevisions'],
  ['batch', 'jobs cronjobs'],
  ['networking.k8s.io', 'ingresses networkpolicies ingressclasses'],
  ['extensions', 'ingresses'],
  ['rbac.authorization.k8s.io', 'roles rolebindings clusterroles clusterrolebindings'],
  ['metrics.k8s.io', 'pods nodes'],
  ['events.k8s.io', 'events'],
] as const)
  for (const name of names.split(' ')) GROUPS.set(name, [...(GROUPS.get(name) ?? []), group]);

function meet(x: ResourcePattern, y: ResourcePattern): boolean {
  const same = (a: string | undefined, b: string | undefined): boolean =>
    a === undefined || b === undefined || a === '*' || b === '*' || a === b;
  if (!same(x.resource, y.resource) || !same(x.group, y.group)) return false;
  const resource = x.resource === '*' ? y.resource : x.resource;
  const group = x.group ?? y.group;
  const groups = GROUPS.get(resource);
  if (group !== undefined && group !== '*' && groups && !groups.includes(group)) return false;
  // A pattern without a subresource does not reach a dangerous one that the other names.
  for (const [plain, other] of [
    [x, y],
    [y, x],
  ] as const)
    if (plain.subresource === undefined && other.subresource !== undefined && other.subresource !== '*') {
      const name = { apiGroup: '', resource, subresource: other.subresource };
      return !isDangerous(name) && other.subresource !== 'secrets';
    }
  return same(x.subresource, y.subresource);
}
