// The objects, one revision counter for all of them, and the history that watches resume from. No rules of the API
// live here: only what etcd and the watch cache give. Stored objects are never changed in place.

import { type GroupResource, resourceKeyOf as resourceKey } from '../kinds/resources.ts';
import { expired } from './status.ts';
import type { KObject } from './values.ts';

export type ChangeType = 'ADDED' | 'MODIFIED' | 'DELETED';

export interface Change {
  type: ChangeType;
  resource: string;
  revision: number;
  object: KObject;
  /** What was there before; undefined for ADDED. */
  before: KObject | undefined;
}

/** The objects of one resource at one revision, in key order. */
export interface Snapshot {
  revision: number;
  keys: readonly string[];
  objects: ReadonlyMap<string, KObject>;
}

export interface Store {
  revision(): number;
  get(resource: GroupResource, namespace: string, name: string): KObject | undefined;
  /** All of a namespace, or of all namespaces for ''. Key order. */
  list(resource: GroupResource, namespace?: string): KObject[];
  /** Adds or replaces; sets metadata.resourceVersion on the object given. */
  put(resource: GroupResource, object: KObject): KObject;
  remove(resource: GroupResource, namespace: string, name: string): KObject | undefined;
  snapshot(resource: GroupResource): Snapshot;
  /** @throws ApiError 410 when it is no longer kept */
  snapshotAt(resource: GroupResource, revision: number): Snapshot;
  /** Changes after a revision. @returns undefined when the history doesn't reach back so far */
  since(resource: GroupResource, revision: number): Change[] | undefined;
  oldest(): number;
  onChange(listener: (change: Change) => void): () => void;
  /** Forgets the history and the snapshots, as etcd's compaction does: what is older gets a 410. */
  compact(): void;
}

const HISTORY = 20_000;
const SNAPSHOTS = 64;

export const objectKey = (namespace: string, name: string): string => `${namespace}/${name}`;

interface Shelf {
  objects: Map<string, KObject>;
  /** Undefined when an insertion or a removal made it stale. */
  sorted: string[] | undefined;
}

export function createStore(): Store {
  let revision = 1;
  let history: Change[] = [];
  /** Changes up to this revision are forgotten. */
  let forgotten = 1;
  const shelves = new Map<string, Shelf>();
  const snapshots = new Map<string, Snapshot>();
  const listeners = new Set<(change: Change) => void>();

  const shelf = (resource: GroupResource): Shelf => {
    const key = resourceKey(resource);
    const found = shelves.get(key);
    if (found) return found;
    const made: Shelf = { objects: new Map(), sorted: [] };
    shelves.set(key, made);
    return made;
  };

  const keysOf = (from: Shelf): string[] => {
    from.sorted ??= [...from.objects.keys()].sort((a, b) => (a < b ? -1 : 1));
    return from.sorted;
  };

  const announce = (change: Change): void => {
    history.push(change);
    if (history.length > HISTORY) {
      const cut = history.splice(0, HISTORY / 4);
      forgotten = cut.at(-1)?.revision ?? forgotten;
    }
    for (const listener of [...listeners]) listener(change);
  };

  return {
    revision: () => revision,
    get: (resource, namespace, name) => shelf(resource).objects.get(objectKey(namespace, name)),
    list(resource, namespace = '') {
      const from = shelf(resource);
      const out: KObject[] = [];
      for (const key of keysOf(from)) {
        const object = from.objects.get(key);
        if (object && (namespace === '' || object.metadata.namespace === namespace)) out.push(object);
      }
      return out;
    },
    put(resource, object) {
      const to = shelf(resource);
      const key = objectKey(object.metadata.namespace ?? '', object.metadata.name);
      const before = to.objects.get(key);
      object.metadata.resourceVersion = String(++revision);
      to.objects.set(key, object);
      if (!before) to.sorted = undefined;
      announce({
        type: before ? 'MODIFIED' : 'ADDED',
        resource: resourceKey(resource),
        revision,
        object,
        before,
      });
      return object;
    },
    remove(resource, namespace, name) {
      const from = shelf(resource);
      const key = objectKey(namespace, name);
      const before = from.objects.get(key);
      if (!before) return undefined;
      from.objects.delete(key);
      from.sorted = undefined;
      const object: KObject = {
        ...before,
        metadata: { ...before.metadata, resourceVersion: String(++revision) },
      };
      announce({ type: 'DELETED', resource: resourceKey(resource), revision, object, before });
      return object;
    },
    snapshot(resource) {
      const from = shelf(resource);
      const id = `${resourceKey(resource)}@${revision}`;
      const kept = snapshots.get(id);
      if (kept) return kept;
      const made: Snapshot = { revision, keys: [...keysOf(from)], objects: new Map(from.objects) };
      snapshots.set(id, made);
      for (const old of snapshots.keys()) {
        if (snapshots.size <= SNAPSHOTS) break;
        snapshots.delete(old);
      }
      return made;
    },
    snapshotAt(resource, at) {
      const kept = snapshots.get(`${resourceKey(resource)}@${at}`);
      if (kept) return kept;
      throw expired(
        'The provided continue parameter is too old to display a consistent list result. You can start a new list ' +
          'without the continue parameter.',
      );
    },
    since(resource, from) {
      if (from < forgotten) return undefined;
      const key = resourceKey(resource);
      return history.filter((change) => change.revision > from && change.resource === key);
    },
    oldest: () => forgotten,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    compact() {
      history = [];
      forgotten = revision;
      snapshots.clear();
    },
  };
}
