import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { createUpstreams, type Upstreams } from '../../relay/upstreams.ts';
import { waitFor } from '../support/wait.ts';

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function upstream(): Promise<{ origin: string; answers: ServerResponse[]; connections(): number }> {
  const answers: ServerResponse[] = [];
  let connections = 0;
  const server = createServer((_req, res) => void answers.push(res));
  server.on('connection', () => connections++);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stops.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answers,
    connections: () => connections,
  };
}

function ask(upstreams: Upstreams, origin: string): Promise<string> {
  return new Promise((resolve) => {
    let body = '';
    upstreams.to({ origin }).dispatch(
      { path: '/', method: 'GET' },
      {
        onRequestStart() {},
        onResponseStart() {},
        onResponseData(_controller, chunk) {
          body += chunk.toString();
        },
        onResponseEnd: () => resolve(body),
        onResponseError: (_controller, error) => resolve(`failed: ${error.message}`),
      },
    );
  });
}

test('equal targets share connections, different ones do not', async () => {
  const upstreams = createUpstreams();
  stops.push(() => upstreams.close());
  const origin = 'https://forge.example';
  expect(upstreams.to({ origin, servername: 'a.example' })).toBe(
    upstreams.to({ origin, servername: 'a.example' }),
  );
  expect(upstreams.to({ origin, servername: 'a.example' })).not.toBe(
    upstreams.to({ origin, servername: 'b.example' }),
  );
  expect(upstreams.to({ origin, servername: 'a.example' })).not.toBe(upstreams.to({ origin }));
});

test('the least used target makes room once its requests are done, and comes back when it is asked for', async () => {
  const upstreams = createUpstreams({ maxTargets: 1 });
  stops.push(() => upstreams.close());
  const [first, second] = [await upstream(), await upstream()];
  const one = ask(upstreams, first.origin);
  await waitFor('the first request', () => first.answers.length === 1);
  const two = ask(upstreams, second.origin);
  await waitFor('the second request', () => second.answers.length === 1);
  first.answers[0]?.end('whole');
  second.answers[0]?.end('too');
  expect([await one, await two]).toEqual(['whole', 'too']);
  const again = ask(upstreams, first.origin);
  await waitFor('the request after it', () => first.answers.length === 2);
  first.answers[1]?.end('again');
  expect(await again).toBe('again');
});

test('a target that is forgotten is connected to anew', async () => {
  const upstreams = createUpstreams();
  stops.push(() => upstreams.close());
  const { origin, answers, connections } = await upstream();
  const ends = async (): Promise<void> => {
    const asked = ask(upstreams, origin);
    const before = answers.length;
    await waitFor('the request', () => answers.length > before || answers.some((res) => !res.writableEnded));
    for (const res of answers) if (!res.writableEnded) res.end();
    await asked;
    // A connection is given back a moment after its answer.
    await new Promise((resolve) => setTimeout(resolve, 50));
  };
  await ends();
  await ends();
  expect(connections()).toBe(1);
  upstreams.forget({ origin });
  await ends();
  expect(connections()).toBe(2);
});

test('close ends what is under way', async () => {
  const upstreams = createUpstreams();
  const { origin, answers } = await upstream();
  const asked = ask(upstreams, origin);
  await waitFor('the request', () => answers.length === 1);
  await upstreams.close();
  expect(await asked).toMatch(/^failed: /);
});
