import { describe, expect, test } from 'vitest';
import { manualClock } from '../../common/clock.ts';
import { createRenewing } from '../../kubeguard/renewing.ts';

interface Token {
  readonly name: string;
  readonly end?: number;
}

function setup(life: number | undefined, skewMs = 60_000) {
  const clock = manualClock();
  const state = { fetched: 0, tried: 0, fails: false, name: (count: number) => `t${count}` };
  const renewing = createRenewing<Token>({
    async obtain() {
      state.tried++;
      await Promise.resolve();
      if (state.fails) throw new Error('not now');
      state.fetched++;
      return { name: state.name(state.fetched), ...(life === undefined ? {} : { end: clock.now() + life }) };
    },
    expiresAt: ({ end }) => end,
    same: (a, b) => a.name === b.name,
    clock,
    skewMs,
  });
  return { clock, state, renewing };
}

describe('a credential that has to be fetched', () => {
  test('is fetched once for all who ask at the same time', async () => {
    const { renewing, state } = setup(3_600_000);
    const got = await Promise.all(Array.from({ length: 50 }, () => renewing.get()));
    expect(new Set(got.map(({ name }) => name))).toEqual(new Set(['t1']));
    expect(state.fetched).toBe(1);
  });
  test('is fetched again before it ends, once', async () => {
    const { renewing, state, clock } = setup(600_000);
    await renewing.get();
    clock.advance(500_000);
    expect((await renewing.get()).name).toBe('t1');
    clock.advance(50_000);
    await Promise.all([renewing.get(), renewing.get(), renewing.get()]);
    expect(state.fetched).toBe(2);
  });
  test('that lives for less than the margin is used to its half', async () => {
    const { renewing, state, clock } = setup(10_000);
    await renewing.get();
    clock.advance(4_000);
    await renewing.get();
    expect(state.fetched).toBe(1);
    clock.advance(1_500);
    await renewing.get();
    expect(state.fetched).toBe(2);
  });
  test('without an end is kept until it is refused', async () => {
    const { renewing, state, clock } = setup(undefined);
    const first = await renewing.get();
    clock.advance(365 * 86_400_000);
    expect(await renewing.get()).toBe(first);
    expect((await renewing.renew(first)).name).toBe('t2');
    expect(state.fetched).toBe(2);
  });
  test("while it holds, a failed renewal is nobody's problem; after its end it is", async () => {
    const { renewing, state, clock } = setup(600_000);
    await renewing.get();
    clock.advance(550_000);
    state.fails = true;
    expect((await renewing.get()).name).toBe('t1');
    clock.advance(60_000);
    await expect(renewing.get()).rejects.toThrow('not now');
    state.fails = false;
    clock.advance(3_000);
    expect((await renewing.get()).name).toBe('t2');
  });
  test('that fails is not tried again for every request, but soon', async () => {
    const { renewing, state, clock } = setup(600_000);
    state.fails = true;
    for (let i = 0; i < 5; i++) await expect(renewing.get()).rejects.toThrow('not now');
    clock.advance(2_999);
    await expect(renewing.get()).rejects.toThrow('not now');
    expect(state.tried).toBe(1);
    clock.advance(1);
    state.fails = false;
    expect((await renewing.get()).name).toBe('t1');
    expect(state.tried).toBe(2);
  });
  test('refused by the cluster is fetched once, however many were refused', async () => {
    const { renewing, state, clock } = setup(3_600_000);
    const old = await renewing.get();
    const again = await Promise.all(Array.from({ length: 20 }, () => renewing.renew(old)));
    expect(new Set(again.map(({ name }) => name))).toEqual(new Set(['t2']));
    expect((await renewing.renew(old)).name).toBe('t2');
    expect(state.fetched).toBe(2);
    // A cluster that refuses everything does not make a storm.
    const second = await renewing.get();
    expect(await renewing.renew(second)).toBe(second);
    clock.advance(11_000);
    expect((await renewing.renew(second)).name).toBe('t3');
  });
});
