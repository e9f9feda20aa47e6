// What a routed request for a resource does: reads and writes of objects and their subresources, the reviews, and the
// pods' own (log, exec and its kind, proxy).

import { bind } from '../cluster/kubelet.ts';
import { type Logs, serveLog } from '../cluster/logs.ts';
import { speaksProtobuf } from '../encodings/protobuf.ts';
import { scaleOf, shown, stored } from '../kinds/conversion.ts';
import { readIncludeObject, shapeOne } from '../kinds/table.ts';
import { readDeleteOptions, remove } from '../objects/delete.ts';
import { deleteCollection, list } from '../objects/lists.ts';
import { apply, create, patch, update } from '../objects/objects.ts';
import { jsonPatch, mergePatch, strategicMerge } from '../objects/patch.ts';
import { badRequest, deleted, invalid, unsupportedMediaType } from '../objects/status.ts';
import { type JsonObject, type KObject, obj, text } from '../objects/values.ts';
import { type WatchSettings, watch } from '../objects/watch.ts';
import { modelFor, type Place, read, type World, type WriteOptions } from '../objects/world.ts';
import { type StreamHost, type StreamKind, serveStream, type Upgrade } from '../streams/streaming.ts';
import {
  type Call,
  formatOf,
  mediaType,
  param,
  parseBody,
  parseJson,
  parseObject,
  readBody,
  send,
  sendBytes,
  warn,
} from './http.ts';
import { REVIEWS, review, tokenRequest } from './reviews.ts';
import type { ResourceRoute } from './router.ts';
import { flag } from './target.ts';
import type { Users } from './users.ts';

export interface Handlers {
  world: World;
  users: Users;
  logs: Logs;
  streams: StreamHost;
  watches: WatchSettings;
  /** Told of each follower of a log; gives what ends it. */
  followed(call: Call): () => void;
}

const PATCHES = [
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
  'application/apply-patch+yaml',
];

export async function serveResource(
  call: Call,
  route: ResourceRoute,
  upgrade: Upgrade | undefined,
  server: Handlers,
): Promise<void> {
  const { world } = server;
  const { type, action, subresource, namespace, name } = route;
  const place: Place = { type, namespace, name, subresource: subresource?.name ?? '' };
  if (speaksProtobuf(type)) call.served = [...call.served, 'protobuf'];
  if (action === 'connect') return connect(call, route, upgrade, server);
  if (REVIEWS.has(type.resource) && type.group.startsWith('auth')) return reviews(call, route, server);
  if (action === 'list' && call.info.verb === 'watch') return watch(call, world, route, server.watches);
  if (action === 'watch') return watch(call, world, route, server.watches);
  if (action === 'list') return list(call, world, route);
  if (subresource && subresource.name !== 'status') return special(call, place, route, server);
  switch (action) {
    case 'get':
      return sendObject(call, place, read(world, place), world.now());
    case 'create': {
      const body = stored(type, parseBody(call, await readBody(call)));
      return sendObject(call, place, create(world, place, body, writeOptions(call)), world.now(), 201);
    }
    case 'update': {
      const body = stored(type, parseBody(call, await readBody(call)));
      return sendObject(call, place, update(world, place, body, writeOptions(call)), world.now());
    }
    case 'patch':
      return applyPatch(call, place, world);
    case 'delete':
    case 'deletecollection': {
      const options = readDeleteOptions(parseBody(call, await readBody(call)), (key) => param(call, key));
      if (action === 'deletecollection') return deleteCollection(call, world, route, options);
      const { before, remaining } = remove(world, place, options);
      return remaining
        ? sendObject(call, place, remaining, world.now())
        : send(call, 200, deleted(type, name, before.metadata.uid));
    }
  }
}

function sendObject(call: Call, { type }: Place, object: KObject, now: number, code = 200): void {
  const format = formatOf(call);
  const include = readIncludeObject(param(call, 'includeObject'));
  send(call, code, shapeOne(type, shown(type, object), format, include, now), format.media, type);
}

/** @throws ApiError 400, 422 */
export function writeOptions(call: Call): WriteOptions {
  const dryRun = call.target.query.get('dryRun') ?? [];
  for (const value of dryRun)
    if (value !== 'All' && value !== '')
      throw invalid('CreateOptions', 'meta.k8s.io', '', [
        {
          reason: 'FieldValueNotSupported',
          message: `Unsupported value: ${JSON.stringify(value)}: supported values: "All"`,
          field: 'dryRun',
        },
      ]);
  const validation = param(call, 'fieldValidation') || 'Warn';
  if (validation !== 'Strict' && validation !== 'Warn' && validation !== 'Ignore')
    throw invalid('CreateOptions', 'meta.k8s.io', '', [
      {
        reason: 'FieldValueNotSupported',
        message: `Unsupported value: ${JSON.stringify(validation)}: supported values: "Ignore", "Strict", "Warn"`,
        field: 'fieldValidation',
      },
    ]);
  const agent = String(call.request.headers['user-agent'] ?? 'unknown');
  return {
    dryRun: dryRun.includes('All'),
    manager: param(call, 'fieldManager') || (agent.split('/')[0] ?? agent),
    fieldValidation: validation,
    warn: (message) => warn(call, message),
  };
}

