// The node's part: pods start a moment after they appear, get an address and a status, and stop when they are deleted.
// A pod of a Job runs to its end; one whose image name says `does-not-exist` never starts.

import { createHash } from 'node:crypto';
import type { ResourceType } from '../kinds/resources.ts';
import { patch } from '../objects/objects.ts';
import { ApiError } from '../objects/status.ts';
import type { Change } from '../objects/store.ts';
import { type JsonObject, type KObject, kubeTime, obj, objects, text } from '../objects/values.ts';
import { asController, type Place, type World } from '../objects/world.ts';

export interface Kubelet {
  podChanged(change: Change): void;
  stop(): void;
}

export interface KubeletOptions {
  /** Milliseconds from a pod's creation to Running. */
  startDelay: number;
  nodeName: string;
  /** Called when a pod is gone, before it disappears from the API: its processes end with it. */
  onStop(pod: KObject): void;
  onStart(pod: KObject): void;
}

export function createKubelet(world: World, options: KubeletOptions): Kubelet {
  const timers = new Set<NodeJS.Timeout>();
  const after = (ms: number, act: () => void): void => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      try {
        act();
      } catch (error) {
        if (!(error instanceof ApiError)) throw error; // the pod went in the meantime
      }
    }, ms);
    timer.unref();
    timers.add(timer);
  };
  const pods = (): ResourceType => {
    const type = world.registry.find('', 'v1', 'pods');
    if (!type) throw new Error('the test API server has no pods');
    return type;
  };
  const live = (pod: KObject): KObject | undefined => {
    const now = world.store.get(pods(), pod.metadata.namespace ?? '', pod.metadata.name);
    return now?.metadata.uid === pod.metadata.uid ? now : undefined;
  };
  const place = (pod: KObject, subresource: string): Place => ({
    type: pods(),
    namespace: pod.metadata.namespace ?? '',
    name: pod.metadata.name,
    subresource,
  });
  const setStatus = (pod: KObject, status: JsonObject): void => {
    if (live(pod))
      patch(world, place(pod, 'status'), (was) => ({ ...was, status }), {
        ...asController,
        manager: 'kubelet',
      });
  };

  const start = (pod: KObject): void => {
    const now = live(pod);
    if (!now || now.metadata.deletionTimestamp !== undefined) return;
    const broken = objects(obj(now.spec).containers).some((c) => text(c.image).includes('does-not-exist'));
    setStatus(now, broken ? waitingStatus(world, now) : runningStatus(world, now));
    if (broken) return;
    options.onStart(now);
    if (objects(now.metadata.ownerReferences).some((owner) => owner.kind === 'Job'))
      after(options.startDelay, () => finish(now));
  };
  const finish = (pod: KObject): void => {
    const now = live(pod);
    if (!now) return;
    const status = obj(now.status);
    const ended = objects(status.containerStatuses).map((one) => ({
      ...one,
      ready: false,
      started: false,
      state: {
        terminated: {
          exitCode: 0,
          reason: 'Completed',
          startedAt: status.startTime,
          finishedAt: kubeTime(world.now()),
        },
      },
    }));
    const conditions = objects(status.conditions).map((one) =>
      one.type === 'Ready' || one.type === 'ContainersReady'
        ? { ...one, status: 'False', reason: 'PodCompleted' }
        : one,
    );
    setStatus(now, { ...status, phase: 'Succeeded', conditions, containerStatuses: ended });
  };
  const end = (pod: KObject): void => {
    const now = live(pod);
    if (!now) return;
    options.onStop(pod);
    const { namespace = '', name, finalizers } = now.metadata;
    if (finalizers === undefined) world.store.remove(pods(), namespace, name);
    else world.store.put(pods(), { ...now, metadata: { ...now.metadata, deletionGracePeriodSeconds: 0 } });
  };

  return {
    podChanged({ type, object, before }) {
      if (type === 'DELETED') return options.onStop(object);
      const bound = text(obj(object.spec).nodeName) !== '';
      if (type === 'ADDED')
        after(0, () => {
          const now = live(object);
          if (now && !bound) bind(world, pods(), now, options.nodeName);
        });
      if (bound && (type === 'ADDED' || text(obj(before?.spec).nodeName) === ''))
        after(options.startDelay, () => start(object));
      const going = object.metadata.deletionTimestamp !== undefined;
      if (going && before?.metadata.deletionTimestamp === undefined && bound)
        after(options.startDelay, () => end(object));
    },
    stop() {
      for (const timer of timers) clearTimeout(timer);
      timers.clear();
    },
  };
}

/** What the scheduler does through pods/binding; a plain update may not. */
export function bind(world: World, pods: ResourceType, pod: KObject, nodeName: string): KObject {
  const spec = { ...obj(pod.spec), nodeName };
  return world.store.put(pods, { ...pod, metadata: { ...pod.metadata }, spec });
}

function podIp(pod: KObject): string {
  const hash = createHash('sha256').update(pod.metadata.uid).digest();
  return `10.244.${hash[0]}.${hash[1]}`;
}

function conditions(now: string, ready: boolean): JsonObject[] {
  return ['PodReadyToStartContainers', 'Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map(
    (type) => ({
      type,
      status: ready || !['Ready', 'ContainersReady'].includes(type) ? 'True' : 'False',
      lastProbeTime: null,
      lastTransitionTime: now,
    }),
  );
}

function runningStatus(world: World, pod: KObject): JsonObject {
  const now = kubeTime(world.now());
  const ip = podIp(pod);
  return {
    phase: 'Running',
    conditions: conditions(now, true),
    hostIP: '127.0.0.1',
    hostIPs: [{ ip: '127.0.0.1' }],
    podIP: ip,
    podIPs: [{ ip }],
    startTime: now,
    containerStatuses: objects(obj(pod.spec).containers).map((container) => ({
      name: container.name,
      state: { running: { startedAt: now } },
      lastState: {},
      ready: true,
      restartCount: 0,
      image: container.image,
      imageID: `test://${text(container.image)}`,
      containerID: `test://${pod.metadata.uid}/${text(container.name)}`,
      started: true,
    })),
    qosClass: 'BestEffort',
  };
}

function waitingStatus(world: World, pod: KObject): JsonObject {
  const now = kubeTime(world.now());
  return {
    phase: 'Pending',
    conditions: conditions(now, false),
    hostIP: '127.0.0.1',
    startTime: now,
    containerStatuses: objects(obj(pod.spec).containers).map((container) => ({
      name: container.name,
      state: {
        waiting: {
          reason: 'ImagePullBackOff',
          message: `Back-off pulling image ${text(container.image)}`,
        },
      },
      lastState: {},
      ready: false,
      restartCount: 0,
      image: container.image,
      imageID: '',
      started: false,
    })),
    qosClass: 'BestEffort',
  };
}
