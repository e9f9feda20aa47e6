import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { needlesOf } from '../../relay/echo.ts';
import { type Forwarding, type ForwardOptions, forward, type Outcome } from '../../relay/forward.ts';
import { createListener, type Exchange, type Listener } from '../../relay/listener.ts';
import { createUpstreams } from '../../relay/upstreams.ts';
import { testCertificates, tlsOf } from '../support/certificates.ts';
import { lenientUpstream } from '../support/lenient-upstream.ts';
import { rawConnect, rawExchange, readAnswer } from '../support/raw-client.ts';
import { waitFor } from '../support/wait.ts';

const certs = testCertificates();
const upstreams = createUpstreams({ connectMs: 2_000 });
const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});
afterAll(() => upstreams.close());

interface Relay {
  port: number;
  outcomes: Outcome[];
  under: Forwarding[];
  exchanges: Exchange[];
}

type Options = Partial<Omit<ForwardOptions, 'body'>> & {
  body?: (exchange: Exchange) => ForwardOptions['body'];
};

/** A guard that allows everything: what is left of it is forward. */
async function relay(origin: string, options: Options = {}): Promise<Relay> {
  const seen: Relay = { port: 0, outcomes: [], under: [], exchanges: [] };
  const listener: Listener = createListener({
    tls: tlsOf(certs),
    advertised: [],
    async handle(exchange) {
      const { req, res } = exchange;
      seen.exchanges.push(exchange);
      const { body, ...rest } = options;
      const under = forward({
        upstream: upstreams.to({ origin }),
        method: req.method ?? '',
        path: '/built',
        headers: ['X-Built', 'yes'],
        req,
        res,
        answer: ({ status, headers }) => ({
          status,
          headers: headers['content-length'] ? ['Content-Length', String(headers['content-length'])] : [],
        }),
        headMs: 20_000,
        idleMs: 20_000,
        ...rest,
        ...(req.method === 'POST' ? { body: body ? body(exchange) : { rest: req } } : {}),
      });
      seen.under.push(under);
      const outcome = await under.done;
      seen.outcomes.push(outcome);
      if (outcome.sent === 'nothing' && !res.destroyed)
        res.writeHead(502, { Connection: 'close' }).end(outcome.how);
    },
    refuse: ({ res }) => void res.writeHead(400).end(),
  });
  seen.port = (await listener.listen('127.0.0.1', 0)).port;
  stops.push(() => listener.close(0));
  return seen;
}

