// The API's protobuf, both ways, driven by the same models as everything else and a table of field numbers. On the wire
// an object is the magic number and runtime.Unknown: version and kind beside the bytes of the object.

import { readFileSync } from 'node:fs';
import { type Model, modelOf, type Schema } from '../kinds/models.ts';
import type { ResourceType } from '../kinds/resources.ts';
import { arr, isObject, type Json, type JsonObject, kubeTime, num, obj, text } from '../objects/values.ts';
import { bytesField, fieldsOf, signed, varintField, type WireField } from './wire.ts';

const MAGIC = Buffer.from([0x6b, 0x38, 0x73, 0x00]);

interface Numbered {
  name: string;
  /** A message whose fields belong to the parent in JSON. */
  inline: boolean;
}

let table: Map<string, Map<number, Numbered>> | undefined;

function numbersOf(message: string): Map<number, Numbered> | undefined {
  table ??= readTable();
  return table.get(message);
}

function readTable(): Map<string, Map<number, Numbered>> {
  const source = readFileSync(new URL('./protobuf-fields.txt', import.meta.url), 'utf8');
  const out = new Map<string, Map<number, Numbered>>();
  for (const line of source.replaceAll('\n  ', ' ').split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const colon = line.indexOf(':');
    const numbers = new Map<number, Numbered>();
    let next = 1;
    for (const word of line.slice(colon + 1).split(' ')) {
      if (word === '') continue;
      if (word.startsWith('@')) next = Number(word.slice(1));
      else numbers.set(next++, { name: word.replace('~', ''), inline: word.startsWith('~') });
    }
    out.set(line.slice(0, colon), numbers);
  }
  return out;
}

export function isProtobuf(mediaType: string): boolean {
  return mediaType === 'application/vnd.kubernetes.protobuf';
}

/** Whether objects of a type can be written and read in protobuf. */
export function speaksProtobuf(type: ResourceType): boolean {
  const model = type.custom ? undefined : modelOf(type.group, type.version, type.kind);
  return model !== undefined && numbersOf(model.className) !== undefined;
}

/** @returns undefined for what is no object in protobuf, or one of a kind that isn't known here */
export function decodeProtobuf(bytes: Buffer): JsonObject | undefined {
  if (!bytes.subarray(0, 4).equals(MAGIC)) return undefined;
  const outer = fieldsOf(bytes.subarray(4));
  const typeMeta = outer && fieldsOf(lastBytes(outer, 1));
  if (!outer || !typeMeta) return undefined;
  const version = lastBytes(typeMeta, 1).toString();
  const kind = lastBytes(typeMeta, 2).toString();
  const [short = '', group = ''] = version.split('/').reverse();
  const model = modelOf(group, short, kind) ?? modelOf('', 'v1', kind);
  if (!model || !numbersOf(model.className)) return undefined;
  return { kind, apiVersion: version, ...decodeMessage(lastBytes(outer, 2), model) };
}

function lastBytes(fields: readonly WireField[], number: number): Buffer {
  const found = fields.findLast((field) => field.number === number)?.value;
  return Buffer.isBuffer(found) ? found : Buffer.alloc(0);
}

/** Optional scalars that are pointers in Go, for which zero is a value; the zero of all others is absence. */
const ZERO_COUNTS = new Set(
  (
    'replicas parallelism completions backoffLimit terminationGracePeriodSeconds revisionHistoryLimit defaultMode ' +
    'runAsUser runAsGroup fsGroup priority ttlSecondsAfterFinished gracePeriodSeconds partition minAvailable ' +
    'tolerationSeconds enableServiceLinks automountServiceAccountToken allowPrivilegeEscalation privileged ' +
    'readOnlyRootFilesystem runAsNonRoot optional controller blockOwnerDeletion suspend orphanDependents started'
  ).split(' '),
);

function decodeMessage(bytes: Buffer, model: Model, message = model.className): JsonObject {
  const out: JsonObject = {};
  const numbers = numbersOf(message);
  for (const { number, value } of fieldsOf(bytes) ?? []) {
    const known = numbers?.get(number);
    if (!known) continue;
    if (known.inline) {
      if (Buffer.isBuffer(value)) Object.assign(out, decodeMessage(value, model, `~${known.name}`));
      continue;
    }
    const field = model.fields.get(known.name);
    if (!field) continue;
    const { schema } = field;
    if (schema.type === 'list') {
      const item = decodeValue(value, schema.items);
      if (item !== undefined) out[known.name] = [...arr(out[known.name]), item];
    } else if (schema.type === 'map') {
      const entry = Buffer.isBuffer(value) ? (fieldsOf(value) ?? []) : [];
      const inner = entry.findLast((part) => part.number === 2)?.value ?? Buffer.alloc(0);
      const key = lastBytes(entry, 1).toString();
      out[known.name] = { ...obj(out[known.name]), [key]: decodeValue(inner, schema.values) ?? '' };
    } else {
      const decoded = decodeValue(value, schema);
      const zero = decoded === '' || decoded === 0 || decoded === false;
      if (decoded === undefined || (zero && !field.required && !ZERO_COUNTS.has(known.name))) continue;
      out[known.name] = decoded;
    }
  }
  return out;
}

