// A body as the server's decoder takes it: a field of the wrong type is a 400, an unknown field is dropped and told
// (refused under fieldValidation=Strict, a Warning under Warn, silence under Ignore), null is absence.

import { badRequest } from '../objects/status.ts';
import { isObject, type Json, type JsonObject } from '../objects/values.ts';
import type { Model, Schema } from './models.ts';

export interface Decoded {
  object: JsonObject;
  /** Paths of fields that the kind doesn't have. */
  unknown: string[];
}

/** @throws ApiError 400 for a value of the wrong type */
export function decode(body: JsonObject, model: Model, kind: string, version: string): Decoded {
  const unknown: string[] = [];
  const wrong = (got: Json, want: string, at: string): never => {
    throw badRequest(
      `${kind} in version "${version}" cannot be handled as a ${kind}: json: cannot unmarshal ` +
        `${jsonType(got)} into Go struct field ${at} of type ${want}`,
    );
  };

  const fields = (value: JsonObject, of: Model, path: string): JsonObject => {
    const out: JsonObject = {};
    for (const [key, item] of Object.entries(value)) {
      const field = of.fields.get(key);
      const here = path ? `${path}.${key}` : key;
      if (!field) unknown.push(here);
      else if (item !== null && item !== undefined) {
        const taken = take(item, field.schema, here, `${of.name}.${here}`);
        if (taken !== undefined) out[key] = taken;
      }
    }
    return out;
  };

  const take = (value: Json, schema: Schema, path: string, at: string): Json | undefined => {
    switch (schema.type) {
      case 'any':
        return value;
      case 'boolean':
        return typeof value === 'boolean' ? value : wrong(value, 'bool', at);
      case 'string':
        if (typeof value !== 'string') return wrong(value, 'string', at);
        if (schema.format === 'byte' && !/^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(value))
          throw badRequest(
            `${kind} in version "${version}" cannot be handled as a ${kind}: illegal base64 data at input byte 0`,
          );
        return value;
      case 'quantity':
        if (typeof value === 'number') return String(value);
        if (typeof value !== 'string') return wrong(value, 'resource.Quantity', at);
        if (!/^[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$/.test(value))
          throw badRequest(
            `${kind} in version "${version}" cannot be handled as a ${kind}: quantities must match the regular ` +
              `expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
          );
        return value;
      case 'int-or-string':
        return typeof value === 'string' || Number.isInteger(value)
          ? value
          : wrong(value, 'intstr.IntOrString', at);
      case 'integer':
        return Number.isInteger(value) ? value : wrong(value, schema.format ?? 'int64', at);
      case 'number':
        return typeof value === 'number' ? value : wrong(value, 'float64', at);
      case 'map': {
        if (!isObject(value)) return wrong(value, 'map[string]', at);
        const out: JsonObject = {};
        for (const [key, item] of Object.entries(value)) {
          if (item === undefined) continue;
          // A null in a map of strings is the zero value, not absence.
          out[key] = item === null ? '' : take(item, schema.values, `${path}.${key}`, at);
        }
        return out;
      }
      case 'list': {
        const { items } = schema;
        if (!Array.isArray(value)) return wrong(value, '[]', at);
        return value.map((item, i) => (item === null ? {} : (take(item, items, `${path}[${i}]`, at) ?? {})));
      }
      case 'model':
        if (!isObject(value)) return wrong(value, schema.model.name, at);
        return fields(value, schema.model, path);
    }
  };

  return { object: fields(body, model, ''), unknown };
}

function jsonType(value: Json): string {
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return `number${Number.isInteger(value) ? '' : ` ${value}`}`;
  return typeof value === 'boolean' ? 'bool' : typeof value;
}
