// An upstream that accepts whatever reaches it and keeps it: "nothing reached the upstream" is proved against this one,
// because a strict peer would hide a guard's mistake.

import { createServer, type Socket } from 'node:net';

export interface LenientUpstream {
  readonly origin: string;
  readonly port: number;
  /** Everything every connection has sent, in order of arrival. */
  received(): string;
  connections(): number;
  /** Sockets that are open now. */
  open(): number;
  /** What to answer once a connection has sent the end of a head; default: 200 with `ok`. */
  answer(reply: (received: string, socket: Socket) => string | Buffer | undefined): void;
  clear(): void;
  close(): Promise<void>;
}

export async function lenientUpstream(): Promise<LenientUpstream> {
  let received: Buffer[] = [];
  let connections = 0;
  const sockets = new Set<Socket>();
  let reply: (received: string, socket: Socket) => string | Buffer | undefined = () =>
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
  const server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    let mine = '';
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (chunk: Buffer) => {
      received.push(chunk);
      const before = mine.includes('\r\n\r\n');
      mine += chunk.toString('latin1');
      if (!before && mine.includes('\r\n\r\n')) {
        const answer = reply(mine, socket);
        if (answer !== undefined) socket.write(answer);
        if (/^(GET|HEAD) /.test(mine)) mine = '';
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return {
    origin: `http://127.0.0.1:${port}`,
    port,
    received: () => Buffer.concat(received).toString('latin1'),
    connections: () => connections,
    open: () => sockets.size,
    answer(next) {
      reply = next;
    },
    clear() {
      received = [];
    },
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
