import { execFileSync } from 'node:child_process';
import { appendFileSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { CHECKPOINTS, compactStatements, PUBLIC_KEY, signStatement } from '../../audit/checkpoint.ts';
import type { AuditRecord } from '../../audit/event.ts';
import { segmentName } from '../../audit/segments.ts';
import { openCheckpointSigner } from '../../audit/signer.ts';
import { verifyAudit } from '../../audit/verify.ts';
import { manualClock } from '../../common/clock.ts';
import { createRedactor } from '../../common/redact.ts';
import { openStore } from '../../store/open.ts';
import { cheapKeyring } from '../keyring/cheap.ts';
import {
  event,
  folder,
  lines,
  open,
  records,
  sealed,
  signer,
  testSigner,
  writeChain,
} from './support/trail.ts';

test('records are linked in the order of their appends, however many at once', async () => {
  const dir = folder();
  const log = await open(dir);
  const appends: Promise<void>[] = [];
  for (let i = 0; i < 2000; i++) {
    appends.push(log.append(event(i), i % 7 === 0 ? 'durable' : 'written'));
    if (i % 100 === 0) await new Promise(setImmediate);
  }
  await Promise.all(appends);
  const all = await records(dir);
  expect(all.map(({ seq }) => seq)).toEqual(Array.from({ length: 2001 }, (_, i) => i + 1));
  expect(all.slice(1).map(({ sessionId }) => sessionId)).toEqual(
    Array.from({ length: 2000 }, (_, i) => `sess_${i}`),
  );
  expect(all.map(({ time }) => time)).toEqual(all.map(({ time }) => time).toSorted());
  await log.close();
  expect(await verifyAudit(dir)).toMatchObject({ ok: true, records: 2001, signedUpTo: 2001 });
});

test('a written record can be read when its append resolves', async () => {
  const dir = folder();
  const log = await open(dir);
  for (let i = 0; i < 20; i++) {
    await log.append(event(i), 'written');
    expect((await records(dir)).at(-1)?.sessionId).toBe(`sess_${i}`);
  }
});

test('a chain goes on over restarts, and says that it does', async () => {
  const dir = folder();
  for (let run = 0; run < 3; run++) {
    const log = await open(dir);
    await log.append(event(run), 'written');
    await log.close();
  }
  const all = await records(dir);
  expect(all.map(({ action }) => action)).toEqual(Array(3).fill(['audit.started', 'git.fetch']).flat());
  expect(all[4]?.reason).toBe('The chain goes on after record 4');
  expect(readdirSync(dir).filter((name) => name.startsWith('0'))).toEqual([segmentName(1)]);
  expect(await verifyAudit(dir)).toMatchObject({ ok: true, records: 6 });
});

test('a full segment is left for a new one, and its end is signed for', async () => {
  const dir = folder();
  const log = await open(dir, { segmentBytes: 2000, checkpointEvery: 60_000 });
  for (let i = 0; i < 40; i++) await log.append(event(i), 'written');
  await vi.waitFor(() =>
    expect(readFileSync(join(dir, CHECKPOINTS), 'utf8').split('\n').length).toBeGreaterThan(2),
  );
  await log.close();
  const segments = readdirSync(dir).filter((name) => /^\d/.test(name));
  expect(segments.length).toBeGreaterThan(3);
  const all = await records(dir);
  for (const name of segments) {
    const first = JSON.parse(readFileSync(join(dir, name), 'utf8').split('\n')[0] ?? '') as AuditRecord;
    expect(name).toBe(segmentName(first.seq));
  }
  expect(await verifyAudit(dir)).toMatchObject({ ok: true, records: all.length, signedUpTo: all.length });
});

test('a checkpoint follows the chain while it grows, and none is made while it does not', async () => {
  const dir = folder();
  const log = await open(dir, { checkpointEvery: 10 });
  await log.append(event(1), 'written');
  const signed = () => readFileSync(join(dir, CHECKPOINTS), 'utf8').trimEnd().split('\n');
  await vi.waitFor(() => expect(JSON.parse(signed().at(-1) ?? '')).toMatchObject({ seq: 2 }));
  const count = signed().length;
  await new Promise((resolve) => setTimeout(resolve, 60));
  expect(signed()).toHaveLength(count);
});

test('openssl and jq verify a checkpoint without this program', async () => {
  const dir = folder();
  writeChain(dir, 3);
  const path = join(dir, CHECKPOINTS);
  const message = execFileSync('jq', ['-cjS', 'del(.sig)', path]);
  const signature = Buffer.from(
    execFileSync('jq', ['-r', '.sig', path], { encoding: 'utf8' }).trim(),
    'base64',
  );
  writeFileSync(join(dir, 'message'), message);
  writeFileSync(join(dir, 'signature'), signature);
  const args = [
    'pkeyutl',
    '-verify',
    '-pubin',
    '-inkey',
    PUBLIC_KEY,
    '-rawin',
    '-in',
    'message',
    '-sigfile',
    'signature',
  ];
  expect(execFileSync('openssl', args, { cwd: dir, encoding: 'utf8' })).toContain('Verified Successfully');
});

test('no credential reaches the folder, in whatever field it came', async () => {
  const dir = folder();
  const redactor = createRedactor();
  const canary = 'canary-7f3a.QxY/secret+value';
  redactor.add(canary);
  const log = await open(dir, { redactor });
  await log.append(
    event(1, { reason: `upstream said ${canary}`, userAgent: `git ${encodeURIComponent(canary)}` }),
    'written',
  );
  await log.append(
    event(2, { command: ['sh', '-c', `echo ${Buffer.from(`u:${canary}`).toString('base64')}`] }),
    'written',
  );
  await log.append(event(3, { name: 'ghp_0123456789abcdefghijABCDEFGHIJ456789' }), 'written');
  const text = (await lines(dir)).join('\n');
  for (let at = 0; at + 12 <= canary.length; at++) expect(text).not.toContain(canary.slice(at, at + 12));
  expect(text).not.toContain('ghp_0123');
  expect(text.match(/\[redacted\]/g)?.length).toBe(4);
});

test('old segments go as wholes, signed for and on record, and the rest still verifies', async () => {
  const dir = folder();
  const clock = manualClock();
  const options = { clock, retention: 3_600_000, retainEvery: 20, segmentBytes: 1500 };
  const log = await open(dir, options);
  for (let i = 0; i < 30; i++) await log.append(event(i), 'written');
  const before = (await records(dir)).length;
  clock.advance(3_000_000);
  for (let i = 30; i < 40; i++) await log.append(event(i), 'written');
  clock.advance(1_800_000);
  await log.append(event('now'), 'written');
  await vi.waitFor(() => expect(readdirSync(dir)).not.toContain(segmentName(1)));
  await log.append(event('after'), 'durable');
  const all = await records(dir);
  const retention = all.find(({ action }) => action === 'audit.retention');
  expect(retention?.anchor).toMatchObject({ lastSeq: (all[0]?.seq ?? 0) - 1, count: (all[0]?.seq ?? 0) - 1 });
  expect(all[0]?.seq).toBeLessThanOrEqual(before + 1);
  expect(all.map(({ sessionId }) => sessionId)).toEqual(
    expect.arrayContaining(['sess_30', 'sess_39', 'sess_now']),
  );
  await log.close();
  expect(await verifyAudit(dir)).toMatchObject({ ok: true, first: all[0]?.seq });
  // And it goes on after a restart.
  const again = await open(dir, options);
  await again.append(event('again'), 'written');
  await again.close();
  expect(await verifyAudit(dir)).toMatchObject({ ok: true });
});

test('a quiet trail begins new segments by age, so that retention finds whole ones', async () => {
  const dir = folder();
  const clock = manualClock();
  const log = await open(dir, { clock });
  await log.append(event(1), 'written');
  clock.advance(86_400_000);
  await log.append(event(2), 'written');
  expect(readdirSync(dir).filter((name) => /^\d/.test(name))).toEqual([segmentName(1), segmentName(3)]);
});

test('a torn last line is set aside and on record, and the chain goes on', async () => {
  const dir = folder();
  writeChain(dir, 5, 5);
  appendFileSync(join(dir, segmentName(1)), '{"action":"git.push_allowed","actor":"x');
  const log = await open(dir);
  await log.append(event(6), 'durable');
  await log.close();
  const all = await records(dir);
  expect(all.slice(5).map(({ action }) => action)).toEqual(['audit.gap', 'audit.started', 'git.fetch']);
  expect(all[5]?.gap).toEqual({ cause: 'torn', firstSeq: 6 });
  expect(readFileSync(join(dir, 'torn-after-5.part'), 'utf8')).toBe(
    '{"action":"git.push_allowed","actor":"x',
  );
  expect(await verifyAudit(dir)).toMatchObject({ ok: true, records: 8 });
});

test.each([
  ['a block of zeros', Buffer.alloc(9000)],
  ['a block of zeros and newlines', Buffer.from('\0\0\n\0\n\n')],
  ['a torn record longer than a step of the reader', Buffer.from(`{"reason":"${'x'.repeat(600_000)}`)],
])('what a crash of the host left behind the last record is set aside: %s', async (_name, rest) => {
  const dir = folder();
  writeChain(dir, 5, 5);
  appendFileSync(join(dir, segmentName(1)), rest);
  const log = await open(dir);
  await log.close();
  expect(readFileSync(join(dir, 'torn-after-5.part'))).toEqual(rest);
  expect(await verifyAudit(dir)).toMatchObject({ ok: true, records: 7 });
});

test('a segment that holds only a torn line, or nothing, is begun anew', async () => {
  for (const content of ['', '{"action":']) {
    const dir = folder();
    writeChain(dir, 4, 4);
    writeFileSync(join(dir, segmentName(5)), content);
    const log = await open(dir);
    await log.append(event(5), 'durable');
    await log.close();
    expect(await verifyAudit(dir)).toMatchObject({ ok: true });
  }
});

test('a tail that was cut while nobody ran is on record at the start, its numbers are not used again, and verify names it', async () => {
  const dir = folder();
  const chain = writeChain(dir, 9, 9);
  const path = join(dir, segmentName(1));
  truncateSync(path, `${chain.slice(0, 6).join('\n')}\n`.length);
  const log = await open(dir);
  await log.append(event('next'), 'durable');
  await log.close();
  const all = await records(dir);
  expect(all[6]).toMatchObject({
    seq: 10,
    gap: { cause: 'tail_missing', count: 3, firstSeq: 7, lastSeq: 9 },
  });
  expect((await verifyAudit(dir)).break).toMatchObject({ kind: 'missing_segment', seq: 7 });
  // Put back, it is whole again.
  writeFileSync(path, `${chain.join('\n')}\n`);
  expect(await verifyAudit(dir)).toMatchObject({ ok: true });
});

test('everything deleted but the checkpoints: the chain goes on after them', async () => {
  const dir = folder();
  writeChain(dir, 9, 9);
  rmSync(join(dir, segmentName(1)));
  const log = await open(dir);
  await log.close();
  expect((await records(dir))[0]).toMatchObject({ seq: 10, gap: { cause: 'tail_missing', count: 9 } });
});

test('a chain that was rewritten while nobody ran is on record at the start', async () => {
  const dir = folder();
  const chain = writeChain(dir, 5, 5);
  const story = sealed(chain.map((_, i) => event(i, { reason: 'another story' })));
  writeFileSync(join(dir, segmentName(1)), `${story.join('\n')}\n`);
  const log = await open(dir);
  await log.close();
  expect((await records(dir))[5]).toMatchObject({ gap: { cause: 'checkpoint_mismatch', firstSeq: 5 } });
  expect((await verifyAudit(dir)).break).toMatchObject({ kind: 'rewritten', seq: 5 });
});

test('a new signing key joins the old one, and both keep verifying', async () => {
  const dir = folder();
  writeChain(dir, 5, 5);
  const log = await open(dir, { signer: testSigner() });
  await log.append(event(6), 'written');
  await log.close();
  expect(readFileSync(join(dir, PUBLIC_KEY), 'utf8').match(/BEGIN PUBLIC KEY/g)).toHaveLength(2);
  expect(await verifyAudit(dir)).toMatchObject({ ok: true, signedUpTo: 7 });
});

test('of old checkpoints one a segment is kept, and the last anchor', () => {
  const line = (seq: number, kind: 'checkpoint' | 'anchor' = 'checkpoint') =>
    signStatement(
      { kind: `postern.audit.${kind}`, seq, hash: 'f'.repeat(64) },
      '2026-01-01T00:00:00.000Z',
      signer,
    );
  const [a, b, c, d, e, f, g] = [
    line(5),
    line(9, 'anchor'),
    line(12),
    line(19),
    line(19, 'anchor'),
    line(25),
    line(31),
  ];
  const kept = compactStatements([a, b, c, d, e, 'unreadable', f, line(28), g, line(33)], [20, 30]);
  expect(kept).toEqual([e, 'unreadable', line(28), g, line(33)]);
});

test('the signing key is made once, sealed in the store, and found again', async () => {
  const store = await openStore({ sqlite: ':memory:' });
  const keyring = await cheapKeyring(store);
  const [one, two] = await Promise.all([
    openCheckpointSigner({ store, keyring }),
    openCheckpointSigner({ store, keyring }),
  ]);
  const three = await openCheckpointSigner({ store, keyring });
  expect(two.publicKeyPem).toBe(one.publicKeyPem);
  expect(three.publicKeyPem).toBe(one.publicKeyPem);
  expect(three.sign(Buffer.from('x'))).toEqual(one.sign(Buffer.from('x')));
  const row = await store.get('meta', 'audit-checkpoint-key');
  expect(row?.sealed).toBeDefined();
  expect(JSON.stringify(row)).not.toContain('PRIVATE');
  keyring.close();
  await store.close();
});
