// As much of protobuf as two places here need: to read a self review that a client sent so, and to write the last event
// of a watch. Messages are a tree of fields, read whole and small; unknown fields are kept out. Source: the wire format's
// own page, and generated.proto of k8s.io/api for the numbers.

/** Before every object that Kubernetes writes in protobuf; a runtime.Unknown follows. */
const MAGIC = Buffer.from('k8s\0');

export type Field = { readonly number: number; readonly value: Buffer | bigint };

/** @returns the fields of a message; undefined where the bytes are none, or hold a type that Kubernetes does not use */
export function readMessage(bytes: Buffer): Field[] | undefined {
  const fields: Field[] = [];
  let at = 0;
  const varint = (): bigint | undefined => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) return undefined;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return undefined;
  };
  while (at < bytes.length) {
    const tag = varint();
    if (tag === undefined || tag >> 3n === 0n) return undefined;
    const number = Number(tag >> 3n);
    const type = Number(tag & 7n);
    const head = type === 0 || type === 2 ? varint() : undefined;
    if (head === undefined) return undefined;
    if (type === 0) fields.push({ number, value: head });
    else {
      const end = at + Number(head);
      if (head > BigInt(bytes.length) || end > bytes.length) return undefined;
      fields.push({ number, value: bytes.subarray(at, end) });
      at = end;
    }
  }
  return fields;
}

/** The last one wins, as protobuf has it. */
export function bytesField(fields: readonly Field[], number: number): Buffer | undefined {
  const value = fields.findLast((field) => field.number === number)?.value;
  return Buffer.isBuffer(value) ? value : undefined;
}

export function textField(fields: readonly Field[], number: number): string {
  return bytesField(fields, number)?.toString('utf8') ?? '';
}

/** A length-delimited field; nothing for an empty text. */
export function lengthField(number: number, value: string | Buffer): Buffer {
  const bytes = Buffer.from(value as string);
  if (bytes.length === 0) return bytes;
  return Buffer.concat([varintBytes((number << 3) | 2), varintBytes(bytes.length), bytes]);
}

export function numberField(number: number, value: number): Buffer {
  return Buffer.concat([varintBytes(number << 3), varintBytes(value)]);
}

function varintBytes(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left > 0x7f; left = Math.floor(left / 128)) bytes.push((left % 128) | 0x80);
  bytes.push(left);
  return Buffer.from(bytes);
}

export interface Unwrapped {
  readonly apiVersion: string;
  readonly kind: string;
  readonly raw: Buffer;
}

/** A runtime.Unknown behind the magic bytes: { 1: TypeMeta { 1: apiVersion, 2: kind }, 2: raw }. */
export function unwrap(body: Buffer): Unwrapped | undefined {
  if (!body.subarray(0, 4).equals(MAGIC)) return undefined;
  const unknown = readMessage(body.subarray(4));
  const type = unknown && readMessage(bytesField(unknown, 1) ?? Buffer.alloc(0));
  if (!unknown || !type) return undefined;
  return {
    apiVersion: textField(type, 1),
    kind: textField(type, 2),
    raw: bytesField(unknown, 2) ?? Buffer.alloc(0),
  };
}

export function wrap({ apiVersion, kind, raw }: Unwrapped): Buffer {
  const type = Buffer.concat([lengthField(1, apiVersion), lengthField(2, kind)]);
  return Buffer.concat([MAGIC, lengthField(1, type), lengthField(2, raw)]);
}
