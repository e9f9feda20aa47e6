// Create, update, patch and apply, as the API's conventions have them: what is refused, what the server owns (uid,
// revisions, generation, timestamps, managed fields), dry runs. Told to the store, not to HTTP: the controllers write
// through the same door.

import { randomBytes, randomUUID } from 'node:crypto';
import { decode } from '../kinds/decode.ts';
import { applyDefaults, countsGenerations, initialStatus } from '../kinds/defaults.ts';
import { apiVersion, type ResourceType, storage } from '../kinds/resources.ts';
import { validate } from '../kinds/validate.ts';
import { commit } from './commit.ts';
import { serverSideApply, trackUpdate } from './managed-fields.ts';
import { alreadyExists, badRequest, forbidden, internal, invalid, notFound } from './status.ts';
import { arr, clone, type JsonObject, type KObject, kubeTime, obj, text } from './values.ts';
import { inOrder, modelFor, type Place, read, type World, type WriteOptions } from './world.ts';

const NAMESPACES = { group: '', resource: 'namespaces' };

/** Checks a body's kind, drops what the kind doesn't have and says so. @throws ApiError 400 */
export function decodeBody(type: ResourceType, body: JsonObject, options: WriteOptions): JsonObject {
  const wanted = apiVersion(type);
  const gave = text(body.apiVersion);
  if (gave !== '' && gave !== wanted)
    throw badRequest(
      `the API version in the data (${gave}) does not match the expected API version (${wanted})`,
    );
  const kind = text(body.kind);
  if (kind !== '' && kind !== type.kind)
    throw badRequest(
      `${type.kind} in version "${type.version}" cannot be handled as a ${type.kind}: no kind "${kind}" is registered ` +
        `for version "${wanted}"`,
    );
  if (type.custom && (gave === '' || kind === '')) throw badRequest("Object 'Kind' is missing in the body");
  const model = modelFor(type);
  if (!model) return clone(body);
  const { object, unknown } = decode(body, model, type.kind, type.version);
  if (unknown.length > 0 && options.fieldValidation === 'Strict')
    throw badRequest(
      `${type.kind} in version "${type.version}" cannot be handled as a ${type.kind}: strict decoding error: ` +
        unknown.map((path) => `unknown field "${path}"`).join(', '),
    );
  if (options.fieldValidation === 'Warn') for (const path of unknown) options.warn(`unknown field "${path}"`);
  return object;
}

function assemble(type: ResourceType, body: JsonObject): KObject {
  const { kind, apiVersion: version, metadata, ...rest } = body;
  return {
    kind: text(kind) || type.kind,
    apiVersion: text(version) || apiVersion(type),
    metadata: { ...obj(metadata) } as KObject['metadata'],
    ...rest,
  };
}

/** @throws ApiError 400, 403, 404, 409, 422 */
export function create(world: World, place: Place, body: JsonObject, options: WriteOptions): KObject {
  const { type } = place;
  const object = assemble(type, decodeBody(type, body, options));
  const { metadata } = object;
  inNamespace(world, place, metadata);
  if (place.name && metadata.name && metadata.name !== place.name)
    throw badRequest(
      `the name of the object (${metadata.name}) does not match the name on the URL (${place.name})`,
    );
  const generate = text(metadata.generateName);
  if (!metadata.name && generate) metadata.name = generate + suffix();
  if (metadata.resourceVersion)
    throw badRequest('resourceVersion should not be set on objects to be created');
  metadata.uid = randomUUID();
  metadata.creationTimestamp = kubeTime(world.now());
  for (const field of [
    'deletionTimestamp',
    'deletionGracePeriodSeconds',
    'managedFields',
    'selfLink',
    'generation',
  ])
    delete metadata[field];
  if (countsGenerations(type)) metadata.generation = 1;
  initialStatus(type, object);
  applyDefaults(type, object);
  const model = modelFor(type);
  validate(type, model, object);
  if (world.store.get(storage(type), metadata.namespace ?? '', metadata.name))
    throw alreadyExists(type, metadata.name);
  if (model)
    trackUpdate(type, model, undefined, object, {
      manager: options.manager,
      subresource: '',
      now: world.now(),
    });
  const ordered = inOrder(object);
  return options.dryRun ? ordered : world.store.put(storage(type), ordered);
}

