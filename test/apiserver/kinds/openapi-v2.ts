// The OpenAPI v2 document as protobuf, which is the only form that client-go reads it in. Field numbers are those of
// gnostic's OpenAPIv2.proto; extensions travel as YAML text.

import { arr, type Json, type JsonObject, obj, objects, text } from '../objects/values.ts';

/** What clients ask for has `@v1.0`, which is no media type by RFC 2045: the answer spells it with a dot. */
export const PROTO_V2 = 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf';

function varint(value: number): Buffer {
  const out: number[] = [];
  let left = value;
  while (left > 0x7f) {
    out.push((left & 0x7f) | 0x80);
    left >>>= 7;
  }
  out.push(left);
  return Buffer.from(out);
}

function bytes(field: number, value: Buffer): Buffer {
  return Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);
}

function string(field: number, value: string): Buffer {
  return value === '' ? Buffer.alloc(0) : bytes(field, Buffer.from(value));
}

const join = (...parts: Buffer[]): Buffer => Buffer.concat(parts);
const any = (value: Json): Buffer => string(2, JSON.stringify(value));
const named = (name: string, value: Buffer): Buffer => join(string(1, name), bytes(2, value));

function extensions(field: number, from: JsonObject): Buffer {
  return join(
    ...Object.entries(from)
      .filter(([key]) => key.startsWith('x-'))
      .map(([key, value]) => bytes(field, named(key, any(value ?? null)))),
  );
}

function schema(of: JsonObject): Buffer {
  const type = text(of.type);
  const items = of.items;
  const more = of.additionalProperties;
  const properties = Object.entries(obj(of.properties));
  return join(
    string(1, text(of.$ref)),
    string(2, text(of.format)),
    string(4, text(of.description)),
    ...arr(of.required).map((name) => string(19, text(name))),
    ...(more === undefined ? [] : [bytes(21, bytes(1, schema(obj(more))))]),
    ...(type ? [bytes(22, string(1, type))] : []),
    ...(items === undefined ? [] : [bytes(23, bytes(1, schema(obj(items))))]),
    ...(properties.length > 0
      ? [bytes(25, join(...properties.map(([key, value]) => bytes(1, named(key, schema(obj(value)))))))]
      : []),
    extensions(31, of),
  );
}

function parameter(of: JsonObject): Buffer {
  const query = join(
    string(2, text(of.in)),
    string(3, text(of.description)),
    string(4, text(of.name)),
    string(6, text(of.type)),
  );
  return bytes(1, bytes(2, bytes(3, query))); // ParametersItem.parameter.nonBodyParameter.queryParameterSubSchema
}

function operation(of: JsonObject): Buffer {
  const ok = bytes(1, string(1, 'OK')); // ResponseValue.response.description
  return join(
    string(5, text(of.operationId)),
    ...objects(of.parameters).map((one) => bytes(8, parameter(one))),
    bytes(9, bytes(1, named('200', ok))),
    extensions(13, of),
  );
}

const METHOD_FIELDS: Record<string, number> = { get: 2, put: 3, post: 4, delete: 5, patch: 8 };

function pathItem(of: JsonObject): Buffer {
  return join(
    ...Object.entries(of).map(([method, value]) => {
      const field = METHOD_FIELDS[method];
      return field === undefined ? Buffer.alloc(0) : bytes(field, operation(obj(value)));
    }),
  );
}

export function encodeOpenApiV2(document: JsonObject): Buffer {
  const info = obj(document.info);
  const paths = Object.entries(obj(document.paths)).map(([path, item]) =>
    bytes(2, named(path, pathItem(obj(item)))),
  );
  const schemas = Object.entries(obj(document.definitions)).map(([name, one]) =>
    bytes(1, named(name, schema(obj(one)))),
  );
  return join(
    string(1, '2.0'),
    bytes(2, join(string(1, text(info.title)), string(2, text(info.version)))),
    bytes(8, join(...paths)),
    bytes(9, join(...schemas)),
  );
}
