// Custom resources: an established CustomResourceDefinition adds its versions to the registry, and its structural
// schema becomes a model like those of the built-in kinds.

import {
  arr,
  isObject,
  type Json,
  type JsonObject,
  type KObject,
  obj,
  objects,
  text,
} from '../objects/values.ts';
import { type Field, type Model, OBJECT_META, type Schema } from './models.ts';
import { CUSTOM_VERBS, type Registry, type ResourceType } from './resources.ts';

const models = new WeakMap<object, Model>();

export function customModel(type: ResourceType): Model {
  const raw = type.custom?.schema;
  const schema = isObject(raw) ? raw : {};
  const known = models.get(schema);
  if (known) return known;
  const own = schemaFrom(schema, type.kind);
  const fields = new Map<string, Field>(own.type === 'model' ? own.model.fields : []);
  const plain = (schema: Schema, description = ''): Field => ({ schema, description, required: false });
  fields.set('apiVersion', plain({ type: 'string' }));
  fields.set('kind', plain({ type: 'string' }));
  fields.set('metadata', plain({ type: 'model', model: OBJECT_META() }));
  const model: Model = {
    name: type.kind,
    className: type.kind,
    description: text(schema.description),
    fields,
  };
  models.set(schema, model);
  return model;
}

function schemaFrom(schema: JsonObject, name: string): Schema {
  if (schema['x-kubernetes-preserve-unknown-fields'] === true) return { type: 'any' };
  if (schema['x-kubernetes-int-or-string'] === true) return { type: 'int-or-string' };
  const format = text(schema.format);
  switch (schema.type) {
    case 'string':
      return format ? { type: 'string', format } : { type: 'string' };
    case 'integer':
    case 'number':
      return { type: schema.type };
    case 'boolean':
      return { type: 'boolean' };
    case 'array': {
      const keys = arr(schema['x-kubernetes-list-map-keys']).map(text);
      const kind = schema['x-kubernetes-list-type'];
      const merge = kind === 'map' ? keys : kind === 'set' ? 'set' : 'atomic';
      return { type: 'list', items: schemaFrom(obj(schema.items), `${name}Item`), merge };
    }
    case 'object': {
      const more = schema.additionalProperties;
      if (isObject(more)) return { type: 'map', values: schemaFrom(more, `${name}Value`) };
      return { type: 'model', model: structFrom(schema, name) };
    }
    default:
      return { type: 'any' };
  }
}

function structFrom(schema: JsonObject, name: string): Model {
  const required = arr(schema.required);
  const fields = new Map<string, Field>();
  for (const [key, value] of Object.entries(obj(schema.properties))) {
    const inner = obj(value);
    fields.set(key, {
      schema: schemaFrom(inner, `${name}${key[0]?.toUpperCase()}${key.slice(1)}`),
      description: text(inner.description),
      required: required.includes(key),
    });
  }
  return { name, className: name, description: text(schema.description), fields };
}

/** Serves what a CRD declares. */
export function serveCustom(registry: Registry, crd: KObject): void {
  const spec = obj(crd.spec);
  const names = obj(spec.names);
  const group = text(spec.group);
  for (const version of objects(spec.versions)) {
    if (version.served !== true) continue;
    const subresources = obj(version.subresources);
    const kind = text(names.kind);
    const verbs = ['get', 'patch', 'update'];
    registry.add({
      group,
      version: text(version.name),
      resource: text(names.plural),
      kind,
      singular: text(names.singular) || kind.toLowerCase(),
      namespaced: spec.scope === 'Namespaced',
      verbs: CUSTOM_VERBS,
      shortNames: strings(names.shortNames),
      categories: strings(names.categories),
      subresources: [
        ...(isObject(subresources.status) ? [{ name: 'status', kind, verbs }] : []),
        ...(isObject(subresources.scale) ? [{ name: 'scale', kind: 'autoscaling/v1/Scale', verbs }] : []),
      ],
      custom: {
        schema: obj(obj(version.schema).openAPIV3Schema),
        printerColumns: version.additionalPrinterColumns,
      },
    });
  }
}

export function dropCustom(registry: Registry, crd: KObject): void {
  const spec = obj(crd.spec);
  registry.remove(text(spec.group), text(obj(spec.names).plural));
}

function strings(value: Json | undefined): string[] {
  return arr(value).map(text);
}
