// The controllers that turn a Deployment into ReplicaSets into Pods, and StatefulSets, DaemonSets and Jobs into Pods:
// each looks at what is there and takes the next step, so that `rollout status`, `scale` and `wait` have something
// true to watch.

import { createHash } from 'node:crypto';
import type { ResourceType } from '../kinds/resources.ts';
import { background, remove } from '../objects/delete.ts';
import { create, patch } from '../objects/objects.ts';
import {
  arr,
  clone,
  equal,
  type Json,
  type JsonObject,
  type KObject,
  kubeTime,
  num,
  obj,
  objects,
  text,
} from '../objects/values.ts';
import { asController, type Place, type World } from '../objects/world.ts';

const REVISION = 'deployment.kubernetes.io/revision';

function typeOf(world: World, group: string, resource: string): ResourceType {
  const type = world.registry.types().find((one) => one.group === group && one.resource === resource);
  if (!type) throw new Error(`the test API server has no ${resource}`);
  return type;
}

function place(type: ResourceType, object: KObject, subresource = ''): Place {
  return { type, namespace: object.metadata.namespace ?? '', name: object.metadata.name, subresource };
}

function owned(world: World, group: string, resource: string, owner: KObject): KObject[] {
  return world.store
    .list({ group, resource }, owner.metadata.namespace)
    .filter((object) =>
      objects(object.metadata.ownerReferences).some((ref) => ref.uid === owner.metadata.uid),
    );
}

const living = (object: KObject): boolean => object.metadata.deletionTimestamp === undefined;

export function isReady(pod: KObject): boolean {
  return objects(obj(pod.status).conditions).some(
    (condition) => condition.type === 'Ready' && condition.status === 'True',
  );
}

