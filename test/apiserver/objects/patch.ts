// The three patches that change an object by description: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and the
// API's strategic merge patch, which merges lists by the keys that the kind's schema names.

import type { Model, Schema } from '../kinds/models.ts';
import { badRequest, failure } from './status.ts';
import { arr, clone, equal, isObject, type Json, type JsonObject, obj, text } from './values.ts';

/** @throws ApiError 400 for an operation that can't be read, 422 for one that can't be applied */
export function jsonPatch(target: JsonObject, operations: Json): JsonObject {
  if (!Array.isArray(operations)) throw badRequest('json patch must be an array of operations');
  let root: Json = clone(target);
  const cannot = (why: string): never => {
    throw failure(
      422,
      'Invalid',
      `the server rejected our request due to an error in our request: ${why}`,
      {},
    );
  };
  const locate = (pointer: string): { parent: JsonObject | Json[]; key: string } => {
    const steps = pointer
      .split('/')
      .slice(1)
      .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
    const key = steps.pop() ?? cannot('the whole document cannot be replaced');
    let parent: Json | undefined = root;
    for (const step of steps) parent = Array.isArray(parent) ? parent[Number(step)] : obj(parent)[step];
    return Array.isArray(parent) || isObject(parent) ? { parent, key } : cannot(`no value at ${pointer}`);
  };
  const read = (pointer: string): Json => {
    if (pointer === '') return root;
    const { parent, key } = locate(pointer);
    const value = Array.isArray(parent) ? parent[Number(key)] : parent[key];
    return value === undefined ? cannot(`no value at ${pointer}`) : value;
  };
  const remove = (pointer: string): void => {
    read(pointer);
    const { parent, key } = locate(pointer);
    if (Array.isArray(parent)) parent.splice(Number(key), 1);
    else delete parent[key];
  };
  const add = (pointer: string, value: Json): void => {
    if (pointer === '') {
      root = clone(value);
      return;
    }
    const { parent, key } = locate(pointer);
    if (!Array.isArray(parent)) parent[key] = clone(value);
    else if (key === '-') parent.push(clone(value));
    else if (/^\d+$/.test(key) && Number(key) <= parent.length) parent.splice(Number(key), 0, clone(value));
    else cannot(`no place at ${pointer}`);
  };
  for (const operation of operations) {
    const { op, path, from, value } = obj(operation);
    if (typeof path !== 'string') throw badRequest('json patch operation without a path');
    if (op === 'add') add(path, value ?? null);
    else if (op === 'remove') remove(path);
    else if (op === 'replace') {
      read(path);
      if (path !== '') remove(path);
      add(path, value ?? null);
    } else if (op === 'copy') add(path, read(text(from)));
    else if (op === 'move') {
      const moved = read(text(from));
      remove(text(from));
      add(path, moved);
    } else if (op === 'test') {
      if (!equal(read(path), value ?? null)) cannot(`testing value ${path} failed`);
    } else throw badRequest(`unexpected json patch operation ${JSON.stringify(op)}`);
  }
  return isObject(root) ? root : cannot('the result is not an object');
}

export function mergePatch(target: Json | undefined, patch: Json): Json {
  if (!isObject(patch)) return clone(patch);
  const out: JsonObject = { ...obj(target) };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete out[key];
    else if (value !== undefined) out[key] = mergePatch(out[key], value);
  }
  return out;
}

/** Directives read: `$patch: delete|replace|merge`, `$retainKeys`, `$deleteFromPrimitiveList`, `$setElementOrder`. */
export function strategicMerge(target: JsonObject, patch: JsonObject, model: Model): JsonObject {
  return mergeFields(target, patch, (key) => model.fields.get(key)?.schema);
}

