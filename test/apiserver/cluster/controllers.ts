// What runs beside the API in a cluster: a queue of objects that changed, and for each kind the controller that takes
// its next step. Namespaces are filled and emptied, CRDs are served, owned objects follow their owners.

import { dropCustom, serveCustom } from '../kinds/custom.ts';
import type { ResourceType } from '../kinds/resources.ts';
import { background, deleteDependents, dependents, remove } from '../objects/delete.ts';
import { create, patch } from '../objects/objects.ts';
import { ApiError } from '../objects/status.ts';
import type { Change } from '../objects/store.ts';
import { arr, type JsonObject, type KObject, kubeTime, obj, objects, text } from '../objects/values.ts';
import { asController, type Place, type World } from '../objects/world.ts';
import type { Kubelet } from './kubelet.ts';
import {
  reconcileDaemonSet,
  reconcileDeployment,
  reconcileJob,
  reconcileReplicaSet,
  reconcileStatefulSet,
} from './workloads.ts';

const RECONCILERS: Record<string, (world: World, object: KObject) => void> = {
  'apps/deployments': reconcileDeployment,
  'apps/replicasets': reconcileReplicaSet,
  '/replicationcontrollers': reconcileReplicaSet,
  'apps/statefulsets': reconcileStatefulSet,
  'apps/daemonsets': reconcileDaemonSet,
  'batch/jobs': reconcileJob,
  '/namespaces': reconcileNamespace,
  'apiextensions.k8s.io/customresourcedefinitions': reconcileCrd,
};

const OWNER_KINDS: Record<string, string> = {
  ReplicaSet: 'apps/replicasets',
  ReplicationController: '/replicationcontrollers',
  StatefulSet: 'apps/statefulsets',
  DaemonSet: 'apps/daemonsets',
  Job: 'batch/jobs',
  Deployment: 'apps/deployments',
};

/** @returns what stops them */
export function startControllers(world: World, kubelet: Kubelet): () => void {
  const queue = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  const later = (resource: string, namespace: string, name: string): void => {
    queue.add(`${resource} ${namespace} ${name}`);
    if (timer || stopped) return;
    timer = setTimeout(drain, 2);
    timer.unref();
  };
  const drain = (): void => {
    timer = undefined;
    const due = [...queue];
    queue.clear();
    for (const entry of due) {
      const [resource = '', namespace = '', name = ''] = entry.split(' ');
      const [group = '', plural = ''] = resource.split('/');
      const object = world.store.get({ group, resource: plural }, namespace, name);
      try {
        if (object) RECONCILERS[resource]?.(world, object);
      } catch (error) {
        // Something changed under it or goes: the change that did so has queued what is left to do.
        if (!(error instanceof ApiError)) throw error;
      }
    }
  };

  const onChange = (change: Change): void => {
    const { resource, object } = change;
    const { namespace = '', name } = object.metadata;
    if (resource === '/pods') kubelet.podChanged(change);
    if (resource in RECONCILERS && change.type !== 'DELETED') later(resource, namespace, name);
    for (const owner of objects(object.metadata.ownerReferences)) {
      const kind = OWNER_KINDS[text(owner.kind)];
      if (kind) later(kind, namespace, text(owner.name));
    }
    if (change.type === 'DELETED') {
      if (resource === 'apiextensions.k8s.io/customresourcedefinitions') dropCustom(world.registry, object);
      const uid = object.metadata.uid;
      setImmediate(() => collect(world, uid));
      for (const owner of objects(object.metadata.ownerReferences)) finishForeground(world, text(owner.uid));
      if (namespace !== '') later('/namespaces', '', namespace);
    }
  };
  const forget = world.store.onChange(onChange);
  return () => {
    stopped = true;
    forget();
    clearTimeout(timer);
  };
}

function collect(world: World, ownerUid: string): void {
  try {
    deleteDependents(world, ownerUid);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}

/** An owner that waits for the last of its dependents goes when that one has gone. */
function finishForeground(world: World, ownerUid: string): void {
  for (const type of world.registry.types()) {
    if (type.storedAs || !type.verbs.includes('delete')) continue;
    const owner = world.store.list(type).find((object) => object.metadata.uid === ownerUid);
    if (!owner || !arr(owner.metadata.finalizers).includes('foregroundDeletion')) continue;
    if (dependents(world, ownerUid).length > 0) return;
    patch(
      world,
      placed(type, owner),
      (live) => {
        live.metadata.finalizers = arr(live.metadata.finalizers).filter(
          (one) => one !== 'foregroundDeletion',
        );
        return live;
      },
      asController,
    );
    return;
  }
}

function placed(type: ResourceType, object: KObject, subresource = ''): Place {
  return { type, namespace: object.metadata.namespace ?? '', name: object.metadata.name, subresource };
}

/** Every namespace has its default service account and the cluster's CA; one that goes is emptied first. */
function reconcileNamespace(world: World, namespace: KObject): void {
  const name = namespace.metadata.name;
  if (namespace.metadata.deletionTimestamp === undefined) {
    ensure(world, 'serviceaccounts', name, { metadata: { name: 'default' } });
    ensure(world, 'configmaps', name, { metadata: { name: 'kube-root-ca.crt' }, data: { 'ca.crt': '' } });
    return;
  }
  let left = 0;
  for (const type of world.registry.types()) {
    if (!type.namespaced || type.storedAs || !type.verbs.includes('delete')) continue;
    for (const object of world.store.list(type, name)) {
      left++;
      if (object.metadata.deletionTimestamp === undefined) remove(world, placed(type, object), background);
    }
  }
  if (left > 0) return;
  const type = world.registry.find('', 'v1', 'namespaces');
  if (!type) return;
  patch(
    world,
    placed(type, namespace, 'finalize'),
    (live) => ({ ...live, spec: { ...obj(live.spec), finalizers: [] } }),
    asController,
  );
}

function ensure(world: World, resource: string, namespace: string, body: JsonObject): void {
  const type = world.registry.find('', 'v1', resource);
  const name = text(obj(body.metadata).name);
  if (!type || world.store.get(type, namespace, name)) return;
  create(world, { type, namespace, name, subresource: '' }, body, asController);
}

function reconcileCrd(world: World, crd: KObject): void {
  const type = world.registry.find('apiextensions.k8s.io', 'v1', 'customresourcedefinitions');
  if (!type || crd.metadata.deletionTimestamp !== undefined) return;
  serveCustom(world.registry, crd);
  const spec = obj(crd.spec);
  if (objects(obj(crd.status).conditions).length > 0) return;
  const now = kubeTime(world.now());
  const yes = (name: string, reason: string, message: string): JsonObject => ({
    type: name,
    status: 'True',
    lastTransitionTime: now,
    reason,
    message,
  });
  const stored = objects(spec.versions).filter((version) => version.storage === true);
  const status = {
    conditions: [
      yes('NamesAccepted', 'NoConflicts', 'no conflicts found'),
      yes('Established', 'InitialNamesAccepted', 'the initial names have been accepted'),
    ],
    acceptedNames: spec.names ?? {},
    storedVersions: stored.map((version) => version.name ?? ''),
  };
  patch(world, placed(type, crd, 'status'), (live) => ({ ...live, status }), asController);
}
