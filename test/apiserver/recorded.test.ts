// The server's answers beside the recorded ones of a real API server: what is not a name, a time or an id is equal.

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ApiClient, createClient, events, take } from './client.ts';
import { decodeProtobuf, encodeProtobuf } from './encodings/protobuf.ts';
import { bytesField, fieldsOf } from './encodings/wire.ts';
import { createRegistry } from './kinds/resources.ts';
import { arr, isObject, type Json, type JsonObject, obj, objects, text } from './objects/values.ts';
import { recording } from './recordings.ts';
import { type ApiServer, startApiServer } from './server.ts';

let server: ApiServer;
let api: ApiClient;

beforeAll(async () => {
  server = await startApiServer({ namespaces: ['team-a'], users: [{ name: 'dev' }] });
  api = createClient(server);
});
afterAll(async () => {
  api.close();
  await server.close();
});

const IDS = ['audit-id', 'date', 'etag', 'content-length', 'connection', 'keep-alive', 'transfer-encoding'];

function sameHeaders(answer: { headers: object }, name: string): void {
  const recorded = [...recording(name).headers.keys()].filter((key) => !IDS.includes(key));
  const own = Object.keys(answer.headers).filter((key) => !IDS.includes(key));
  expect(own.sort()).toEqual(recorded.sort());
}

describe('refusals', () => {
  test('401', async () => {
    const answer = await api('/api/v1/pods', { headers: { Authorization: 'Bearer wrong' }, user: null });
    expect(answer.status).toBe(401);
    expect(answer.json).toEqual(recording('status-401').json);
    sameHeaders(answer, 'status-401');
  });
  test('403', async () => {
    const answer = await api('/api/v1/namespaces/team-a/pods', { user: 'dev' });
    expect(answer.status).toBe(403);
    expect(answer.json).toEqual(recording('status-403').json);
    sameHeaders(answer, 'status-403');
  });
  test('404', async () => {
    const answer = await api('/api/v1/namespaces/team-a/pods/none');
    expect(answer.status).toBe(404);
    expect(answer.json).toEqual(recording('status-404').json);
    sameHeaders(answer, 'status-404');
  });
  test('409', async () => {
    const create = () =>
      api('/api/v1/namespaces/team-a/configmaps', { method: 'POST', body: { metadata: { name: 'c1' } } });
    expect((await create()).status).toBe(201);
    const answer = await create();
    expect(answer.status).toBe(409);
    expect(answer.json).toEqual(recording('status-409').json);
  });
  test('422', async () => {
    const answer = await api('/api/v1/namespaces/team-a/configmaps', {
      method: 'POST',
      body: { metadata: { name: 'C_1' } },
    });
    expect(answer.status).toBe(422);
    expect(answer.json).toEqual(recording('status-422').json);
  });
});

describe('discovery', () => {
  const aggregated = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';
  const sorted = (document: JsonObject): Json[] =>
    [...objects(document.items)].sort((a, b) =>
      text(obj(a.metadata).name) < text(obj(b.metadata).name) ? -1 : 1,
    );

  test.each(['api', 'apis'])('/%s aggregated', async (path) => {
    const answer = await api(`/${path}`, { headers: { Accept: aggregated } });
    const recorded = recording(`${path}-aggregated`);
    expect(answer.headers['content-type']).toBe(recorded.headers.get('content-type'));
    expect(sorted(answer.json)).toEqual(sorted(recorded.json));
    sameHeaders(answer, `${path}-aggregated`);
  });

  const noHashes = (document: JsonObject): JsonObject => ({
    ...document,
    resources: objects(document.resources).map(({ storageVersionHash, ...rest }) => rest),
  });
  test.each([
    ['/api/v1', 'api-v1'],
    ['/apis/apps/v1', 'apis-apps-v1'],
  ])('%s', async (path, name) => {
    expect(noHashes((await api(path)).json)).toEqual(noHashes(recording(name).json));
  });
  test('/apis', async () => {
    const names = (document: JsonObject): Json[] =>
      objects(document.groups).sort((a, b) => (text(a.name) < text(b.name) ? -1 : 1));
    expect(names((await api('/apis')).json)).toEqual(names(recording('apis').json));
  });
  test('/api and /version', async () => {
    const own = (await api('/api')).json;
    expect(Object.keys(own)).toEqual(Object.keys(recording('api').json));
    expect(Object.keys((await api('/version')).json)).toEqual(Object.keys(recording('version').json));
  });
});

