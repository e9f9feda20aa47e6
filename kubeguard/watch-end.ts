// How a watch ends honestly: an ERROR event with a Status behind the last whole event. For that the framing of what passes
// is followed, without keeping any of it: JSON by its depth, protobuf by the length before each frame. In the middle of
// an event, and in an encoding that is not followed (CBOR, anything compressed), nothing can be added and the
// connection is cut. A shutdown is a plain end: clients watch again by themselves, and elsewhere.

import type { IncomingHttpHeaders } from 'node:http';
import type { BodyTransform } from '../relay/forward.ts';
import type { EndReason } from '../sessions/session.ts';
import { isEncoded, mediaType } from './headers.ts';
import { lengthField, numberField, wrap } from './protobuf.ts';
import { type Status, statusObject } from './status.ts';
import { endedWords } from './words.ts';

export interface WatchEnd {
  readonly transform: BodyTransform;
  /** What to add so that the watch ends in its own protocol; undefined: it can't be said now. */
  lastWords(why: EndReason, id: string): Buffer | undefined;
}

const NOTHING = Buffer.alloc(0);

/** @returns undefined for an encoding that is not followed */
export function followWatch(headers: IncomingHttpHeaders): WatchEnd | undefined {
  if (isEncoded(headers)) return undefined;
  const type = mediaType(headers['content-type']);
  const follow =
    type === 'application/json'
      ? jsonDepth()
      : type === 'application/vnd.kubernetes.protobuf'
        ? lengths()
        : undefined;
  if (!follow) return undefined;
  return {
    transform: {
      push(chunk) {
        follow.push(chunk);
        return chunk;
      },
      end: () => NOTHING,
    },
    lastWords(why, id) {
      if (!follow.isBetween()) return undefined;
      if (why === 'shutdown') return NOTHING;
      const status = statusObject(endedWords(why), id);
      return type === 'application/json' ? jsonEvent(status) : protobufEvent(status);
    },
  };
}

export interface Follower {
  push(chunk: Buffer): void;
  /** Whether what has passed ends with a whole event, or is nothing yet. */
  isBetween(): boolean;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Concatenated JSON objects. Bytes of a multi-byte character are all over 0x7f, so none is taken for a bracket. */
export function jsonDepth(): Follower {
  let depth = 0;
  let inString = false;
  let escaped = false;
  return {
    push(chunk) {
      for (let at = 0; at < chunk.length; at++) {
        const byte = chunk[at] as number;
        if (inString) {
          if (escaped) escaped = false;
          else if (byte === BACKSLASH) escaped = true;
          else if (byte === QUOTE) inString = false;
        } else if (byte === QUOTE) inString = true;
        else if (byte === 0x7b || byte === 0x5b) depth++;
        else if (byte === 0x7d || byte === 0x5d) depth--;
      }
    },
    isBetween: () => depth === 0 && !inString,
  };
}

/** Frames of a four-byte big-endian length and that many bytes. */
export function lengths(): Follower {
  let left = 0;
  let header = 0; // bytes of the length that have come
  let length = 0;
  return {
    push(chunk) {
      for (let at = 0; at < chunk.length; ) {
        if (left > 0) {
          const part = Math.min(left, chunk.length - at);
          left -= part;
          at += part;
          continue;
        }
        length = length * 256 + (chunk[at++] as number);
        if (++header < 4) continue;
        [left, header, length] = [length, 0, 0];
      }
    },
    isBetween: () => left === 0 && header === 0,
  };
}

function jsonEvent(status: Status): Buffer {
  return Buffer.from(`${JSON.stringify({ type: 'ERROR', object: status })}\n`);
}

/** WatchEvent { 1: type, 2: RawExtension { 1: raw } }, the object inside wrapped as every object is. */
function protobufEvent(status: Status): Buffer {
  const raw = Buffer.concat([
    lengthField(2, status.status),
    lengthField(3, status.message),
    lengthField(4, status.reason),
    numberField(6, status.code),
  ]);
  const object = wrap({ apiVersion: 'v1', kind: 'Status', raw });
  const event = Buffer.concat([lengthField(1, 'ERROR'), lengthField(2, lengthField(1, object))]);
  const frame = Buffer.alloc(4);
  frame.writeUInt32BE(event.length);
  return Buffer.concat([frame, event]);
}
