// JSON as the API carries it, and total readers for it: a field of the wrong type reads as absent, so that code which
// looks into objects that clients wrote never throws.

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json | undefined;
}

export interface Metadata extends JsonObject {
  name: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
}

/** A whole API object as it is stored. Stored objects are never changed in place: clone, change, put back. */
export interface KObject extends JsonObject {
  kind: string;
  apiVersion: string;
  metadata: Metadata;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The object itself, or a new empty one. */
export function obj(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

export function arr(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : [];
}

export function objects(value: Json | undefined): JsonObject[] {
  return arr(value).filter(isObject);
}

export function text(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

export function num(value: Json | undefined, otherwise = 0): number {
  return typeof value === 'number' ? value : otherwise;
}

/** The value under a path of field names and list positions. */
export function at(value: Json | undefined, ...path: (string | number)[]): Json | undefined {
  let here: Json | undefined = value;
  for (const step of path) {
    if (typeof step === 'number') here = arr(here)[step];
    else here = isObject(here) && Object.hasOwn(here, step) ? here[step] : undefined;
  }
  return here;
}

/** The object under a field, put there when it is missing. */
export function child(parent: JsonObject, field: string): JsonObject {
  const existing = parent[field];
  if (isObject(existing)) return existing;
  const made: JsonObject = {};
  parent[field] = made;
  return made;
}

export function clone<T extends Json>(value: T): T {
  return structuredClone(value);
}

export function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (Array.isArray(a))
    return Array.isArray(b) && a.length === b.length && a.every((item, i) => equal(item, b[i]));
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a).filter((key) => a[key] !== undefined);
  return (
    keys.length === Object.keys(b).filter((key) => b[key] !== undefined).length &&
    keys.every((key) => equal(a[key], b[key]))
  );
}

/** RFC 3339 in whole seconds, the form of metav1.Time. */
export function kubeTime(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}
