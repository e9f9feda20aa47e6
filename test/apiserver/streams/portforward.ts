// Port-forward: pairs of an error and a data stream for each connection, over SPDY/3.1 (bare, or tunnelled in the
// messages of a WebSocket), or the older channels of a WebSocket (two for each port of the query).

import type { IncomingMessage } from 'node:http';
import { Duplex, Readable } from 'node:stream';
import type { PodRuntime } from '../cluster/pod-runtime.ts';
import type { KObject } from '../objects/values.ts';
import { type SpdyConnection, serveSpdy } from './spdy-connection.ts';
import { handshake, serveWebSocket, type WebSocket } from './websocket.ts';

export const PORT_FORWARD = 'portforward.k8s.io';
export const TUNNEL = `SPDY/3.1+${PORT_FORWARD}`;

function refused(pod: KObject, port: number, error: unknown): string {
  return `error forwarding port ${port} to pod ${pod.metadata.uid}, uid : ${error instanceof Error ? error.message : error}`;
}

/** Serves SPDY port-forwarding on a transport that has been switched. */
export function forwardStreams(
  transport: Duplex,
  runtime: PodRuntime,
  pod: KObject,
  onClosed: () => void,
): SpdyConnection {
  const pairs = new Map<string, Map<string, Duplex>>();
  return serveSpdy(
    transport,
    ({ headers, duplex }) => {
      const id = headers.get('requestid') ?? '';
      const type = headers.get('streamtype') ?? '';
      const port = Number(headers.get('port'));
      if (!['error', 'data'].includes(type) || !Number.isInteger(port) || port < 1 || port > 65535) {
        duplex.destroy(new Error('a stream without a port or type'));
        return;
      }
      const pair = pairs.get(id) ?? new Map<string, Duplex>();
      pairs.set(id, pair.set(type, duplex));
      const [error, data] = [pair.get('error'), pair.get('data')];
      if (!error || !data) return;
      pairs.delete(id);
      error.resume();
      runtime.dial(pod, port).then(
        (socket) => {
          data.pipe(socket);
          socket.pipe(data);
          socket.on('error', (why) => error.write(refused(pod, port, why)));
          socket.on('close', () => error.end());
          data.on('close', () => socket.destroy());
        },
        (why: unknown) => {
          error.end(refused(pod, port, why));
          data.end();
        },
      );
    },
    onClosed,
  );
}

/** SPDY inside WebSocket messages, as kubectl tunnels it. @returns undefined where the handshake is wrong */
export function forwardTunnel(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  runtime: PodRuntime,
  pod: KObject,
  onClosed: () => void,
): SpdyConnection | undefined {
  const answer = handshake(request, TUNNEL);
  if (answer === undefined) return undefined;
  socket.write(answer);
  const inner = new Duplex({
    read: () => ws.resume(),
    write(chunk: Buffer, _encoding, done) {
      ws.send(chunk, done);
    },
    final(done) {
      ws.close(1000);
      done();
    },
    destroy(error, done) {
      ws.destroy();
      done(error);
    },
  });
  inner.on('error', () => {});
  const ws: WebSocket = serveWebSocket(socket, head, {
    message(data) {
      if (!inner.push(data)) ws.pause();
    },
    closed() {
      inner.push(null);
      inner.destroy();
    },
  });
  return forwardStreams(inner, runtime, pod, onClosed);
}

/** Channels 2i and 2i+1 are data and error of the i-th port; each begins with the port's number, little end first. */
export function forwardChannels(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  protocol: string,
  ports: readonly number[],
  runtime: PodRuntime,
  pod: KObject,
  onClosed: () => void,
): WebSocket | undefined {
  const answer = handshake(request, protocol);
  if (answer === undefined) return undefined;
  socket.write(answer);
  const inputs = ports.map(() => new Readable({ read: () => ws.resume() }));
  const ws: WebSocket = serveWebSocket(socket, head, {
    message(data) {
      const [channel = 0] = data;
      if (channel % 2 === 0 && !inputs[channel / 2]?.push(data.subarray(1))) ws.pause();
    },
    closed() {
      for (const input of inputs) input.push(null);
      onClosed();
    },
  });
  const send = (channel: number, data: Buffer, sent?: () => void): void =>
    ws.send(Buffer.concat([Buffer.from([channel]), data]), sent);
  for (const [i, port] of ports.entries()) {
    const number = Buffer.alloc(2);
    number.writeUInt16LE(port);
    send(2 * i, number);
    send(2 * i + 1, number);
    runtime.dial(pod, port).then(
      (target) => {
        inputs[i]?.pipe(target);
        target.on('error', (why) => send(2 * i + 1, Buffer.from(refused(pod, port, why))));
        target.on('data', (chunk: Buffer) => {
          target.pause();
          send(2 * i, chunk, () => target.resume());
        });
      },
      (why: unknown) => send(2 * i + 1, Buffer.from(refused(pod, port, why))),
    );
  }
  return ws;
}
