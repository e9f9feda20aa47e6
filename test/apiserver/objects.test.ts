// Objects through the API: conflicts, preconditions, generations, dry runs, finalizers, owners, pages, subresources.

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ApiClient, type ApiRequest, createClient } from './client.ts';
import { arr, at, type JsonObject, obj, objects, text } from './objects/values.ts';
import { type ApiServer, startApiServer } from './server.ts';

let server: ApiServer;
let api: ApiClient;

beforeAll(async () => {
  server = await startApiServer({ namespaces: ['a'], podDelay: 5 });
  api = createClient(server);
});
afterAll(async () => {
  api.close();
  await server.close();
});

const MAPS = '/api/v1/namespaces/a/configmaps';
const DEPLOYMENTS = '/apis/apps/v1/namespaces/a/deployments';

const post = (target: string, body: JsonObject, more: ApiRequest = {}) =>
  api(target, { method: 'POST', body, ...more });
const put = (target: string, body: JsonObject) => api(target, { method: 'PUT', body });
const del = (target: string, body?: JsonObject) =>
  api(target, { method: 'DELETE', ...(body ? { body } : {}) });
const patch = (target: string, type: string, body: JsonObject | string) =>
  api(target, { method: 'PATCH', body, headers: { 'Content-Type': type } });
const map = (name: string, more: JsonObject = {}): JsonObject => ({
  metadata: { name },
  data: { a: 'b' },
  ...more,
});
const version = (object: JsonObject): string => text(at(object, 'metadata', 'resourceVersion'));

function deployment(name: string, replicas = 1): JsonObject {
  return {
    metadata: { name },
    spec: {
      replicas,
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name } },
        spec: { containers: [{ name: 'main', image: 'nginx' }] },
      },
    },
  };
}

