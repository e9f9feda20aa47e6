// Sets of fields in the notation of metadata.managedFields (FieldsV1): `f:name` a field, `k:{…}` a list item by its
// keys, `v:…` a member of a set, `.` the container itself. A set here is its leaf paths.

import type { Model, Schema } from '../kinds/models.ts';
import { arr, equal, isObject, type Json, type JsonObject, obj } from './values.ts';

/** Leaf paths, each one its elements joined by NUL. */
export type FieldSet = Set<string>;

const SEPARATOR = '\0';
const NOT_OWNED = new Set(['apiVersion', 'kind']);
const NOT_OWNED_METADATA = new Set([
  'name',
  'namespace',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'managedFields',
  'selfLink',
]);

export function fieldsOf(object: JsonObject, model: Model): FieldSet {
  const set: FieldSet = new Set();
  const walk = (value: Json, schema: Schema | undefined, path: string[]): void => {
    if (isObject(value) && (schema?.type === 'model' || schema?.type === 'map')) {
      const keys = Object.keys(value).filter((key) => value[key] !== undefined);
      if (keys.length === 0) set.add(path.join(SEPARATOR));
      else if (schema.type === 'map') set.add([...path, '.'].join(SEPARATOR));
      for (const key of keys) {
        if (path.length === 0 && NOT_OWNED.has(key)) continue;
        if (path.length === 1 && path[0] === 'f:metadata' && NOT_OWNED_METADATA.has(key)) continue;
        const inner = schema.type === 'map' ? schema.values : schema.model.fields.get(key)?.schema;
        walk(value[key] ?? null, inner, [...path, `f:${key}`]);
      }
    } else if (Array.isArray(value) && schema?.type === 'list' && schema.merge !== 'atomic') {
      for (const item of value) {
        const element = elementOf(item, schema.merge);
        if (schema.merge === 'set') set.add([...path, element].join(SEPARATOR));
        else {
          set.add([...path, element, '.'].join(SEPARATOR));
          walk(item, schema.items, [...path, element]);
        }
      }
    } else if (path.length > 0) set.add(path.join(SEPARATOR));
  };
  walk(object, { type: 'model', model }, []);
  // An object without fields, or with none but the server's, owns nothing.
  set.delete('');
  set.delete('f:metadata');
  return set;
}

function elementOf(item: Json, merge: 'set' | readonly string[]): string {
  if (merge === 'set') return `v:${JSON.stringify(item)}`;
  const key: JsonObject = {};
  for (const name of [...merge].sort()) {
    const value = obj(item)[name];
    if (value !== undefined) key[name] = value;
    else if (name === 'protocol') key[name] = 'TCP'; // the one key with a default
  }
  return `k:${JSON.stringify(key)}`;
}

export function toFieldsV1(set: FieldSet): JsonObject {
  const root: JsonObject = {};
  for (const path of [...set].sort()) {
    let here = root;
    for (const element of path.split(SEPARATOR)) {
      const next = obj(here[element]);
      here[element] = next;
      here = next;
    }
  }
  return root;
}

export function fromFieldsV1(fields: Json | undefined): FieldSet {
  const set: FieldSet = new Set();
  const walk = (value: JsonObject, path: string[]): void => {
    const keys = Object.keys(value);
    if (keys.length === 0 && path.length > 0) set.add(path.join(SEPARATOR));
    for (const key of keys) walk(obj(value[key]), [...path, key]);
  };
  walk(obj(fields), []);
  return set;
}

export function valueAt(object: Json, path: string): Json | undefined {
  let here: Json | undefined = object;
  for (const element of path.split(SEPARATOR)) here = element === '.' ? here : step(here, element);
  return here;
}

function step(value: Json | undefined, element: string): Json | undefined {
  if (element.startsWith('f:')) return obj(value)[element.slice(2)];
  const index = indexOf(value, element);
  return index < 0 ? undefined : arr(value)[index];
}

function indexOf(list: Json | undefined, element: string): number {
  const wanted = JSON.parse(element.slice(2)) as Json;
  return arr(list).findIndex((item) =>
    element.startsWith('v:')
      ? equal(item, wanted)
      : Object.entries(obj(wanted)).every(
          ([key, value]) =>
            equal(obj(item)[key], value) || (key === 'protocol' && obj(item)[key] === undefined),
        ),
  );
}

/** Takes what `gone` names out of the object (changed in place), except where `kept` still owns something below. */
export function removeFields(object: JsonObject, gone: FieldSet, kept: FieldSet): void {
  const deepest = [...gone].sort((a, b) => b.split(SEPARATOR).length - a.split(SEPARATOR).length);
  for (const path of deepest) {
    const elements = path.split(SEPARATOR);
    const container = elements.at(-1) === '.';
    if (container) elements.pop();
    const prefix = elements.join(SEPARATOR) + SEPARATOR;
    if ([...kept].some((other) => other === elements.join(SEPARATOR) || other.startsWith(prefix))) continue;
    const last = elements.pop();
    if (last === undefined) continue;
    const parent = elements.length > 0 ? valueAt(object, elements.join(SEPARATOR)) : object;
    if (last.startsWith('f:')) {
      const field = obj(parent)[last.slice(2)];
      if (!container || (isObject(field) && Object.keys(field).length === 0))
        delete obj(parent)[last.slice(2)];
    } else {
      const index = indexOf(parent, last);
      if (index >= 0) arr(parent).splice(index, 1);
    }
  }
}

/** `.spec.template.spec.containers[name="web"].image`, as conflicts name a field. */
export function showPath(path: string): string {
  let shown = '';
  for (const element of path.split(SEPARATOR)) {
    if (element === '.') continue;
    const rest = element.slice(2);
    if (element.startsWith('f:')) shown += `.${rest}`;
    else if (element.startsWith('v:')) shown += `[=${rest}]`;
    else {
      const keys = Object.entries(obj(JSON.parse(rest) as Json));
      shown += `[${keys.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(',')}]`;
    }
  }
  return shown;
}

/** Lays one value over another as server-side apply does. */
export function overlay(live: Json | undefined, applied: Json, schema: Schema | undefined): Json {
  if (isObject(applied) && isObject(live) && (schema?.type === 'model' || schema?.type === 'map')) {
    const out: JsonObject = { ...live };
    for (const [key, value] of Object.entries(applied)) {
      if (value === undefined) continue;
      const inner = schema.type === 'map' ? schema.values : schema.model.fields.get(key)?.schema;
      out[key] = overlay(live[key], value, inner);
    }
    return out;
  }
  if (Array.isArray(applied) && Array.isArray(live) && schema?.type === 'list' && schema.merge !== 'atomic') {
    const out = [...live];
    for (const item of applied) {
      const element = elementOf(item, schema.merge);
      const index = indexOf(out, element);
      if (index < 0) out.push(item);
      else out[index] = schema.merge === 'set' ? item : overlay(out[index], item, schema.items);
    }
    return out;
  }
  return structuredClone(applied);
}
