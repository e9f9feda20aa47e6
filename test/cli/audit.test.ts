import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { waitFor } from '../support/wait.ts';
import { configure, launcher, openSite, run, type Site, start } from './support.ts';

let site: Site;
let sessionId: string;
const records = async (
  ...args: string[]
): Promise<{ action: string; leaseId?: string; seq: number; time: string }[]> =>
  JSON.parse((await site.postern('audit', 'list', '--json', ...args)).out).records;

beforeAll(async () => {
  site = await openSite('cli-audit', { log: { level: 'error' } });
  const issued = await site.issue('--repo', '*', '--lease', 'L1', '--json');
  sessionId = JSON.parse(issued.out).sessionId;
  await site.issue('--repo', '*', '--lease', 'L2', '--json');
  await site.postern('session', 'revoke', sessionId);
});
afterAll(() => site.close());

test('audit list filters, oldest first, and says so in a table', async () => {
  const all = await records();
  expect(all.map((one) => one.seq)).toEqual(all.map((_, i) => i + 1));
  expect((await records('--session', sessionId)).map((one) => one.action)).toEqual([
    'git.session_minted',
    'git.session_closed',
  ]);
  expect((await records('--lease', 'L2')).map((one) => one.leaseId)).toEqual(['L2']);
  expect((await records('--action', 'git.session_minted')).length).toBe(2);
  expect(await records('--decision', 'deny')).toEqual([]);
  expect((await records('--limit', '2')).map((one) => one.seq)).toEqual(all.slice(-2).map((one) => one.seq));
  const middle = all[3]?.time ?? '';
  expect((await records('--since', middle)).every((one) => one.time >= middle)).toBe(true);
  expect((await records('--until', middle)).every((one) => one.time <= middle)).toBe(true);
  expect(await records('--until', '1h')).toEqual([]);
  expect((await records('--since', '1h')).length).toBe(all.length);
  expect((await site.postern('audit', 'list', '--session', sessionId)).out).toMatch(
    /^SEQ .*\n\d+ .*git\.session_minted/,
  );
});

test.each([
  ['--since', 'yesterday'],
  ['--until', '2026-13-45'],
  ['--decision', 'maybe'],
  ['--limit', '0'],
  ['--action', 'git.fech'],
  ['--public-key', 'nope.pem', 'verify'],
])('%s %s is wrong usage', async (flag, value, command = 'list') => {
  const ran = await site.postern('audit', command, flag, value);
  expect(ran).toMatchObject({ code: 2, out: '' });
  expect(ran.err).toContain(flag);
});

test('an action that there is not: the one that was meant', async () => {
  const { err } = await site.postern('audit', 'list', '--action', 'git.fech');
  expect(err).toMatch(/^postern: --action: there is no action "git\.fech"; did you mean git\.fetch\?\n/);
});

test('a trail that is not there is no trail without records', async () => {
  const config = configure(join(site.folder, 'none'), {});
  const [first, ...others] = await Promise.all(
    ['verify', 'list', 'tail', 'export'].map((command) =>
      run(process.execPath, [launcher, 'audit', command, '--config', config]),
    ),
  );
  expect(first).toMatchObject({ code: 1, out: '', err: expect.stringContaining('holds no audit chain') });
  for (const other of others) expect(other).toEqual(first);
});

test('audit tail shows what is written, and ends when it is told to', async () => {
  const tail = start(['audit', 'tail', '--lease', 'L3', '--json', '--config', site.config]);
  await site.issue('--repo', '*', '--lease', 'L3', '--json');
  await site.issue('--repo', '*', '--lease', 'L4', '--json');
  await site.issue('--repo', '*', '--lease', 'L3', '--json');
  await waitFor('two records', () => tail.out().split('\n').length >= 3);
  tail.child.kill('SIGINT');
  expect(await tail.exit).toBe(0);
  const seen = tail
    .out()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(seen).toMatchObject([{ leaseId: 'L3' }, { leaseId: 'L3' }]);
});

test('a reader that has enough is no failure', async () => {
  const { child, exit, err } = start(['audit', 'export', '--config', site.config]);
  child.stdout.destroy();
  expect(await exit).toBe(0);
  expect(err()).toBe('');
});

test('audit verify: whole while it grows and after the end; a change is found and exits 1', async () => {
  expect(await site.postern('audit', 'verify')).toMatchObject({ code: 0 });
  await site.server.kill();
  const whole = await site.postern('audit', 'verify', '--json');
  expect(JSON.parse(whole.out)).toMatchObject({ ok: true });
  const exported = await site.postern('audit', 'export');
  const dir = join(site.folder, 'var/audit');
  const segment = join(
    dir,
    readdirSync(dir).find((name) => name.endsWith('.jsonl') && /^\d/.test(name)) ?? '',
  );
  expect(exported.out).toBe(readFileSync(segment, 'utf8'));
  writeFileSync(segment, readFileSync(segment, 'utf8').replace('"leaseId":"L2"', '"leaseId":"L9"'));
  const broken = await site.postern('audit', 'verify');
  expect(broken.code).toBe(1);
  expect(broken.out).toMatch(/BROKEN at record \d+ \(\d+\.jsonl, line \d+\)/);
  expect(JSON.parse((await site.postern('audit', 'verify', '--json')).out)).toMatchObject({
    ok: false,
    break: { kind: 'changed' },
  });
});
