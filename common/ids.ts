import { randomBytes } from 'node:crypto';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'; // Crockford's base 32: no i, l, o, u

/** `<prefix>_` and 26 characters: 10 of milliseconds (ids sort by age) and 16 of randomness (80 bits). */
export function newId(prefix: string, now: number = Date.now()): string {
  let time = '';
  for (let left = now, i = 0; i < 10; i++, left = Math.floor(left / 32)) time = ALPHABET[left % 32] + time;
  let random = '';
  for (const byte of randomBytes(16)) random += ALPHABET[byte & 31];
  return `${prefix}_${time}${random}`;
}