function mergeFields(
  target: JsonObject,
  patch: JsonObject,
  schemaFor: (key: string) => Schema | undefined,
): JsonObject {
  if (patch.$patch === 'replace') return withoutDirectives(patch);
  if (patch.$patch === 'delete') return {};
  const out: JsonObject = { ...target };
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith('$setElementOrder/') || key === '$patch' || key === '$retainKeys') continue;
    if (key.startsWith('$deleteFromPrimitiveList/')) {
      const field = key.slice(key.indexOf('/') + 1);
      out[field] = arr(out[field]).filter((item) => !arr(value).some((gone) => equal(item, gone)));
      continue;
    }
    const schema = schemaFor(key);
    if (value === null || value === undefined) delete out[key];
    else if (isObject(value))
      out[key] = mergeFields(obj(out[key]), value, (inner) =>
        schema?.type === 'model'
          ? schema.model.fields.get(inner)?.schema
          : schema?.type === 'map'
            ? schema.values
            : undefined,
      );
    else if (Array.isArray(value) && schema?.type === 'list' && schema.merge !== 'atomic')
      out[key] = mergeList(arr(out[key]), value, schema, arr(patch[`$setElementOrder/${key}`]));
    else out[key] = clone(value);
  }
  // An order alone reorders; a list that the patch doesn't touch otherwise.
  for (const key of Object.keys(patch)) {
    if (!key.startsWith('$setElementOrder/')) continue;
    const field = key.slice(key.indexOf('/') + 1);
    const schema = schemaFor(field);
    if (schema?.type === 'list' && schema.merge !== 'atomic' && out[field] !== undefined && !(field in patch))
      out[field] = inOrder(arr(out[field]), arr(patch[key]), schema);
  }
  const retain = patch.$retainKeys;
  if (Array.isArray(retain)) for (const key of Object.keys(out)) if (!retain.includes(key)) delete out[key];
  return out;
}

type ListSchema = Extract<Schema, { type: 'list' }>;

/** Strategic merge tells items apart by the first key only. */
function keyOf(item: Json, { merge }: ListSchema): Json | undefined {
  return Array.isArray(merge) ? obj(item)[merge[0] ?? ''] : item;
}

function mergeList(target: Json[], patch: Json[], schema: ListSchema, order: Json[]): Json[] {
  if (patch.some((item) => obj(item).$patch === 'replace'))
    return patch.filter((item) => obj(item).$patch === undefined).map(clone);
  const out = [...target];
  for (const item of patch) {
    const index = out.findIndex((other) => equal(keyOf(other, schema), keyOf(item, schema)));
    if (obj(item).$patch === 'delete') {
      if (index >= 0) out.splice(index, 1);
    } else if (index < 0) out.push(isObject(item) ? withoutDirectives(item) : clone(item));
    else if (isObject(item)) {
      const inner = schema.items;
      out[index] = mergeFields(obj(out[index]), item, (key) =>
        inner.type === 'model' ? inner.model.fields.get(key)?.schema : undefined,
      );
    }
  }
  return order.length > 0 ? inOrder(out, order, schema) : out;
}

/** The ordered items in their order, the rest where they were before the ordered one that follows them. */
function inOrder(items: Json[], order: Json[], schema: ListSchema): Json[] {
  const rank = (item: Json): number =>
    order.findIndex((wanted) => equal(keyOf(wanted, schema), keyOf(item, schema)));
  const ranked = items.filter((item) => rank(item) >= 0).sort((a, b) => rank(a) - rank(b));
  const out: Json[] = [];
  for (const item of items) out.push(rank(item) >= 0 ? (ranked.shift() ?? item) : item);
  return out;
}

function withoutDirectives(value: JsonObject): JsonObject {
  const out: JsonObject = {};
  for (const [key, item] of Object.entries(value)) {
    if (key.startsWith('$')) continue;
    if (isObject(item)) out[key] = withoutDirectives(item);
    else if (Array.isArray(item))
      out[key] = item
        .filter((inner) => obj(inner).$patch !== 'delete')
        .map((inner) => (isObject(inner) ? withoutDirectives(inner) : clone(inner)));
    else out[key] = item;
  }
  return out;
}
