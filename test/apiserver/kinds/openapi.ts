// OpenAPI documents, made from the models of the kinds: version 3 by group and version, as kubectl 1.32 reads them, and
// the single version 2 document of older clients (openapi-v2.ts writes that one as protobuf too).

import { createHash } from 'node:crypto';
import type { JsonObject } from '../objects/values.ts';
import { customModel } from './custom.ts';
import { type Model, modelOf, type Schema } from './models.ts';
import { apiVersion, type Registry, type ResourceType } from './resources.ts';

const META = new Set([
  'ObjectMeta',
  'ListMeta',
  'ManagedFieldsEntry',
  'OwnerReference',
  'LabelSelector',
  'LabelSelectorRequirement',
  'FieldSelectorRequirement',
  'Condition',
  'Status',
  'DeleteOptions',
  'Preconditions',
]);

export interface KindOf {
  group: string;
  version: string;
  kind: string;
}

/** Names of definitions as the real documents have them, for the kinds; the parts of kinds go under core/v1. */
function definitionName(model: Model, kinds: ReadonlyMap<Model, KindOf>): string {
  const gvk = kinds.get(model);
  if (gvk) return kindName(gvk);
  if (META.has(model.name)) return `io.k8s.apimachinery.pkg.apis.meta.v1.${model.name}`;
  const version = /V(\d+(?:(?:alpha|beta)\d+)?)/.exec(model.className)?.[1] ?? '1';
  return `io.k8s.api.core.v${version}.${model.className.replace(/^V\d+((alpha|beta)\d+)?/, '')}`;
}

function kindName({ group, version, kind }: KindOf): string {
  if (group !== '' && !group.endsWith('.k8s.io') && group.includes('.'))
    return `${group.split('.').reverse().join('.')}.${version}.${kind}`;
  return `io.k8s.api.${group.split('.')[0] || 'core'}.${version}.${kind}`;
}

export function modelOfType(type: ResourceType): Model | undefined {
  return type.custom ? customModel(type) : modelOf(type.group, type.version, type.kind);
}

function kindsOf(types: readonly ResourceType[]): Map<Model, KindOf> {
  const kinds = new Map<Model, KindOf>();
  for (const type of types) {
    const model = modelOfType(type);
    if (model && !kinds.has(model))
      kinds.set(model, { group: type.group, version: type.version, kind: type.kind });
  }
  return kinds;
}

