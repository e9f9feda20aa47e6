// The columns of `kubectl get`, which the server computes: for each kind what its cells hold.

import {
  arr,
  at,
  type Json,
  type JsonObject,
  type KObject,
  num,
  obj,
  objects,
  text,
} from '../objects/values.ts';

export interface Column {
  name: string;
  type: 'string' | 'integer' | 'date';
  /** 0 is always shown, 1 only with `-o wide`. */
  priority: 0 | 1;
  cell(object: KObject, now: number): Json;
}

const column = (
  name: string,
  cell: Column['cell'],
  priority: 0 | 1 = 0,
  type: Column['type'] = 'string',
): Column => ({ name, type, priority, cell });
const NONE = '<none>';

/** kubectl's short duration: 5s, 3m2s, 4h, 12d. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 ? `${minutes}m${seconds % 60}s` : `${minutes}m`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  if (hours < 48) return `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}

const since = (time: Json | undefined, now: number): string =>
  typeof time === 'string' ? age(now - Date.parse(time)) : '<unknown>';

const name = column('Name', (object) => object.metadata.name);
const ageColumn = column('Age', (object, now) => since(object.metadata.creationTimestamp, now));
const created = column('Created At', (object) => object.metadata.creationTimestamp ?? '', 0, 'date');

const field = (title: string, ...path: (string | number)[]): Column =>
  column(title, (object) => {
    const value = at(object, ...path);
    return value === undefined || value === null || value === '' ? NONE : String(value);
  });
const count = (title: string, ...path: string[]): Column =>
  column(title, (object) => num(at(object, ...path)), 0, 'integer');
const size = (title: string, ...path: string[]): Column =>
  column(title, (object) => Object.keys(obj(at(object, ...path))).length, 0, 'integer');
const wide = (of: Column): Column => ({ ...of, priority: 1 });

function podStatus(pod: KObject): string {
  const statuses = objects(at(pod, 'status', 'containerStatuses'));
  const waiting = statuses.map((one) => text(at(one, 'state', 'waiting', 'reason'))).find((reason) => reason);
  const ended = statuses
    .map((one) => text(at(one, 'state', 'terminated', 'reason')))
    .find((reason) => reason);
  if (pod.metadata.deletionTimestamp !== undefined) return 'Terminating';
  return waiting ?? ended ?? (text(at(pod, 'status', 'phase')) || 'Unknown');
}

const selector = (object: KObject): string => {
  const labels = obj(at(object, 'spec', 'selector', 'matchLabels') ?? at(object, 'spec', 'selector'));
  const pairs = Object.entries(labels).filter(([, value]) => typeof value === 'string');
  return pairs.length > 0 ? pairs.map(([key, value]) => `${key}=${value}`).join(',') : NONE;
};
const containers = (what: 'name' | 'image'): Column =>
  wide(
    column(what === 'name' ? 'Containers' : 'Images', (object) =>
      objects(at(object, 'spec', 'template', 'spec', 'containers'))
        .map((one) => text(one[what]))
        .join(','),
    ),
  );
const workload = [containers('name'), containers('image'), wide(column('Selector', selector))];
const ready = (of: string, have: string): Column =>
  column('Ready', (object) => `${num(at(object, 'status', have))}/${num(at(object, 'spec', of), 1)}`);

function servicePorts(object: KObject): string {
  const ports = objects(at(object, 'spec', 'ports')).map((port) => `${port.port}/${port.protocol}`);
  return ports.length > 0 ? ports.join(',') : NONE;
}

function csrCondition(object: KObject): string {
  const types = objects(at(object, 'status', 'conditions')).map((one) => text(one.type));
  const state = types.length > 0 ? types.join(',') : 'Pending';
  return at(object, 'status', 'certificate') === undefined ? state : `${state},Issued`;
}

const role = column(
  'Role',
  (object) => `${text(at(object, 'roleRef', 'kind'))}/${text(at(object, 'roleRef', 'name'))}`,
);

const KINDS: Record<string, readonly Column[]> = {
  Pod: [
    name,
    column('Ready', (pod) => {
      const statuses = objects(at(pod, 'status', 'containerStatuses'));
      const up = statuses.filter((one) => one.ready === true).length;
      return `${up}/${arr(at(pod, 'spec', 'containers')).length}`;
    }),
    column('Status', podStatus),
    column('Restarts', (pod) =>
      String(
        objects(at(pod, 'status', 'containerStatuses')).reduce((sum, one) => sum + num(one.restartCount), 0),
      ),
    ),
    ageColumn,
    wide(field('IP', 'status', 'podIP')),
    wide(field('Node', 'spec', 'nodeName')),
    wide(field('Nominated Node', 'status', 'nominatedNodeName')),
    wide(column('Readiness Gates', () => NONE)),
  ],
  Deployment: [
    name,
    ready('replicas', 'readyReplicas'),
    count('Up-to-date', 'status', 'updatedReplicas'),
    count('Available', 'status', 'availableReplicas'),
    ageColumn,
    ...workload,
  ],
  ReplicaSet: [
    name,
    count('Desired', 'spec', 'replicas'),
    count('Current', 'status', 'replicas'),
    count('Ready', 'status', 'readyReplicas'),
    ageColumn,
    ...workload,
  ],
  ReplicationController: [
    name,
    count('Desired', 'spec', 'replicas'),
    count('Current', 'status', 'replicas'),
    count('Ready', 'status', 'readyReplicas'),
    ageColumn,
    ...workload,
  ],
  StatefulSet: [name, ready('replicas', 'readyReplicas'), ageColumn, containers('name'), containers('image')],
  DaemonSet: [
    name,
    count('Desired', 'status', 'desiredNumberScheduled'),
    count('Current', 'status', 'currentNumberScheduled'),
    count('Ready', 'status', 'numberReady'),
    count('Up-to-date', 'status', 'updatedNumberScheduled'),
    count('Available', 'status', 'numberAvailable'),
    column('Node Selector', () => NONE),
    ageColumn,
    ...workload,
  ],
  Job: [
    name,
    column('Status', (job) => {
      const types = objects(at(job, 'status', 'conditions')).map((one) => text(one.type));
      return types[0] ?? 'Running';
    }),
    column(
      'Completions',
      (job) => `${num(at(job, 'status', 'succeeded'))}/${num(at(job, 'spec', 'completions'), 1)}`,
    ),
    column('Duration', (job, now) => {
      const start = at(job, 'status', 'startTime');
      const end = at(job, 'status', 'completionTime');
      if (typeof start !== 'string') return '';
      return age((typeof end === 'string' ? Date.parse(end) : now) - Date.parse(start));
    }),
    ageColumn,
    ...workload,
  ],
  Namespace: [name, field('Status', 'status', 'phase'), ageColumn],
  Service: [
    name,
    field('Type', 'spec', 'type'),
    field('Cluster-IP', 'spec', 'clusterIP'),
    column('External-IP', (service) => text(at(service, 'spec', 'externalName')) || NONE),
    column('Port(s)', servicePorts),
    ageColumn,
    wide(column('Selector', selector)),
  ],
  ConfigMap: [name, size('Data', 'data'), ageColumn],
  Secret: [name, field('Type', 'type'), size('Data', 'data'), ageColumn],
  ServiceAccount: [name, column('Secrets', (object) => arr(object.secrets).length, 0, 'string'), ageColumn],
  Event: [
    column('Last Seen', (event, now) => since(event.lastTimestamp ?? event.metadata.creationTimestamp, now)),
    field('Type', 'type'),
    field('Reason', 'reason'),
    column(
      'Object',
      (event) =>
        `${text(at(event, 'involvedObject', 'kind')).toLowerCase()}/${text(at(event, 'involvedObject', 'name'))}`,
    ),
    wide(column('Name', (event) => event.metadata.name)),
    column('Message', (event) => text(event.message ?? event.note)),
  ],
  Node: [
    name,
    column('Status', (node) =>
      objects(at(node, 'status', 'conditions')).some((one) => one.type === 'Ready' && one.status === 'True')
        ? 'Ready'
        : 'NotReady',
    ),
    column('Roles', () => NONE),
    ageColumn,
    field('Version', 'status', 'nodeInfo', 'kubeletVersion'),
  ],
  PersistentVolume: [
    name,
    field('Capacity', 'spec', 'capacity', 'storage'),
    column('Access Modes', (pv) =>
      arr(at(pv, 'spec', 'accessModes'))
        .map(text)
        .join(','),
    ),
    field('Reclaim Policy', 'spec', 'persistentVolumeReclaimPolicy'),
    field('Status', 'status', 'phase'),
    ageColumn,
  ],
  PersistentVolumeClaim: [
    name,
    field('Status', 'status', 'phase'),
    field('Volume', 'spec', 'volumeName'),
    ageColumn,
  ],
  Role: [name, created],
  ClusterRole: [name, created],
  RoleBinding: [name, role, ageColumn],
  ClusterRoleBinding: [name, role, ageColumn],
  CustomResourceDefinition: [name, created],
  CertificateSigningRequest: [
    name,
    ageColumn,
    field('SignerName', 'spec', 'signerName'),
    field('Requestor', 'spec', 'username'),
    column('Condition', csrCondition),
  ],
  Lease: [name, field('Holder', 'spec', 'holderIdentity'), ageColumn],
};

export function columnsOf(kind: string, printerColumns?: unknown): readonly Column[] {
  if (Array.isArray(printerColumns)) {
    const own = objects(printerColumns as Json[]).map((spec: JsonObject) =>
      field(text(spec.name), ...text(spec.jsonPath).replace(/^\./, '').split('.')),
    );
    return [name, ...own, ageColumn];
  }
  return KINDS[kind] ?? [name, ageColumn];
}
