import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { manualClock } from '../../common/clock.ts';
import { freshCache } from '../../sessions/fresh.ts';

const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Values are numbers in a box; a read answers when the test lets it. */
function bench(maxAge = 100) {
  const clock = manualClock();
  let truth: number | undefined = 1;
  const waiting: (() => void)[] = [];
  let reads = 0;
  const cache = freshCache<{ n: number }>({
    read: async () => {
      reads++;
      const n = truth;
      await new Promise<void>((resolve) => waiting.push(resolve));
      return n === undefined ? undefined : { n };
    },
    clock,
    maxAge,
    max: 10,
  });
  return {
    clock,
    cache,
    set: (n: number | undefined) => {
      truth = n;
    },
    answerAll: async () => {
      for (const answer of waiting.splice(0)) answer();
      await settled();
    },
    answer: async (at: number) => {
      waiting.splice(at, 1)[0]?.();
      await settled();
    },
    reads: () => reads,
  };
}

describe('an answer that may be old', () => {
  it('is read once for all who ask at the same time, and then known', async () => {
    const { cache, answerAll, reads } = bench();
    expect(cache.peek('a')).toBeUndefined();
    const asked = [cache.load('a'), cache.load('a')];
    await answerAll();
    expect(await Promise.all(asked)).toEqual([{ n: 1 }, { n: 1 }]);
    expect(reads()).toBe(1);
    expect(cache.peek('a')).toEqual({ n: 1 });
  });

  it('is not used when it is too old, counted from before the read', async () => {
    const { cache, clock, answerAll } = bench();
    cache.load('a');
    clock.advance(99);
    await answerAll();
    expect(cache.peek('a')).toEqual({ n: 1 });
    clock.advance(1);
    expect(cache.peek('a')).toBeUndefined();
  });

  it('is read again in the background past half its time, so that a busy one never waits', async () => {
    const { cache, clock, answerAll, reads, set } = bench();
    cache.load('a');
    await answerAll();
    clock.advance(50);
    set(2);
    expect(cache.peek('a')).toEqual({ n: 1 });
    expect(cache.peek('a')).toEqual({ n: 1 });
    expect(reads()).toBe(2);
    await answerAll();
    expect(cache.peek('a')).toEqual({ n: 2 });
    clock.advance(60);
    expect(cache.peek('a')).toEqual({ n: 2 });
  });

  it('is not made younger by a clock that is set back', async () => {
    const { cache, clock, answerAll } = bench();
    cache.load('a');
    await answerAll();
    clock.advance(-1000);
    expect(cache.peek('a')).toBeUndefined();
  });

  it('that was under way when something changed counts for nothing', async () => {
    const { cache, answerAll, set } = bench();
    const asked = cache.load('a');
    set(2);
    cache.drop('a');
    await answerAll();
    expect(cache.peek('a')).toBeUndefined();
    await answerAll();
    expect(await asked).toEqual({ n: 2 });
    expect(cache.peek('a')).toEqual({ n: 2 });
  });

  it('of an earlier read does not replace that of a later one', async () => {
    const { cache, answer, set } = bench();
    const first = cache.reload('a');
    set(2);
    const second = cache.reload('a');
    await answer(1);
    await answer(0);
    expect([await first, await second]).toEqual([{ n: 2 }, { n: 2 }]);
    expect(cache.peek('a')).toEqual({ n: 2 });
  });

  it('that fails is not remembered, and neither is what is not there', async () => {
    let fail = true;
    const cache = freshCache<{ n: number }>({
      read: async () => {
        if (fail) throw new Error('no store');
        return undefined;
      },
      clock: manualClock(),
      maxAge: 100,
      max: 10,
    });
    await expect(cache.load('a')).rejects.toThrow('no store');
    fail = false;
    expect(await cache.load('a')).toBeUndefined();
    expect(cache.peek('a')).toBeUndefined();
  });

  it('is never from before the last drop, in any order of reads, answers, changes and drops', async () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('load' as const) }),
      fc.record({ do: fc.constant('reload' as const) }),
      fc.record({ do: fc.constant('change' as const) }),
      fc.record({ do: fc.constant('answer' as const), at: fc.nat(3) }),
      fc.record({ do: fc.constant('age' as const) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const { cache, clock, set, answer, answerAll } = bench();
        let version = 1;
        const asked: Promise<void>[] = [];
        const ask = (answered: Promise<{ n: number } | undefined>): void => {
          const from = version;
          asked.push(answered.then((value) => expect(value?.n).toBeGreaterThanOrEqual(from)));
        };
        for (const one of steps) {
          if (one.do === 'load') ask(cache.load('a'));
          if (one.do === 'reload') ask(cache.reload('a'));
          if (one.do === 'answer') await answer(one.at);
          if (one.do === 'age') clock.advance(60);
          if (one.do === 'change') {
            set(++version);
            cache.drop('a');
          }
          const known = cache.peek('a');
          if (known) expect(known.n).toBe(version);
        }
        for (let n = 0; n < 30; n++) await answerAll();
        await Promise.all(asked);
      }),
      { numRuns: 150 },
    );
  });
});
