import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { networkOf } from '../../common/network.ts';
import { createFailureRecords } from '../../sessions/failure-records.ts';
import { failureFloor, MAX_WAITING } from '../../sessions/floor.ts';

describe('failed authentications of one address', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function counted(limits = {}) {
    const sums: [string, number][] = [];
    let now = 0;
    const records = createFailureRecords(
      async (source, count) => void sums.push([source, count]),
      { burst: 60, perSecond: 1, sumEvery: 10_000, sources: 100, ...limits },
      () => now,
    );
    const from = (source: string, times: number) =>
      Array.from({ length: times }, () => records.admits(source)).filter(Boolean).length;
    const pass = (ms: number) => {
      now += ms;
      vi.advanceTimersByTime(ms);
    };
    return { sums, records, from, pass };
  }

  test('have a record each up to the burst, then one a second; the rest is summed up', () => {
    const { sums, from, pass } = counted();
    expect(from('192.0.2.1', 2_000)).toBe(60);
    expect(from('192.0.2.2', 60)).toBe(60);
    expect(sums).toEqual([]);
    pass(10_000);
    expect(sums).toEqual([['192.0.2.1', 1_940]]);
    expect(from('192.0.2.1', 2_000)).toBe(10);
    pass(10_000);
    expect(sums.slice(1)).toEqual([['192.0.2.1', 1_990]]);
    pass(3_600_000);
    expect(sums).toHaveLength(2);
    expect(from('192.0.2.1', 100)).toBe(60);
  });

  test('none is lost: every one has a record or is in a sum', () => {
    const step = fc.tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 1, max: 200 }), fc.nat(20_000));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const { sums, records, from, pass } = counted({ sources: 4 });
        let sent = 0;
        let recorded = 0;
        for (const [source, times, wait] of steps) {
          sent += times;
          recorded += from(`192.0.2.${source}`, times);
          pass(wait);
        }
        void records.close();
        expect(recorded + sums.reduce((all, [, count]) => all + count, 0)).toBe(sent);
      }),
    );
  });

  test.each([
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['', ''],
  ])('come from one network: %s', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});

test('only so many failures wait for their answer at a time; what is more gets none', async () => {
  const now = performance.now();
  const all = await Promise.all(Array.from({ length: MAX_WAITING + 10 }, () => failureFloor(now)));
  expect(all.filter(Boolean)).toHaveLength(MAX_WAITING);
  expect(await failureFloor(performance.now())).toBe(true);
});
