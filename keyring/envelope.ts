// One sealed payload: AES-256-GCM under a data key of its own, the data key wrapped by a key-encryption key. Both
// seals carry the associated data `set/row id`, so that a payload copied to another row or another set does not open.

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