describe('reviews', () => {
  const post = (group: string, plural: string, spec: JsonObject) =>
    api(`/apis/${group}/v1/${plural}`, {
      method: 'POST',
      body: { spec },
      headers: { 'User-Agent': 'curl/8' },
    });
  const timeless = (value: Json | undefined): Json =>
    JSON.parse(JSON.stringify(value).replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, 'then')) as Json;

  test('SelfSubjectAccessReview', async () => {
    const spec = { resourceAttributes: { namespace: 'team-a', verb: 'get', resource: 'pods' } };
    const answer = await post('authorization.k8s.io', 'selfsubjectaccessreviews', spec);
    expect(answer.status).toBe(201);
    const { metadata, ...rest } = recording('ssar').json;
    const { metadata: own, ...mine } = answer.json;
    expect(mine).toEqual(rest);
    expect(Object.keys(obj(own))).toEqual(Object.keys(obj(metadata)));
  });
  test('SelfSubjectRulesReview', async () => {
    const answer = await post('authorization.k8s.io', 'selfsubjectrulesreviews', { namespace: 'team-a' });
    const shape = (document: JsonObject): Json => [
      document.kind ?? null,
      document.spec ?? null,
      Object.keys(obj(document.status)),
      objects(obj(document.status).resourceRules)[0] ?? null,
      objects(obj(document.status).nonResourceRules)[0] ?? null,
    ];
    expect(shape(answer.json)).toEqual(shape(recording('ssrr').json));
  });
  test('SelfSubjectReview', async () => {
    const answer = await post('authentication.k8s.io', 'selfsubjectreviews', {});
    const recorded = JSON.stringify(recording('selfsubjectreview').json).replace('token-admin', 'admin');
    expect(timeless(answer.json)).toEqual(timeless(JSON.parse(recorded) as Json));
  });
});

test('a list and a Table of pods have the recorded shape', async () => {
  const keys = (value: Json | undefined): string[] => Object.keys(obj(value)).sort();
  await api('/api/v1/namespaces/team-a/pods', {
    method: 'POST',
    body: { metadata: { name: 'web' }, spec: { containers: [{ name: 'nginx', image: 'nginx' }] } },
  });
  await expect.poll(() => server.get('Pod', 'team-a', 'web')?.status).toMatchObject({ phase: 'Running' });
  const list = (await api('/api/v1/namespaces/team-a/pods')).json;
  const recorded = recording('pods-list').json;
  expect(keys(list)).toEqual(keys(recorded));
  const [pod] = objects(list.items);
  const [was] = objects(recorded.items);
  expect(keys(pod)).toEqual(keys(was));
  for (const key of keys(was?.spec)) expect(keys(pod?.spec)).toContain(key);
  for (const key of keys(was?.status)) expect(keys(pod?.status)).toContain(key);

  const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';
  const table = (await api('/api/v1/namespaces/team-a/pods', { headers: { Accept: accept } })).json;
  const real = recording('pods-table').json;
  expect(keys(table)).toEqual(keys(real));
  const columns = (of: JsonObject): Json[] =>
    objects(of.columnDefinitions).map(
      ({ name, type, format, priority }) => [name, type, format, priority] as Json,
    );
  expect(columns(table)).toEqual(columns(real));
  const row = (of: JsonObject): JsonObject => obj(objects(of.rows)[0]);
  expect(keys(row(table))).toEqual(keys(row(real)));
  expect(arr(row(table).cells).slice(0, 4)).toEqual(['web', '1/1', 'Running', '0']);
  expect(obj(row(table).object).kind).toBe('PartialObjectMetadata');
});

