// `kubectl get namespaces` under a namespace list: the cluster is asked for JSON, and of its list or watch only the
// allowed ones pass. A list is read whole (a cluster's namespaces, not its objects), a watch line by line. Where a name
// can't be found, the item does not pass.

import type { BodyTransform } from '../relay/forward.ts';
import type { EndReason } from '../sessions/session.ts';
import type { Shape } from './forwarding.ts';
import { mediaType } from './headers.ts';
import type { Allowed } from './policy.ts';
import { buildTarget, type RequestInfo } from './request-info.ts';
import { statusObject } from './status.ts';
import { endedWords } from './words.ts';

/** Of a list, and of one event: what is held in memory for one request. Some thousands of namespaces. */
export const MAX_NARROWED_BYTES = 8 * 1024 * 1024;

/** The cluster has so many that the allowed ones are not looked for among them. */
export class TooManyNamespaces extends Error {
  constructor() {
    super(`the list of namespaces is larger than the ${MAX_NARROWED_BYTES} bytes that are narrowed`);
    this.name = 'TooManyNamespaces';
  }
}

type Admits = (namespace: string) => boolean;
type Value = { [key: string]: unknown };

/** @param accept the client's */
export function narrowed(
  info: RequestInfo,
  accept: string | undefined,
  { admits, only }: NonNullable<Allowed['narrow']>,
): Shape {
  // A Table without objects has no names that can be relied on.
  // And pages are the cluster's: where one ends tells the name of a namespace that is not shown, so all comes at once.
  const query = info.query.filter(({ key }) => !['includeObject', 'limit', 'continue'].includes(key));
  // A single one is asked for by its name, which a credential without rights on the others may do too.
  if (only !== undefined && !query.some(({ key }) => key === 'fieldSelector')) {
    const raw = `fieldSelector=metadata.name%3D${only}`;
    query.push({ key: 'fieldSelector', value: `metadata.name=${only}`, raw });
  }
  return {
    target: buildTarget({ ...info, query }),
    headers: ['Accept', acceptJson(accept), 'Accept-Encoding', 'identity'],
    transform: () => (info.verb === 'watch' ? narrowWatch(admits) : narrowList(admits)),
  };
}

/** The client's own JSON forms, Tables among them, and JSON at the end. */
export function acceptJson(accept: string | undefined): string {
  const forms = (accept ?? '').split(',').map((form) => form.trim());
  return [
    ...new Set([...forms.filter((form) => mediaType(form) === 'application/json'), 'application/json']),
  ].join(',');
}

export function narrowList(admits: Admits): BodyTransform {
  let held: Buffer[] = [];
  let size = 0;
  return {
    whole: true,
    push(chunk) {
      size += chunk.length;
      if (size > MAX_NARROWED_BYTES) throw new TooManyNamespaces();
      held.push(chunk);
      return Buffer.alloc(0);
    },
    end() {
      const list = JSON.parse(Buffer.concat(held).toString('utf8')) as unknown;
      held = [];
      return Buffer.from(`${JSON.stringify(narrowValue(list, admits))}\n`);
    },
  };
}

/** A list, a Table, or anything else (a Status), which is passed on as it is only if it names no object. */
export function narrowValue(value: unknown, admits: Admits): unknown {
  if (!isObject(value)) throw new Error('the answer is no object');
  const metadata = isObject(value.metadata) ? { ...value.metadata } : value.metadata;
  // How many more there are and where they begin would tell of the others.
  if (isObject(metadata)) {
    delete metadata.remainingItemCount;
    delete metadata.continue;
  }
  if (Array.isArray(value.rows))
    return {
      ...value,
      metadata,
      rows: value.rows.filter((row) => passes(isObject(row) ? row.object : undefined, admits)),
    };
  if (Array.isArray(value.items))
    return { ...value, metadata, items: value.items.filter((item) => passes(item, admits)) };
  if (value.kind === 'Status' || value.items === null || value.rows === null) return { ...value, metadata };
  throw new Error('the answer is no list that can be narrowed');
}

export function narrowWatch(
  admits: Admits,
): BodyTransform & { lastWords(why: EndReason, id: string): Buffer } {
  let held: Buffer[] = [];
  let size = 0;
  // A Table's columns come with the first event only, and that one may be held back.
  let columns: unknown;
  const narrowLine = (line: Buffer): Buffer | undefined => {
    if (line.length === 0) return undefined;
    const event = readEvent(line);
    if (event.object.columnDefinitions) columns = event.object.columnDefinitions;
    const object = narrowEvent(event, admits);
    if (!object) return undefined;
    const withColumns =
      columns !== undefined && Array.isArray(object.rows)
        ? { ...object, columnDefinitions: columns }
        : object;
    columns = undefined;
    return Buffer.from(`${JSON.stringify({ ...event, object: withColumns })}\n`);
  };
  return {
    push(chunk) {
      const out: Buffer[] = [];
      let from = 0;
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
        const line = Buffer.concat([...held, chunk.subarray(from, at)]);
        held = [];
        size = 0;
        from = at + 1;
        const event = narrowLine(line);
        if (event) out.push(event);
      }
      if (from < chunk.length) {
        held.push(chunk.subarray(from));
        size += chunk.length - from;
        if (size > MAX_NARROWED_BYTES) throw new Error('an event of the watch is too large to be narrowed');
      }
      return out.length === 1 ? (out[0] as Buffer) : Buffer.concat(out);
    },
    end: () => Buffer.alloc(0),
    // Only whole events have passed.
    lastWords: (why, id) =>
      why === 'shutdown'
        ? Buffer.alloc(0)
        : Buffer.from(`${JSON.stringify({ type: 'ERROR', object: statusObject(endedWords(why), id) })}\n`),
  };
}

function readEvent(line: Buffer): { readonly type: unknown; readonly object: Value } {
  const event = JSON.parse(line.toString('utf8')) as unknown;
  if (!isObject(event) || !isObject(event.object)) throw new Error('an event of the watch cannot be read');
  return { type: event.type, object: event.object };
}

/** @returns the object to show, or undefined */
function narrowEvent({ type, object }: ReturnType<typeof readEvent>, admits: Admits): Value | undefined {
  if (type === 'ERROR' || type === 'BOOKMARK') return object;
  if (!Array.isArray(object.rows)) return passes(object, admits) ? object : undefined;
  const rows = object.rows.filter((row) => passes(isObject(row) ? row.object : undefined, admits));
  return rows.length === 0 ? undefined : { ...object, rows };
}

function passes(object: unknown, admits: Admits): boolean {
  const name = isObject(object) && isObject(object.metadata) ? object.metadata.name : undefined;
  return typeof name === 'string' && admits(name);
}

function isObject(value: unknown): value is Value {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
