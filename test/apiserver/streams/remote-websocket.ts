// exec and attach over WebSocket: the first byte of each message is the channel (0 stdin, 1 stdout, 2 stderr, 3 the
// final Status, 4 terminal sizes; in v5 also 255, which closes the channel that it names).

import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { Readable, Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { Terminal } from '../cluster/pod-runtime.ts';
import type { JsonObject } from '../objects/values.ts';
import type { RemoteStreams } from './remote-command.ts';
import { handshake, serveWebSocket, type WebSocket } from './websocket.ts';

export const CHANNEL_PROTOCOLS = ['v5.channel.k8s.io', 'v4.channel.k8s.io'] as const;
const CLOSE_SIGNAL = 255;

export interface Wanted {
  stdin: boolean;
  stdout: boolean;
  stderr: boolean;
}

/** @returns false where the handshake is wrong and nothing was sent */
export function serveChannels(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  protocol: string | undefined,
  wanted: Wanted,
  run: (streams: RemoteStreams) => Promise<JsonObject>,
  onClosed: () => void,
): WebSocket | undefined {
  const answer = handshake(request, protocol);
  if (answer === undefined) return undefined;
  socket.write(answer);
  const resizes: ((size: Terminal) => void)[] = [];
  const early: Terminal[] = [];
  const goners: (() => void)[] = [];

  const stdin = wanted.stdin ? new Readable({ read: () => ws.resume() }) : undefined;
  const ws: WebSocket = serveWebSocket(socket, head, {
    message(data) {
      const [channel = 0] = data;
      const payload = data.subarray(1);
      if (channel === 0 && stdin && !stdin.readableEnded) {
        if (payload.length > 0 && !stdin.push(payload)) ws.pause();
      } else if (channel === 4) {
        const size = readSize(payload);
        if (!size) return;
        if (resizes.length === 0) early.push(size);
        for (const listener of resizes) listener(size);
      } else if (channel === CLOSE_SIGNAL && protocol === 'v5.channel.k8s.io' && payload[0] === 0)
        stdin?.push(null);
    },
    closed() {
      stdin?.push(null);
      for (const listener of goners) listener();
      onClosed();
    },
  });
  const channel = (id: number): Writable =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        ws.send(Buffer.concat([Buffer.from([id]), chunk]), done);
      },
    }).on('error', () => {});
  const stdout = wanted.stdout ? channel(1) : undefined;
  const stderr = wanted.stderr ? channel(2) : undefined;
  // The first thing the real server sends is an empty message on the lowest channel that it writes to.
  ws.send(Buffer.from([wanted.stdout ? 1 : wanted.stderr ? 2 : 3]));

  void run({
    stdin,
    stdout,
    stderr,
    onResize(listener) {
      resizes.push(listener);
      for (const size of early.splice(0)) listener(size);
    },
    onGone: (listener) => void goners.push(listener),
  }).then(async (status) => {
    for (const out of [stdout, stderr]) {
      if (!out || out.destroyed) continue;
      out.end();
      await finished(out).catch(() => {});
    }
    ws.send(Buffer.concat([Buffer.from([3]), Buffer.from(JSON.stringify(status))]));
    ws.close(1000);
  });
  return ws;
}

/** `{"Width":80,"Height":24}` */
export function readSize(payload: Buffer): Terminal | undefined {
  try {
    const { Width, Height } = JSON.parse(payload.toString()) as { Width?: unknown; Height?: unknown };
    return typeof Width === 'number' && typeof Height === 'number'
      ? { columns: Width, rows: Height }
      : undefined;
  } catch {
    return undefined;
  }
}
