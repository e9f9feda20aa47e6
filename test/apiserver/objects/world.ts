// What the parts of the server share: the state, where an object is, and how a write is meant.

import { customModel } from '../kinds/custom.ts';
import { type Model, modelOf } from '../kinds/models.ts';
import { type Registry, type ResourceType, storage } from '../kinds/resources.ts';
import { badRequest, notFound } from './status.ts';
import type { Store } from './store.ts';
import type { KObject } from './values.ts';

export interface World {
  store: Store;
  registry: Registry;
  now(): number;
}

export interface WriteOptions {
  dryRun: boolean;
  manager: string;
  fieldValidation: 'Strict' | 'Warn' | 'Ignore';
  warn(message: string): void;
}

/** How the server's own parts write. */
export const asController: WriteOptions = {
  dryRun: false,
  manager: 'kube-controller-manager',
  fieldValidation: 'Ignore',
  warn() {},
};

export interface Place {
  type: ResourceType;
  namespace: string;
  name: string;
  /** '' for the object itself. */
  subresource: string;
}

export function modelFor(type: ResourceType): Model | undefined {
  return type.custom ? customModel(type) : modelOf(type.group, type.version, type.kind);
}

/** @throws ApiError 404 */
export function read(world: World, { type, namespace, name }: Place): KObject {
  if (name === '' || name === '.' || name === '..') throw badRequest(`name may not be '${name}'`);
  return world.store.get(storage(type), namespace, name) ?? missing(type, name);
}

function missing(type: ResourceType, name: string): never {
  throw notFound(type, name);
}

/** Fields in the order in which the server prints them. */
export function inOrder(object: KObject): KObject {
  const { kind, apiVersion: version, metadata, spec, status, ...rest } = object;
  return {
    kind,
    apiVersion: version,
    metadata,
    ...(spec === undefined ? {} : { spec }),
    ...rest,
    ...(status === undefined ? {} : { status }),
  };
}