describe('writes', () => {
  test('a created object gets its identity from the server, and keeps it', async () => {
    const made = (await post(MAPS, map('identity'))).json;
    expect(text(at(made, 'metadata', 'uid'))).toMatch(/^[0-9a-f-]{36}$/);
    const stolen = {
      ...made,
      metadata: { ...obj(made.metadata), creationTimestamp: '2000-01-01T00:00:00Z' },
    };
    const after = (await put(`${MAPS}/identity`, stolen)).json;
    expect(at(after, 'metadata', 'creationTimestamp')).toBe(at(made, 'metadata', 'creationTimestamp'));
    expect(version(after)).toBe(version(made)); // nothing changed, so nothing was written
  });

  test('generateName', async () => {
    const made = (await post(MAPS, { metadata: { generateName: 'gen-' } })).json;
    expect(text(at(made, 'metadata', 'name'))).toMatch(/^gen-[a-z0-9]{5}$/);
  });

  test('an update at an old version is a Conflict; without one it goes through', async () => {
    const first = (await post(MAPS, map('raced'))).json;
    expect((await put(`${MAPS}/raced`, { ...first, data: { a: 'c' } })).status).toBe(200);
    const late = await put(`${MAPS}/raced`, { ...first, data: { a: 'd' } });
    expect(late.status).toBe(409);
    expect(late.json).toMatchObject({ reason: 'Conflict', details: { name: 'raced', kind: 'configmaps' } });
    expect((await put(`${MAPS}/raced`, map('raced'))).status).toBe(200);
  });

  test('another uid is a Conflict', async () => {
    await post(MAPS, map('replaced'));
    const body = { metadata: { name: 'replaced', uid: '00000000-0000-0000-0000-000000000000' } };
    expect((await put(`${MAPS}/replaced`, body)).status).toBe(409);
  });

  test('name, namespace, kind and version have to be those of the URL', async () => {
    expect((await put(`${MAPS}/one`, map('two'))).status).toBe(400);
    expect((await post(MAPS, { metadata: { name: 'x', namespace: 'other' } })).status).toBe(400);
    expect((await post(MAPS, { kind: 'Secret', apiVersion: 'v1', ...map('x') })).status).toBe(400);
    expect((await post(MAPS, { kind: 'ConfigMap', apiVersion: 'v2', ...map('x') })).status).toBe(400);
    const nowhere = await post('/api/v1/namespaces/none/configmaps', map('x'));
    expect(nowhere.json).toMatchObject({ code: 404, message: 'namespaces "none" not found' });
  });

  test('a field of the wrong type, an unknown one, bad base64: 400 or a warning, as fieldValidation says', async () => {
    const typed = await post(DEPLOYMENTS, { metadata: { name: 'x' }, spec: { replicas: 'three' } });
    expect(typed.status).toBe(400);
    expect(typed.text).toContain(
      'cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32',
    );
    const odd = map('odd', { dta: {} });
    const strict = await post(`${MAPS}?fieldValidation=Strict`, odd);
    expect(strict.text).toContain('strict decoding error: unknown field \\"dta\\"');
    const warned = await post(MAPS, odd);
    expect(warned.status).toBe(201);
    expect(warned.headers.warning).toBe('299 - "unknown field \\"dta\\""');
    expect(warned.json.dta).toBeUndefined();
    const quiet = await post(`${MAPS}?fieldValidation=Ignore`, { ...odd, metadata: { name: 'quiet' } });
    expect(quiet.headers.warning).toBeUndefined();
    const secret = await post('/api/v1/namespaces/a/secrets', { metadata: { name: 's' }, data: { k: '~~' } });
    expect(secret.status).toBe(400);
  });

  test('rules of kinds: selectors, required fields, what may not change', async () => {
    const bad = deployment('bad');
    obj(at(bad, 'spec', 'selector')).matchLabels = { app: 'other' };
    expect((await post(DEPLOYMENTS, bad)).json).toMatchObject({ code: 422, reason: 'Invalid' });
    const empty = await post('/api/v1/namespaces/a/pods', {
      metadata: { name: 'p' },
      spec: { containers: [{}] },
    });
    expect(empty.json).toMatchObject({
      code: 422,
      details: { causes: [{ reason: 'FieldValueRequired', field: 'spec.containers[0].name' }] },
    });
    await post(MAPS, map('fixed', { immutable: true }));
    expect((await patch(`${MAPS}/fixed`, 'application/merge-patch+json', { data: { a: 'c' } })).status).toBe(
      422,
    );
  });

  test('a dry run is answered and not kept', async () => {
    const dry = await post(`${MAPS}?dryRun=All`, map('dry'));
    expect(dry.status).toBe(201);
    expect((await api(`${MAPS}/dry`)).status).toBe(404);
    await post(MAPS, map('stays'));
    expect((await del(`${MAPS}/stays?dryRun=All`)).status).toBe(200);
    expect((await api(`${MAPS}/stays`)).status).toBe(200);
    expect((await post(`${MAPS}?dryRun=Some`, map('x'))).status).toBe(422);
  });

  test('a generation counts changes of the spec, not of the metadata or the status', async () => {
    await post(DEPLOYMENTS, deployment('counted'));
    const merge = 'application/merge-patch+json';
    const generation = async (target: string, body: JsonObject) =>
      at((await patch(target, merge, body)).json, 'metadata', 'generation');
    expect(await generation(`${DEPLOYMENTS}/counted`, { metadata: { labels: { x: 'y' } } })).toBe(1);
    expect(await generation(`${DEPLOYMENTS}/counted/status`, { status: { replicas: 7 } })).toBe(1);
    expect(
      await generation(`${DEPLOYMENTS}/counted`, { spec: { replicas: 2 }, status: { replicas: 9 } }),
    ).toBe(2);
  });

  test('the media types of patches', async () => {
    await post(MAPS, map('patched'));
    const wrong = await patch(`${MAPS}/patched`, 'application/json', {});
    expect(wrong.json).toMatchObject({ code: 415, reason: 'UnsupportedMediaType' });
    const operations = '[{"op":"test","path":"/data/a","value":"z"}]';
    expect((await patch(`${MAPS}/patched`, 'application/json-patch+json', operations)).status).toBe(422);
  });

  test('strategic merge merges containers by name', async () => {
    await post(DEPLOYMENTS, deployment('merged'));
    const answer = await patch(`${DEPLOYMENTS}/merged`, 'application/strategic-merge-patch+json', {
      spec: { template: { spec: { containers: [{ name: 'side', image: 'busybox' }] } } },
    });
    const names = objects(at(answer.json, 'spec', 'template', 'spec', 'containers')).map((one) => one.name);
    expect(names.sort()).toEqual(['main', 'side']);
  });
});

