// What tests ask of the server beside the usual: faults on demand, and a true record of what reached it.

import { connect } from 'node:tls';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ApiClient, createClient } from './client.ts';
import { type ApiServer, startApiServer } from './server.ts';

let server: ApiServer;
let api: ApiClient;

beforeAll(async () => {
  server = await startApiServer({ captureBytes: true, cbor: true });
  api = createClient(server);
});
afterEach(() => server.intercept(undefined));
afterAll(async () => {
  api.close();
  await server.close();
});

test('the record holds the line, the headers and the body as they came', async () => {
  server.forget();
  const target = '/api/v1/namespaces/default/configmaps?x=%7e&&b';
  await api(target, {
    method: 'POST',
    body: '{"metadata":{"name":"r"}}',
    headers: { 'X-OdD': 'Ä'.normalize() },
  });
  const [record] = server.requests;
  expect(record?.line).toBe(`POST ${target} HTTP/1.1`);
  expect(record?.headers.map(([name]) => name)).toContain('X-OdD');
  expect(record?.user).toBe('admin');
  expect(record?.body?.toString()).toBe('{"metadata":{"name":"r"}}');
  await expect.poll(() => record?.status).toBe(201);
});

test('every byte of a connection can be had', async () => {
  server.forget();
  const sent = 'GET /version HTTP/1.1\r\nhost:  x\r\nX-a:\tb\r\nConnection: close\r\n\r\n';
  await new Promise<void>((resolve, reject) => {
    const socket = connect({ port: server.port, host: '127.0.0.1', ca: server.ca }, () => socket.write(sent));
    socket.on('error', reject);
    socket.on('close', () => resolve());
    socket.resume();
  });
  const chunks = server.bytes.get(server.requests[0]?.connection ?? 0) ?? [];
  expect(Buffer.concat(chunks).toString()).toBe(sent);
});

test('the Audit-ID of a request is given back, or a new one', async () => {
  const given = await api('/version', { headers: { 'Audit-ID': 'from-the-client' } });
  expect(given.headers['audit-id']).toBe('from-the-client');
  expect((await api('/version')).headers['audit-id']).toMatch(/^[0-9a-f-]{36}$/);
});

test('warnings, 429, redirects, further headers, delays', async () => {
  server.intercept(() => ({ kind: 'warning', text: 'old "thing"' }));
  expect((await api('/version')).headers.warning).toBe('299 - "old \\"thing\\""');
  server.intercept(() => ({ kind: 'too-many', retryAfter: 7 }));
  const many = await api('/version');
  expect([many.status, many.headers['retry-after'], many.json.reason]).toEqual([429, '7', 'TooManyRequests']);
  server.intercept(() => ({ kind: 'redirect', location: 'https://elsewhere.test/' }));
  const moved = await api('/version');
  expect([moved.status, moved.headers.location]).toEqual([307, 'https://elsewhere.test/']);
  server.intercept(() => ({ kind: 'headers', headers: { 'Set-Cookie': ['a=b', 'c=d'] } }));
  expect((await api('/version')).headers['set-cookie']).toEqual(['a=b', 'c=d']);
  server.intercept(() => ({ kind: 'delay', ms: 5 }));
  expect((await api('/version')).status).toBe(200);
  server.intercept(({ target }) =>
    target === '/livez'
      ? { kind: 'status', code: 503, reason: 'ServiceUnavailable', message: 'x' }
      : undefined,
  );
  expect((await api('/livez')).status).toBe(503);
  expect((await api('/version')).status).toBe(200);
});

test('a server that quotes the credential, in its body and its headers', async () => {
  server.intercept(() => ({ kind: 'echo-credential' }));
  const answer = await api('/api/v1/pods');
  const token = server.users.tokenOf('admin');
  expect(answer.status).toBe(401);
  expect(answer.text).toContain(token);
  expect(answer.headers['www-authenticate']).toContain(token);
  expect(answer.headers['x-echo']).toContain(token);
});

test('a server that hangs, trickles or cuts leaves nothing open when its client goes', async () => {
  server.intercept(() => ({ kind: 'trickle', piece: '.', every: 1 }));
  const endless = await api.open('/version');
  await new Promise((resolve) => endless.once('data', resolve));
  endless.destroy();
  server.intercept(() => ({ kind: 'cut' }));
  await expect(api('/version')).rejects.toThrow();
  server.intercept(() => ({ kind: 'hang' }));
  const hung = api('/version').catch(() => 'cut');
  await expect.poll(() => server.open().sockets).toBe(1);
  api.close();
  expect(await hung).toBe('cut');
  await expect.poll(() => server.open().sockets).toBe(0);
});

test('health fails by name', async () => {
  server.failing.add('ping');
  expect((await api('/readyz')).status).toBe(500);
  expect((await api('/readyz/log')).status).toBe(200);
  server.failing.clear();
  expect((await api('/readyz')).text).toBe('ok');
});

test('CBOR for those who ask, with its tag', async () => {
  const answer = await api('/api/v1/namespaces/default', { headers: { Accept: 'application/cbor' } });
  expect(answer.headers['content-type']).toBe('application/cbor');
  expect(answer.bytes.subarray(0, 4)).toEqual(Buffer.from([0xd9, 0xd9, 0xf7, 0xa5]));
});

test('an Upgrade where no handler takes connections over is just a request', async () => {
  const headers = { Connection: 'Upgrade', Upgrade: 'websocket' };
  expect((await api('/version', { headers })).status).toBe(200);
});
