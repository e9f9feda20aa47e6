// What the server fills in when a client leaves it out: the defaults of the built-in kinds that clients look at, and
// what its admission plugins would have set.

import { createHash } from 'node:crypto';
import {
  arr,
  child,
  isObject,
  type JsonObject,
  type KObject,
  obj,
  objects,
  text,
} from '../objects/values.ts';
import type { ResourceType } from './resources.ts';

function set(target: JsonObject, values: JsonObject): void {
  for (const [key, value] of Object.entries(values)) target[key] ??= value;
}

export function podSpecDefaults(spec: JsonObject): void {
  for (const list of ['initContainers', 'containers', 'ephemeralContainers'])
    for (const container of objects(spec[list])) containerDefaults(container);
  set(spec, {
    restartPolicy: 'Always',
    terminationGracePeriodSeconds: 30,
    dnsPolicy: 'ClusterFirst',
    securityContext: {},
    schedulerName: 'default-scheduler',
  });
  for (const volume of objects(spec.volumes)) {
    if (Object.keys(volume).length === 1) volume.emptyDir = {};
    for (const source of ['configMap', 'secret', 'projected'])
      if (isObject(volume[source])) set(obj(volume[source]), { defaultMode: 420 });
  }
}

function containerDefaults(container: JsonObject): void {
  const image = text(container.image);
  const tag = /:([^/@]+)$/.exec(image)?.[1] ?? (image.includes('@') ? 'digest' : 'latest');
  set(container, {
    resources: {},
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'File',
    imagePullPolicy: tag === 'latest' ? 'Always' : 'IfNotPresent',
  });
  for (const port of objects(container.ports)) set(port, { protocol: 'TCP' });
  for (const env of objects(container.env)) {
    const ref = obj(obj(env.valueFrom).fieldRef);
    if (Object.keys(ref).length > 0) set(ref, { apiVersion: 'v1' });
  }
  for (const name of ['livenessProbe', 'readinessProbe', 'startupProbe'])
    if (isObject(container[name]))
      set(obj(container[name]), {
        timeoutSeconds: 1,
        periodSeconds: 10,
        successThreshold: 1,
        failureThreshold: 3,
      });
}

function template(spec: JsonObject): void {
  const made = child(spec, 'template');
  child(made, 'metadata');
  podSpecDefaults(child(made, 'spec'));
}

const KINDS: Record<string, (object: KObject) => void> = {
  Pod(object) {
    const spec = child(object, 'spec');
    podSpecDefaults(spec);
    set(spec, {
      enableServiceLinks: true,
      serviceAccountName: 'default',
      priority: 0,
      preemptionPolicy: 'PreemptLowerPriority',
      tolerations: ['not-ready', 'unreachable'].map((condition) => ({
        key: `node.kubernetes.io/${condition}`,
        operator: 'Exists',
        effect: 'NoExecute',
        tolerationSeconds: 300,
      })),
    });
    spec.serviceAccount = spec.serviceAccountName;
  },
  Deployment(object) {
    const spec = child(object, 'spec');
    set(spec, { replicas: 1, strategy: {}, revisionHistoryLimit: 10, progressDeadlineSeconds: 600 });
    const strategy = obj(spec.strategy);
    set(strategy, { type: 'RollingUpdate' });
    if (strategy.type === 'RollingUpdate')
      set(child(strategy, 'rollingUpdate'), { maxUnavailable: '25%', maxSurge: '25%' });
    template(spec);
  },
  ReplicaSet(object) {
    const spec = child(object, 'spec');
    set(spec, { replicas: 1 });
    template(spec);
  },
  ReplicationController(object) {
    const spec = child(object, 'spec');
    set(spec, { replicas: 1 });
    template(spec);
    set(spec, { selector: obj(obj(obj(spec.template).metadata).labels) });
  },
  StatefulSet(object) {
    const spec = child(object, 'spec');
    set(spec, {
      replicas: 1,
      podManagementPolicy: 'OrderedReady',
      revisionHistoryLimit: 10,
      updateStrategy: {},
    });
    set(obj(spec.updateStrategy), { type: 'RollingUpdate', rollingUpdate: { partition: 0 } });
    template(spec);
  },
  DaemonSet(object) {
    const spec = child(object, 'spec');
    set(spec, { revisionHistoryLimit: 10, updateStrategy: {} });
    set(obj(spec.updateStrategy), {
      type: 'RollingUpdate',
      rollingUpdate: { maxSurge: 0, maxUnavailable: 1 },
    });
    template(spec);
  },
  Job(object) {
    const spec = child(object, 'spec');
    set(spec, {
      parallelism: 1,
      completions: 1,
      backoffLimit: 6,
      completionMode: 'NonIndexed',
      suspend: false,
      podReplacementPolicy: 'TerminatingOrFailed',
    });
    template(spec);
    const labels = child(child(obj(spec.template), 'metadata'), 'labels');
    const own = {
      'batch.kubernetes.io/controller-uid': object.metadata.uid,
      'batch.kubernetes.io/job-name': object.metadata.name,
    };
    set(labels, own);
    set(spec, {
      selector: { matchLabels: { 'batch.kubernetes.io/controller-uid': object.metadata.uid } },
    });
  },
  CronJob(object) {
    set(child(object, 'spec'), {
      concurrencyPolicy: 'Allow',
      suspend: false,
      successfulJobsHistoryLimit: 3,
      failedJobsHistoryLimit: 1,
    });
  },
  Service(object) {
    const spec = child(object, 'spec');
    set(spec, { type: 'ClusterIP', sessionAffinity: 'None' });
    for (const port of objects(spec.ports)) {
      set(port, { protocol: 'TCP' });
      set(port, { targetPort: port.port ?? 0 });
    }
    if (spec.type === 'ExternalName') return;
    set(spec, { clusterIP: clusterIp(object), internalTrafficPolicy: 'Cluster' });
    set(spec, { clusterIPs: [spec.clusterIP ?? ''], ipFamilies: ['IPv4'], ipFamilyPolicy: 'SingleStack' });
    set(object, { status: { loadBalancer: {} } });
  },
  Secret(object) {
    set(object, { type: 'Opaque' });
    if (isObject(object.stringData)) {
      const data = child(object, 'data');
      for (const [key, value] of Object.entries(object.stringData))
        data[key] = Buffer.from(text(value)).toString('base64');
      delete object.stringData;
    }
  },
  Namespace(object) {
    child(object.metadata, 'labels')['kubernetes.io/metadata.name'] = object.metadata.name;
    set(child(object, 'spec'), { finalizers: ['kubernetes'] });
  },
  PersistentVolume(object) {
    set(child(object, 'spec'), { persistentVolumeReclaimPolicy: 'Retain', volumeMode: 'Filesystem' });
  },
  PersistentVolumeClaim(object) {
    set(child(object, 'spec'), { volumeMode: 'Filesystem' });
  },
  RoleBinding: bindingDefaults,
  ClusterRoleBinding: bindingDefaults,
  CustomResourceDefinition(object) {
    const spec = child(object, 'spec');
    const names = child(spec, 'names');
    const kind = text(names.kind);
    set(names, { singular: kind.toLowerCase(), listKind: `${kind}List` });
    set(spec, { conversion: { strategy: 'None' } });
  },
};