async function serve(handler: RequestListener): Promise<{ origin: string; server: Server }> {
  const server = createServer({ requestTimeout: 0 }, handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stops.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

function ask(
  port: number,
  method = 'GET',
): { req: ReturnType<typeof request>; res: Promise<IncomingMessage> } {
  const req = request({ host: 'localhost', port, ca: certs.ca, method, agent: false });
  const res = once(req, 'response').then(([answer]) => answer as IncomingMessage);
  res.catch(() => {});
  return { req, res };
}

/** The body, and whether it ended as one. */
async function read(res: IncomingMessage): Promise<{ body: string; whole: boolean }> {
  let body = '';
  res.setEncoding('latin1');
  res.on('data', (part: string) => {
    body += part;
  });
  res.on('error', () => {});
  await new Promise((resolve) => res.once('close', resolve));
  return { body, whole: res.complete };
}

async function get(port: number): Promise<{ status: number; body: string; whole: boolean }> {
  const { req, res } = ask(port);
  req.end();
  const answer = await res;
  return { status: answer.statusCode ?? 0, ...(await read(answer)) };
}

const head = (port: number, first: string, ...lines: string[]): string =>
  [`${first} HTTP/1.1`, `Host: localhost:${port}`, ...lines, '', ''].join('\r\n');

async function outcomeOf(seen: Relay): Promise<Outcome> {
  await waitFor('the outcome', () => seen.outcomes.length > 0);
  return seen.outcomes[0] as Outcome;
}

describe('what goes up', () => {
  test('is what was built, and nothing that the client sent', async () => {
    const upstream = await lenientUpstream();
    stops.push(upstream.close);
    const seen = await relay(upstream.origin);
    const hostile = [
      'Cookie: a=b',
      'X-Forwarded-For: 1.2.3.4',
      'Connection: X-Built',
      'X-Built: no',
      'Te: trailers',
    ];
    await rawExchange(seen.port, certs.ca, head(seen.port, 'GET /a/../b?c', ...hostile));
    expect(upstream.received()).toBe(
      `GET /built HTTP/1.1\r\nhost: 127.0.0.1:${upstream.port}\r\nconnection: keep-alive\r\nX-Built: yes\r\n\r\n`,
    );
  });

  test('keeps a declared length, and is chunked without one', async () => {
    const bodies: [string | undefined, string][] = [];
    const { origin } = await serve((req, res) => {
      let body = '';
      req.on('data', (part) => {
        body += part;
      });
      req.on('end', () => {
        bodies.push([req.headers['content-length'], body]);
        res.end();
      });
    });
    const seen = await relay(origin);
    await rawExchange(
      seen.port,
      certs.ca,
      `${head(seen.port, 'POST /', 'Transfer-Encoding: chunked')}3\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n`,
    );
    const counted = await relay(origin, { headers: ['Content-Length', '5'] });
    await rawExchange(counted.port, certs.ca, `${head(counted.port, 'POST /', 'Content-Length: 5')}abcde`);
    expect(bodies).toEqual([
      [undefined, 'abcde'],
      ['5', 'abcde'],
    ]);
    expect(seen.outcomes[0]).toMatchObject({ how: 'complete', bytesUp: 5, status: 200 });
  });

  test('begins with the part that was read and judged before', async () => {
    const { origin } = await serve((req, res) => void req.pipe(res));
    const seen = await relay(origin, {
      body: ({ req }) => ({ first: [Buffer.from('judged '), Buffer.from('head ')], rest: req }),
    });
    const { req, res } = ask(seen.port, 'POST');
    req.end('and rest');
    expect((await read(await res)).body).toBe('judged head and rest');
  });

  test('waits for an upstream that reads slowly: nothing is gathered', async () => {
    let paused: IncomingMessage | undefined;
    let arrived = 0;
    const { origin } = await serve((req, res) => {
      paused = req.pause();
      req.on('data', (part: Buffer) => {
        arrived += part.length;
      });
      req.pause();
      req.on('end', () => res.end(String(arrived)));
    });
    const seen = await relay(origin);
    const { req, res } = ask(seen.port, 'POST');
    const piece = Buffer.alloc(1024 * 1024, 1);
    for (let i = 0; i < 64; i++) req.write(piece);
    req.end();
    await waitFor('the upstream', () => paused !== undefined);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const taken = seen.exchanges[0]?.req.socket.bytesRead ?? 0;
    expect(taken).toBeLessThan(24 * 1024 * 1024);
    paused?.resume();
    expect((await read(await res)).body).toBe(String(64 * 1024 * 1024));
  });

  test('ends without its end when the client leaves: the upstream sees a broken body', async () => {
    const upstream = await lenientUpstream();
    stops.push(upstream.close);
    upstream.answer(() => undefined);
    const seen = await relay(upstream.origin);
    const socket = await rawConnect(seen.port, certs.ca);
    socket.write(`${head(seen.port, 'POST /', 'Transfer-Encoding: chunked')}3\r\nabc\r\n`);
    await waitFor('the part', () => upstream.received().includes('abc'));
    socket.destroy();
    expect(await outcomeOf(seen)).toMatchObject({ how: 'client_gone', sent: 'nothing' });
    await waitFor('the upstream to be let go', () => upstream.open() === 0);
    expect(upstream.received()).not.toContain('\r\n0\r\n');
  });

  test('a broken chunk is not passed on as an end', async () => {
    const upstream = await lenientUpstream();
    stops.push(upstream.close);
    upstream.answer(() => undefined);
    const seen = await relay(upstream.origin);
    await rawExchange(
      seen.port,
      certs.ca,
      `${head(seen.port, 'POST /', 'Transfer-Encoding: chunked')}3\r\nabc\r\nzz\r\n`,
    );
    expect((await outcomeOf(seen)).how).toBe('client_gone');
    expect(upstream.received()).not.toContain('\r\n0\r\n');
  });

  test('over its limit is cut at the limit, and the caller answers', async () => {
    const upstream = await lenientUpstream();
    stops.push(upstream.close);
    upstream.answer(() => undefined);
    const seen = await relay(upstream.origin, { body: ({ req }) => ({ rest: req, maxBytes: 5 }) });
    const answer = await rawExchange(
      seen.port,
      certs.ca,
      `${head(seen.port, 'POST /', 'Transfer-Encoding: chunked')}3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n`,
    );
    expect([answer.status, answer.text]).toEqual([502, expect.stringContaining('over_limit')]);
    expect(seen.outcomes[0]).toMatchObject({ how: 'over_limit', bytesUp: 3 });
    await waitFor('the upstream to be let go', () => upstream.open() === 0);
    expect(upstream.received()).not.toContain('def');
    expect(upstream.received()).not.toContain('\r\n0\r\n');
  });
});

describe('what comes back', () => {
  test('leaves as it comes, the head before any body', async () => {
    let res: ServerResponse | undefined;
    const { origin } = await serve((_req, r) => {
      res = r;
      r.writeHead(200).flushHeaders();
    });
    const seen = await relay(origin);
    const { req, res: answered } = ask(seen.port);
    req.end();
    const answer = await answered;
    answer.setEncoding('utf8');
    for (const word of ['one', 'two']) {
      res?.write(word);
      expect((await once(answer, 'data'))[0]).toBe(word);
    }
    res?.end();
    await once(answer, 'end');
    expect(await outcomeOf(seen)).toMatchObject({ how: 'complete', sent: 'body', bytesDown: 6 });
  });

  test('waits for a client that reads slowly: nothing is gathered', async () => {
    const piece = Buffer.alloc(1024 * 1024, 1);
    let written = 0;
    const { origin } = await serve((_req, res) => {
      const more = (): void => {
        while (written < 64) {
          written++;
          if (!res.write(piece)) return void res.once('drain', more);
        }
        res.end();
      };
      more();
    });
    const seen = await relay(origin);
    const { req, res } = ask(seen.port);
    req.end();
    const answer = await res;
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(written).toBeLessThan(40);
    let total = 0;
    answer.on('data', (part: Buffer) => {
      total += part.length;
    });
    await once(answer, 'end');
    expect(total).toBe(64 * 1024 * 1024);
  });

  test('ends at the upstream when the client leaves', async () => {
    let closed = false;
    const { origin } = await serve((_req, res) => {
      res.write('event');
      res.on('close', () => {
        closed = true;
      });
    });
    const seen = await relay(origin);
    const { req, res } = ask(seen.port);
    req.on('error', () => {});
    req.end();
    await once(await res, 'data');
    req.destroy();
    await waitFor('the upstream to be let go', () => closed);
    expect(await outcomeOf(seen)).toMatchObject({ how: 'client_gone', sent: 'body' });
  });

  test.each([
    ['chunked', 'Transfer-Encoding: chunked', '5\r\nhello\r\n'],
    ['with a length', 'Content-Length: 10', 'hello'],
  ])('%s and broken off by the upstream, is broken off for the client', async (_how, framing, body) => {
    const upstream = await lenientUpstream();
    stops.push(upstream.close);
    upstream.answer((_received, socket) => {
      setTimeout(() => socket.destroy(), 50);
      return `HTTP/1.1 200 OK\r\n${framing}\r\n\r\n${body}`;
    });
    const seen = await relay(upstream.origin);
    expect(await get(seen.port)).toEqual({ status: 200, body: 'hello', whole: false });
    expect(await outcomeOf(seen)).toMatchObject({ how: 'upstream_failed', sent: 'body' });
  });

  test('can be ended in its own protocol, where last words exist', async () => {
    const upstream = await lenientUpstream();
    stops.push(upstream.close);
    upstream.answer((_received, socket) => {
      setTimeout(() => socket.destroy(), 50);
      return 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n';
    });
    const seen = await relay(upstream.origin, { lastWords: ({ how }) => Buffer.from(` (${how})`) });
    expect(await get(seen.port)).toEqual({ status: 200, body: 'hello (upstream_failed)', whole: true });
  });

  test.each(['redirect', 'refused', 'not HTTP'])('nothing, when it is a %s', async (what) => {
    const upstream = await lenientUpstream();
    stops.push(upstream.close);
    upstream.answer(() =>
      what === 'redirect'
        ? `HTTP/1.1 302 Found\r\nLocation: ${upstream.origin}/other\r\nContent-Length: 0\r\n\r\n`
        : 'SSH-2.0-x\r\n\r\n',
    );
    const seen = await relay(what === 'refused' ? 'http://127.0.0.1:1' : upstream.origin, {
      answer: () => undefined,
    });
    expect((await get(seen.port)).status).toBe(502);
    expect(seen.outcomes[0]).toMatchObject({
      how: what === 'redirect' ? 'declined' : 'upstream_failed',
      sent: 'nothing',
    });
    if (what === 'redirect') expect(upstream.received()).not.toContain('/other');
  });

  test('reaches a client that is still sending, when the upstream answers early', async () => {
    const { origin } = await serve((_req, res) => void res.writeHead(403).end('enough'));
    const seen = await relay(origin);
    const { req, res } = ask(seen.port, 'POST');
    req.on('error', () => {});
    req.write(Buffer.alloc(100_000));
    const timer = setInterval(() => req.write(Buffer.alloc(10_000)), 20);
    const answer = await res;
    expect([answer.statusCode, (await read(answer)).body]).toEqual([403, 'enough']);
    clearInterval(timer);
    req.end();
  });

  test('declined, is read to its end when small and keeps its connection', async () => {
    let connections = 0;
    const { origin, server } = await serve((_req, res) => void res.writeHead(404).end('no such thing'));
    server.on('connection', () => connections++);
    const seen = await relay(origin, { answer: () => undefined });
    for (let i = 0; i < 3; i++) expect((await get(seen.port)).body).toBe('declined');
    expect(connections).toBe(1);
  });

  test('declined, is cut when it goes on and on', async () => {
    let closed = false;
    const { origin } = await serve((_req, res) => {
      const timer = setInterval(() => res.write(Buffer.alloc(32 * 1024)), 1);
      res.on('close', () => {
        clearInterval(timer);
        closed = true;
      });
    });
    const seen = await relay(origin, { answer: () => undefined });
    expect((await get(seen.port)).body).toBe('declined');
    await waitFor('the cut', () => closed);
  });

  test('passes a transform, whose error cuts it', async () => {
    const { origin } = await serve((_req, res) => void res.write('abc', () => res.end('!')));
    const shout = await relay(origin, {
      answer: ({ status }) => ({
        status,
        headers: [],
        transform: {
          push: (chunk) => Buffer.from(chunk.toString().toUpperCase()),
          end: () => Buffer.from(' end'),
        },
      }),
    });
    expect(await get(shout.port)).toEqual({ status: 200, body: 'ABC! end', whole: true });
    const broken = await relay(origin, {
      answer: ({ status }) => ({
        status,
        headers: [],
        transform: {
          push: () => {
            throw new Error('not what was expected');
          },
          end: () => Buffer.alloc(0),
        },
      }),
    });
    // Nothing had left yet: the caller answers.
    expect(await get(broken.port)).toEqual({ status: 502, body: 'upstream_failed', whole: true });
  });

  test('of a transform that gives nothing before its end: an error leaves the answer to the caller', async () => {
    const { origin } = await serve((_req, res) => {
      res.write('one');
      setTimeout(() => res.end('two'), 50);
    });
    const answer = (last: () => Buffer) => () => ({
      status: 200 as const,
      headers: [],
      transform: { whole: true, push: () => Buffer.alloc(0), end: last } as const,
    });
    const given = await relay(origin, { answer: answer(() => Buffer.from('all')) });
    expect((await get(given.port)).body).toBe('all');
    const failing = await relay(origin, {
      answer: answer(() => {
        throw new Error('cannot be read');
      }),
    });
    expect(await get(failing.port)).toEqual({ status: 502, body: 'upstream_failed', whole: true });
  });
  test('is asked for again once, when a kept connection turns out to be closed', async () => {
    let asked = 0;
    const { origin } = await serve((req, res) => {
      asked++;
      if (asked === 2) req.socket.destroy();
      else res.end('ok');
    });
    const seen = await relay(origin);
    expect((await get(seen.port)).body).toBe('ok');
    expect((await get(seen.port)).body).toBe('ok');
    expect(asked).toBe(3);
  });
});

describe('a credential that comes back', () => {
  const secret = Buffer.from('ghp_Tq7uW0yZr3cVb9nXk2mLs8dFg5hJ1pQa4eRt');

  test('in a body is cut, also when it comes in two parts', async () => {
    const { origin } = await serve((_req, res) => {
      res.write(`hello ${secret.subarray(0, 20)}`);
      setTimeout(() => res.end(secret.subarray(20)), 50);
    });
    const seen = await relay(origin, { needles: needlesOf([secret.toString()]) });
    const answer = await get(seen.port);
    expect(answer.whole).toBe(false);
    expect(answer.body).not.toContain('ghp_Tq7u');
    expect(await outcomeOf(seen)).toMatchObject({ how: 'echoed' });
  });

  test('in a body that came with its head: nothing was sent yet, and the caller answers', async () => {
    const { origin } = await serve((_req, res) => void res.end(`hello ${secret}`));
    const seen = await relay(origin, { needles: needlesOf([secret.toString()]) });
    expect(await get(seen.port)).toEqual({ status: 502, body: 'echoed', whole: true });
  });

  test('in a header that would be passed on is not', async () => {
    const { origin } = await serve((_req, res) => void res.setHeader('X-Echo', secret.toString()).end('ok'));
    const seen = await relay(origin, {
      needles: needlesOf([secret.toString()]),
      answer: ({ status, headers }) => ({ status, headers: ['X-Echo', String(headers['x-echo'])] }),
    });
    expect((await get(seen.port)).body).toBe('echoed');
  });
});

describe('the session ends', () => {
  test('in the middle of an answer: both sides are cut before end() resolves', async () => {
    let upstreamClosed = false;
    const { origin } = await serve((_req, res) => {
      const timer = setInterval(() => res.write('x'.repeat(1000)), 5);
      res.on('close', () => {
        clearInterval(timer);
        upstreamClosed = true;
      });
    });
    const seen = await relay(origin);
    const { req, res } = ask(seen.port);
    req.end();
    const answer = await res;
    const reading = read(answer);
    await once(answer, 'data');
    await seen.under[0]?.end('revoked');
    expect(seen.exchanges[0]?.req.socket.destroyed).toBe(true);
    expect((await reading).whole).toBe(false);
    await waitFor('the upstream', () => upstreamClosed);
    expect(await outcomeOf(seen)).toMatchObject({ how: 'ended', why: 'revoked' });
  });

  test('in the middle of a body: the upstream never sees its end', async () => {
    const upstream = await lenientUpstream();
    stops.push(upstream.close);
    upstream.answer(() => undefined);
    const seen = await relay(upstream.origin);
    const socket = await rawConnect(seen.port, certs.ca);
    const answer = readAnswer(socket);
    socket.write(`${head(seen.port, 'POST /', 'Transfer-Encoding: chunked')}3\r\nabc\r\n`);
    await waitFor('the part', () => upstream.received().includes('abc'));
    await seen.under[0]?.end('expired');
    socket.write('3\r\ndef\r\n0\r\n\r\n');
    await answer;
    await waitFor('the upstream to be let go', () => upstream.open() === 0);
    expect(upstream.received()).not.toContain('def');
  });

  test('before a slow client has read everything: the rest is not delivered', async () => {
    const { origin } = await serve((_req, res) => void res.end(Buffer.alloc(64 * 1024 * 1024)));
    const seen = await relay(origin);
    const socket = await rawConnect(seen.port, certs.ca);
    socket.pause();
    socket.write(head(seen.port, 'GET /'));
    await waitFor('the forwarding', () => seen.under.length === 1);
    await new Promise((resolve) => setTimeout(resolve, 200));
    await seen.under[0]?.end('revoked');
    expect(seen.exchanges[0]?.req.socket.destroyed).toBe(true);
    expect((await outcomeOf(seen)).how).toBe('ended');
    socket.destroy();
  });

  test('before a connection is there: nothing is sent', async () => {
    const upstream = await lenientUpstream();
    stops.push(upstream.close);
    const single = createUpstreams({ maxConnections: 1 });
    stops.push(() => single.close());
    upstream.answer(() => undefined);
    const seen = await relay(upstream.origin, { upstream: single.to({ origin: upstream.origin }) });
    const first = ask(seen.port);
    first.req.on('error', () => {});
    first.req.end();
    await waitFor('the first request', () => upstream.received().includes('/built'));
    const second = ask(seen.port);
    second.req.end();
    await waitFor('the second request', () => seen.under.length === 2);
    await seen.under[1]?.end('revoked');
    expect((await second.res).statusCode).toBe(502);
    first.req.destroy();
    await waitFor('the first to be let go', () => upstream.open() === 0);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(upstream.received().match(/GET/g)?.length).toBe(1);
  });
});

describe('silence', () => {
  test('of an upstream that never answers ends the request', async () => {
    const { origin } = await serve(() => {});
    const seen = await relay(origin, { headMs: 100 });
    expect((await get(seen.port)).body).toBe('idle');
  });

  test('of an upstream in the middle of an answer cuts it', async () => {
    const { origin } = await serve((_req, res) => void res.write('and then'));
    const seen = await relay(origin, { idleMs: 100 });
    expect(await get(seen.port)).toMatchObject({ body: 'and then', whole: false });
  });

  test('of a client in the middle of a body ends it', async () => {
    const { origin } = await serve((req, res) => void req.resume().on('end', () => res.end()));
    const seen = await relay(origin, { headMs: 100 });
    const { req, res } = ask(seen.port, 'POST');
    req.on('error', () => {});
    req.write('a beginning');
    expect((await read(await res)).body).toBe('idle');
    req.destroy();
  });

  test('is not what a slow and steady transfer is: it may last longer than the limit', async () => {
    const { origin } = await serve((_req, res) => {
      let left = 12;
      const timer = setInterval(() => {
        res.write('.');
        if (--left === 0) {
          clearInterval(timer);
          res.end();
        }
      }, 50);
    });
    const seen = await relay(origin, { headMs: 250, idleMs: 250 });
    expect(await get(seen.port)).toEqual({ status: 200, body: '............', whole: true });
  });
});

test('an upstream whose certificate is not trusted gets nothing', async () => {
  let asked = 0;
  const listener = createListener({
    tls: tlsOf(certs),
    advertised: [],
    handle: ({ res }) => {
      asked++;
      res.end('secret');
    },
    refuse: ({ res }) => void res.end(),
  });
  const { port } = await listener.listen('127.0.0.1', 0);
  stops.push(() => listener.close(0));
  const origin = `https://localhost:${port}`;
  const untrusting = await relay(origin);
  expect((await get(untrusting.port)).body).toBe('upstream_failed');
  expect(asked).toBe(0);
  const misnamed = await relay(origin, {
    upstream: upstreams.to({ origin, ca: certs.ca, servername: 'forge.example' }),
  });
  expect((await get(misnamed.port)).body).toBe('upstream_failed');
  expect(asked).toBe(0);
  const trusting = await relay(origin, { upstream: upstreams.to({ origin, ca: certs.ca }) });
  expect((await get(trusting.port)).body).toBe('secret');
});
