// The end of every change to an object that exists: preconditions, what the subresource may touch, what the server owns,
// validation, generations, managed fields, and the disappearance of what nothing holds any more.

import { applyDefaults, countsGenerations } from '../kinds/defaults.ts';
import { type ResourceType, storage } from '../kinds/resources.ts';
import { validate } from '../kinds/validate.ts';
import { trackUpdate } from './managed-fields.ts';
import { conflict, modified } from './status.ts';
import { arr, clone, equal, type JsonObject, type KObject, num, obj, text } from './values.ts';
import { inOrder, modelFor, type Place, type World, type WriteOptions } from './world.ts';

const SERVER_OWNED = [
  'uid',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'generation',
  'namespace',
  'name',
  'generateName',
];

/** @throws ApiError 409, 422 */
export function commit(
  world: World,
  place: Place,
  before: KObject,
  wanted: KObject,
  options: WriteOptions,
  how: 'update' | 'apply' = 'update',
): KObject {
  const { type, name } = place;
  const asked = text(wanted.metadata.resourceVersion);
  const uid = text(wanted.metadata.uid);
  if (uid !== '' && uid !== before.metadata.uid)
    throw conflict(
      type,
      name,
      `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${before.metadata.uid}`,
    );
  if (asked !== '' && asked !== '0' && asked !== before.metadata.resourceVersion) throw modified(type, name);

  const after = inScope(place, before, wanted);
  for (const field of SERVER_OWNED) {
    if (before.metadata[field] === undefined) delete after.metadata[field];
    else after.metadata[field] = before.metadata[field];
  }
  after.metadata.resourceVersion = before.metadata.resourceVersion;
  if (how === 'update') after.metadata.managedFields = before.metadata.managedFields;
  if (type.resource === 'services' && !type.custom) keepAddress(before, after);
  applyDefaults(type, after);
  const spec = ({ kind, apiVersion: version, metadata, status, ...rest }: KObject): JsonObject => rest;
  if (countsGenerations(type) && !equal(spec(before), spec(after)))
    after.metadata.generation = num(before.metadata.generation) + 1;
  const model = modelFor(type);
  if (place.subresource === '' || place.subresource === 'scale') validate(type, model, after, before);
  if (equal(before, after)) return before;
  if (model && how === 'update')
    trackUpdate(type, model, before, after, {
      manager: options.manager,
      subresource: place.subresource,
      now: world.now(),
    });
  const ordered = inOrder(after);
  if (options.dryRun) return ordered;
  if (before.metadata.deletionTimestamp !== undefined && isReleased(type, ordered)) {
    world.store.put(storage(type), ordered);
    return world.store.remove(storage(type), ordered.metadata.namespace ?? '', name) ?? ordered;
  }
  return world.store.put(storage(type), ordered);
}

/** Nothing holds a deleted object any more. */
function isReleased(type: ResourceType, object: KObject): boolean {
  if (arr(object.metadata.finalizers).length > 0) return false;
  if (type.group === '' && type.resource === 'namespaces')
    return arr(obj(object.spec).finalizers).length === 0;
  return type.group !== '' || type.resource !== 'pods' || object.metadata.deletionGracePeriodSeconds === 0;
}

/** What a write through this subresource may change; everything else stays as it was. */
function inScope({ type, subresource }: Place, before: KObject, wanted: KObject): KObject {
  const { managedFields } = wanted.metadata;
  const kept = (): KObject => {
    const copy = clone(before);
    if (managedFields !== undefined) copy.metadata.managedFields = managedFields;
    return copy;
  };
  switch (subresource) {
    case 'status':
    case 'approval': {
      const after = kept();
      if (subresource === 'status') after.status = wanted.status;
      else after.status = { ...obj(before.status), conditions: obj(wanted.status).conditions };
      return after;
    }
    case 'ephemeralcontainers': {
      const after = kept();
      obj(after.spec).ephemeralContainers = obj(wanted.spec).ephemeralContainers;
      return after;
    }
    case 'resize': {
      const after = kept();
      obj(after.spec).containers = obj(wanted.spec).containers;
      return after;
    }
    case 'finalize': {
      const after = kept();
      const finalizers = obj(wanted.spec).finalizers;
      after.spec = { ...obj(after.spec), finalizers: finalizers ?? [] };
      return after;
    }
    default: {
      const after: KObject = { ...wanted, metadata: { ...wanted.metadata } };
      if (type.subresources.some((sub) => sub.name === 'status')) after.status = before.status;
      return after;
    }
  }
}

function keepAddress(before: KObject, after: KObject): void {
  const spec = obj(after.spec);
  for (const field of ['clusterIP', 'clusterIPs']) {
    const was = obj(before.spec)[field];
    if (was !== undefined && (spec[field] === undefined || spec[field] === '')) spec[field] = was;
  }
}
