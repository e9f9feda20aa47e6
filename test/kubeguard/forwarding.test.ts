// What passes unchanged: encodings, sizes, conditions, streams. The upstream here is bare node:http, so that every byte is known.
import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { rawConnect } from '../support/raw-client.ts';
import { waitFor } from '../support/wait.ts';
import { ask, closeAll, type Held, kubeconfigFor, onClose, type Session, startGuard } from './harness.ts';

let server: Server;
let serve: (req: IncomingMessage, res: ServerResponse) => void;
let upgrade: (req: IncomingMessage, socket: Socket, head: Buffer) => void;
let held: Held;
let session: Session;
const sockets = new Set<Socket>();
const origin = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

beforeAll(async () => {
  server = createServer({ maxHeaderSize: 1 << 20 }, (req, res) => serve(req, res));
  server.on('upgrade', (req, socket, head) => upgrade(req, socket as Socket, head));
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onClose(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  held = await startGuard();
  session = await held.issue({
    kubeconfig: kubeconfigFor(origin()),
    namespaces: ['team-a'],
    verbs: ['*'],
    resources: ['*', 'pods/exec'],
  });
});
afterAll(closeAll);
afterEach(() => {
  serve = (_, res) => res.end();
});

const PODS = '/api/v1/namespaces/team-a/pods';

describe('an answer', () => {
  test.each<[string, string, { [name: string]: string }, Buffer]>([
    [
      'protobuf',
      'application/vnd.kubernetes.protobuf',
      {},
      Buffer.concat([Buffer.from('k8s\0'), randomBytes(5_000)]),
    ],
    ['CBOR', 'application/cbor', {}, randomBytes(5_000)],
    ['a Table', 'application/json;as=Table;v=v1;g=meta.k8s.io', {}, Buffer.from('{"kind":"Table"}')],
    ['gzip', 'application/json', { 'Content-Encoding': 'gzip' }, gzipSync(randomBytes(200_000))],
    ['text', 'text/plain', {}, Buffer.from('line\n'.repeat(1000))],
  ])('in %s comes as it is, with and without a length', async (_, type, more, body) => {
    for (const length of [{}, { 'Content-Length': body.length }]) {
      let accept = '';
      serve = (req, res) => {
        accept = `${req.headers.accept} ${req.headers['accept-encoding']}`;
        res.writeHead(200, { 'Content-Type': type, ...more, ...length }).end(body);
      };
      const got = await ask(held, session, 'GET', PODS, {
        headers: { Accept: type, 'Accept-Encoding': 'gzip' },
      });
      expect([got.status, got.headers['content-type'], got.headers['content-encoding']]).toEqual([
        200,
        type,
        more['Content-Encoding'],
      ]);
      expect(got.body.equals(body)).toBe(true);
      expect(accept).toBe(`${type} gzip`);
    }
  });

  test('that has not changed is 304', async () => {
    serve = (req, res) =>
      res.writeHead(req.headers['if-none-match'] === '"e"' ? 304 : 200, { ETag: '"e"' }).end();
    const got = await ask(held, session, 'GET', '/openapi/v2', { headers: { 'If-None-Match': '"e"' } });
    expect([got.status, got.headers.etag, got.body.length]).toEqual([304, '"e"', 0]);
  });

  test('of 50 MB is not kept in memory', async () => {
    const piece = Buffer.alloc(64 * 1024, 'x');
    serve = (_, res) => {
      res.writeHead(200, { 'Content-Type': 'application/json' });
      let left = 800;
      const more = (): void => {
        while (left-- > 0) if (!res.write(piece)) return void res.once('drain', more);
        res.end();
      };
      more();
    };
    const socket = await rawConnect(held.port, held.ca);
    socket.write(
      `GET ${session.prefix}${PODS} HTTP/1.1\r\nHost: 127.0.0.1:${held.port}\r\nAuthorization: Bearer ${session.token}\r\nConnection: close\r\n\r\n`,
    );
    await new Promise((resolve) => socket.once('data', resolve));
    socket.pause(); // A slow reader: what it does not take waits at the cluster.
    await new Promise((resolve) => setTimeout(resolve, 300));
    const sent = [...sockets].reduce((sum, one) => Math.max(sum, one.bytesWritten), 0);
    expect(sent).toBeLessThan(25_000_000);
    let bytes = 0;
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    socket.resume();
    await new Promise((resolve) => socket.on('close', resolve));
    expect(bytes).toBeGreaterThan(800 * 64 * 1024 - 65_536 * 2);
  });

  test('that breaks off is never made to look whole', async () => {
    serve = (_, res) => {
      res.writeHead(200, { 'Content-Type': 'application/json' });
      res.write('{"items":[');
      setTimeout(() => res.destroy(), 20);
    };
    await expect(ask(held, session, 'GET', PODS)).rejects.toThrow(/aborted|hang up|ECONNRESET/);
  });

  test('flushes as it comes', async () => {
    let next: () => void = () => {};
    serve = (_, res) => {
      res.writeHead(200, { 'Content-Type': 'application/json' });
      res.write('{"type":"ADDED"}\n');
      next = () => void res.write('{"type":"MODIFIED"}\n');
    };
    const socket = await rawConnect(held.port, held.ca);
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.write(
      `GET ${session.prefix}${PODS}?watch=1 HTTP/1.1\r\nHost: 127.0.0.1:${held.port}\r\nAuthorization: Bearer ${session.token}\r\n\r\n`,
    );
    await waitFor('the first event', () => text.includes('ADDED'));
    next();
    await waitFor('the second event', () => text.includes('MODIFIED'));
    socket.destroy();
  });
});

describe('a request', () => {
  test('body arrives whole, by length and by chunks, and its type with it', async () => {
    const body = randomBytes(1_000_000);
    for (const headers of [{ 'Content-Length': String(body.length) }, { 'Transfer-Encoding': 'chunked' }]) {
      let got = Buffer.alloc(0);
      let type = '';
      serve = (req, res) => {
        type = String(req.headers['content-type']);
        const chunks: Buffer[] = [];
        req
          .on('data', (chunk) => chunks.push(chunk))
          .on('end', () => {
            got = Buffer.concat(chunks);
            res.writeHead(201).end('{}');
          });
      };
      expect(
        (
          await ask(held, session, 'POST', PODS, {
            body,
            headers: { ...headers, 'Content-Type': 'application/vnd.kubernetes.protobuf' },
          })
        ).status,
      ).toBe(201);
      expect([got.equals(body), type]).toEqual([true, 'application/vnd.kubernetes.protobuf']);
    }
  });
  test('of 48 KB of command line gets through', async () => {
    const command = `/${'x'.repeat(48 * 1024)}`;
    let url = '';
    serve = (req, res) => {
      url = req.url ?? '';
      res.writeHead(400).end('{}');
    };
    const path = `${PODS}/p/exec?command=${encodeURIComponent(command)}`;
    expect((await ask(held, session, 'POST', path)).status).toBe(400);
    expect(url).toBe(path);
  });
});

describe('a tunnel', () => {
  const open = async (): Promise<Awaited<ReturnType<typeof rawConnect>>> => {
    const socket = await rawConnect(held.port, held.ca);
    socket.write(
      `POST ${session.prefix}${PODS}/p/exec?command=cat HTTP/1.1\r\nHost: 127.0.0.1:${held.port}\r\nAuthorization: Bearer ${session.token}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n`,
    );
    const head = await new Promise<Buffer>((resolve) => socket.once('data', resolve));
    expect(head.toString()).toMatch(
      /^HTTP\/1\.1 101 Switching Protocols\r\nConnection: Upgrade\r\nPostern-Request-Id: (req_\w+)\r\nAudit-ID: \1\r\nUpgrade: SPDY\/3\.1\r\n\r\n$/,
    );
    return socket;
  };
  const switched =
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nSet-Cookie: a=b\r\nServer: x\r\n\r\n';

  test('carries bytes both ways, with a slow reader on either side', async () => {
    const up = randomBytes(8_000_000);
    const down = randomBytes(8_000_000);
    let got: Buffer[] = [];
    upgrade = (_, socket) => {
      got = [];
      socket.write(switched);
      socket.write(down);
      socket.on('data', (chunk: Buffer) => {
        got.push(chunk);
        socket.pause();
        setTimeout(() => socket.resume(), 1);
      });
    };
    const socket = await open();
    socket.pause();
    socket.write(up);
    const back: Buffer[] = [];
    setTimeout(() => socket.on('data', (chunk: Buffer) => back.push(chunk)).resume(), 200);
    const size = (chunks: Buffer[]) => chunks.reduce((sum, { length }) => sum + length, 0);
    await waitFor(
      'all of it, both ways',
      () => size(got) === up.length && size(back) === down.length,
      60_000,
    );
    expect(Buffer.concat(got).equals(up) && Buffer.concat(back).equals(down)).toBe(true);
    socket.destroy();
    await waitFor('the record', () =>
      held.trail
        .of('kube.request_result')
        .some(({ bytesUp, bytesDown }) => bytesUp === up.length && bytesDown === down.length),
    );
  });

  test('ends where the cluster ends, with all that it said before', async () => {
    const last = randomBytes(3_000_000);
    upgrade = (_, socket) => {
      socket.write(switched);
      socket.end(last);
    };
    const socket = await open();
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    await new Promise((resolve) => socket.on('end', resolve));
    expect(Buffer.concat(chunks).equals(last)).toBe(true);
    expect(held.trail.of('kube.request_result').at(-1)?.action).toBeDefined();
  });

  test('hands on the end of what the client sends while the cluster still answers', async () => {
    upgrade = (_, socket) => {
      socket.write(switched);
      let size = 0;
      socket.on('data', (chunk) => {
        size += chunk.length;
      });
      socket.on('end', () => socket.end(`took ${size}`));
    };
    const socket = await open();
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.end(Buffer.alloc(100_000));
    await new Promise((resolve) => socket.on('close', resolve));
    expect(Buffer.concat(chunks).toString()).toBe('took 100000');
  });

  test('that the cluster breaks off is cut, and one whose client goes is ended at the cluster', async () => {
    let cluster: Socket | undefined;
    upgrade = (_, socket) => {
      cluster = socket;
      socket.write(switched);
    };
    const first = await open();
    cluster?.resetAndDestroy();
    await new Promise((resolve) => first.on('close', resolve));
    await waitFor(
      'the record',
      () =>
        held.trail.of('kube.request_result').at(-1)?.reason ===
        'the cluster could not be reached or broke off',
    );
    const second = await open();
    second.destroy();
    await waitFor(
      'the cluster to see it',
      () => cluster?.destroyed === true || cluster?.readableEnded === true,
    );
  });

  test('a hundred at once, and none of them left', async () => {
    upgrade = (_, socket) => {
      socket.write(switched);
      socket.pipe(socket);
    };
    const before = sockets.size;
    const all = await Promise.all(Array.from({ length: 100 }, open));
    for (const socket of all) socket.destroy();
    await waitFor('all to be gone', () => sockets.size <= before);
  });
});

describe('silence', () => {
  const patience = { headMs: 400, idleMs: 400, upgradeMs: 400 };
  const SILENT_MS = 1_500;

  test.each([
    ['a watch', `${PODS}?watch=1`],
    ['a watch of namespaces', '/api/v1/namespaces?watch=1'],
    ['a log', `${PODS}/x/log?follow=true`],
  ])('ends neither %s before its first word nor one after it', async (_, path) => {
    const patient = await startGuard({}, { patience });
    const watcher = await patient.issue({
      kubeconfig: kubeconfigFor(origin()),
      namespaces: ['team-a', 'team-b'],
    });
    const event = '{"type":"ADDED","object":{"metadata":{"name":"team-a"}}}\n';
    serve = (_req, res) => {
      setTimeout(() => {
        res.writeHead(200, { 'Content-Type': 'application/json' }).write(event);
        setTimeout(() => res.end(event), SILENT_MS);
      }, SILENT_MS);
    };
    const got = await ask(patient, watcher, 'GET', path);
    expect([got.status, got.body.toString()]).toEqual([200, event + event]);
  });

  test('does not end an exec that has begun', async () => {
    const patient = await startGuard({}, { patience });
    const user = await patient.issue({
      kubeconfig: kubeconfigFor(origin()),
      namespaces: ['team-a'],
      verbs: ['create'],
      resources: ['pods/exec'],
    });
    upgrade = (_req, socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n');
      setTimeout(() => socket.end('late'), SILENT_MS);
    };
    const socket = await rawConnect(patient.port, patient.ca);
    socket.write(
      `POST ${user.prefix}${PODS}/x/exec?command=id HTTP/1.1\r\nHost: 127.0.0.1:${patient.port}\r\nAuthorization: Bearer ${user.token}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n`,
    );
    let heard = '';
    socket.on('data', (chunk: Buffer) => {
      heard += chunk.toString('latin1');
    });
    await new Promise((resolve) => socket.once('close', resolve));
    expect(heard).toMatch(/101 Switching[\s\S]*late$/);
  });

  test('ends any other request', async () => {
    const patient = await startGuard({}, { patience });
    const reader = await patient.issue({ kubeconfig: kubeconfigFor(origin()), namespaces: ['team-a'] });
    serve = () => {};
    const got = await ask(patient, reader, 'GET', PODS);
    expect([got.status, got.json().message]).toEqual([502, expect.stringContaining('not answered in time')]);
  });
});

test('a watch that sends its initial events is asked for and passed on as it is', async () => {
  const target = `${PODS}?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true`;
  const events = ['ADDED', 'BOOKMARK']
    .map((type) => {
      const metadata = { name: 'x', annotations: { 'k8s.io/initial-events-end': 'true' } };
      return `${JSON.stringify({ type, object: { kind: 'Pod', metadata } })}\n`;
    })
    .join('');
  let asked: string | undefined;
  serve = (req, res) => {
    asked = req.url;
    res.writeHead(200, { 'Content-Type': 'application/json' }).end(events);
  };
  expect((await ask(held, session, 'GET', target)).body.toString()).toBe(events);
  expect(asked).toBe(target);
});
