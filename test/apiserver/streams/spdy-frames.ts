// SPDY/3.1 on the wire: control and data frames, and header blocks, which are deflated with one dictionary and one
// state for each direction of a connection. Written from the draft (draft-mbelshe-httpbis-spdy-00 and its 3.1 notes).

import { constants, createDeflate, createInflate, type Deflate, type Inflate } from 'node:zlib';
import { DICTIONARY } from './spdy-dictionary.ts';

export const FLAG_FIN = 1;
const VERSION = 3;
const TYPE = { syn: 1, reply: 2, reset: 3, settings: 4, ping: 6, goaway: 7, headers: 8, window: 9 } as const;

export type Headers = ReadonlyMap<string, string>;

export type Frame =
  | { type: 'data'; stream: number; fin: boolean; data: Buffer }
  | { type: 'syn'; stream: number; fin: boolean; block: Buffer }
  | { type: 'reply'; stream: number; fin: boolean; block: Buffer }
  | { type: 'headers'; stream: number; fin: boolean; block: Buffer }
  | { type: 'reset'; stream: number; code: number }
  | { type: 'settings'; initialWindow: number | undefined }
  | { type: 'ping'; id: number }
  | { type: 'goaway'; lastStream: number; code: number }
  | { type: 'window'; stream: number; delta: number };

const HEAD = 8;

/** @returns undefined when more bytes are needed @throws RangeError for what is no SPDY/3 frame */
export function decodeFrame(bytes: Buffer): { frame: Frame | undefined; size: number } | undefined {
  if (bytes.length < HEAD) return undefined;
  const length = bytes.readUIntBE(5, 3);
  const size = HEAD + length;
  if (bytes.length < size) return undefined;
  const flags = bytes[4] ?? 0;
  const fin = (flags & FLAG_FIN) !== 0;
  const body = bytes.subarray(HEAD, size);
  const first = bytes.readUInt32BE(0);
  if (first < 0x80000000)
    return { frame: { type: 'data', stream: first, fin, data: Buffer.from(body) }, size };
  if (((first >>> 16) & 0x7fff) !== VERSION) throw new RangeError('not SPDY/3');
  return { frame: control(first & 0xffff, fin, body), size };
}

function control(type: number, fin: boolean, body: Buffer): Frame | undefined {
  const word = (at: number): number => body.readUInt32BE(at);
  const id = (at: number): number => word(at) & 0x7fffffff;
  switch (type) {
    case TYPE.syn:
      return { type: 'syn', stream: id(0), fin, block: Buffer.from(body.subarray(10)) };
    case TYPE.reply:
      return { type: 'reply', stream: id(0), fin, block: Buffer.from(body.subarray(4)) };
    case TYPE.headers:
      return { type: 'headers', stream: id(0), fin, block: Buffer.from(body.subarray(4)) };
    case TYPE.reset:
      return { type: 'reset', stream: id(0), code: word(4) };
    case TYPE.settings: {
      let initialWindow: number | undefined;
      for (let i = 0; i < word(0); i++)
        if ((word(4 + i * 8) & 0xffffff) === 7) initialWindow = word(8 + i * 8);
      return { type: 'settings', initialWindow };
    }
    case TYPE.ping:
      return { type: 'ping', id: word(0) };
    case TYPE.goaway:
      return { type: 'goaway', lastStream: id(0), code: word(4) };
    case TYPE.window:
      return { type: 'window', stream: id(0), delta: id(4) };
    default:
      return undefined; // a type that may be ignored
  }
}

function controlFrame(type: number, flags: number, body: Buffer): Buffer {
  const out = Buffer.alloc(HEAD + body.length);
  out.writeUInt16BE(0x8000 | VERSION, 0);
  out.writeUInt16BE(type, 2);
  out[4] = flags;
  out.writeUIntBE(body.length, 5, 3);
  body.copy(out, HEAD);
  return out;
}

function words(...values: number[]): Buffer {
  const out = Buffer.alloc(values.length * 4);
  for (const [i, value] of values.entries()) out.writeUInt32BE(value >>> 0, i * 4);
  return out;
}

export function encodeFrame(frame: Exclude<Frame, { type: 'settings' }>): Buffer {
  switch (frame.type) {
    case 'data': {
      const out = Buffer.alloc(HEAD + frame.data.length);
      out.writeUInt32BE(frame.stream, 0);
      out[4] = frame.fin ? FLAG_FIN : 0;
      out.writeUIntBE(frame.data.length, 5, 3);
      frame.data.copy(out, HEAD);
      return out;
    }
    case 'syn':
      return controlFrame(
        TYPE.syn,
        frame.fin ? FLAG_FIN : 0,
        Buffer.concat([words(frame.stream, 0), Buffer.alloc(2), frame.block]),
      );
    case 'reply':
    case 'headers':
      return controlFrame(
        TYPE[frame.type],
        frame.fin ? FLAG_FIN : 0,
        Buffer.concat([words(frame.stream), frame.block]),
      );
    case 'reset':
      return controlFrame(TYPE.reset, 0, words(frame.stream, frame.code));
    case 'ping':
      return controlFrame(TYPE.ping, 0, words(frame.id));
    case 'goaway':
      return controlFrame(TYPE.goaway, 0, words(frame.lastStream, frame.code));
    case 'window':
      return controlFrame(TYPE.window, 0, words(frame.stream, frame.delta));
  }
}

export interface HeaderCodec {
  decode(block: Buffer): Promise<Headers>;
  encode(headers: Headers): Promise<Buffer>;
  close(): void;
}

/** The two compression states of a connection; calls of one direction must not overlap. */
export function headerCodec(): HeaderCodec {
  const options = { dictionary: DICTIONARY, readableHighWaterMark: 1 << 24, chunkSize: 1 << 16 };
  const inflate: Inflate = createInflate(options);
  const deflate: Deflate = createDeflate(options);
  const drain = (stream: Inflate | Deflate): Buffer => {
    const parts: Buffer[] = [];
    for (let part: Buffer | null = stream.read(); part; part = stream.read()) parts.push(part);
    return Buffer.concat(parts);
  };
  return {
    decode: (block) =>
      new Promise((resolve, reject) => {
        inflate.once('error', reject);
        inflate.write(block, () => {
          inflate.off('error', reject);
          try {
            resolve(parseHeaders(drain(inflate)));
          } catch (error) {
            reject(error instanceof Error ? error : new Error(String(error)));
          }
        });
      }),
    encode: (headers) =>
      new Promise((resolve) => {
        deflate.write(formatHeaders(headers));
        deflate.flush(constants.Z_SYNC_FLUSH, () => resolve(drain(deflate)));
      }),
    close() {
      inflate.close();
      deflate.close();
    },
  };
}

export function parseHeaders(block: Buffer): Headers {
  const headers = new Map<string, string>();
  let at = 0;
  const take = (): string => {
    const length = block.readUInt32BE(at);
    const value = block.toString('utf8', at + 4, at + 4 + length);
    at += 4 + length;
    if (at > block.length) throw new RangeError('a header block that ends early');
    return value;
  };
  const count = block.readUInt32BE(0);
  at = 4;
  for (let i = 0; i < count; i++) headers.set(take(), take());
  return headers;
}

export function formatHeaders(headers: Headers): Buffer {
  const parts: Buffer[] = [words(headers.size)];
  for (const [name, value] of headers)
    for (const text of [name.toLowerCase(), value]) {
      const bytes = Buffer.from(text);
      parts.push(words(bytes.length), bytes);
    }
  return Buffer.concat(parts);
}
