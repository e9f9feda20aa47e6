// JSON as CBOR (RFC 8949) in the form that the API uses: definite lengths, text strings, the self-described tag first.

import type { Json } from '../objects/values.ts';

const SELF_DESCRIBED = Buffer.from([0xd9, 0xd9, 0xf7]);

export function encodeCbor(value: Json): Buffer {
  const parts: Buffer[] = [SELF_DESCRIBED];
  write(value, parts);
  return Buffer.concat(parts);
}

function head(major: number, length: number): Buffer {
  const type = major << 5;
  if (length < 24) return Buffer.from([type | length]);
  if (length < 0x100) return Buffer.from([type | 24, length]);
  if (length < 0x10000) return Buffer.from([type | 25, length >> 8, length & 0xff]);
  if (length < 0x100000000) {
    const out = Buffer.alloc(5, type | 26);
    out.writeUInt32BE(length, 1);
    return out;
  }
  const out = Buffer.alloc(9, type | 27);
  out.writeBigUInt64BE(BigInt(length), 1);
  return out;
}

function write(value: Json, parts: Buffer[]): void {
  if (value === null) parts.push(Buffer.from([0xf6]));
  else if (typeof value === 'boolean') parts.push(Buffer.from([value ? 0xf5 : 0xf4]));
  else if (typeof value === 'number') {
    if (Number.isSafeInteger(value)) parts.push(value < 0 ? head(1, -1 - value) : head(0, value));
    else {
      const out = Buffer.alloc(9, 0xfb);
      out.writeDoubleBE(value, 1);
      parts.push(out);
    }
  } else if (typeof value === 'string') {
    const bytes = Buffer.from(value);
    parts.push(head(3, bytes.length), bytes);
  } else if (Array.isArray(value)) {
    parts.push(head(4, value.length));
    for (const item of value) write(item, parts);
  } else {
    const entries = Object.entries(value).filter((entry): entry is [string, Json] => entry[1] !== undefined);
    parts.push(head(5, entries.length));
    for (const [key, item] of entries) {
      write(key, parts);
      write(item, parts);
    }
  }
}
