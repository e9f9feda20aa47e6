import { expect, test } from 'vitest';
import { drill } from './rotation-drill.ts';

test('a rotation that is killed again and again while the server is used loses no row', async () => {
  const { kills, opened, right, leases, rotations } = await drill({ rows: 300, kills: 3 });
  expect({ kills, right }).toEqual({ kills: 3, right: 300 });
  expect(opened).toBeGreaterThan(300);
  expect(rotations).toBeGreaterThan(0);
  expect(leases).toBeGreaterThan(0);
}, 240_000);
