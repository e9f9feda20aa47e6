// Deletion: preconditions, grace for pods, finalizers, and what becomes of the objects that an object owns.

import { type ResourceType, storage } from '../kinds/resources.ts';
import { patch } from './objects.ts';
import { badRequest, conflict } from './status.ts';
import { arr, clone, type JsonObject, type KObject, kubeTime, num, obj, objects, text } from './values.ts';
import { asController, type Place, read, type World } from './world.ts';

export interface DeleteOptions {
  dryRun: boolean;
  gracePeriodSeconds: number | undefined;
  propagation: 'Background' | 'Foreground' | 'Orphan';
  uid: string;
  resourceVersion: string;
}

/** Reads a DeleteOptions body, over which query parameters win. @throws ApiError 400 */
export function readDeleteOptions(body: JsonObject, query: (key: string) => string): DeleteOptions {
  const propagation = query('propagationPolicy') || text(body.propagationPolicy) || 'Background';
  if (propagation !== 'Background' && propagation !== 'Foreground' && propagation !== 'Orphan')
    throw badRequest(`invalid propagationPolicy ${JSON.stringify(propagation)}`);
  const grace = query('gracePeriodSeconds');
  if (grace !== '' && !/^-?\d+$/.test(grace))
    throw badRequest(`invalid gracePeriodSeconds ${JSON.stringify(grace)}`);
  const inBody = body.gracePeriodSeconds;
  const preconditions = obj(body.preconditions);
  return {
    dryRun: query('dryRun') === 'All' || arr(body.dryRun).includes('All'),
    gracePeriodSeconds: grace !== '' ? Number(grace) : typeof inBody === 'number' ? inBody : undefined,
    propagation: body.orphanDependents === true ? 'Orphan' : propagation,
    uid: text(preconditions.uid),
    resourceVersion: text(preconditions.resourceVersion),
  };
}

/** @returns the object while it still exists (grace, finalizers), undefined once it is gone @throws ApiError 404, 409 */
export function remove(
  world: World,
  place: Place,
  options: DeleteOptions,
): { before: KObject; remaining: KObject | undefined } {
  const { type, name } = place;
  const before = read(world, place);
  const { uid, resourceVersion } = before.metadata;
  if (options.uid !== '' && options.uid !== uid)
    throw conflict(
      type,
      name,
      `Precondition failed: UID in precondition: ${options.uid}, UID in object meta: ${uid}`,
    );
  if (options.resourceVersion !== '' && options.resourceVersion !== resourceVersion)
    throw conflict(
      type,
      name,
      `Precondition failed: ResourceVersion in precondition: ${options.resourceVersion}, ResourceVersion in object ` +
        `meta: ${resourceVersion}`,
    );
  if (options.dryRun) return { before, remaining: undefined };
  const marked = mark(world, type, before, options);
  if (!marked) {
    if (options.propagation === 'Orphan') releaseDependents(world, uid);
    world.store.remove(storage(type), before.metadata.namespace ?? '', name);
    return { before, remaining: undefined };
  }
  if (options.propagation === 'Foreground') deleteDependents(world, uid);
  return { before, remaining: marked };
}

/** Sets the deletion timestamp where something has to happen first. @returns undefined where nothing has */
function mark(
  world: World,
  type: ResourceType,
  before: KObject,
  options: DeleteOptions,
): KObject | undefined {
  const core = type.group === '';
  const finalizers = new Set(arr(before.metadata.finalizers).map(text));
  if (options.propagation === 'Foreground' && dependents(world, before.metadata.uid).length > 0)
    finalizers.add('foregroundDeletion');
  const pod = core && type.resource === 'pods' && text(obj(before.spec).nodeName) !== '';
  const grace = pod
    ? (options.gracePeriodSeconds ?? num(obj(before.spec).terminationGracePeriodSeconds, 30))
    : 0;
  const namespace = core && type.resource === 'namespaces';
  if (finalizers.size === 0 && grace <= 0 && !namespace) return undefined;
  const already = before.metadata.deletionTimestamp;
  const after = clone(before);
  after.metadata.deletionTimestamp = already ?? kubeTime(world.now() + grace * 1000);
  after.metadata.deletionGracePeriodSeconds = grace;
  if (finalizers.size > 0) after.metadata.finalizers = [...finalizers];
  if (namespace) after.status = { ...obj(after.status), phase: 'Terminating' };
  if (typeof after.metadata.generation === 'number' && already === undefined) after.metadata.generation += 1;
  return world.store.put(storage(type), after);
}

interface Dependent {
  type: ResourceType;
  object: KObject;
}

/** The objects that name an owner, wherever they are. */
export function dependents(world: World, ownerUid: string): Dependent[] {
  const found: Dependent[] = [];
  for (const type of world.registry.types()) {
    if (type.storedAs || !type.verbs.includes('delete')) continue;
    for (const object of world.store.list(type))
      if (objects(object.metadata.ownerReferences).some((owner) => owner.uid === ownerUid))
        found.push({ type, object });
  }
  return found;
}

export const background: DeleteOptions = {
  dryRun: false,
  gracePeriodSeconds: undefined,
  propagation: 'Background',
  uid: '',
  resourceVersion: '',
};

export function placeOf({ type, object }: Dependent): Place {
  return { type, namespace: object.metadata.namespace ?? '', name: object.metadata.name, subresource: '' };
}

/** Deletes the dependents that have no other owner left. */
export function deleteDependents(world: World, ownerUid: string): void {
  for (const dependent of dependents(world, ownerUid)) {
    const others = objects(dependent.object.metadata.ownerReferences).filter(
      (owner) => owner.uid !== ownerUid,
    );
    if (dependent.object.metadata.deletionTimestamp !== undefined) continue;
    if (others.length === 0) remove(world, placeOf(dependent), background);
    else release(world, dependent, ownerUid);
  }
}

function releaseDependents(world: World, ownerUid: string): void {
  for (const dependent of dependents(world, ownerUid)) release(world, dependent, ownerUid);
}

function release(world: World, dependent: Dependent, ownerUid: string): void {
  patch(
    world,
    placeOf(dependent),
    (live) => {
      const kept = objects(live.metadata.ownerReferences).filter((owner) => owner.uid !== ownerUid);
      if (kept.length > 0) live.metadata.ownerReferences = kept;
      else delete live.metadata.ownerReferences;
      return live;
    },
    asController,
  );
}