describe('server-side apply', () => {
  const apply = (manager: string, data?: JsonObject, force = false) =>
    api(`${MAPS}/applied?fieldManager=${manager}&force=${force}`, {
      method: 'PATCH',
      body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'applied' }, ...(data ? { data } : {}) },
      headers: { 'Content-Type': 'application/apply-patch+yaml' },
    });

  test('owners, conflicts, force, and the removal of what its owner no longer lists', async () => {
    expect((await apply('one', { x: '1', y: '1' })).status).toBe(201);
    expect((await apply('two', { y: '1', z: '1' })).status).toBe(200);
    const clash = await apply('two', { y: '2' });
    expect(clash.json).toMatchObject({
      code: 409,
      details: { causes: [{ reason: 'FieldManagerConflict', field: '.data.y' }] },
    });
    expect((await apply('two', { y: '2' }, true)).json.data).toEqual({ x: '1', y: '2' });
    expect((await apply('one')).json.data).toEqual({ y: '2' });
    const owners = objects(at((await api(`${MAPS}/applied`)).json, 'metadata', 'managedFields'));
    expect(owners.map((one) => [one.manager, one.operation])).toEqual([['two', 'Apply']]);
  });

  test('needs a manager, and a kind in the body', async () => {
    const type = 'application/apply-patch+yaml';
    expect((await patch(`${MAPS}/applied`, type, 'apiVersion: v1\nkind: ConfigMap\n')).status).toBe(422);
    expect((await patch(`${MAPS}/applied?fieldManager=x`, type, 'data: {}\n')).status).toBe(400);
  });
});

