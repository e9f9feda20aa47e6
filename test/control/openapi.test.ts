import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { withTokens } from '../../control/auth.ts';
import { openApi } from '../../control/openapi.ts';
import { route } from '../../control/route.ts';
import { controlRoutes } from '../../control/routes.ts';
import { createFront, type Front } from '../../control/server.ts';
import { type World, world } from './fakes.ts';
import { rawCall } from './raw.ts';

describe('/v1/openapi.json', () => {
  let w: World;
  beforeAll(async () => {
    w = await world();
  });
  afterAll(() => w.close());

  const routes = controlRoutes({} as Parameters<typeof controlRoutes>[0]);
  const document = openApi(routes, '1.2.3');

  test('describes every call once, and no call that there is not', () => {
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(described.sort()).toEqual(routes.map(({ method, path }) => `${method} ${path}`).sort());
    expect(new Set(described).size).toBe(described.length);
  });

  test('every parameter of a path is described, every answer and refusal has a schema', () => {
    for (const [path, methods] of Object.entries(document.paths))
      for (const operation of Object.values(methods)) {
        const { parameters = [], responses } = operation as {
          parameters?: { name: string; in: string; required: boolean }[];
          responses: { [status: string]: { content: { [type: string]: { schema: object } } } };
        };
        const named = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
        expect(parameters.filter((one) => one.in === 'path' && one.required).map((one) => one.name)).toEqual(
          named,
        );
        expect(Object.keys(responses)).toContain('default');
        for (const { content } of Object.values(responses))
          for (const { schema } of Object.values(content)) expect(Object.keys(schema)).not.toEqual([]);
      }
  });

  test('requests are closed: an unknown member is refused, and the description says so', () => {
    const text = JSON.stringify(document.paths['/v1/sessions/git']);
    expect(text).toContain('"additionalProperties":false');
    expect(text).toContain('valueFrom');
  });

  test('is served as it is made', async () => {
    const answer = await rawCall(w, { path: '/v1/openapi.json' });
    expect(answer.status).toBe(200);
    expect(answer.json).toMatchObject({ openapi: '3.1.0', info: { title: 'Postern control API' } });
  });
});

describe('one caller with too many calls', () => {
  let front: Front;
  let url: string;
  let release: () => void;
  const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

  beforeAll(async () => {
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const waiting = route({
      method: 'GET',
      path: '/v1/wait',
      summary: 'Waits',
      right: 'server:read',
      answer: z.object({ ok: z.boolean() }),
      run: async () => {
        await gate;
        return { ok: true };
      },
    });
    front = await createFront({
      routes: [waiting],
      version: '0',
      callsAtOnce: 2,
      authenticate: withTokens([
        { name: 'greedy', role: 'hub', sha256: sha256('greedy') },
        { name: 'modest', role: 'hub', sha256: sha256('modest') },
      ]),
      audit: { append: async () => {} },
    });
    url = await front.listen({ host: '127.0.0.1', port: 0 });
  });
  afterAll(() => front.close());

  test('is told to wait, the others are served, and afterwards it is too', async () => {
    const call = (token: string) =>
      fetch(`${url}/v1/wait`, { headers: { authorization: `Bearer ${token}` } });
    // Which of the three comes last is not said; it is the only one that is answered before the gate opens.
    const calls = [call('greedy'), call('greedy'), call('greedy')];
    const refused = await Promise.race(calls);
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toBe('1');
    expect(await refused.json()).toMatchObject({ code: 'too_many_requests' });
    const other = call('modest');
    release();
    expect((await other).status).toBe(200);
    expect((await Promise.all(calls)).map((one) => one.status).sort()).toEqual([200, 200, 429]);
    expect((await call('greedy')).status).toBe(200);
  });
});
