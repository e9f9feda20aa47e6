// A store, a keyring and TLS clients for the tests of certs/.

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import type { CertificateSource } from '../../certs/source.ts';
import type { Keyring } from '../../keyring/keyring.ts';
import { openStore } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import { cheapKeyring } from '../keyring/cheap.ts';

export async function openRoom(
  file = ':memory:',
): Promise<{ store: Store; keyring: Keyring; close(): Promise<void> }> {
  const store = await openStore({ sqlite: file });
  const keyring = await cheapKeyring(store);
  return {
    store,
    keyring,
    async close() {
      keyring.close();
      await store.close();
    },
  };
}

export async function serve(
  source: CertificateSource,
): Promise<{ port: number; server: Server; close(): Promise<void> }> {
  const server = createServer(source.contextOptions(), (_request, response) =>
    response.writeHead(404).end('none\n'),
  );
  const release = source.attach(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    server,
    async close() {
      release();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Resolves after the handshake, rejects with its error. */
export async function handshake(port: number, options: ConnectionOptions): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port, ...options });
  await once(socket, 'secureConnect');
  return socket;
}

/** One request on an open connection: its status line. */
export async function ask(socket: TLSSocket): Promise<string> {
  const answer = once(socket, 'data') as Promise<[Buffer]>;
  socket.write('GET / HTTP/1.1\r\nHost: guard\r\n\r\n');
  const [data] = await answer;
  return data.toString('latin1').split('\r\n')[0] ?? '';
}

export function run(
  program: string,
  args: readonly string[],
  env = {},
): Promise<{ code: number; out: string }> {
  return new Promise((resolve) => {
    execFile(program, args, { env: { ...process.env, ...env } }, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : error ? 1 : 0, out: stdout + stderr });
    });
  });
}