describe('deletion', () => {
  test('preconditions', async () => {
    const made = (await post(MAPS, map('guarded'))).json;
    const wrong = await del(`${MAPS}/guarded`, { preconditions: { uid: 'x' } });
    expect(wrong.status).toBe(409);
    const right = await del(`${MAPS}/guarded`, { preconditions: { uid: at(made, 'metadata', 'uid') ?? '' } });
    expect(right.json).toMatchObject({ kind: 'Status', status: 'Success', details: { kind: 'configmaps' } });
  });

  test('a finalizer holds the object until it is taken away', async () => {
    await post(MAPS, map('held', { metadata: { name: 'held', finalizers: ['example.com/hold'] } }));
    const marked = (await del(`${MAPS}/held`)).json;
    expect(at(marked, 'metadata', 'deletionTimestamp')).toBeDefined();
    expect((await api(`${MAPS}/held`)).status).toBe(200);
    await patch(`${MAPS}/held`, 'application/merge-patch+json', { metadata: { finalizers: null } });
    expect((await api(`${MAPS}/held`)).status).toBe(404);
  });

  const owned = async (name: string): Promise<void> => {
    const owner = (await post(MAPS, map(`${name}-owner`))).json;
    const reference = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      name: `${name}-owner`,
      uid: text(at(owner, 'metadata', 'uid')),
    };
    await post(MAPS, map(name, { metadata: { name, ownerReferences: [reference] } }));
  };

  test('what an object owns goes after it, before it, or not at all', async () => {
    await owned('follows');
    await del(`${MAPS}/follows-owner`);
    await expect.poll(async () => (await api(`${MAPS}/follows`)).status).toBe(404);

    await owned('first');
    await del(`${MAPS}/first-owner`, { propagationPolicy: 'Foreground' });
    await expect.poll(async () => (await api(`${MAPS}/first-owner`)).status).toBe(404);
    expect((await api(`${MAPS}/first`)).status).toBe(404);

    await owned('left');
    await del(`${MAPS}/left-owner`, { propagationPolicy: 'Orphan' });
    const left = await api(`${MAPS}/left`);
    expect(left.status).toBe(200);
    expect(at(left.json, 'metadata', 'ownerReferences')).toBeUndefined();
  });

  test('deletecollection takes what the selector names', async () => {
    for (const [name, half] of [
      ['d1', 'low'],
      ['d2', 'low'],
      ['d3', 'high'],
    ] as const)
      await post(MAPS, map(name, { metadata: { name, labels: { half } } }));
    const gone = (await del(`${MAPS}?labelSelector=half%3Dlow`)).json;
    expect(objects(gone.items).length).toBe(2);
    expect((await api(`${MAPS}/d3`)).status).toBe(200);
  });

  test('a namespace goes when it is empty, and takes nothing new meanwhile', async () => {
    await post('/api/v1/namespaces', { metadata: { name: 'ends' } });
    const holder = { metadata: { name: 'holder', finalizers: ['example.com/hold'] } };
    await post('/api/v1/namespaces/ends/configmaps', holder);
    expect(at((await del('/api/v1/namespaces/ends')).json, 'status', 'phase')).toBe('Terminating');
    const late = await post('/api/v1/namespaces/ends/configmaps', map('late'));
    expect(late.json).toMatchObject({ code: 403, details: { causes: [{ reason: 'NamespaceTerminating' }] } });
    await patch('/api/v1/namespaces/ends/configmaps/holder', 'application/merge-patch+json', {
      metadata: { finalizers: [] },
    });
    await expect.poll(async () => (await api('/api/v1/namespaces/ends')).status).toBe(404);
  });
});

describe('lists', () => {
  test('pages are of one revision, and expire when the history is compacted', async () => {
    const at100 = '/api/v1/namespaces/default/configmaps';
    for (let i = 0; i < 5; i++) await post(at100, map(`page-${i}`));
    const pageOf = (token: string) => api(`${at100}?limit=2&continue=${token}`);
    const one = (await api(`${at100}?limit=2`)).json;
    await post(at100, map('page-1-late'));
    const two = (await pageOf(text(at(one, 'metadata', 'continue')))).json;
    expect(version(two)).toBe(version(one));
    const three = (await pageOf(text(at(two, 'metadata', 'continue')))).json;
    const names = [one, two, three].flatMap((page) =>
      objects(page.items).map((item) => at(item, 'metadata', 'name')),
    );
    expect(names).toEqual(['kube-root-ca.crt', 'page-0', 'page-1', 'page-2', 'page-3', 'page-4']);
    server.store.compact();
    const expired = await pageOf(text(at(one, 'metadata', 'continue')));
    expect(expired.json).toMatchObject({ code: 410, reason: 'Expired' });
    expect((await pageOf('nonsense')).status).toBe(400);
  });

  test.each([
    ['limit=many', 400],
    ['fieldSelector=spec.color%3Dred', 400],
    ['labelSelector=a%20b%20c', 400],
    ['resourceVersion=x', 400],
    ['resourceVersionMatch=Exact', 422],
    ['resourceVersion=99999999', 504],
    ['sendInitialEvents=true', 422],
  ])('%s is %i', async (query, status) => {
    expect((await api(`${MAPS}?${query}`)).status).toBe(status);
  });

  test('metadata alone, and gzip for what is large', async () => {
    const accept = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io';
    const list = (await api(MAPS, { headers: { Accept: accept } })).json;
    expect(list.kind).toBe('PartialObjectMetadataList');
    expect(objects(list.items).every((item) => item.data === undefined)).toBe(true);
    await post(MAPS, map('large', { data: { text: 'x'.repeat(300_000) } }));
    const large = await api(MAPS, { headers: { 'Accept-Encoding': 'gzip' } });
    expect(large.headers['content-encoding']).toBe('gzip');
    expect(large.bytes.length).toBeLessThan(20_000);
    expect((await api(MAPS, { headers: { Accept: 'text/html' } })).status).toBe(406);
  });
});

