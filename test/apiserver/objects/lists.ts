// List, page by page at one revision, and deletecollection.

import { shown } from '../kinds/conversion.ts';
import { type ResourceType, storage } from '../kinds/resources.ts';
import { listHead, listItem, metadataOnly, readIncludeObject, tableOf } from '../kinds/table.ts';
import { type Call, formatOf, param, send, sendList } from '../request/http.ts';
import {
  checkMatch,
  type ListOptions,
  matches,
  notTooNew,
  readListOptions,
} from '../request/list-options.ts';
import type { ResourceRoute } from '../request/router.ts';
import { type DeleteOptions, remove } from './delete.ts';
import { refuseDots } from './objects.ts';
import { badRequest } from './status.ts';
import { isObject, type Json, type JsonObject, type KObject } from './values.ts';
import type { World } from './world.ts';

interface Page {
  items: KObject[];
  metadata: JsonObject;
}

interface Token {
  v: string;
  rv: number;
  start: string;
}

function encodeToken(token: Token): string {
  return Buffer.from(JSON.stringify(token)).toString('base64url');
}

function decodeToken(raw: string): Token {
  try {
    const token: unknown = JSON.parse(Buffer.from(raw, 'base64url').toString());
    if (isObject(token) && typeof token.rv === 'number' && typeof token.start === 'string')
      return { v: 'meta.k8s.io/v1', rv: token.rv, start: token.start };
  } catch {
    // Not JSON: refused below with every other token that this server didn't write.
  }
  throw badRequest('continue key is not valid: the token was not made by this server');
}

function page(world: World, type: ResourceType, namespace: string, options: ListOptions): Page {
  const kept = storage(type);
  if (options.continue === '' && options.limit <= 0) {
    const items = world.store.list(kept, namespace).filter((object) => matches(options, object));
    return { items, metadata: { resourceVersion: String(world.store.revision()) } };
  }
  if (options.continue !== '' && options.resourceVersion !== '' && options.resourceVersion !== '0')
    throw badRequest('specifying resource version is not allowed when using continue');
  const token = options.continue === '' ? undefined : decodeToken(options.continue);
  const snapshot = token ? world.store.snapshotAt(kept, token.rv) : world.store.snapshot(kept);
  const items: KObject[] = [];
  let last = '';
  let more = 0;
  for (const key of snapshot.keys) {
    if (token && key <= token.start) continue;
    if (namespace !== '' && !key.startsWith(`${namespace}/`)) continue;
    const object = snapshot.objects.get(key);
    if (!object || !matches(options, object)) continue;
    if (options.limit > 0 && items.length === options.limit) more++;
    else {
      items.push(object);
      last = key;
    }
  }
  const metadata: JsonObject = { resourceVersion: String(snapshot.revision) };
  if (more > 0) {
    metadata.continue = encodeToken({ v: 'meta.k8s.io/v1', rv: snapshot.revision, start: last });
    if (options.fields.length === 0 && options.labels.length === 0) metadata.remainingItemCount = more;
  }
  return { items, metadata };
}

export async function list(call: Call, world: World, route: ResourceRoute): Promise<void> {
  const { type, namespace } = route;
  const options = readListOptions(call, type);
  checkMatch(options, false);
  notTooNew(options, world.store.revision());
  const format = formatOf(call);
  const { items, metadata } = page(world, type, namespace, options);
  const seen = items.map((item) => shown(type, item));
  if (format.as === 'Table') {
    const include = readIncludeObject(param(call, 'includeObject'));
    send(call, 200, tableOf(type, seen, metadata, format.version, include, world.now()), format.media);
    return;
  }
  const head = listHead(type, metadata, format);
  const item = (object: KObject): Json =>
    format.as === undefined ? listItem(type, object) : metadataOnly(object, format.version);
  if (format.media !== 'json') return send(call, 200, { ...head, items: seen.map(item) }, format.media, type);
  await sendList(call, head, mapped(seen, item));
}

function* mapped(items: readonly KObject[], item: (object: KObject) => Json): Iterable<Json> {
  for (const object of items) yield item(object);
}

export function deleteCollection(call: Call, world: World, route: ResourceRoute, how: DeleteOptions): void {
  const { type, namespace } = route;
  const options = readListOptions(call, type);
  if (type.namespaced) refuseDots(namespace);
  const { items, metadata } = page(world, type, namespace, { ...options, limit: 0, continue: '' });
  for (const object of items) {
    if (world.store.get(storage(type), object.metadata.namespace ?? '', object.metadata.name))
      remove(
        world,
        { type, namespace: object.metadata.namespace ?? '', name: object.metadata.name, subresource: '' },
        how,
      );
  }
  const head = listHead(type, metadata, { media: 'json', as: undefined, version: 'v1' });
  send(call, 200, { ...head, items: items.map((item) => listItem(type, shown(type, item))) });
}
