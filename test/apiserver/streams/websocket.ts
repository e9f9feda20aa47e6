// The server's half of RFC 6455, as much as the API's streams need: the handshake, frames, fragments, ping, close.
// Data goes out with the socket's own backpressure and comes in no faster than it is taken.

import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const MAX_MESSAGE = 32 * 1024 * 1024;

export interface WebSocket {
  /** Calls back when the bytes have left for the kernel. */
  send(data: Buffer, sent?: (error?: Error | null) => void): void;
  close(code: number, reason?: string): void;
  destroy(): void;
  pause(): void;
  resume(): void;
}

export interface Handlers {
  /** A whole message, text or binary. */
  message(data: Buffer): void;
  /** The peer said goodbye, broke the rules or vanished; once. */
  closed(): void;
}

export function offeredProtocols(request: IncomingMessage): string[] {
  return String(request.headers['sec-websocket-protocol'] ?? '')
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '');
}

export function isWebSocket(request: IncomingMessage): boolean {
  return String(request.headers.upgrade ?? '').toLowerCase() === 'websocket';
}

/** @returns the head of the answer, or undefined where the handshake is not one of RFC 6455 */
export function handshake(request: IncomingMessage, protocol: string | undefined): string | undefined {
  const key = request.headers['sec-websocket-key'];
  if (
    request.method !== 'GET' ||
    typeof key !== 'string' ||
    request.headers['sec-websocket-version'] !== '13'
  )
    return undefined;
  const accept = createHash('sha1')
    .update(key + GUID)
    .digest('base64');
  return (
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n${protocol ? `Sec-WebSocket-Protocol: ${protocol}\r\n` : ''}\r\n`
  );
}

/** A frame from the server: final, never masked. */
export function encodeFrame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload;
  const wide = length < 126 ? 0 : length < 65536 ? 2 : 8;
  const head = Buffer.alloc(2 + wide);
  head[0] = 0x80 | opcode;
  head[1] = wide === 0 ? length : wide === 2 ? 126 : 127;
  if (wide === 2) head.writeUInt16BE(length, 2);
  if (wide === 8) head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, payload]);
}

export interface Frame {
  final: boolean;
  opcode: number;
  payload: Buffer;
  /** Bytes that it took. */
  size: number;
}

/** @returns undefined when more bytes are needed @throws RangeError for a frame that a client may not send */
export function decodeFrame(bytes: Buffer): Frame | undefined {
  if (bytes.length < 2) return undefined;
  const [one = 0, two = 0] = bytes;
  if (one & 0x70) throw new RangeError('reserved bits');
  if (!(two & 0x80)) throw new RangeError('a client frame that is not masked');
  let length = two & 0x7f;
  let at = 2;
  if (length === 126) {
    if (bytes.length < 4) return undefined;
    length = bytes.readUInt16BE(2);
    at = 4;
  } else if (length === 127) {
    if (bytes.length < 10) return undefined;
    const long = bytes.readBigUInt64BE(2);
    if (long > BigInt(MAX_MESSAGE)) throw new RangeError('a frame that is too long');
    length = Number(long);
    at = 10;
  }
  if (bytes.length < at + 4 + length) return undefined;
  const mask = bytes.subarray(at, at + 4);
  const payload = Buffer.from(bytes.subarray(at + 4, at + 4 + length));
  for (let i = 0; i < length; i++) payload[i] = (payload[i] ?? 0) ^ (mask[i & 3] ?? 0);
  return { final: (one & 0x80) !== 0, opcode: one & 0x0f, payload, size: at + 4 + length };
}

export function serveWebSocket(socket: Duplex, head: Buffer, handlers: Handlers): WebSocket {
  let pending: Buffer = head;
  let fragments: Buffer[] = [];
  let over = false;
  let paused = false;
  let closing = false;

  const finish = (): void => {
    if (over) return;
    over = true;
    handlers.closed();
  };
  const fail = (): void => {
    if (!socket.destroyed) socket.end(encodeFrame(8, Buffer.from([0x03, 0xea]))); // 1002, protocol error
    finish();
  };
  const take = (frame: Frame): void => {
    if (frame.opcode === 8) {
      // A close is answered once; the answer to ours needs none.
      if (!socket.writableEnded)
        socket.end(closing ? undefined : encodeFrame(8, frame.payload.subarray(0, 2)));
      finish();
    } else if (frame.opcode === 9) socket.write(encodeFrame(10, frame.payload));
    else if (frame.opcode <= 2) {
      fragments.push(frame.payload);
      if (!frame.final) return;
      const message = fragments.length === 1 ? frame.payload : Buffer.concat(fragments);
      fragments = [];
      handlers.message(message);
    }
  };
  const drain = (): void => {
    let at = 0;
    while (!over && !paused) {
      let frame: Frame | undefined;
      try {
        frame = decodeFrame(pending.subarray(at));
      } catch {
        fail();
        return;
      }
      if (!frame) break;
      at += frame.size;
      take(frame);
    }
    pending = pending.subarray(at);
  };
  socket.on('data', (chunk: Buffer) => {
    pending = pending.length > 0 ? Buffer.concat([pending, chunk]) : chunk;
    drain();
  });
  socket.on('error', finish);
  socket.on('end', finish);
  socket.on('close', finish);
  setImmediate(drain);

  return {
    send(data, sent) {
      if (over || socket.destroyed || socket.writableEnded) sent?.(new Error('the connection is closed'));
      else socket.write(encodeFrame(2, data), sent);
    },
    close(code, reason = '') {
      if (over || closing || socket.writableEnded) return;
      closing = true;
      const payload = Buffer.alloc(2 + Buffer.byteLength(reason));
      payload.writeUInt16BE(code);
      payload.write(reason, 2);
      socket.write(encodeFrame(8, payload));
      // The peer answers with its own close; one that doesn't is cut.
      setTimeout(() => socket.destroy(), 2000).unref();
    },
    destroy: () => void socket.destroy(),
    pause() {
      paused = true;
      socket.pause();
    },
    resume() {
      paused = false;
      socket.resume();
      setImmediate(drain);
    },
  };
}
