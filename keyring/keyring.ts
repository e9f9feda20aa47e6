// PLACEHOLDER INTERFACE: the owner of keyring/ completes this file.
import type { Envelope } from './envelope.ts';

export interface RowName {
  readonly set: string;
  readonly id: string;
}

/** Seals and opens rows. Opening fails with key_wrong, key_unknown, key_retired or sealed_data_tampered. */
export interface Keyring {
  readonly primaryId: string;
  seal(name: RowName, plaintext: Uint8Array): Envelope;
  /** The caller zeroes the answer (`fill(0)`) when it is done with it. */
  open(name: RowName, envelope: Envelope): Buffer;
}