async function applyPatch(call: Call, place: Place, world: World): Promise<void> {
  const { type } = place;
  const media = mediaType(call);
  const accepted = type.custom ? PATCHES.filter((one) => !one.includes('strategic')) : PATCHES;
  if (!accepted.includes(media)) throw unsupportedMediaType(accepted);
  const bytes = await readBody(call);
  const options = writeOptions(call);
  if (media === 'application/apply-patch+yaml') {
    if (param(call, 'fieldManager') === '')
      throw invalid('PatchOptions', 'meta.k8s.io', '', [
        {
          reason: 'FieldValueRequired',
          message: 'Required value: is required for apply patch',
          field: 'fieldManager',
        },
      ]);
    const force = flag(call.target.query, 'force');
    const { object, created } = apply(world, place, parseObject(bytes, true), force, options);
    return sendObject(call, place, object, world.now(), created ? 201 : 200);
  }
  if (call.target.query.has('force'))
    throw invalid('PatchOptions', 'meta.k8s.io', '', [
      {
        reason: 'FieldValueForbidden',
        message: 'Forbidden: may not be specified for non-apply patch',
        field: 'force',
      },
    ]);
  sendObject(call, place, patch(world, place, changeOf(place, media, bytes), options), world.now());
}

function changeOf({ type }: Place, media: string, bytes: Buffer): (live: KObject) => JsonObject {
  if (media === 'application/json-patch+json') {
    const operations = parseJson(bytes);
    return (live) => jsonPatch(live, operations);
  }
  const body = parseObject(bytes);
  if (media === 'application/merge-patch+json') return (live) => obj(mergePatch(live, body));
  const model = modelFor(type);
  if (!model) throw unsupportedMediaType(PATCHES);
  return (live) => strategicMerge(live, body, model);
}

/** The subresources that are not the object in another light. */
async function special(call: Call, place: Place, route: ResourceRoute, server: Handlers): Promise<void> {
  const { world } = server;
  switch (place.subresource) {
    case 'scale':
      return scale(call, place, route, read(world, place), world);
    case 'log':
      return serveLog(call, read(world, place), server.logs, world.now(), () => server.followed(call));
    case 'token': {
      const body = parseBody(call, await readBody(call));
      const { uid } = read(world, place).metadata;
      return send(call, 201, tokenRequest(place.namespace, place.name, uid, body, server.users, world.now()));
    }
    case 'binding': {
      const node = text(obj(parseBody(call, await readBody(call)).target).name);
      if (node === '') throw badRequest('a binding needs a target');
      bind(world, place.type, read(world, place), node);
      return send(call, 201, {
        kind: 'Status',
        apiVersion: 'v1',
        metadata: {},
        status: 'Success',
        code: 201,
      });
    }
    case 'eviction': {
      const body = parseBody(call, await readBody(call));
      const options = readDeleteOptions(obj(body.deleteOptions), (key) => param(call, key));
      remove(world, { ...place, subresource: '' }, options);
      return send(call, 201, {
        kind: 'Status',
        apiVersion: 'v1',
        metadata: {},
        status: 'Success',
        code: 201,
      });
    }
    default:
      if (route.action === 'get') return sendObject(call, place, read(world, place), world.now());
      if (route.action === 'patch') return applyPatch(call, place, world);
      return sendObject(
        call,
        place,
        update(world, place, parseBody(call, await readBody(call)), writeOptions(call)),
        world.now(),
      );
  }
}

async function scale(
  call: Call,
  place: Place,
  route: ResourceRoute,
  object: KObject,
  world: World,
): Promise<void> {
  if (route.action === 'get') return send(call, 200, scaleOf(object));
  const before = scaleOf(object);
  const media = mediaType(call);
  const bytes = await readBody(call);
  let wanted: JsonObject;
  if (route.action === 'update') wanted = parseBody(call, bytes);
  else if (media === 'application/json-patch+json') wanted = jsonPatch(before, parseJson(bytes));
  else if (PATCHES.includes(media))
    wanted = obj(mergePatch(before, parseObject(bytes, media.endsWith('yaml'))));
  else throw unsupportedMediaType(PATCHES);
  const replicas = obj(wanted.spec).replicas ?? 0;
  if (typeof replicas !== 'number' || !Number.isInteger(replicas) || replicas < 0)
    throw invalid('Scale', 'autoscaling', place.name, [
      {
        reason: 'FieldValueInvalid',
        message: `Invalid value: ${JSON.stringify(replicas)}: must be greater than or equal to 0`,
        field: 'spec.replicas',
      },
    ]);
  const version = obj(wanted.metadata).resourceVersion;
  const after = patch(
    world,
    place,
    (live) => ({
      ...live,
      metadata: {
        ...live.metadata,
        ...(route.action === 'update' && version ? { resourceVersion: version } : {}),
      },
      spec: { ...obj(live.spec), replicas },
    }),
    writeOptions(call),
  );
  send(call, 200, scaleOf(after));
}

async function reviews(call: Call, route: ResourceRoute, server: Handlers): Promise<void> {
  const { type, namespace } = route;
  const body = parseBody(call, await readBody(call));
  const { manager } = writeOptions(call);
  const by = { who: call.who, users: server.users, manager, now: server.world.now() };
  send(call, 201, review(type, namespace, body, by), formatOf(call).media, type);
}

function connect(call: Call, route: ResourceRoute, upgrade: Upgrade | undefined, server: Handlers): void {
  const kind = route.subresource?.name ?? '';
  const place: Place = { ...route, subresource: kind };
  if (kind === 'proxy') {
    const [, name = route.name] = /^(?:https?:)?([^:]+)(?::[^:]*)?$/.exec(route.name) ?? [];
    read(server.world, { ...place, name });
    const text = `proxied ${call.request.method} /${route.rest} to ${route.type.resource} ${route.name}\n`;
    sendBytes(call, 200, Buffer.from(text), 'text/plain');
    return;
  }
  if (call.target.query.has('dryRun')) throw badRequest('the dryRun parameter is not supported here');
  serveStream(call, upgrade, kind as StreamKind, read(server.world, place), server.streams);
}
