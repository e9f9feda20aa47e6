// Any value as plain data with its strings redacted: what a log line or an error report may hold. Nothing in it can
// throw: a getter that does, a proxy, a cycle or a structure without end becomes a short marker in its place.

import { isSensitiveName } from './redact-documents.ts';

const REDACTED = '[redacted]';
const DEEPEST = 40;
const MOST = 20_000;

type Text = (text: string) => string;

interface Walk {
  readonly text: Text;
  /** The objects on the way down, for cycles. */
  readonly above: Set<object>;
  left: number;
}

export function walk(value: unknown, text: Text): unknown {
  return visit({ text, above: new Set(), left: MOST }, value);
}

function visit(at: Walk, value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return at.text(value);
    case 'number':
      return Number.isFinite(value) ? digits(at, value) : String(value);
    case 'bigint':
      return at.text(String(value));
    case 'symbol':
      return at.text(String(value));
    case 'function':
      return '[function]';
    case 'object':
      return value === null ? null : guarded(at, value);
    default:
      return value;
  }
}

/** A credential can be a number; text finds it by value only. */
function digits(at: Walk, value: number): unknown {
  const text = String(value);
  return text.length < 4 || at.text(text) === text ? value : REDACTED;
}

function guarded(at: Walk, value: object): unknown {
  if (at.above.has(value)) return '[circular]';
  if (at.above.size >= DEEPEST) return '[too deep]';
  if (at.left-- <= 0) return '[too much]';
  at.above.add(value);
  try {
    return object(at, value);
  } catch {
    return '[unreadable]';
  } finally {
    at.above.delete(value);
  }
}

function object(at: Walk, value: object): unknown {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer || value instanceof SharedArrayBuffer)
    return '[binary]';
  if (value instanceof Error) return error(at, value);
  if (Array.isArray(value)) return list(at, value);
  if (value instanceof Map) return pairs(at, [...value]);
  if (value instanceof Set) return list(at, [...value]);
  if (value instanceof String || value instanceof Number || value instanceof RegExp)
    return at.text(String(value));
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function')
    return visit(at, (value as { toJSON(): unknown }).toJSON());
  // Headers, URLSearchParams, FormData: pairs that have no enumerable key.
  const keys = Object.keys(value);
  if (keys.length === 0 && typeof (value as Iterable<unknown>)[Symbol.iterator] === 'function') {
    const items = [...(value as Iterable<unknown>)];
    return items.every((item) => Array.isArray(item) && item.length === 2)
      ? pairs(at, items as [unknown, unknown][])
      : list(at, items);
  }
  const out = {};
  for (const key of keys) put(at, out, key, () => (value as { [key: string]: unknown })[key]);
  return out;
}

function list(at: Walk, items: readonly unknown[]): unknown[] {
  const out: unknown[] = [];
  for (let i = 0; i < items.length && at.left > 0; i++) {
    at.left--;
    // Raw headers and argument lists name in one element what the next one holds.
    const before = items[i - 1];
    const named =
      typeof before === 'string' &&
      typeof items[i] === 'string' &&
      isSensitiveName(before.replace(/^--?/, ''));
    out.push(named ? REDACTED : visit(at, items[i]));
  }
  if (out.length < items.length) out.push('[too much]');
  return out;
}

function pairs(at: Walk, entries: readonly (readonly [unknown, unknown])[]): unknown {
  const out = {};
  for (const [key, value] of entries) {
    const name = visit(at, key);
    put(at, out, typeof name === 'string' ? name : JSON.stringify(name), () => value);
  }
  return out;
}

function put(at: Walk, out: object, key: string, read: () => unknown): void {
  let value: unknown;
  try {
    const got = read();
    value = isSensitiveName(key) ? hidden(at, got) : visit(at, got);
  } catch {
    value = '[unreadable]';
  }
  let name = at.text(key);
  for (let again = 2; Object.hasOwn(out, name); again++) name = `${at.text(key)} (${again})`;
  Object.defineProperty(out, name, { value, enumerable: true, configurable: true, writable: true });
}

/** Under a telling name every scalar goes, whatever it looks like. */
function hidden(at: Walk, value: unknown): unknown {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint') return REDACTED;
  if (Array.isArray(value))
    return value.map((item: unknown) => (typeof item === 'object' ? visit(at, item) : hidden(at, item)));
  return visit(at, value);
}

function error(at: Walk, value: Error): unknown {
  const out = {};
  for (const key of ['name', 'message', 'stack'])
    put(at, out, key, () => (value as unknown as { [key: string]: unknown })[key]);
  for (const key of Object.getOwnPropertyNames(value)) {
    if (key !== 'name' && key !== 'message' && key !== 'stack')
      put(at, out, key, () => (value as unknown as { [key: string]: unknown })[key]);
  }
  return out;
}