function decodeValue(value: Buffer | bigint, schema: Schema): Json | undefined {
  if (!Buffer.isBuffer(value)) return schema.type === 'boolean' ? value !== 0n : Number(signed(value));
  switch (schema.type) {
    case 'model':
      return decodeMessage(value, schema.model);
    case 'string':
      if (schema.format === 'byte') return value.toString('base64');
      return schema.format?.startsWith('date-time') ? decodeTime(value) : value.toString();
    case 'quantity':
      return lastBytes(fieldsOf(value) ?? [], 1).toString();
    case 'int-or-string': {
      const fields = fieldsOf(value) ?? [];
      const isString = fields.some((field) => field.number === 1 && field.value === 1n);
      if (isString) return lastBytes(fields, 3).toString();
      const number = fields.findLast((field) => field.number === 2)?.value;
      return typeof number === 'bigint' ? Number(signed(number)) : 0;
    }
    case 'list': {
      // A list as a map's value travels in a message of its own.
      const items: Json[] = [];
      for (const field of fieldsOf(value) ?? []) items.push(decodeValue(field.value, schema.items) ?? '');
      return items;
    }
    case 'any':
      try {
        return JSON.parse(lastBytes(fieldsOf(value) ?? [], 1).toString()) as Json;
      } catch {
        return undefined;
      }
    default:
      return undefined;
  }
}

function decodeTime(bytes: Buffer): Json | undefined {
  const fields = fieldsOf(bytes) ?? [];
  const part = (number: number): bigint => {
    const value = fields.findLast((field) => field.number === number)?.value;
    return typeof value === 'bigint' ? signed(value) : 0n;
  };
  if (fields.length === 0) return undefined; // the zero time, null in JSON
  const micros = part(2) / 1000n;
  const base = kubeTime(Number(part(1)) * 1000);
  return micros === 0n ? base : base.replace('Z', `.${String(micros).padStart(6, '0')}Z`);
}

/** An object, a list of them, or a Status. @returns undefined for a kind that isn't known here */
export function encodeProtobuf(object: JsonObject, type?: ResourceType): Buffer | undefined {
  const kind = text(object.kind);
  const version = text(object.apiVersion);
  const model =
    type && kind !== 'Status' ? modelOf(type.group, type.version, type.kind) : modelOf('', 'v1', kind);
  if (!model || !numbersOf(model.className)) return undefined;
  const listMeta = modelOf('', 'v1', 'ListMeta');
  const raw =
    type && kind === `${type.kind}List` && listMeta
      ? Buffer.concat([
          bytesField(1, encodeMessage(obj(object.metadata), listMeta)),
          ...arr(object.items).map((item) => bytesField(2, encodeMessage(obj(item), model))),
        ])
      : encodeMessage(object, model);
  const typeMeta = Buffer.concat([bytesField(1, Buffer.from(version)), bytesField(2, Buffer.from(kind))]);
  const rest = [bytesField(3, Buffer.alloc(0)), bytesField(4, Buffer.alloc(0))];
  return Buffer.concat([MAGIC, bytesField(1, typeMeta), bytesField(2, raw), ...rest]);
}

/** One event of a watch: its length, then WatchEvent with the object in its envelope. */
export function encodeWatchEvent(event: string, object: JsonObject, type: ResourceType): Buffer {
  const raw = bytesField(1, encodeProtobuf(object, type) ?? Buffer.alloc(0));
  const message = Buffer.concat([bytesField(1, Buffer.from(event)), bytesField(2, raw)]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(message.length);
  return Buffer.concat([length, message]);
}

function encodeMessage(object: JsonObject, model: Model, message = model.className): Buffer {
  const parts: Buffer[] = [];
  for (const [number, { name, inline }] of numbersOf(message) ?? []) {
    if (inline) {
      const inner = encodeMessage(object, model, `~${name}`);
      if (inner.length > 0) parts.push(bytesField(number, inner));
      continue;
    }
    const schema = model.fields.get(name)?.schema;
    const value = object[name];
    if (!schema || value === undefined || value === null) continue;
    if (schema.type === 'list')
      for (const item of arr(value)) parts.push(encodeValue(number, item, schema.items));
    else if (schema.type === 'map')
      for (const [key, item] of Object.entries(obj(value)))
        parts.push(
          bytesField(
            number,
            Buffer.concat([bytesField(1, Buffer.from(key)), encodeValue(2, item ?? '', schema.values)]),
          ),
        );
    else parts.push(encodeValue(number, value, schema));
  }
  return Buffer.concat(parts);
}

function encodeValue(number: number, value: Json, schema: Schema): Buffer {
  switch (schema.type) {
    case 'boolean':
      return varintField(number, value === true ? 1n : 0n);
    case 'integer':
      return varintField(number, BigInt(num(value)));
    case 'model':
      return bytesField(number, isObject(value) ? encodeMessage(value, schema.model) : Buffer.alloc(0));
    case 'quantity':
      return bytesField(number, bytesField(1, Buffer.from(text(value))));
    case 'int-or-string':
      return bytesField(
        number,
        typeof value === 'string'
          ? Buffer.concat([varintField(1, 1n), varintField(2, 0n), bytesField(3, Buffer.from(value))])
          : Buffer.concat([
              varintField(1, 0n),
              varintField(2, BigInt(num(value))),
              bytesField(3, Buffer.alloc(0)),
            ]),
      );
    case 'list':
      return bytesField(number, Buffer.concat(arr(value).map((item) => encodeValue(1, item, schema.items))));
    case 'any':
      return bytesField(number, bytesField(1, Buffer.from(JSON.stringify(value))));
    case 'string':
      if (schema.format === 'byte') return bytesField(number, Buffer.from(text(value), 'base64'));
      if (schema.format?.startsWith('date-time')) return bytesField(number, encodeTime(text(value)));
      return bytesField(number, Buffer.from(text(value)));
    default:
      return Buffer.alloc(0);
  }
}

function encodeTime(value: string): Buffer {
  const ms = Date.parse(value);
  const micros = Number((/\.(\d{1,6})/.exec(value)?.[1] ?? '').padEnd(6, '0'));
  return Buffer.concat([
    varintField(1, BigInt(Math.floor(ms / 1000))),
    varintField(2, BigInt(micros * 1000)),
  ]);
}