describe('subresources and kinds of their own', () => {
  test('scale reads and writes replicas', async () => {
    await post(DEPLOYMENTS, deployment('scaled'));
    const scale = (await api(`${DEPLOYMENTS}/scaled/scale`)).json;
    expect(scale).toMatchObject({ kind: 'Scale', spec: { replicas: 1 }, status: { selector: 'app=scaled' } });
    const after = await put(`${DEPLOYMENTS}/scaled/scale`, {
      metadata: { name: 'scaled' },
      spec: { replicas: 3 },
    });
    expect(after.json).toMatchObject({ spec: { replicas: 3 } });
    await expect.poll(() => at(server.get('Deployment', 'a', 'scaled'), 'status', 'readyReplicas')).toBe(3);
  });

  test('a service account token lets its holder in, with no rights to speak of', async () => {
    const target = '/api/v1/namespaces/a/serviceaccounts/default/token';
    const made = await post(target, { spec: { expirationSeconds: 900 } });
    const headers = { Authorization: `Bearer ${text(at(made.json, 'status', 'token'))}` };
    expect((await api('/version', { user: null, headers })).status).toBe(200);
    const refused = await api(MAPS, { user: null, headers });
    expect(text(refused.json.message)).toContain('User "system:serviceaccount:a:default" cannot list');
  });

  test('a CRD serves its resources, prunes them and takes them away', async () => {
    const crd = {
      metadata: { name: 'widgets.example.com' },
      spec: {
        group: 'example.com',
        scope: 'Namespaced',
        names: { plural: 'widgets', kind: 'Widget', shortNames: ['wd'] },
        versions: [
          {
            name: 'v1',
            served: true,
            storage: true,
            schema: {
              openAPIV3Schema: {
                type: 'object',
                properties: { spec: { type: 'object', properties: { size: { type: 'integer' } } } },
              },
            },
          },
        ],
      },
    };
    const root = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    expect((await post(root, crd)).status).toBe(201);
    const widgets = '/apis/example.com/v1/namespaces/a/widgets';
    await expect.poll(async () => (await api(widgets)).status).toBe(200);
    const body = {
      apiVersion: 'example.com/v1',
      kind: 'Widget',
      metadata: { name: 'w' },
      spec: { size: 1, odd: 2 },
    };
    expect((await post(widgets, body)).json.spec).toEqual({ size: 1 });
    expect((await patch(`${widgets}/w`, 'application/strategic-merge-patch+json', {})).status).toBe(415);
    expect((await api('/apis')).text).toContain('example.com');
    await del(`${root}/widgets.example.com`);
    await expect.poll(async () => (await api(widgets)).status).toBe(404);
  });

  test('events are the same objects in both groups', async () => {
    await post('/api/v1/namespaces/a/events', {
      metadata: { name: 'e' },
      involvedObject: { kind: 'Pod', name: 'p', namespace: 'a' },
      message: 'said',
    });
    const seen = (await api('/apis/events.k8s.io/v1/namespaces/a/events/e')).json;
    expect(seen).toMatchObject({ apiVersion: 'events.k8s.io/v1', note: 'said', regarding: { name: 'p' } });
    expect(arr(seen.involvedObject)).toEqual([]);
  });
});
