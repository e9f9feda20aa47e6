import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AuditEvent, AuditRecord } from '../../audit/event.ts';
import { type AuditQuery, exportAudit, queryAudit } from '../../audit/query.ts';
import { segmentName } from '../../audit/segments.ts';
import { tailAudit } from '../../audit/tail.ts';
import { event, folder, open, START, writeChain } from './support/trail.ts';

const COUNT = 120;
const ACTIONS = ['git.fetch', 'git.push_denied', 'kube.request_allowed'] as const;

const make = (n: number): AuditEvent =>
  event(n % 7, {
    action: ACTIONS[n % 3] ?? 'git.fetch',
    decision: n % 5 === 0 ? 'deny' : 'allow',
    leaseId: `L${n % 4}`,
    // Looks like a filter's member, inside a string.
    reason: `"action":"git.fetch","sessionId":"sess_1" ${'x'.repeat((n * 37) % 900)}`,
  });

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const out: T[] = [];
  for await (const item of items) out.push(item);
  return out;
}

/** What a query means, the slow way. */
function model(records: readonly AuditRecord[], query: AuditQuery): number[] {
  const { sessionId, leaseId, action, decision, since, until, after, order, limit } = query;
  const found = records.filter(
    (r) =>
      (sessionId === undefined || r.sessionId === sessionId) &&
      (leaseId === undefined || r.leaseId === leaseId) &&
      (action === undefined || r.action === action) &&
      (decision === undefined || r.decision === decision) &&
      (since === undefined || Date.parse(r.time) >= since) &&
      (until === undefined || Date.parse(r.time) <= until) &&
      (after === undefined || (order === 'newest' ? r.seq < after : r.seq > after)),
  );
  if (order === 'newest') found.reverse();
  return found.slice(0, limit).map(({ seq }) => seq);
}

const time = fc.integer({ min: -3, max: COUNT + 3 }).map((n) => START + n * 1000);
const query: fc.Arbitrary<AuditQuery> = fc.record(
  {
    sessionId: fc.constantFrom('sess_1', 'sess_6', 'sess_', 'nobody'),
    leaseId: fc.constantFrom('L0', 'L3', 'L'),
    action: fc.constantFrom(...ACTIONS, 'git.rejected'),
    decision: fc.constantFrom('allow', 'deny'),
    since: time,
    until: time,
    limit: fc.integer({ min: 0, max: COUNT }),
    order: fc.constantFrom('oldest' as const, 'newest' as const),
    after: fc.integer({ min: 0, max: COUNT + 2 }),
  },
  { requiredKeys: [] },
);

test('a query finds what a look at every record finds, in either order', async () => {
  const dir = folder();
  const records = writeChain(dir, COUNT, 17, make).map((line) => JSON.parse(line) as AuditRecord);
  await fc.assert(
    fc.asyncProperty(query, async (asked) => {
      expect((await all(queryAudit(dir, asked))).map(({ seq }) => seq)).toEqual(model(records, asked));
    }),
    { numRuns: 300 },
  );
});

test.each(['oldest', 'newest'] as const)(
  'pages by seq join without a gap or a double, %s first',
  async (order) => {
    const dir = folder();
    writeChain(dir, COUNT, 17, make);
    const seen: number[] = [];
    for (let after: number | undefined; ; ) {
      const asked: AuditQuery = {
        action: 'git.fetch',
        order,
        limit: 7,
        ...(after !== undefined && { after }),
      };
      const page = await all(queryAudit(dir, asked));
      if (page.length === 0) break;
      seen.push(...page.map(({ seq }) => seq));
      after = page.at(-1)?.seq;
    }
    const whole = await all(queryAudit(dir, { action: 'git.fetch', order }));
    expect(seen).toEqual(whole.map(({ seq }) => seq));
  },
);

test('records larger than a block are read whole, forward and backward', async () => {
  const dir = folder();
  const big = (n: number) => event(n, { refs: Array.from({ length: 100 }, (_, i) => bigRef(n, i)) });
  const bigRef = (n: number, i: number) => ({
    ref: `refs/heads/${String(n)}-${'r'.repeat(900)}-${i}`,
    op: 'create' as const,
    old: '0'.repeat(40),
    new: '1'.repeat(40),
  });
  const lines = writeChain(dir, 30, 15, big);
  expect(lines[0]?.length).toBeGreaterThan(100_000);
  expect((await all(exportAudit(dir))).join('')).toBe(`${lines.join('\n')}\n`);
  const back = await all(queryAudit(dir, { order: 'newest' }));
  expect(back.map(({ seq }) => seq)).toEqual(Array.from({ length: 30 }, (_, i) => 30 - i));
});

test('an export is the chain as it stands, byte for byte', async () => {
  const dir = folder();
  const lines = writeChain(dir, COUNT, 17, make);
  expect((await all(exportAudit(dir))).join('')).toBe(`${lines.join('\n')}\n`);
});

test('a record that is being written is not there yet', async () => {
  const dir = folder();
  writeChain(dir, 3);
  appendFileSync(join(dir, segmentName(1)), '{"action":"git.fetch","seq":4');
  for (const order of ['oldest', 'newest'] as const)
    expect(await all(queryAudit(dir, { order, action: 'git.fetch' }))).toHaveLength(3);
});

test('a folder without a chain has no records', async () => {
  expect(await all(queryAudit(join(folder(), 'nowhere')))).toEqual([]);
});

test('tail gives the last records and then what comes, across rotation, and ends when told', async () => {
  const dir = folder();
  const log = await open(dir, { segmentBytes: 600 });
  for (let i = 1; i <= 5; i++) await log.append(event(i), 'written');
  const stop = new AbortController();
  const seen: (string | undefined)[] = [];
  const following = (async () => {
    for await (const { sessionId } of tailAudit(dir, {
      last: 2,
      action: 'git.fetch',
      every: 5,
      signal: stop.signal,
    })) {
      seen.push(sessionId);
      if (sessionId === 'sess_15') stop.abort();
    }
  })();
  for (let i = 6; i <= 15; i++) {
    await log.append(event(i), 'written');
    await log.append(event(i, { action: 'git.rejected' }), 'written');
  }
  await following;
  const numbers = seen.map((id) => Number(id?.slice(5)));
  const [first = 0] = numbers;
  expect(numbers).toEqual(Array.from({ length: 16 - first }, (_, i) => first + i));
});