function ownerReference(owner: KObject): JsonObject {
  return {
    apiVersion: owner.apiVersion,
    kind: owner.kind,
    name: owner.metadata.name,
    uid: owner.metadata.uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}

function setStatus(world: World, type: ResourceType, object: KObject, status: JsonObject): void {
  patch(world, place(type, object, 'status'), (live) => ({ ...live, status }), asController);
}

function setReplicas(world: World, type: ResourceType, object: KObject, replicas: number): void {
  if (obj(object.spec).replicas === replicas) return;
  patch(
    world,
    place(type, object),
    (live) => ({ ...live, spec: { ...obj(live.spec), replicas } }),
    asController,
  );
}

/** A condition that keeps its times while nothing about it changes. */
function condition(world: World, status: JsonObject, type: string, wanted: JsonObject): JsonObject {
  const old = objects(status.conditions).find((one) => one.type === type) ?? {};
  const { lastUpdateTime, lastTransitionTime, ...was } = old;
  if (equal(was, { type, ...wanted })) return old;
  const now = kubeTime(world.now());
  const moved = was.status === wanted.status ? (lastTransitionTime ?? now) : now;
  return { type, ...wanted, lastUpdateTime: now, lastTransitionTime: moved };
}

function templateHash(template: Json | undefined): string {
  const digest = createHash('sha256')
    .update(JSON.stringify(template ?? {}))
    .digest();
  const alphabet = 'bcdfghjklmnpqrstvwxz2456789';
  return [...digest.subarray(0, 10)].map((byte) => alphabet[byte % alphabet.length]).join('');
}

const revisionOf = (object: KObject): number => Number(obj(object.metadata.annotations)[REVISION] ?? 0);

export function reconcileDeployment(world: World, deployment: KObject): void {
  if (!living(deployment)) return;
  const deployments = typeOf(world, 'apps', 'deployments');
  const sets = typeOf(world, 'apps', 'replicasets');
  const spec = obj(deployment.spec);
  const desired = num(spec.replicas, 1);
  const hash = templateHash(spec.template);
  const all = owned(world, 'apps', 'replicasets', deployment).filter(living);
  let current = all.find((set) => obj(set.metadata.labels)['pod-template-hash'] === hash);
  const newest = Math.max(0, ...all.map(revisionOf));
  const revision = current && revisionOf(current) === newest ? newest : newest + 1;
  if (!current && spec.paused !== true)
    current = create(
      world,
      { type: sets, namespace: deployment.metadata.namespace ?? '', name: '', subresource: '' },
      replicaSetOf(deployment, hash, revision, desired),
      asController,
    );
  if (current && revisionOf(current) !== revision && spec.paused !== true)
    annotate(world, sets, current, REVISION, String(revision));
  annotate(world, deployments, deployment, REVISION, String(revision));
  if (current) setReplicas(world, sets, current, desired);
  const others = all.filter((set) => set.metadata.uid !== current?.metadata.uid);
  const ready = num(obj(current?.status).readyReplicas);
  if (current && ready >= desired) for (const set of others) setReplicas(world, sets, set, 0);
  prune(world, sets, others, num(spec.revisionHistoryLimit, 10));

  const sum = (field: string): number => all.reduce((total, set) => total + num(obj(set.status)[field]), 0);
  const [replicas, readyReplicas] = [sum('replicas'), sum('readyReplicas')];
  const updated = num(obj(current?.status).replicas);
  const status = obj(deployment.status);
  const done = updated === desired && replicas === desired && readyReplicas === desired;
  const available = readyReplicas >= desired;
  const name = current?.metadata.name ?? '';
  setStatus(world, deployments, deployment, {
    observedGeneration: deployment.metadata.generation ?? 1,
    ...(replicas > 0 ? { replicas } : {}),
    ...(updated > 0 ? { updatedReplicas: updated } : {}),
    ...(readyReplicas > 0 ? { readyReplicas, availableReplicas: readyReplicas } : {}),
    ...(available ? {} : { unavailableReplicas: Math.max(0, Math.max(desired, replicas) - readyReplicas) }),
    conditions: [
      condition(world, status, 'Available', {
        status: available ? 'True' : 'False',
        reason: available ? 'MinimumReplicasAvailable' : 'MinimumReplicasUnavailable',
        message: available
          ? 'Deployment has minimum availability.'
          : 'Deployment does not have minimum availability.',
      }),
      condition(world, status, 'Progressing', {
        status: 'True',
        reason: done ? 'NewReplicaSetAvailable' : 'ReplicaSetUpdated',
        message: `ReplicaSet "${name}" ${done ? 'has successfully progressed.' : 'is progressing.'}`,
      }),
    ],
  });
}

function replicaSetOf(deployment: KObject, hash: string, revision: number, replicas: number): JsonObject {
  const spec = obj(deployment.spec);
  const template = clone(obj(spec.template));
  const metadata = obj(template.metadata);
  const labels = { ...obj(metadata.labels), 'pod-template-hash': hash };
  const selector = obj(spec.selector);
  return {
    metadata: {
      name: `${deployment.metadata.name}-${hash}`,
      labels,
      annotations: {
        'deployment.kubernetes.io/desired-replicas': String(replicas),
        [REVISION]: String(revision),
        ...(obj(deployment.metadata.annotations)['kubernetes.io/change-cause'] === undefined
          ? {}
          : {
              'kubernetes.io/change-cause': obj(deployment.metadata.annotations)[
                'kubernetes.io/change-cause'
              ],
            }),
      },
      ownerReferences: [ownerReference(deployment)],
    },
    spec: {
      replicas,
      selector: { ...selector, matchLabels: { ...obj(selector.matchLabels), 'pod-template-hash': hash } },
      template: { ...template, metadata: { ...metadata, labels } },
    },
  };
}

function annotate(world: World, type: ResourceType, object: KObject, key: string, value: string): void {
  if (obj(object.metadata.annotations)[key] === value) return;
  patch(
    world,
    place(type, object),
    (live) => {
      live.metadata.annotations = { ...obj(live.metadata.annotations), [key]: value };
      return live;
    },
    asController,
  );
}

function prune(world: World, sets: ResourceType, old: KObject[], limit: number): void {
  const idle = old
    .filter((set) => num(obj(set.spec).replicas) === 0 && num(obj(set.status).replicas) === 0)
    .sort((a, b) => revisionOf(a) - revisionOf(b));
  for (const set of idle.slice(0, Math.max(0, idle.length - limit)))
    remove(world, place(sets, set), background);
}

function startPod(world: World, owner: KObject, name: string): void {
  const template = clone(obj(obj(owner.spec).template));
  const metadata = obj(template.metadata);
  create(
    world,
    { type: typeOf(world, '', 'pods'), namespace: owner.metadata.namespace ?? '', name: '', subresource: '' },
    {
      metadata: {
        ...metadata,
        ...(name ? { name } : { generateName: `${owner.metadata.name}-` }),
        ownerReferences: [ownerReference(owner)],
      },
      spec: template.spec,
    },
    asController,
  );
}

function stopPod(world: World, pod: KObject): void {
  remove(world, place(typeOf(world, '', 'pods'), pod), background);
}

export function reconcileReplicaSet(world: World, set: KObject): void {
  if (!living(set)) return;
  const group = set.kind === 'ReplicaSet' ? 'apps' : '';
  const type = typeOf(world, group, set.kind === 'ReplicaSet' ? 'replicasets' : 'replicationcontrollers');
  const pods = owned(world, '', 'pods', set).filter(living);
  const desired = num(obj(set.spec).replicas, 1);
  for (let i = pods.length; i < desired; i++) startPod(world, set, '');
  for (const pod of [...pods]
    .sort((a, b) => Number(isReady(a)) - Number(isReady(b)))
    .slice(0, pods.length - desired))
    if (pods.length > desired) stopPod(world, pod);
  const now = owned(world, '', 'pods', set).filter(living);
  const ready = now.filter(isReady).length;
  setStatus(world, type, set, {
    replicas: now.length,
    ...(now.length > 0 ? { fullyLabeledReplicas: now.length } : {}),
    ...(ready > 0 ? { readyReplicas: ready, availableReplicas: ready } : {}),
    observedGeneration: set.metadata.generation ?? 1,
  });
}

/** One pod after the other, in order, each when the one before is ready. */
export function reconcileStatefulSet(world: World, set: KObject): void {
  if (!living(set)) return;
  const pods = new Map(owned(world, '', 'pods', set).map((pod) => [pod.metadata.name, pod]));
  const desired = num(obj(set.spec).replicas, 1);
  const revision = `${set.metadata.name}-${templateHash(obj(set.spec).template)}`;
  for (let i = 0; i < desired; i++) {
    const pod = pods.get(`${set.metadata.name}-${i}`);
    if (!pod) startPod(world, set, `${set.metadata.name}-${i}`);
    if (!pod || !isReady(pod)) break;
  }
  for (const [name, pod] of pods)
    if (Number(name.slice(set.metadata.name.length + 1)) >= desired && living(pod)) stopPod(world, pod);
  const now = owned(world, '', 'pods', set).filter(living);
  const ready = now.filter(isReady).length;
  setStatus(world, typeOf(world, 'apps', 'statefulsets'), set, {
    observedGeneration: set.metadata.generation ?? 1,
    replicas: now.length,
    readyReplicas: ready,
    availableReplicas: ready,
    currentReplicas: now.length,
    updatedReplicas: now.length,
    currentRevision: revision,
    updateRevision: revision,
    collisionCount: 0,
  });
}

export function reconcileDaemonSet(world: World, set: KObject): void {
  if (!living(set)) return;
  const nodes = world.store.list({ group: '', resource: 'nodes' }).length;
  const pods = owned(world, '', 'pods', set).filter(living);
  for (let i = pods.length; i < nodes; i++) startPod(world, set, '');
  const now = owned(world, '', 'pods', set).filter(living);
  const ready = now.filter(isReady).length;
  setStatus(world, typeOf(world, 'apps', 'daemonsets'), set, {
    currentNumberScheduled: now.length,
    numberMisscheduled: 0,
    desiredNumberScheduled: nodes,
    numberReady: ready,
    observedGeneration: set.metadata.generation ?? 1,
    updatedNumberScheduled: now.length,
    numberAvailable: ready,
    ...(nodes > ready ? { numberUnavailable: nodes - ready } : {}),
  });
}

export function reconcileJob(world: World, job: KObject): void {
  const status = obj(job.status);
  if (!living(job) || arr(status.conditions).length > 0) return;
  const spec = obj(job.spec);
  const pods = owned(world, '', 'pods', job);
  const succeeded = pods.filter((pod) => obj(pod.status).phase === 'Succeeded').length;
  const wanted = num(spec.completions, 1);
  const active = pods.filter((pod) => ['Pending', 'Running'].includes(text(obj(pod.status).phase))).length;
  const missing = spec.suspend === true ? 0 : Math.min(num(spec.parallelism, 1), wanted - succeeded) - active;
  for (let i = 0; i < missing; i++) startPod(world, job, '');
  const now = kubeTime(world.now());
  const started = status.startTime ?? now;
  setStatus(
    world,
    typeOf(world, 'batch', 'jobs'),
    job,
    succeeded < wanted
      ? {
          startTime: started,
          active: active + Math.max(0, missing),
          ready: 0,
          ...(succeeded > 0 ? { succeeded } : {}),
        }
      : {
          startTime: started,
          completionTime: now,
          succeeded,
          ready: 0,
          conditions: [
            {
              type: 'Complete',
              status: 'True',
              lastProbeTime: now,
              lastTransitionTime: now,
              reason: 'CompletionsReached',
            },
          ],
        },
  );
}
