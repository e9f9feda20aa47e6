// Watches: from where they start, what they pass, how they end.

import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiClient, createClient, events, take } from './client.ts';
import { failure } from './objects/status.ts';
import { at, type JsonObject, obj, objects } from './objects/values.ts';
import { type ApiServer, startApiServer } from './server.ts';

let server: ApiServer;
let api: ApiClient;

beforeAll(async () => {
  server = await startApiServer({ namespaces: ['a', 'b'], bookmarkEvery: 20 });
  api = createClient(server);
});
afterAll(async () => {
  api.close();
  await server.close();
});

const MAPS = '/api/v1/namespaces/a/configmaps';
const create = (name: string, labels: JsonObject = {}) =>
  api(MAPS, { method: 'POST', body: { metadata: { name, labels } } });
const label = (name: string, value: string) =>
  api(`${MAPS}/${name}`, {
    method: 'PATCH',
    body: { metadata: { labels: { half: value } } },
    headers: { 'Content-Type': 'application/merge-patch+json' },
  });
const short = (event: JsonObject): unknown[] => [event.type, at(event, 'object', 'metadata', 'name')];

test('from a revision: what has happened since, then what happens', async () => {
  const revision = server.store.revision();
  await create('since');
  await api('/api/v1/namespaces/b/configmaps', { method: 'POST', body: { metadata: { name: 'elsewhere' } } });
  const message = await api.open(`${MAPS}?watch=1&resourceVersion=${revision}`);
  const stream = events(message);
  expect((await take(stream, 1)).map(short)).toEqual([['ADDED', 'since']]);
  await api(`${MAPS}/since`, { method: 'DELETE' });
  expect((await take(stream, 1)).map(short)).toEqual([['DELETED', 'since']]);
  message.destroy();
});

test('an object that comes to match a selector is added, one that leaves is deleted', async () => {
  const from = server.store.revision();
  const message = await api.open(`${MAPS}?watch=1&labelSelector=half%3Dlow&resourceVersion=${from}`);
  await create('moves', { half: 'high' });
  await label('moves', 'low');
  await label('moves', 'high');
  await create('other', { half: 'low' });
  expect((await take(events(message), 3)).map(short)).toEqual([
    ['ADDED', 'moves'],
    ['DELETED', 'moves'],
    ['ADDED', 'other'],
  ]);
  message.destroy();
});

test('a revision that is forgotten gets an ERROR event of 410 and the end', async () => {
  const old = server.store.revision();
  await create('later');
  server.store.compact();
  const answer = await api(`${MAPS}?watch=1&resourceVersion=${old}`);
  expect(answer.status).toBe(200);
  expect(JSON.parse(answer.text)).toMatchObject({ type: 'ERROR', object: { code: 410, reason: 'Expired' } });
});

test('timeoutSeconds ends it, with a bookmark for those who allow them', async () => {
  const from = server.store.revision();
  const answer = await api(`${MAPS}?watch=1&allowWatchBookmarks=1&timeoutSeconds=1&resourceVersion=${from}`);
  const types = answer.text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).type);
  expect(new Set(types)).toEqual(new Set(['BOOKMARK']));
});

test.each([
  ['sendInitialEvents=true&allowWatchBookmarks=true', 422],
  ['resourceVersionMatch=Exact&resourceVersion=1', 422],
  ['timeoutSeconds=x', 400],
])('watch=1&%s is %i', async (query, status) => {
  expect((await api(`${MAPS}?watch=1&${query}`)).status).toBe(status);
});

test('in a Table only the first event has the columns', async () => {
  const headers = { Accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' };
  const message = await api.open('/api/v1/namespaces?watch=1', { headers });
  const [one, two] = await take(events(message), 2);
  expect(objects(at(one, 'object', 'columnDefinitions')).length).toBeGreaterThan(0);
  expect(obj(two?.object).columnDefinitions).toBeNull();
  expect(at(one, 'object', 'rows', 0, 'cells', 0)).toBe('a');
  message.destroy();
});

test('the deprecated prefix watches too, a named object alone', async () => {
  const message = await api.open('/api/v1/watch/namespaces/a');
  expect((await take(events(message), 1)).map(short)).toEqual([['ADDED', 'a']]);
  message.destroy();
});

test('a client that vanishes leaves no watch behind, and a test can end them all', async () => {
  const gone = await api.open(`${MAPS}?watch=1`);
  await expect.poll(() => server.open().watches).toBe(1);
  gone.destroy();
  await expect.poll(() => server.open().watches).toBe(0);

  const told = await api.open('/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dnone');
  await expect.poll(() => server.open().watches).toBe(1);
  server.endWatches(failure(401, 'Unauthorized', 'no longer').status);
  const all = await take(events(told), 2);
  expect(all).toMatchObject([{ type: 'ERROR', object: { code: 401, message: 'no longer' } }]);
});
