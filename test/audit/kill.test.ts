import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test, vi } from 'vitest';
import { verifyAudit } from '../../audit/verify.ts';
import { folder, records } from './support/trail.ts';

const APPENDER = fileURLToPath(new URL('./support/appender.ts', import.meta.url));

/** Runs the appender until `enough` events were acknowledged, kills it, and returns what was acknowledged. */
async function runAndKill(dir: string, round: number, enough: number): Promise<string[]> {
  const path = join(folder(), 'acknowledged');
  const out = openSync(path, 'w');
  const child = spawn(process.execPath, [APPENDER, dir, String(round)], {
    stdio: ['ignore', out, 'inherit'],
  });
  const ended = new Promise((resolve) => child.on('close', resolve));
  await vi.waitFor(() => expect(statSync(path).size).toBeGreaterThan(enough * 4), {
    timeout: 20_000,
    interval: 5,
  });
  child.kill('SIGKILL');
  await ended;
  closeSync(out);
  const numbers = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return numbers.map((n) => `sess_${round}_${n}`);
}

test('kill -9 in the middle of appends, again and again: the chain is whole and holds everything that was acknowledged', async () => {
  const dir = folder();
  const acknowledged: string[] = [];
  for (let round = 0; round < 6; round++)
    acknowledged.push(...(await runAndKill(dir, round, 150 + round * 211)));
  expect(acknowledged.length).toBeGreaterThan(1000);
  const kept = new Set((await records(dir, 'torn')).map(({ sessionId }) => sessionId));
  expect(acknowledged.filter((id) => !kept.has(id))).toEqual([]);
  const result = await verifyAudit(dir);
  // What the last kill tore is mended by the next start only.
  if (result.break) expect(result.break.kind).toBe('torn');
  else expect(result.ok).toBe(true);
});
