// exec and attach over SPDY/3.1: the client opens a stream for each of error, stdin, stdout, stderr and resize; when
// all that its query promised are there, the command starts.

import type { IncomingMessage } from 'node:http';
import { type Duplex, PassThrough } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { JsonObject } from '../objects/values.ts';
import type { RemoteStreams } from './remote-command.ts';
import { readSize, type Wanted } from './remote-websocket.ts';
import { type SpdyConnection, serveSpdy } from './spdy-connection.ts';

export const STREAM_PROTOCOLS = ['v5.channel.k8s.io', 'v4.channel.k8s.io'] as const;

/** Header values may come one by one or in one line. */
export function offeredStreamProtocols(request: IncomingMessage): string[] {
  return String(request.headers['x-stream-protocol-version'] ?? '')
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '');
}

export function isSpdy(request: IncomingMessage): boolean {
  return String(request.headers.upgrade ?? '').toUpperCase() === 'SPDY/3.1';
}

export function switchToSpdy(socket: Duplex, protocol: string): void {
  socket.write(
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n' +
      `X-Stream-Protocol-Version: ${protocol}\r\n\r\n`,
  );
}

export function serveStreams(
  socket: Duplex,
  head: Buffer,
  protocol: string,
  wanted: Wanted,
  tty: boolean,
  run: (streams: RemoteStreams) => Promise<JsonObject>,
  onClosed: () => void,
): SpdyConnection {
  switchToSpdy(socket, protocol);
  if (head.length > 0) socket.unshift(head);
  const names = ['error'];
  if (wanted.stdin) names.push('stdin');
  if (wanted.stdout) names.push('stdout');
  if (wanted.stderr && !tty) names.push('stderr');
  if (tty) names.push('resize');
  const open = new Map<string, Duplex>();
  const goners: (() => void)[] = [];
  let started = false;

  const connection = serveSpdy(
    socket,
    ({ headers, duplex }) => {
      const type = headers.get('streamtype') ?? '';
      if (!names.includes(type) || open.has(type)) {
        duplex.destroy(new Error('an unexpected stream'));
        return;
      }
      open.set(type, duplex);
      if (open.size < names.length || started) return;
      started = true;
      void start();
    },
    () => {
      clearTimeout(patience);
      for (const listener of goners) listener();
      onClosed();
    },
  );
  const patience = setTimeout(() => {
    if (!started) connection.destroy();
  }, 30_000);
  patience.unref();

  const start = async (): Promise<void> => {
    clearTimeout(patience);
    const [stdin, stdout, stderr] = ['stdin', 'stdout', 'stderr'].map((name) => open.get(name));
    // The far side of the streams that only we write must be read, or their end is never noticed.
    for (const name of ['stdout', 'stderr', 'error']) open.get(name)?.resume();
    const status = await run({
      stdin,
      stdout,
      stderr,
      onResize(listener) {
        const lines = open.get('resize')?.pipe(new PassThrough());
        lines?.on('data', (chunk: Buffer) => {
          const size = readSize(chunk);
          if (size) listener(size);
        });
      },
      onGone: (listener) => void goners.push(listener),
    });
    for (const out of [stdout, stderr]) {
      if (!out || out.destroyed) continue;
      out.end();
      await finished(out, { readable: false }).catch(() => {});
    }
    const error = open.get('error');
    if (error && !error.destroyed) {
      // Success is told by silence.
      error.end(status.status === 'Success' ? undefined : JSON.stringify(status));
      await finished(error, { readable: false }).catch(() => {});
    }
    for (const name of ['stdin', 'resize']) open.get(name)?.end();
    // The client closes when it has read all; one that doesn't is cut.
    setTimeout(() => connection.close(), 2000).unref();
  };
  return connection;
}
