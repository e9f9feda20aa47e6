// Who set which field: kept for every write, and acted on by server-side apply, which refuses to change a field that
// another manager owns, and removes what its manager no longer lists.

import type { Model } from '../kinds/models.ts';
import { apiVersion, type ResourceType } from '../kinds/resources.ts';
import {
  type FieldSet,
  fieldsOf,
  fromFieldsV1,
  overlay,
  removeFields,
  showPath,
  toFieldsV1,
  valueAt,
} from './field-sets.ts';
import { type ApiError, type Cause, failure } from './status.ts';
import { clone, equal, type JsonObject, type KObject, kubeTime, objects, text } from './values.ts';

export interface Writer {
  manager: string;
  subresource: string;
  now: number;
}

interface Entry {
  manager: string;
  operation: string;
  apiVersion: string;
  subresource: string;
  time: string;
  set: FieldSet;
}

function readEntries(object: JsonObject | undefined): Entry[] {
  return objects((object?.metadata as JsonObject | undefined)?.managedFields).map((entry) => ({
    manager: text(entry.manager),
    operation: text(entry.operation),
    apiVersion: text(entry.apiVersion),
    subresource: text(entry.subresource),
    time: text(entry.time),
    set: fromFieldsV1(entry.fieldsV1),
  }));
}

function writeEntries(object: KObject, entries: Entry[]): void {
  const kept = entries.filter((entry) => entry.set.size > 0);
  if (kept.length === 0) delete object.metadata.managedFields;
  else
    object.metadata.managedFields = kept.map((entry) => ({
      manager: entry.manager,
      operation: entry.operation,
      apiVersion: entry.apiVersion,
      time: entry.time,
      fieldsType: 'FieldsV1',
      fieldsV1: toFieldsV1(entry.set),
      ...(entry.subresource ? { subresource: entry.subresource } : {}),
    }));
}

function entryFor(entries: Entry[], operation: string, version: string, writer: Writer): Entry {
  const found = entries.find(
    (entry) =>
      entry.manager === writer.manager &&
      entry.operation === operation &&
      entry.subresource === writer.subresource,
  );
  if (found) return found;
  const made: Entry = {
    manager: writer.manager,
    operation,
    apiVersion: version,
    subresource: writer.subresource,
    time: kubeTime(writer.now),
    set: new Set(),
  };
  entries.push(made);
  return made;
}

/** Notes in `after` what a create, update or patch changed. */
export function trackUpdate(
  type: ResourceType,
  model: Model,
  before: KObject | undefined,
  after: KObject,
  writer: Writer,
): void {
  const entries = readEntries(before);
  const old = before ? fieldsOf(before, model) : new Set<string>();
  const now = fieldsOf(after, model);
  const changed = [...now].filter(
    (path) => !old.has(path) || (before && !equal(valueAt(before, path), valueAt(after, path))),
  );
  const leaves = changed.filter((path) => !path.endsWith('.') || !old.has(path));
  for (const entry of entries)
    for (const path of entry.set) if (!now.has(path) || leaves.includes(path)) entry.set.delete(path);
  if (leaves.length > 0) {
    const mine = entryFor(entries, 'Update', apiVersion(type), writer);
    for (const path of leaves) mine.set.add(path);
    mine.time = kubeTime(writer.now);
  }
  writeEntries(after, entries);
}

/**
 * Server-side apply of `applied` on `live`.
 * @throws ApiError 409 naming each field that another manager owns with another value, unless `force`
 */
export function serverSideApply(
  type: ResourceType,
  model: Model,
  live: KObject | undefined,
  applied: JsonObject,
  writer: Writer,
  force: boolean,
): KObject {
  const entries = readEntries(live);
  const wanted = fieldsOf(applied, model);
  const mine = entryFor(entries, 'Apply', apiVersion(type), writer);
  const others = entries.filter((entry) => entry !== mine);
  if (live) {
    const clashes = others.flatMap((entry) =>
      [...wanted]
        .filter(
          (path) =>
            entry.set.has(path) && !path.endsWith('.') && !equal(valueAt(live, path), valueAt(applied, path)),
        )
        .map((path) => ({ entry, path })),
    );
    if (clashes.length > 0 && !force) throw applyConflict(clashes);
    for (const { entry, path } of clashes) entry.set.delete(path);
  }
  const base: JsonObject = live ? clone(live) : {};
  const merged = overlay(base, applied, { type: 'model', model }) as KObject;
  const keptByOthers = new Set(others.flatMap((entry) => [...entry.set]));
  const gone = new Set([...mine.set].filter((path) => !wanted.has(path) && !keptByOthers.has(path)));
  removeFields(merged, gone, new Set([...keptByOthers, ...wanted]));
  const same = mine.set.size === wanted.size && [...wanted].every((path) => mine.set.has(path));
  if (!same) mine.time = kubeTime(writer.now);
  mine.set = wanted;
  writeEntries(merged, entries);
  return merged;
}

function applyConflict(clashes: { entry: Entry; path: string }[]): ApiError {
  const causes: Cause[] = clashes.map(({ entry, path }) => ({
    reason: 'FieldManagerConflict',
    message: `conflict with "${entry.manager}"${
      entry.subresource ? ` with subresource "${entry.subresource}"` : ''
    } using ${entry.apiVersion}`,
    field: showPath(path),
  }));
  const count = `${causes.length} conflict${causes.length === 1 ? '' : 's'}`;
  const said =
    causes.length === 1
      ? `${causes[0]?.message}: ${causes[0]?.field}`
      : causes.map((cause) => `${cause.message}:\n- ${cause.field}`).join('\n');
  return failure(409, 'Conflict', `Apply failed with ${count}: ${said}`, { causes });
}