function bindingDefaults(object: KObject): void {
  set(child(object, 'roleRef'), { apiGroup: 'rbac.authorization.k8s.io' });
  for (const subject of objects(object.subjects))
    if (subject.kind !== 'ServiceAccount') set(subject, { apiGroup: 'rbac.authorization.k8s.io' });
}

/** An address of 10.96.0.0/16 that is the service's own for as long as it exists. */
function clusterIp(object: KObject): string {
  const hash = createHash('sha256').update(object.metadata.uid).digest();
  return `10.96.${hash[0]}.${hash[1]}`;
}

/** Changes the object in place. */
export function applyDefaults(type: ResourceType, object: KObject): void {
  if (!type.custom) KINDS[type.kind]?.(object);
}

const INITIAL_STATUS: Record<string, JsonObject> = {
  Pod: { phase: 'Pending', qosClass: 'BestEffort' },
  Namespace: { phase: 'Active' },
  Deployment: {},
  ReplicaSet: { replicas: 0 },
  ReplicationController: { replicas: 0 },
  StatefulSet: { replicas: 0 },
  DaemonSet: { currentNumberScheduled: 0, numberMisscheduled: 0, desiredNumberScheduled: 0, numberReady: 0 },
  Job: {},
  CronJob: {},
  Node: {},
  PersistentVolume: { phase: 'Pending' },
  PersistentVolumeClaim: { phase: 'Pending' },
  CertificateSigningRequest: {},
  Ingress: { loadBalancer: {} },
};

/** A client's status is dropped on creation where status is a subresource, and this takes its place. */
export function initialStatus(type: ResourceType, object: KObject): void {
  if (!type.subresources.some((sub) => sub.name === 'status')) return;
  if (type.kind === 'Node' && object.status !== undefined) return;
  delete object.status;
  const status = type.custom ? undefined : INITIAL_STATUS[type.kind];
  if (status) object.status = structuredClone(status);
  if (type.kind === 'Service') object.status = { loadBalancer: {} };
}

/** Kinds whose metadata.generation counts changes of their spec. */
export function countsGenerations(type: ResourceType): boolean {
  if (type.custom) return true;
  const uncounted = ['namespaces', 'nodes', 'services', 'persistentvolumes', 'persistentvolumeclaims'];
  const counted = ['pods', 'networkpolicies', 'customresourcedefinitions'];
  return (
    counted.includes(type.resource) ||
    (['apps', 'batch', 'autoscaling', 'policy', 'networking.k8s.io'].includes(type.group) &&
      arr([...type.subresources.map((sub) => sub.name)]).includes('status')) ||
    (type.group === '' && type.resource === 'replicationcontrollers' && !uncounted.includes(type.resource))
  );
}
