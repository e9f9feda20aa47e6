import { expect, test } from 'vitest';
import { vanish } from './vanish-drill.ts';

// `npm run check:vanish` does 10,000.
test('a thousand clients that vanish, each at another point, leave no socket, timer, exchange or memory behind', async () => {
  const { before, after, upstream } = await vanish(1_000);
  expect(upstream).toBeGreaterThan(300);
  expect(after.busy).toBe(0);
  // A connection or two to the cluster are kept for the next request.
  expect(after.sockets).toBeLessThanOrEqual(before.sockets + 4);
  expect(after.timers).toBeLessThanOrEqual(before.timers + 1);
  expect(after.heap - before.heap).toBeLessThan(8);
}, 120_000);
