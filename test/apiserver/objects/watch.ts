// Watches: the state or the history first, then every change, one JSON object a line; bookmarks, the end of the initial
// events, the time limit, and the ERROR event of a version that is forgotten.

import { encodeCbor } from '../encodings/cbor.ts';
import { encodeWatchEvent } from '../encodings/protobuf.ts';
import { shown } from '../kinds/conversion.ts';
import { apiVersion, type ResourceType, resourceKeyOf, storage } from '../kinds/resources.ts';
import { readIncludeObject, shapeOne } from '../kinds/table.ts';
import { type Call, formatOf, param } from '../request/http.ts';
import { checkMatch, type ListOptions, matches, readListOptions } from '../request/list-options.ts';
import type { Format } from '../request/negotiate.ts';
import type { ResourceRoute } from '../request/router.ts';
import { failure } from './status.ts';
import type { Change } from './store.ts';
import type { JsonObject, KObject } from './values.ts';
import type { World } from './world.ts';

export interface WatchSettings {
  /** Milliseconds between bookmarks for those who allow them. */
  bookmarkEvery: number;
  /** A client that reads so slowly that this many bytes wait for it is cut off. */
  maxBacklog: number;
  /** Told of each watch; called back with its end. */
  opened(end: () => void, sendError: (status: JsonObject) => void): () => void;
}

/** Where the real server draws a time limit of 30 to 60 minutes. */
const MIN_SECONDS = 1800;

export function watch(call: Call, world: World, route: ResourceRoute, settings: WatchSettings): void {
  const { type } = route;
  const options = readListOptions(call, type);
  if (route.name !== '') options.fields.push({ field: 'metadata.name', equals: true, value: route.name });
  checkMatch(options, true);
  const format = formatOf(call);
  const writer = startStream(call, type, format, settings.maxBacklog);
  const encode = encoder(call, world, type, format);
  const emit = (kind: string, object: KObject): void => writer.write(kind, encode(object));

  const wanted = (object: KObject | undefined): boolean =>
    object !== undefined &&
    (route.namespace === '' || object.metadata.namespace === route.namespace) &&
    matches(options, object);
  const pass = (change: Change): void => {
    const now = change.type !== 'DELETED' && wanted(change.object);
    const was = wanted(change.before);
    if (now) emit(was ? 'MODIFIED' : 'ADDED', shown(type, change.object));
    else if (was && change.before) {
      // What the watcher last knew, at the version at which it stopped to see it.
      const metadata = { ...change.before.metadata, resourceVersion: String(change.revision) };
      emit('DELETED', shown(type, { ...change.before, metadata }));
    }
  };
  const bookmark = (annotations?: JsonObject): void => {
    const metadata = {
      resourceVersion: String(world.store.revision()),
      ...(annotations ? { annotations } : {}),
    };
    emit('BOOKMARK', { kind: type.kind, apiVersion: apiVersion(type), metadata } as unknown as KObject);
  };

  const key = resourceKeyOf(storage(type));
  const forget = world.store.onChange((change) => {
    if (change.resource === key) pass(change);
  });
  const timers: NodeJS.Timeout[] = [];
  const end = (): void => {
    forget();
    for (const timer of timers) clearTimeout(timer);
    writer.end();
  };
  const closed = settings.opened(end, (status) => {
    writer.write('ERROR', status);
    end();
  });
  call.response.on('close', () => {
    end();
    closed();
  });

  if (!begin(world, route, options, wanted, (object) => emit('ADDED', shown(type, object)), pass)) {
    const [from, oldest] = [options.resourceVersion, world.store.oldest()];
    writer.write('ERROR', failure(410, 'Expired', `too old resource version: ${from} (${oldest})`).status);
    end();
    return;
  }
  if (options.sendInitialEvents) bookmark({ 'k8s.io/initial-events-end': 'true' });

  const seconds = options.timeoutSeconds ?? MIN_SECONDS * (1 + Math.random());
  const limit = setTimeout(() => {
    if (options.allowWatchBookmarks) bookmark();
    end();
  }, Math.max(0, seconds) * 1000);
  limit.unref();
  timers.push(limit);
  if (options.allowWatchBookmarks) {
    const every = setInterval(() => bookmark(), settings.bookmarkEvery);
    every.unref();
    timers.push(every);
  }
}

/** What is sent before the first live change. @returns false when the history doesn't reach back */
function begin(
  world: World,
  { type, namespace }: ResourceRoute,
  options: ListOptions,
  wanted: (object: KObject) => boolean,
  added: (object: KObject) => void,
  pass: (change: Change) => void,
): boolean {
  const from = options.resourceVersion;
  if (
    options.sendInitialEvents ||
    (options.sendInitialEvents === undefined && (from === '' || from === '0'))
  ) {
    for (const object of world.store.list(storage(type), namespace)) if (wanted(object)) added(object);
    return true;
  }
  if (from === '' || from === '0') return true;
  const changes = world.store.since(storage(type), Number(from));
  for (const change of changes ?? []) pass(change);
  return changes !== undefined;
}

function encoder(
  call: Call,
  world: World,
  type: ResourceType,
  format: Format,
): (object: KObject) => JsonObject {
  const include = readIncludeObject(param(call, 'includeObject'));
  let first = true;
  return (object) => {
    const shaped = shapeOne(type, object, format, include, world.now(), first);
    first = false; // a Table's columns come with its first event only
    return shaped;
  };
}

interface Writer {
  write(kind: string, object: JsonObject): void;
  end(): void;
}

const STREAM_TYPE: Record<Format['media'], string> = {
  json: 'application/json',
  yaml: 'application/json',
  cbor: 'application/cbor-seq',
  protobuf: 'application/vnd.kubernetes.protobuf;stream=watch',
};

function startStream(call: Call, type: ResourceType, { media }: Format, maxBacklog: number): Writer {
  const { response } = call;
  response.statusCode = 200;
  response.setHeader('Content-Type', STREAM_TYPE[media]);
  response.flushHeaders();
  return {
    write(kind, object) {
      if (response.writableEnded || response.destroyed) return;
      if (response.writableLength > maxBacklog) response.destroy();
      else if (media === 'protobuf') response.write(encodeWatchEvent(kind, object, type));
      else if (media === 'cbor') response.write(encodeCbor({ type: kind, object }));
      else response.write(`${JSON.stringify({ type: kind, object })}\n`);
    },
    end() {
      if (!response.writableEnded) response.end();
    },
  };
}
