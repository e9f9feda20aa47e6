import { once } from 'node:events';
import { request } from 'node:https';
import { connect as plainConnect } from 'node:net';
import { connect } from 'node:tls';
import { afterEach, describe, expect, test } from 'vitest';
import { dropBody } from '../../relay/body.ts';
import { createListener, type Exchange, type Listener, type Unreadable } from '../../relay/listener.ts';
import { testCertificates, tlsOf } from '../support/certificates.ts';
import { rawConnect, rawExchange, readAnswer } from '../support/raw-client.ts';
import { waitFor } from '../support/wait.ts';

const certs = testCertificates();
let running: Listener | undefined;
afterEach(async () => {
  await running?.close(0);
  running = undefined;
});

interface Seen {
  port: number;
  paths: string[];
  unreadable: Unreadable[];
}

async function start(
  handle: (exchange: Exchange) => void | Promise<void> = ({ res }) => void res.end('served'),
  limits = {},
): Promise<Seen> {
  const seen: Seen = { port: 0, paths: [], unreadable: [] };
  running = createListener({
    tls: tlsOf(certs),
    advertised: ['https://localhost:1'],
    handle(exchange) {
      seen.paths.push(exchange.req.url ?? '');
      return handle(exchange);
    },
    refuse({ res }, refusal) {
      res.writeHead(400, { Connection: 'close' }).end(refusal.code);
    },
    unreadable: (what) => seen.unreadable.push(what),
    limits,
  });
  seen.port = (await running.listen('127.0.0.1', 0)).port;
  return seen;
}

const head = (seen: Seen, first: string, ...lines: string[]): string =>
  [`${first} HTTP/1.1`, `Host: localhost:${seen.port}`, ...lines, '', ''].join('\r\n');

describe('a request whose head is sound', () => {
  test('reaches the guard with an id that the answer carries', async () => {
    let id = '';
    const seen = await start((exchange) => {
      id = exchange.id;
      exchange.res.end(exchange.sourceIp);
    });
    const answer = await rawExchange(seen.port, certs.ca, head(seen, 'GET /a'));
    expect(answer.status).toBe(200);
    expect(answer.headers['postern-request-id']).toBe(id);
    expect(id).toMatch(/^req_[0-9a-z]{26}$/);
    expect(answer.body).toBe('127.0.0.1');
  });

  test('may have a URL of 48 KiB', async () => {
    const seen = await start();
    const answer = await rawExchange(seen.port, certs.ca, head(seen, `GET /${'x'.repeat(48 * 1024)}`));
    expect(answer.status).toBe(200);
  });

  test('is asked for its body only once the guard has decided', async () => {
    let decided = false;
    const seen = await start(async (exchange) => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      decided = true;
      exchange.continueBody();
      exchange.continueBody();
      exchange.req.setEncoding('utf8');
      let body = '';
      for await (const part of exchange.req) body += part;
      exchange.res.end(body);
    });
    const socket = await rawConnect(seen.port, certs.ca);
    socket.write(head(seen, 'POST /', 'Content-Length: 2', 'Expect: 100-continue'));
    const [first] = (await once(socket, 'data')) as [Buffer];
    expect(decided).toBe(true);
    expect(first.toString()).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    socket.write('hi');
    expect((await readAnswer(socket)).body).toContain('hi');
  });

  test('that is refused is never asked for its body', async () => {
    const seen = await start(({ res }) => void res.writeHead(403).end('no'));
    const answer = await rawExchange(
      seen.port,
      certs.ca,
      head(seen, 'POST /', 'Content-Length: 9', 'Expect: 100-continue'),
    );
    expect(answer.text).toMatch(/^HTTP\/1\.1 403 /);
  });

  test('over h2 only is not possible: the handshake fails instead of guessing', async () => {
    const seen = await start();
    const socket = connect({
      host: '127.0.0.1',
      port: seen.port,
      ca: certs.ca,
      servername: 'localhost',
      ALPNProtocols: ['h2'],
    });
    const [error] = await once(socket, 'error');
    expect(String(error)).toMatch(/no application protocol/i);
  });
});

