// The shapes an answer can be asked for in: the object as it is, a Table of it, or its metadata alone.

import { badRequest } from '../objects/status.ts';
import type { Json, JsonObject, KObject } from '../objects/values.ts';
import type { Format } from '../request/negotiate.ts';
import { columnsOf } from './printers.ts';
import { apiVersion, type ResourceType } from './resources.ts';

export type IncludeObject = 'None' | 'Metadata' | 'Object';

export function readIncludeObject(value: string): IncludeObject {
  if (value === '' || value === 'Metadata') return 'Metadata';
  if (value === 'None' || value === 'Object') return value;
  throw badRequest(`unrecognized includeObject value: ${JSON.stringify(value)}`);
}

export function metadataOnly(object: KObject, version: string): JsonObject {
  return {
    kind: 'PartialObjectMetadata',
    apiVersion: `meta.k8s.io/${version}`,
    metadata: object.metadata,
  };
}

export function tableOf(
  type: ResourceType,
  items: readonly KObject[],
  metadata: JsonObject,
  version: string,
  include: IncludeObject,
  now: number,
  withColumns = true,
): JsonObject {
  const columns = columnsOf(type.kind, type.custom?.printerColumns);
  return {
    kind: 'Table',
    apiVersion: `meta.k8s.io/${version}`,
    metadata,
    columnDefinitions: withColumns
      ? columns.map((one) => ({
          name: one.name,
          type: one.type,
          format: one.name === 'Name' ? 'name' : '',
          description: '',
          priority: one.priority,
        }))
      : null,
    rows: items.map((item) => ({
      cells: columns.map((one) => one.cell(item, now)),
      ...(include === 'None' ? {} : { object: include === 'Object' ? item : metadataOnly(item, version) }),
    })),
  };
}

/** One object in the shape asked for. */
export function shapeOne(
  type: ResourceType,
  object: KObject,
  format: Format,
  include: IncludeObject,
  now: number,
  withColumns = true,
): JsonObject {
  if (format.as === 'Table') {
    const { resourceVersion } = object.metadata;
    return tableOf(type, [object], { resourceVersion }, format.version, include, now, withColumns);
  }
  return format.as === undefined ? object : metadataOnly(object, format.version);
}

/** A list's items lose their kind, as in the server's typed lists. */
export function listItem(type: ResourceType, object: KObject): Json {
  if (type.custom) return object;
  const { kind, apiVersion: version, ...rest } = object;
  return rest;
}

export function listHead(type: ResourceType, metadata: JsonObject, format: Format): JsonObject {
  return format.as === undefined
    ? { kind: `${type.kind}List`, apiVersion: apiVersion(type), metadata }
    : { kind: 'PartialObjectMetadataList', apiVersion: `meta.k8s.io/${format.version}`, metadata };
}
