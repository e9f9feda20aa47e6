import { randomFillSync } from 'node:crypto';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'; // Crockford's base 32: no i, l, o, u

// Every request of a guard takes an id: randomness is drawn for many at a time, and the milliseconds are spelt once.
const random = Buffer.alloc(4096);
let used = random.length;
let spelt = { at: -1, text: '' };

/** `<prefix>_` and 26 characters: 10 of milliseconds (ids sort by age) and 16 of randomness (80 bits). */
export function newId(prefix: string, now: number = Date.now()): string {
  if (spelt.at !== now) spelt = { at: now, text: spell(now) };
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  let id = `${prefix}_${spelt.text}`;
  for (const end = used + 16; used < end; used++) id += ALPHABET[(random[used] as number) & 31];
  return id;
}

function spell(ms: number): string {
  let text = '';
  for (let left = ms, i = 0; i < 10; i++, left = Math.floor(left / 32)) text = ALPHABET[left % 32] + text;
  return text;
}