/** Every definition that the kinds reach, by name. `refs` is where references point. */
export function definitions(types: readonly ResourceType[], refs: string, v3: boolean): JsonObject {
  const kinds = kindsOf(types);
  const out = new Map<string, JsonObject>();
  const visit = (model: Model): string => {
    const name = definitionName(model, kinds);
    if (out.has(name)) return name;
    const body: JsonObject = {};
    out.set(name, body);
    const properties: JsonObject = {};
    const required: string[] = [];
    for (const [key, field] of [...model.fields].sort(([a], [b]) => (a < b ? -1 : 1))) {
      properties[key] = {
        ...describe(field.schema),
        ...(field.description ? { description: field.description } : {}),
      };
      if (field.required) required.push(key);
    }
    const gvk = kinds.get(model);
    Object.assign(body, {
      description: model.description,
      type: 'object',
      ...(required.length > 0 ? { required } : {}),
      properties,
      ...(gvk ? { 'x-kubernetes-group-version-kind': [{ ...gvk }] } : {}),
    });
    return name;
  };
  const describe = (schema: Schema): JsonObject => {
    switch (schema.type) {
      case 'any':
        return v3 ? { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } : { type: 'object' };
      case 'int-or-string':
        return { type: 'string', format: 'int-or-string' };
      case 'quantity':
        return { type: 'string' };
      case 'map':
        return { type: 'object', additionalProperties: describe(schema.values) };
      case 'list':
        return { type: 'array', items: describe(schema.items), ...listExtensions(schema) };
      case 'model': {
        const $ref = refs + visit(schema.model);
        return v3 ? { allOf: [{ $ref }], default: {} } : { $ref };
      }
      default:
        return 'format' in schema && schema.format
          ? { type: schema.type, format: schema.format }
          : { type: schema.type };
    }
  };
  for (const model of kinds.keys()) visit(model);
  return Object.fromEntries([...out].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function listExtensions({ merge }: Extract<Schema, { type: 'list' }>): JsonObject {
  if (merge === 'atomic') return { 'x-kubernetes-list-type': 'atomic' };
  if (merge === 'set') return { 'x-kubernetes-list-type': 'set', 'x-kubernetes-patch-strategy': 'merge' };
  return {
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': [...merge],
    'x-kubernetes-patch-merge-key': merge[0],
    'x-kubernetes-patch-strategy': 'merge',
  };
}

/** Only what clients look for in paths: which writes take dryRun and fieldValidation, by kind. */
export function pathItems(types: readonly ResourceType[], v3: boolean): JsonObject {
  const query = (name: string): JsonObject => ({
    name,
    in: 'query',
    description: name,
    ...(v3 ? { schema: { type: 'string', uniqueItems: true } } : { type: 'string', uniqueItems: true }),
  });
  const parameters = ['dryRun', 'fieldManager', 'fieldValidation', 'force'].map(query);
  const out: JsonObject = {};
  for (const type of types) {
    if (!type.verbs.includes('patch')) continue;
    const root = type.group ? `/apis/${apiVersion(type)}` : '/api/v1';
    const scope = type.namespaced ? '/namespaces/{namespace}' : '';
    const gvk = { group: type.group, version: type.version, kind: type.kind };
    const operation = (action: string): JsonObject => ({
      'x-kubernetes-action': action,
      'x-kubernetes-group-version-kind': gvk,
      operationId: `${action}${type.kind}${type.group}${type.version}`,
      parameters,
      responses: { '200': { description: 'OK' } },
    });
    out[`${root}${scope}/${type.resource}/{name}`] = { patch: operation('patch'), put: operation('put') };
    out[`${root}${scope}/${type.resource}`] = { post: operation('post') };
  }
  return out;
}

export interface OpenApi {
  v3Index(): JsonObject;
  /** @returns undefined for a group and version that isn't served */
  v3(path: string): JsonObject | undefined;
  v2(): JsonObject;
}

export function createOpenApi(registry: Registry): OpenApi {
  const made = new Map<string, JsonObject>();
  let madeOf: readonly ResourceType[] | undefined;
  const cached = (key: string, make: () => JsonObject): JsonObject => {
    if (madeOf !== registry.types()) made.clear();
    madeOf = registry.types();
    const found = made.get(key) ?? make();
    made.set(key, found);
    return found;
  };
  const versions = (): string[] => [
    ...new Set(
      registry.types().map((type) => (type.group ? `apis/${apiVersion(type)}` : `api/${type.version}`)),
    ),
  ];
  const info = { title: 'Kubernetes', version: 'v1.36.2' };
  const v3 = (path: string): JsonObject | undefined => {
    if (!versions().includes(path)) return undefined;
    return cached(path, () => {
      const types = registry
        .types()
        .filter((type) => (type.group ? `apis/${apiVersion(type)}` : `api/${type.version}`) === path);
      return {
        openapi: '3.0.0',
        info,
        paths: pathItems(types, true),
        components: { schemas: definitions(types, '#/components/schemas/', true) },
      };
    });
  };
  return {
    v3Index: () => ({
      paths: Object.fromEntries(
        versions().map((path) => {
          const hash = createHash('sha256')
            .update(path)
            .update(String(registry.types().length))
            .digest('hex');
          return [path, { serverRelativeURL: `/openapi/v3/${path}?hash=${hash.toUpperCase()}` }];
        }),
      ),
    }),
    v3,
    v2: () =>
      cached('v2', () => ({
        swagger: '2.0',
        info,
        paths: pathItems(registry.types(), false),
        definitions: definitions(registry.types(), '#/definitions/', false),
      })),
  };
}
