// One sealed payload: AES-256-GCM under a data key (DEK) of its own, the data key wrapped by a key-encryption key (KEK).
// Both seals carry the associated data `set/row id`, so that a payload copied to another row or another set does not
// open. Rotation rewraps the data key and leaves `data` as it is. Pure but for randomness; which KEK is right, and what
// a failure means, is keyring.ts's.

import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from 'node:crypto';

/** All bytes base64url. `data` and `wrappedKey` end with their 16-byte tag. */
export interface Envelope {
  readonly v: 1;
  /** id of the key-encryption key */
  readonly kek: string;
  readonly wrapIv: string;
  readonly wrappedKey: string;
  readonly iv: string;
  readonly data: string;
}

/** The place that an envelope belongs to. */
export interface RowName {
  readonly set: string;
  readonly id: string;
}

/** The bytes are not what was sealed here: changed, moved from another row, or sealed under another key. */
export class NotAuthentic extends Error {}

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const FIELDS = 'data,iv,kek,v,wrapIv,wrappedKey';

export function seal(kek: KeyObject, kekId: string, name: RowName, plaintext: Uint8Array): Envelope {
  const aad = associatedData(name);
  const dek = randomBytes(KEY_BYTES);
  try {
    const [wrapIv, wrappedKey] = encrypt(kek, dek, aad);
    const [iv, data] = encrypt(dek, plaintext, aad);
    return { v: 1, kek: kekId, wrapIv, wrappedKey, iv, data };
  } finally {
    dek.fill(0);
  }
}

/** @throws NotAuthentic */
export function open(kek: KeyObject, name: RowName, envelope: Envelope): Buffer {
  const aad = associatedData(name);
  const dek = decrypt(kek, envelope.wrapIv, envelope.wrappedKey, aad);
  try {
    return decrypt(dek, envelope.iv, envelope.data, aad);
  } finally {
    dek.fill(0);
  }
}

/**
 * The same payload, byte for byte, with its data key under another KEK. The payload is authenticated on the way, since
 * a damaged row that was carried on would look sound until the day it is needed.
 * @throws NotAuthentic
 */
export function rewrap(
  from: KeyObject,
  to: KeyObject,
  toId: string,
  name: RowName,
  envelope: Envelope,
): Envelope {
  const aad = associatedData(name);
  const dek = decrypt(from, envelope.wrapIv, envelope.wrappedKey, aad);
  try {
    decrypt(dek, envelope.iv, envelope.data, aad).fill(0);
    const [wrapIv, wrappedKey] = encrypt(to, dek, aad);
    return { v: 1, kek: toId, wrapIv, wrappedKey, iv: envelope.iv, data: envelope.data };
  } finally {
    dek.fill(0);
  }
}

/** Reads one spelling only: exactly these fields, canonical base64url, the lengths that `seal` writes. */
export function parseEnvelope(value: unknown): Envelope | undefined {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return undefined;
  if (Object.keys(value).sort().join() !== FIELDS) return undefined;
  const { v, kek, wrapIv, wrappedKey, iv, data } = value as { [field: string]: unknown };
  if (v !== 1 || typeof kek !== 'string' || kek === '') return undefined;
  if (!isBytes(wrapIv, IV_BYTES) || !isBytes(iv, IV_BYTES)) return undefined;
  if (!isBytes(wrappedKey, KEY_BYTES + TAG_BYTES) || !isBytes(data)) return undefined;
  return { v, kek, wrapIv, wrappedKey, iv, data };
}

// A set's name has no slash, so that no two places have one spelling.
function associatedData({ set, id }: RowName): Buffer {
  if (set === '' || set.includes('/')) throw new TypeError(`keyring: ${JSON.stringify(set)} names no set`);
  return Buffer.from(`${set}/${id}`);
}

function isBytes(value: unknown, length?: number): value is string {
  if (typeof value !== 'string') return false;
  const bytes = Buffer.from(value, 'base64url');
  if (length === undefined ? bytes.length < TAG_BYTES : bytes.length !== length) return false;
  return bytes.toString('base64url') === value;
}

function encrypt(key: KeyObject | Buffer, plaintext: Uint8Array, aad: Buffer): [iv: string, sealed: string] {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(CIPHER, key, iv, { authTagLength: TAG_BYTES }).setAAD(aad);
  const sealed = Buffer.concat([cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
  return [iv.toString('base64url'), sealed.toString('base64url')];
}

function decrypt(key: KeyObject | Buffer, iv: string, sealed: string, aad: Buffer): Buffer {
  const bytes = Buffer.from(sealed, 'base64url');
  const decipher = createDecipheriv(CIPHER, key, Buffer.from(iv, 'base64url'), { authTagLength: TAG_BYTES })
    .setAAD(aad)
    .setAuthTag(bytes.subarray(bytes.length - TAG_BYTES));
  const plaintext = decipher.update(bytes.subarray(0, bytes.length - TAG_BYTES));
  try {
    decipher.final();
    return plaintext;
  } catch {
    plaintext.fill(0);
    throw new NotAuthentic('the seal does not hold');
  }
}
