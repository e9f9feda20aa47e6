import { PosternError } from './errors.ts';

const UNIT = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/**
 * Reads `90s`, `15m`, `12h`, `30d`, `1h30m`: whole numbers, largest unit first, each unit once.
 * @returns milliseconds, more than zero
 * @throws PosternError `invalid_input` naming `key`
 */
export function parseDuration(text: string, key = 'duration'): number {
  const match = /^(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?(?:(\d{1,9})ms)?$/.exec(text);
  const [, d, h, m, s, ms] = match ?? [];
  const total =
    Number(d ?? 0) * UNIT.d +
    Number(h ?? 0) * UNIT.h +
    Number(m ?? 0) * UNIT.m +
    Number(s ?? 0) * UNIT.s +
    Number(ms ?? 0);
  if (!match || total <= 0)
    throw new PosternError(
      'invalid_input',
      `${key}: ${JSON.stringify(text)} is not a duration; write 90s, 15m, 12h or 30d`,
      {
        key,
      },
    );
  return total;
}

/** The shortest spelling that `parseDuration` reads back to the same number. */
export function formatDuration(ms: number): string {
  let left = Math.max(0, Math.round(ms));
  let text = '';
  for (const [unit, size] of [
    ['d', UNIT.d],
    ['h', UNIT.h],
    ['m', UNIT.m],
    ['s', UNIT.s],
    ['ms', 1],
  ] as const) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count > 0) text += `${count}${unit}`;
  }
  return text || '0s';
}
