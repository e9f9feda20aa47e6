import { request } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { PosternError } from '../../common/errors.ts';
import { type Log, silentLog } from '../../common/log.ts';
import { type Check, createHealth } from '../../ops/health.ts';
import { createMetrics } from '../../ops/metrics.ts';
import { type OpsServer, startOps } from '../../ops/server.ts';

const listen = { host: '127.0.0.1', port: 0 };
let server: OpsServer | undefined;
afterEach(() => server?.close());

async function start(checks: { [name: string]: Check }, more: { log?: Log; timeoutMs?: number } = {}) {
  const log = more.log ?? silentLog;
  const health = createHealth(checks, log, more.timeoutMs);
  server = await startOps({ listen, health, metrics: createMetrics(), log });
  return health;
}

function get(
  path: string,
  { method = 'GET', headers = {} } = {},
): Promise<{ status: number; type: string; body: string }> {
  return new Promise((resolve, reject) => {
    const asked = request(
      { host: '127.0.0.1', port: server?.port, path, method, headers },
      async (response) => {
        let body = '';
        for await (const chunk of response) body += chunk;
        resolve({ status: response.statusCode ?? 0, type: String(response.headers['content-type']), body });
      },
    );
    asked.on('error', reject).end();
  });
}

const good: Check = () => ({ ok: true });

describe('the ops endpoint', () => {
  it('says that it lives, and that it is ready', async () => {
    await start({ store: good, audit: good, certificates: good, listeners: good });
    expect(await get('/livez')).toMatchObject({
      status: 200,
      body: '{"ok":true,"message":"live","checks":{}}\n',
    });
    const ready = await get('/readyz?verbose');
    expect(ready).toMatchObject({ status: 200, type: 'application/json' });
    expect(JSON.parse(ready.body)).toMatchObject({
      ok: true,
      message: 'ready',
      checks: { listeners: { ok: true } },
    });
  });

  it('says which check fails and why, in JSON and in text', async () => {
    await start({
      store: () => Promise.reject(new PosternError('store_unavailable', 'the disk is gone')),
      audit: () => ({ ok: false, reason: 'the disk is full' }),
      certificates: () => ({ ok: true, reason: 'a renewal failed' }),
      listeners: () => ({ ok: false }),
    });
    const json = await get('/readyz');
    expect(json.status).toBe(503);
    expect(JSON.parse(json.body)).toEqual({
      ok: false,
      message: 'not ready: store (the disk is gone), audit (the disk is full), listeners',
      checks: {
        store: { ok: false, reason: 'the disk is gone' },
        audit: { ok: false, reason: 'the disk is full' },
        certificates: { ok: true, reason: 'a renewal failed' },
        listeners: { ok: false },
      },
    });
    const text = await get('/readyz', { headers: { accept: 'text/plain' } });
    expect(text).toMatchObject({ status: 503, type: 'text/plain; charset=utf-8' });
    expect(text.body.split('\n').slice(0, 4)).toEqual([
      '[-] store: the disk is gone',
      '[-] audit: the disk is full',
      '[+] certificates: a renewal failed',
      '[-] listeners: failed',
    ]);
    expect((await get('/livez')).status).toBe(200);
  });

  it('is ready where something is degraded and serves, and says so', async () => {
    await start({ store: good, audit: () => ({ ok: true, degraded: true, reason: 'the disk is full' }) });
    const { status, body } = await get('/readyz');
    expect(status).toBe(200);
    expect(JSON.parse(body)).toMatchObject({
      ok: true,
      message: 'ready, degraded: audit',
      checks: { audit: { ok: true, degraded: true, reason: 'the disk is full' } },
    });
  });

  it('tells an error that was not made for people to the log only', async () => {
    const logged: object[] = [];
    await start(
      { store: () => Promise.reject(new Error('postgres://u:hunter2@db')) },
      { log: { ...silentLog, warn: (fields) => logged.push(fields) } },
    );
    const { body } = await get('/readyz');
    expect(body).toContain('store (it failed; see the log)');
    expect(body).not.toContain('hunter2');
    expect(logged).toHaveLength(1);
  });

  it('does not wait for a check that hangs, nor start it again', async () => {
    let started = 0;
    const hang: Check = () => {
      started++;
      return new Promise(() => {});
    };
    await start({ store: hang, audit: good }, { timeoutMs: 20 });
    for (let i = 0; i < 3; i++)
      expect((await get('/readyz')).body).toContain('store (no answer within 20 ms)');
    expect(started).toBe(1);
  });

  it('is not ready while the server stops', async () => {
    const health = await start({ store: good });
    health.drain();
    expect(await get('/readyz')).toMatchObject({
      status: 503,
      body: expect.stringContaining('the server is stopping'),
    });
    expect((await get('/livez')).status).toBe(200);
  });

  it('serves the metrics', async () => {
    await start({});
    const { status, type, body } = await get('/metrics');
    expect([status, type]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8']);
    expect(body).toContain('\npostern_sessions_live{guard="git"} 0\n');
  });

  it('serves nothing else, and changes nothing', async () => {
    await start({});
    for (const path of ['/', '/healthz', '/metrics/', '/livez/x', '//livez', '/v1/sessions', '/%6civez'])
      expect((await get(path)).status, path).toBe(404);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'])
      expect((await get('/livez', { method })).status).toBe(405);
    expect(await get('/readyz', { method: 'HEAD' })).toMatchObject({ status: 200, body: '' });
  });

  it('names the key where its address cannot be had', async () => {
    await start({});
    const taken = { host: '127.0.0.1', port: server?.port ?? 0 };
    const health = createHealth({}, silentLog);
    const second = startOps({ listen: taken, health, metrics: createMetrics(), log: silentLog });
    await expect(second).rejects.toMatchObject({
      code: 'invalid_config',
      message: `ops.listen: 127.0.0.1:${taken.port} is taken by another process`,
    });
  });
});
