// From a passphrase to a key-encryption key: scrypt (RFC 7914). The cost is stored with each key, so that raising it
// later leaves older keys readable; it is bounded when read back, so that a changed row can't ask for all the memory.

import { createSecretKey, type KeyObject, scrypt } from 'node:crypto';
import type { Credential } from '../common/credential.ts';

export interface ScryptCost {
  /** CPU and memory cost, a power of two. */
  readonly N: number;
  /** Block size. */
  readonly r: number;
  /** Parallelization. */
  readonly p: number;
}

/** 128 MiB and about a third of a second a guess. */
export const SCRYPT_COST: ScryptCost = { N: 2 ** 17, r: 8, p: 1 };

const KEY_BYTES = 32;
const MAX_MEMORY = 2 ** 30;

export function isUsableCost({ N, r, p }: ScryptCost): boolean {
  const whole = [N, r, p].every((value) => Number.isSafeInteger(value) && value >= 1);
  return whole && N >= 2 && Math.log2(N) % 1 === 0 && p <= 16 && memory({ N, r, p }) <= MAX_MEMORY;
}

/** Off the thread that serves. @throws RangeError for a cost that is not usable */
export function deriveKey(passphrase: Credential, salt: Uint8Array, cost: ScryptCost): Promise<KeyObject> {
  if (!isUsableCost(cost)) return Promise.reject(new RangeError('keyring: scrypt cost out of range'));
  // Twice what the algorithm needs: the limit counts a little more than the blocks.
  const options = { ...cost, maxmem: 2 * memory(cost) + 2 ** 20 };
  return new Promise((resolve, reject) => {
    scrypt(passphrase.reveal().normalize('NFC'), salt, KEY_BYTES, options, (error, bytes) => {
      if (error) {
        reject(error);
        return;
      }
      const key = createSecretKey(bytes);
      bytes.fill(0);
      resolve(key);
    });
  });
}

function memory({ N, r, p }: ScryptCost): number {
  return 128 * r * (N + p);
}
