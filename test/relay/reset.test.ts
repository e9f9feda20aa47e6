import { once } from 'node:events';
import { type AddressInfo, createServer as createPlain, type Server, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { createServer as createTls } from 'node:tls';
import type { Dispatcher } from 'undici';
import { afterEach, describe, expect, test } from 'vitest';
import { createUpstreams } from '../../relay/upstreams.ts';
import { testCertificates, tlsOf } from '../support/certificates.ts';
import { waitFor } from '../support/wait.ts';

const certs = testCertificates();
const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stops.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

function pool(scheme: string, port: number, ca = certs.ca): Dispatcher {
  const upstreams = createUpstreams({ connectMs: 500 });
  stops.push(() => upstreams.close());
  return upstreams.to({ origin: `${scheme}://127.0.0.1:${port}`, ...(scheme === 'https' ? { ca } : {}) });
}

const nothing: Dispatcher.DispatchHandler = {
  onRequestStart() {},
  onResponseStart() {},
  onResponseData() {},
  onResponseEnd() {},
  onResponseError() {},
};

describe.each(['http', 'https'])('an upload over %s that is cut', (scheme) => {
  test('is reset: what the system had buffered does not arrive, and nothing looks like an end', async () => {
    let peer: Socket | undefined;
    const onSocket = (socket: Socket): void => {
      // It reads nothing until the upload is cut.
      peer = socket.pause();
    };
    const server =
      scheme === 'http' ? createPlain(onSocket) : createTls({ ...tlsOf(certs).contextOptions() }, onSocket);
    const port = await listen(server);
    let sent = 0;
    let pulled = Date.now();
    const body = new Readable({
      read() {
        sent += 65_536;
        pulled = Date.now();
        this.push(Buffer.alloc(65_536));
      },
    }).on('error', () => {});
    let controller: Dispatcher.DispatchController | undefined;
    pool(scheme, port).dispatch(
      { path: '/', method: 'POST', body },
      {
        ...nothing,
        onRequestStart(c) {
          controller = c;
        },
      },
    );
    await waitFor('full buffers', () => sent > 1_000_000 && Date.now() - pulled > 200);
    controller?.abort(new Error('cut'));
    body.destroy();
    let arrived = 0;
    let end = '';
    peer?.on('data', (chunk: Buffer) => {
      arrived += chunk.length;
    });
    peer?.on('end', () => {
      end ||= 'end';
    });
    peer?.on('error', (error: NodeJS.ErrnoException) => {
      end ||= error.code ?? 'error';
    });
    peer?.resume();
    await waitFor('the end', () => end !== '');
    expect(end).toBe('ECONNRESET');
    expect(arrived).toBeLessThan(sent / 2);
  });
});

test.each(['http', 'https'])(
  'an answer over %s that is cut where its end is the end of the connection has no end',
  async (scheme) => {
    const onSocket = (socket: Socket): void => {
      socket.on('error', () => {});
      socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome of it'));
    };
    const server =
      scheme === 'http' ? createPlain(onSocket) : createTls({ ...tlsOf(certs).contextOptions() }, onSocket);
    const dispatcher = pool(scheme, await listen(server));
    const heard = await new Promise<string>((resolve) => {
      dispatcher.dispatch(
        { path: '/', method: 'GET' },
        {
          ...nothing,
          // In the middle of what undici is reading.
          onResponseData: (controller) => controller.abort(new Error('not wanted')),
          onResponseEnd: () => resolve('end'),
          onResponseError: (_c, error) => resolve(error.message),
        },
      );
    });
    expect(heard).toBe('not wanted');
    await new Promise((resolve) => setTimeout(resolve, 50)); // an error after that would be nobody's, and end the process
  },
);

describe('an upstream that cannot be reached over https', () => {
  const failure = (dispatcher: Dispatcher): Promise<string> =>
    new Promise((resolve) => {
      dispatcher.dispatch(
        { path: '/', method: 'GET' },
        {
          ...nothing,
          onResponseStart: () => resolve('answered'),
          onResponseError: (_c, error) => resolve(String((error as NodeJS.ErrnoException).code)),
        },
      );
    });

  test('because nothing listens', async () => {
    const server = createPlain();
    const port = await listen(server);
    await new Promise((resolve) => server.close(resolve));
    expect(await failure(pool('https', port))).toBe('ECONNREFUSED');
  });

  test('because it speaks no TLS', async () => {
    const port = await listen(createPlain((socket) => void socket.end('no\n')));
    expect(await failure(pool('https', port))).toMatch(/^ERR_SSL|ECONNRESET/);
  });

  test('because it shakes no hands', async () => {
    const port = await listen(createPlain((socket) => void stops.push(() => socket.destroy())));
    expect(await failure(pool('https', port))).toBe('UND_ERR_CONNECT_TIMEOUT');
  });

  test('because its certificate is of another authority', async () => {
    const port = await listen(createTls({ ...tlsOf(certs).contextOptions() }));
    expect(await failure(pool('https', port, testCertificates().ca))).toMatch(/CERT|SIGNATURE/);
  });
});