test('a page of a Table over all namespaces says how to go on, as recorded', async () => {
  for (const name of ['one', 'two'])
    await api('/api/v1/namespaces/default/configmaps', { method: 'POST', body: { metadata: { name } } });
  const accept = { Accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' };
  const { metadata } = (await api('/api/v1/configmaps?limit=1', { headers: accept })).json;
  const recorded = obj(recording('pods-all-table').json.metadata);
  expect(Object.keys(obj(metadata)).sort()).toEqual(Object.keys(recorded).sort());
  const token = (value: Json | undefined): Json =>
    JSON.parse(Buffer.from(text(value), 'base64url').toString()) as Json;
  expect(Object.keys(obj(token(obj(metadata).continue)))).toEqual(Object.keys(obj(token(recorded.continue))));
});

test('a watch with initial events sends them, the bookmark that ends them, and what follows', async () => {
  const query = 'watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true';
  const message = await api.open(`/api/v1/namespaces/team-a/configmaps?${query}`);
  const stream = events(message);
  const before = await take(stream, 3);
  await api('/api/v1/namespaces/team-a/configmaps', { method: 'POST', body: { metadata: { name: 'c2' } } });
  await api('/api/v1/namespaces/team-a/configmaps/c2', { method: 'DELETE' });
  const all = [...before, ...(await take(stream, 2))];
  message.destroy();
  const recorded = recording('watch-initial-events').body.toString().trim().split('\n');
  const kinds = recorded.map((line) => text((JSON.parse(line) as JsonObject).type));
  expect(all.map((event) => event.type)).toEqual(kinds.filter((_, i) => i !== 2)); // one initial object fewer
  const shape = (event: JsonObject | undefined): Json => {
    const object = obj(event?.object);
    return [Object.keys(object), Object.keys(obj(object.metadata)), obj(object.metadata).annotations ?? null];
  };
  expect(shape(all[2])).toEqual(shape(JSON.parse(recorded[3] ?? '') as JsonObject));
});

test('recorded protobuf is read as the recorded JSON, and written back to the same', () => {
  const outer = fieldsOf(recording('pods-protobuf').body.subarray(4)) ?? [];
  const raw = outer.find((field) => field.number === 2)?.value;
  const pods = (Buffer.isBuffer(raw) ? (fieldsOf(raw) ?? []) : []).filter((field) => field.number === 2);
  const type = createRegistry().find('', 'v1', 'pods');
  const wanted = objects(recording('pods-list').json.items);
  expect(pods.length).toBe(wanted.length);
  for (const [i, { value }] of pods.entries()) {
    const meta = Buffer.concat([bytesField(1, Buffer.from('v1')), bytesField(2, Buffer.from('Pod'))]);
    const body = Buffer.isBuffer(value) ? value : Buffer.alloc(0);
    const magic = recording('pods-protobuf').body.subarray(0, 4);
    const pod = decodeProtobuf(Buffer.concat([magic, bytesField(1, meta), bytesField(2, body)]));
    expect(pod).toEqual({ kind: 'Pod', apiVersion: 'v1', ...withoutNulls(wanted[i] ?? {}) });
    expect(decodeProtobuf(encodeProtobuf(pod ?? {}, type) ?? Buffer.alloc(0))).toEqual(pod);
  }
});

function withoutNulls(value: JsonObject): JsonObject {
  const clean = (item: Json | undefined): Json | undefined =>
    Array.isArray(item) ? item.map((one) => clean(one) ?? null) : isObject(item) ? withoutNulls(item) : item;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== null)
      .map(([key, item]) => [key, clean(item)]),
  );
}

test('protobuf is answered to those who prefer it, in lists, watches and refusals', async () => {
  const headers = { Accept: 'application/vnd.kubernetes.protobuf,application/json' };
  const list = await api('/api/v1/namespaces/team-a/configmaps', { headers });
  expect(list.headers['content-type']).toBe('application/vnd.kubernetes.protobuf');
  expect(list.bytes.subarray(0, 4)).toEqual(recording('pods-protobuf').body.subarray(0, 4));
  const one = await api('/api/v1/namespaces/team-a/configmaps/c1', { headers });
  expect(decodeProtobuf(one.bytes)).toMatchObject({ kind: 'ConfigMap', metadata: { name: 'c1' } });
  const none = await api('/api/v1/namespaces/team-a/configmaps/none', { headers });
  expect(decodeProtobuf(none.bytes)).toMatchObject({ kind: 'Status', reason: 'NotFound', code: 404 });
  const watching = await api.open('/api/v1/namespaces/team-a/configmaps?watch=1', { headers });
  expect(watching.headers['content-type']).toBe('application/vnd.kubernetes.protobuf;stream=watch');
  const [first] = await once(watching);
  expect(first?.readUInt32BE(0)).toBeGreaterThan(20);
  watching.destroy();
});

async function once(message: AsyncIterable<Buffer>): Promise<Buffer[]> {
  for await (const chunk of message) return [chunk];
  return [];
}
