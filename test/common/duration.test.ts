import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatDuration, parseDuration } from '../../common/duration.ts';
import { PosternError } from '../../common/errors.ts';

describe('durations', () => {
  it.each([
    ['90s', 90_000],
    ['15m', 900_000],
    ['12h', 43_200_000],
    ['30d', 2_592_000_000],
    ['1h30m', 5_400_000],
    ['250ms', 250],
    ['1d0h5ms', 86_400_005],
    ['999999d', 86_399_913_600_000],
  ])('%s is %d ms', (text, ms) => expect(parseDuration(text)).toBe(ms));

  it.each([
    '',
    '0s',
    '15',
    '-1m',
    '+1m',
    '1.5h',
    '1e3s',
    '15 m',
    ' 15m',
    '15M',
    '15min',
    '30m1h',
    '1h1h',
    '１m',
    '9999999d',
    '1h\n',
  ])('%j is refused by the name of its key', (text) => {
    expect(() => parseDuration(text, 'sessions.ttl')).toThrow(PosternError);
    expect(() => parseDuration(text, 'sessions.ttl')).toThrow(
      /^sessions\.ttl: .* is not a duration; write 90s/,
    );
  });

  it('are read back from how they are shown', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 86_400_000_000_000 - 1 }),
        (ms) => parseDuration(formatDuration(ms)) === ms,
      ),
    );
    expect([0, -5, 0.4].map(formatDuration)).toEqual(['0s', '0s', '0s']);
  });
});