describe('bytes that are no sound request are answered 400 and never reach the guard', () => {
  test.each<[string, (seen: Seen) => string, number]>([
    ['two Hosts', (s) => head(s, 'GET /', 'Host: other.example'), 400],
    ['the Host of another guard', () => 'GET / HTTP/1.1\r\nHost: localhost:9\r\n\r\n', 400],
    ['no Host', () => 'GET / HTTP/1.1\r\n\r\n', 400],
    ['an absolute-form target', (s) => head(s, `GET https://localhost:${s.port}/`), 400],
    ['an asterisk', (s) => head(s, 'OPTIONS *'), 400],
    ['CONNECT', (s) => head(s, 'CONNECT localhost:22'), 405],
    ['an Upgrade', (s) => head(s, 'GET /', 'Connection: Upgrade', 'Upgrade: websocket'), 400],
    [
      'both framings',
      (s) => `${head(s, 'POST /', 'Content-Length: 4', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
      400,
    ],
    ['two lengths', (s) => `${head(s, 'POST /', 'Content-Length: 4', 'Content-Length: 5')}abcde`, 400],
    ['a folded header', (s) => head(s, 'GET /', 'A: b', ' c'), 400],
    ['a space before the colon', (s) => head(s, 'GET /', 'Authorization : x'), 400],
    ['a bare LF', (s) => head(s, 'GET /').replaceAll('\r\n', '\n'), 400],
    ['a NUL in a header', (s) => head(s, 'GET /', 'A: \0'), 400],
    ['an unknown expectation', (s) => head(s, 'POST /', 'Expect: 200-ok', 'Content-Length: 0'), 417],
    ['HTTP/1.0', () => 'GET / HTTP/1.0\r\n\r\n', 400],
    ['no HTTP at all', () => 'SSH-2.0-OpenSSH_9\r\n\r\n', 400],
    ['a head over the limit', (s) => head(s, 'GET /', `A: ${'x'.repeat(70_000)}`), 431],
  ])('%s', async (_what, bytes, status) => {
    const seen = await start();
    const answer = await rawExchange(seen.port, certs.ca, bytes(seen));
    expect(answer.status).toBe(status);
    expect(answer.headers['postern-request-id']).toMatch(/^req_/);
    expect(seen.paths).toEqual([]);
  });

  test('with a credential in them they are told apart, for the record', async () => {
    const seen = await start();
    const broken = head(seen, 'GET /', 'Authorization: Basic eDp5', 'A : b');
    await rawExchange(seen.port, certs.ca, broken);
    await rawExchange(seen.port, certs.ca, head(seen, 'GET /', 'A : b'));
    expect(seen.unreadable.map(({ bearing }) => bearing)).toEqual([true, false]);
  });

  test('behind an answer under way nothing is written into it', async () => {
    let finish = (): void => {};
    const seen = await start(({ res }) => {
      res.write('first ');
      finish = () => void res.end('last');
    });
    const socket = await rawConnect(seen.port, certs.ca);
    socket.write(head(seen, 'GET /one'));
    await once(socket, 'data');
    socket.write('garbage\r\n\r\n');
    const rest = await readAnswer(socket);
    finish();
    expect(rest.text).not.toContain('HTTP/1.1 400');
  });
});

describe('silence is limited, time is not', () => {
  test('a head that trickles in is cut off', async () => {
    const seen = await start(undefined, { headMs: 200 });
    const socket = await rawConnect(seen.port, certs.ca);
    const timer = setInterval(() => socket.write('x'), 20);
    socket.write('GET /');
    const answer = await readAnswer(socket, 5_000);
    clearInterval(timer);
    expect(answer.status).toBe(408);
    expect(seen.paths).toEqual([]);
  });

  test('a body that takes longer than the limit of the head is served', async () => {
    const seen = await start(
      async ({ req, res }) => {
        await dropBody(req, 1_000, 60_000);
        res.end('whole');
      },
      { headMs: 200 },
    );
    const socket = await rawConnect(seen.port, certs.ca);
    socket.write(head(seen, 'POST /', 'Content-Length: 6'));
    for (let i = 0; i < 6; i++) {
      await new Promise((resolve) => setTimeout(resolve, 120));
      socket.write('x');
    }
    expect((await readAnswer(socket)).body).toContain('whole');
  });

  test('an idle connection is closed after keepAliveMs', async () => {
    const seen = await start(undefined, { keepAliveMs: 100 });
    const socket = await rawConnect(seen.port, certs.ca);
    socket.write(head(seen, 'GET /'));
    socket.resume();
    await once(socket, 'close');
  });
});

describe('one client does not take what the others need', () => {
  const isOpen = (socket: { destroyed: boolean }): boolean => !socket.destroyed;

  test('above its share of connections, the one that was idle longest is closed for each new one', async () => {
    const seen = await start(({ req, res }) => void (req.url === '/busy' || res.end('served')), {
      maxIdle: 3,
    });
    const busy = await rawConnect(seen.port, certs.ca);
    busy.write(head(seen, 'GET /busy'));
    await waitFor('the request', () => seen.paths.includes('/busy'));
    const idle: Awaited<ReturnType<typeof rawConnect>>[] = [];
    for (let i = 0; i < 6; i++) idle.push(await rawConnect(seen.port, certs.ca));
    await waitFor('the closing', () => idle.filter(isOpen).length === 2);
    expect(idle.map(isOpen)).toEqual([false, false, false, false, true, true]);
    expect(busy.destroyed).toBe(false);
    idle[5]?.write(head(seen, 'GET /a'));
    expect((await readAnswer(idle[5] ?? busy)).status).toBe(200);
  });

  test('above it, handshakes that go on for ever are not begun', async () => {
    const seen = await start(undefined, { maxIdle: 3 });
    const sockets = Array.from({ length: 6 }, () => plainConnect(seen.port, '127.0.0.1'));
    for (const socket of sockets) socket.on('error', () => {});
    await waitFor('the refusals', () => sockets.filter((socket) => socket.closed).length === 3);
    expect(sockets.filter((socket) => !socket.closed)).toHaveLength(3);
    for (const socket of sockets) socket.destroy();
  });

  test('requests behind one another, unanswered, end with the connection', async () => {
    const seen = await start(() => {}, { maxPipelined: 8 });
    const socket = await rawConnect(seen.port, certs.ca);
    socket.write(head(seen, 'GET /a').repeat(300));
    await waitFor('the end', () => socket.destroyed);
    expect(seen.paths).toHaveLength(8);
  });
});

describe('close', () => {
  test('lets an answer finish, refuses new connections and is not held by an idle one', async () => {
    let release = (): void => {};
    const seen = await start(({ req, res }) => {
      if (req.url === '/slow') release = () => void res.end('finished');
      else res.end('quick');
    });
    const idle = await rawConnect(seen.port, certs.ca);
    idle.write(head(seen, 'GET /quick'));
    await once(idle, 'data');
    const slow = await rawConnect(seen.port, certs.ca);
    slow.write(head(seen, 'GET /slow'));
    await waitFor('the slow request', () => seen.paths.includes('/slow'));

    const closed = running?.close(10_000);
    await once(idle, 'close');
    await expect(rawConnect(seen.port, certs.ca)).rejects.toThrow(/ECONNREFUSED/);
    release();
    expect((await readAnswer(slow)).text).toContain('finished');
    await closed;
  });

  test('cuts what does not finish in the time that it is given', async () => {
    const seen = await start(({ res }) => void res.write('never ends'));
    const socket = await rawConnect(seen.port, certs.ca);
    socket.on('data', () => {});
    socket.write(head(seen, 'GET /'));
    await waitFor('the request', () => seen.paths.length === 1);
    const gone = once(socket, 'close');
    await running?.close(50);
    await gone;
  });
});

test('what fails inside the guard is cut, never answered as if it were whole', async () => {
  const seen = await start(() => Promise.reject(new Error('broken')));
  const outcome = await new Promise((resolve) => {
    const asked = request({ host: 'localhost', port: seen.port, ca: certs.ca, path: '/' }, (res) =>
      resolve(res.statusCode),
    );
    asked.on('error', (error) => resolve(error.message));
    asked.end();
  });
  expect(outcome).toMatch(/hang up|ECONNRESET/);
});

test('a certificate that changes is served to the next connection without a restart', async () => {
  const other = testCertificates();
  let renew = (): void => {};
  running = createListener({
    tls: {
      contextOptions: () => ({ cert: certs.cert, key: certs.key }),
      attach(server) {
        renew = () => server.setSecureContext({ cert: other.cert, key: other.key });
        return () => {};
      },
    },
    advertised: [],
    handle: ({ res }) => void res.end('ok'),
    refuse: ({ res }) => void res.end(),
  });
  const { port } = await running.listen('127.0.0.1', 0);
  const before = await rawConnect(port, certs.ca);
  renew();
  (await rawConnect(port, other.ca)).destroy();
  before.write(`GET / HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`);
  expect((await readAnswer(before)).status).toBe(200);
});
