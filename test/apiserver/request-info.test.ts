import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiClient, createClient } from './client.ts';
import { recordedRequests } from './recordings.ts';
import { requestInfo } from './request/request-info.ts';
import { readTarget } from './request/target.ts';
import { type ApiServer, startApiServer } from './server.ts';

let server: ApiServer;
let api: ApiClient;

beforeAll(async () => {
  server = await startApiServer(); // no namespace team-a, as when the rows were recorded
  api = createClient(server);
});
afterAll(async () => {
  api.close();
  await server.close();
});

test('every recorded request is read as the real server read it', () => {
  const rows = recordedRequests();
  expect(rows.length).toBe(3063);
  const wrong = rows.filter(({ method, target, read }) => {
    const parsed = readTarget(target);
    const info = parsed && requestInfo(method, parsed);
    if (!info || !read) return Boolean(info) !== Boolean(read);
    return Object.entries(read).some(([key, value]) => info[key as keyof typeof info] !== value);
  });
  expect(wrong).toEqual([]);
});

test('every recorded request gets the status that the real server gave', async () => {
  const wrong: string[] = [];
  for (const { method, target, status } of recordedRequests()) {
    // That server's /healthz failed for a while for a reason of its own.
    if (target === '/healthz' && status === 500) continue;
    const body = ['POST', 'PUT', 'PATCH'].includes(method) ? '{}' : undefined;
    const answer = await api.open(target, { method, ...(body ? { body } : {}) });
    if (answer.headers['content-length'] === undefined) answer.destroy();
    else answer.resume();
    if (answer.statusCode !== status)
      wrong.push(`${method} ${target}: ${answer.statusCode}, recorded ${status}`);
  }
  expect(wrong).toEqual([]);
});

test.each([
  ['/api/v1/%zz', 'an escape that is none'],
  ['/api/v1/pods%2', 'an escape that is cut'],
  ['api/v1/pods', 'a target without its slash'],
])('%s is no target to Go: %s', (target) => {
  expect(readTarget(target)).toBeUndefined();
});

test('the absolute form loses its origin, and an encoded slash is a slash', () => {
  expect(readTarget('http://elsewhere/api/v1/pods')?.path).toBe('/api/v1/pods');
  expect(readTarget('/api/v1/namespaces/a%2Fpods')?.path).toBe('/api/v1/namespaces/a/pods');
});