/** @throws ApiError 400 for another namespace than the URL's, 403 for one that goes, 404 for one that isn't there */
function inNamespace(world: World, { type, namespace }: Place, metadata: JsonObject): void {
  if (!type.namespaced) {
    delete metadata.namespace;
    return;
  }
  const own = text(metadata.namespace);
  if (own !== '' && own !== namespace)
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  // An empty part in the URL is a namespace that no object can be in.
  if (namespace === '')
    throw invalid(type.kind, type.group, text(metadata.name), [
      { reason: 'FieldValueRequired', message: 'Required value', field: 'metadata.namespace' },
    ]);
  metadata.namespace = namespace;
  refuseDots(namespace);
  const found = world.store.get(NAMESPACES, '', namespace);
  if (!found) throw notFound(NAMESPACES, namespace);
  if (found.metadata.deletionTimestamp !== undefined)
    throw forbidden(
      type,
      text(metadata.name),
      `unable to create new content in namespace ${namespace} because it is being terminated`,
      [
        {
          reason: 'NamespaceTerminating',
          message: `namespace ${namespace} is being terminated`,
          field: 'metadata.namespace',
        },
      ],
    );
}

/** The real server's storage trips over such a namespace; a 500 is what its clients see. */
export function refuseDots(namespace: string): void {
  if (namespace === '.' || namespace === '..')
    throw internal(`invalid namespace "${namespace}": may not be '.' or '..'`);
}

/** @throws ApiError 400, 404, 409, 422 */
export function update(world: World, place: Place, body: JsonObject, options: WriteOptions): KObject {
  const wanted = assemble(place.type, decodeBody(place.type, body, options));
  const { metadata } = wanted;
  if (!metadata.name)
    throw badRequest('the name of the object ( based on URL) was undeterminable: name must be provided');
  if (metadata.name !== place.name)
    throw badRequest(
      `the name of the object (${metadata.name}) does not match the name on the URL (${place.name})`,
    );
  const own = text(metadata.namespace);
  if (place.type.namespaced && own !== '' && own !== place.namespace)
    throw badRequest('the namespace of the provided object does not match the namespace on the request');
  return commit(world, place, read(world, place), wanted, options);
}

/** `change` gets a copy of the live object and gives back what it should be. @throws as update */
export function patch(
  world: World,
  place: Place,
  change: (live: KObject) => JsonObject,
  options: WriteOptions,
): KObject {
  const before = read(world, place);
  const changed = change(clone(before));
  const wanted = assemble(place.type, decodeBody(place.type, changed, options));
  if (wanted.metadata.name !== before.metadata.name)
    throw invalid(place.type.kind, place.type.group, before.metadata.name, [
      {
        reason: 'FieldValueInvalid',
        message: `Invalid value: ${JSON.stringify(wanted.metadata.name)}: field is immutable`,
        field: 'metadata.name',
      },
    ]);
  return commit(world, place, before, wanted, options);
}

/** Server-side apply; creates what isn't there. @throws as update, 409 for a conflict of managers */
export function apply(
  world: World,
  place: Place,
  body: JsonObject,
  force: boolean,
  options: WriteOptions,
): { object: KObject; created: boolean } {
  const { type, namespace, name } = place;
  if (!body.apiVersion || !body.kind)
    throw badRequest(`error converting YAML to JSON or reading it: apiVersion and kind are required`);
  const applied = assemble(type, decodeBody(type, body, options));
  if (arr(applied.metadata.managedFields).length > 0) throw badRequest('metadata.managedFields must be nil');
  if (!applied.metadata.name) applied.metadata.name = name;
  if (applied.metadata.name !== name)
    throw badRequest(
      `the name of the object (${applied.metadata.name}) does not match the name on the URL (${name})`,
    );
  const model = modelFor(type);
  if (!model) throw internal(`no schema for ${type.kind}`);
  const live = world.store.get(storage(type), namespace, name);
  const writer = { manager: options.manager, subresource: place.subresource, now: world.now() };
  const merged = serverSideApply(type, model, live, applied, writer, force);
  if (live) return { object: commit(world, place, live, merged, options, 'apply'), created: false };
  if (place.subresource) throw notFound(type, name);
  const managed = merged.metadata.managedFields;
  const made = create(world, place, merged, { ...options, dryRun: true, fieldValidation: 'Ignore' });
  if (managed !== undefined) made.metadata.managedFields = managed;
  return { object: options.dryRun ? made : world.store.put(storage(type), made), created: true };
}

const SUFFIX = 'bcdfghjklmnpqrstvwxz2456789';

export function suffix(): string {
  return [...randomBytes(5)].map((byte) => SUFFIX[byte % SUFFIX.length]).join('');
}
