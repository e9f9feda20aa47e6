// Protobuf's wire format: tags, varints and length-delimited bytes.

export interface WireField {
  number: number;
  /** Bytes for a length-delimited field; fixed ones are read as their bytes too. */
  value: Buffer | bigint;
}

/** @returns undefined for bytes that are no message */
export function fieldsOf(bytes: Buffer): WireField[] | undefined {
  const fields: WireField[] = [];
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) throw new RangeError('a varint that ends early');
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new RangeError('a varint that is too long');
  };
  const take = (length: number): Buffer => {
    const part = bytes.subarray(at, at + length);
    if (part.length < length) throw new RangeError('a field that ends early');
    at += length;
    return part;
  };
  try {
    while (at < bytes.length) {
      const tag = Number(varint());
      const number = tag >>> 3;
      const wire = tag & 7;
      if (wire === 0) fields.push({ number, value: varint() });
      else if (wire === 1) fields.push({ number, value: take(8) });
      else if (wire === 2) fields.push({ number, value: take(Number(varint())) });
      else if (wire === 5) fields.push({ number, value: take(4) });
      else return undefined;
    }
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
  return fields;
}

/** An int32 or int64 from its 64 bits. */
export function signed(value: bigint): bigint {
  return BigInt.asIntN(64, value);
}

function varint(value: bigint): Buffer {
  const out: number[] = [];
  let left = BigInt.asUintN(64, value);
  while (left > 0x7fn) {
    out.push(Number(left & 0x7fn) | 0x80);
    left >>= 7n;
  }
  out.push(Number(left));
  return Buffer.from(out);
}

export function varintField(number: number, value: bigint): Buffer {
  return Buffer.concat([varint(BigInt(number * 8)), varint(value)]);
}

export function bytesField(number: number, value: Buffer): Buffer {
  return Buffer.concat([varint(BigInt(number * 8 + 2)), varint(BigInt(value.length)), value]);
}
