// What the disk can do to the trail, with the real thing where the machine allows it. The rule in every case: an event
// is on record, or its caller was told that it is not, or a gap record counts it; and nothing needs a restart.

import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test, vi } from 'vitest';
import type { AuditRecord } from '../../audit/event.ts';
import type { AuditLog } from '../../audit/log.ts';
import { segmentName } from '../../audit/segments.ts';
import { verifyAudit } from '../../audit/verify.ts';
import { faultyDisk, smallDisk } from './support/faults.ts';
import { event, folder, lines, open, records } from './support/trail.ts';

const UNAVAILABLE = { code: 'audit_unavailable' };

async function healthy(log: AuditLog): Promise<void> {
  await vi.waitFor(() => expect(log.health()).toEqual({ ok: true }), 10_000);
}

async function gaps(dir: string): Promise<AuditRecord[]> {
  return (await records(dir)).filter(({ action }) => action === 'audit.gap');
}

/** A disk that can be filled and freed: a real one, or injected ENOSPC after a few bytes. */
function fillable() {
  const disk = smallDisk();
  if (disk) return { dir: join(disk.path, 'audit'), fill: disk.fill, free: disk.free, more: {} };
  const faulty = faultyDisk();
  return {
    dir: folder(),
    fill: () => faulty.set({ write: 'ENOSPC', partial: 100 }),
    free: () => faulty.set({}),
    more: { diskModule: faulty.module },
  };
}

test('disk full, refuse: appends are refused and say so, no half record stays, and it recovers by itself', async () => {
  const { dir, fill, free, more } = fillable();
  const log = await open(dir, more);
  await log.append(event(1), 'durable');
  fill();
  let refused = 0;
  // What is left of the last page may still take a record or two.
  for (let i = 0; i < 40; i++)
    await log.append(event(i, { reason: 'r'.repeat(900) }), 'written').catch((error) => {
      expect(error).toMatchObject(UNAVAILABLE);
      refused++;
    });
  expect(refused).toBeGreaterThan(0);
  expect(log.health()).toMatchObject({ ok: false, reason: expect.stringContaining('ENOSPC') });
  const kept = await lines(dir);
  for (const line of kept) expect(() => JSON.parse(line)).not.toThrow();
  free();
  await healthy(log);
  await log.append(event('after'), 'durable');
  const [gap] = await gaps(dir);
  expect(gap?.gap).toMatchObject({ cause: 'dropped', count: refused });
  expect(gap?.reason).toContain('was refused');
  expect(await verifyAudit(dir)).toMatchObject({ ok: true });
});

test('disk full, continue: appends go on, and the gap is recorded first, with count and times', async () => {
  const { dir, fill, free, more } = fillable();
  const log = await open(dir, { ...more, onFailure: 'continue', probeEvery: 60_000 });
  fill();
  for (let i = 0; i < 60; i++) await log.append(event(i, { reason: 'r'.repeat(900) }), 'durable');
  expect(log.health().ok).toBe(false);
  const kept = (await records(dir)).filter(({ action }) => action === 'git.fetch').length;
  free();
  await log.append(event('after'), 'durable');
  expect(log.health()).toEqual({ ok: true });
  const after = (await records(dir)).slice(kept + 1);
  expect(after.map(({ action }) => action)).toEqual(['audit.gap', 'git.fetch']);
  expect(after[0]?.gap).toMatchObject({ cause: 'dropped', count: 60 - kept });
  expect(Date.parse(after[0]?.gap?.first ?? '')).toBeLessThanOrEqual(Date.parse(after[0]?.gap?.last ?? ''));
  expect(after[0]?.reason).toContain('was done');
  expect(await verifyAudit(dir)).toMatchObject({ ok: true });
});

test('a write that fails half way is taken back at once, and also where even that fails at first', async () => {
  const dir = folder();
  const disk = faultyDisk();
  const log = await open(dir, { diskModule: disk.module });
  await log.append(event(1), 'written');
  const before = await lines(dir);
  disk.set({ write: 'ENOSPC', partial: 50 });
  await expect(log.append(event(2), 'written')).rejects.toMatchObject(UNAVAILABLE);
  expect(readFileSync(join(dir, segmentName(1)), 'utf8')).toBe(`${before.join('\n')}\n`);
  disk.set({ write: 'EIO', partial: 50, truncate: 'EIO' });
  await expect(log.append(event(3), 'written')).rejects.toMatchObject(UNAVAILABLE);
  disk.set({});
  await healthy(log);
  await log.append(event(4), 'durable');
  expect((await records(dir)).map(({ sessionId }) => sessionId)).toEqual([
    undefined,
    'sess_1',
    undefined,
    'sess_4',
  ]);
  expect(await verifyAudit(dir)).toMatchObject({ ok: true });
});

test.each(['refuse', 'continue'] as const)(
  'a disk that hangs is given up after a while, %s',
  async (onFailure) => {
    const dir = folder();
    const disk = faultyDisk();
    const log = await open(dir, { diskModule: disk.module, onFailure, patience: 1000, probeEvery: 20 });
    disk.set({ hang: 'write' });
    const stuck = log.append(event('stuck'), 'durable').catch((error: unknown) => error);
    await disk.hanging();
    const behind = log.append(event('behind'), 'written').catch((error: unknown) => error);
    const answers = await Promise.all([stuck, behind]);
    // Now that it is known, nobody waits for it any more.
    answers.push(await log.append(event('at once'), 'written').catch((error: unknown) => error));
    for (const answer of answers)
      if (onFailure === 'refuse') expect(answer).toMatchObject(UNAVAILABLE);
      else expect(answer).toBeUndefined();
    expect(log.health()).toEqual({ ok: false, reason: 'the disk does not answer' });
    disk.set({});
    await healthy(log);
    await log.append(event('after'), 'durable');
    await vi.waitFor(async () => expect(await gaps(dir)).not.toEqual([]));
    const all = await records(dir);
    expect(all.map(({ sessionId }) => sessionId)).not.toContain('sess_behind');
    const found = all.flatMap(({ gap }) => (gap ? [[gap.cause, gap.count]] : []));
    // The first was written in the end; where its caller was refused, that is on record too.
    expect(all.map(({ sessionId }) => sessionId)).toContain('sess_stuck');
    expect(found).toEqual(
      onFailure === 'refuse'
        ? [
            ['dropped', 2],
            ['late', 1],
          ]
        : [['dropped', 2]],
    );
    expect(await verifyAudit(dir)).toMatchObject({ ok: true });
  },
);

test('an fsync that hangs stops what has to be durable, and only that', async () => {
  const dir = folder();
  const disk = faultyDisk();
  const log = await open(dir, { diskModule: disk.module, patience: 1000, probeEvery: 20 });
  disk.set({ hang: 'sync' });
  const written = log.append(event('read'), 'written');
  await expect(log.append(event('push'), 'durable')).rejects.toMatchObject(UNAVAILABLE);
  await written;
  expect(log.health().ok).toBe(false);
  await expect(log.append(event('push 2'), 'durable')).rejects.toMatchObject(UNAVAILABLE);
  await log.append(event('read 2'), 'written');
  disk.set({});
  await healthy(log);
  await log.append(event('push 3'), 'durable');
  expect((await gaps(dir)).flatMap(({ gap }) => (gap ? [gap.cause] : [])).sort()).toEqual([
    'dropped',
    'late',
  ]);
  expect(await verifyAudit(dir)).toMatchObject({ ok: true });
});

test('an fsync that fails is not believed a second time: a new segment is begun', async () => {
  const dir = folder();
  const disk = faultyDisk();
  const log = await open(dir, { diskModule: disk.module });
  await log.append(event(1), 'durable');
  disk.set({ sync: 'EIO' });
  await expect(log.append(event(2), 'durable')).rejects.toMatchObject(UNAVAILABLE);
  expect(log.health().reason).toContain('EIO');
  disk.set({});
  await healthy(log);
  await log.append(event(3), 'durable');
  expect(
    readdirSync(dir).filter((name) => name.endsWith('.jsonl') && name.startsWith('0')).length,
  ).toBeGreaterThan(1);
  expect(await verifyAudit(dir)).toMatchObject({ ok: true });
});

test('with syncReads a read waits for the disk like a push', async () => {
  const dir = folder();
  const disk = faultyDisk();
  const log = await open(dir, { diskModule: disk.module, syncReads: true });
  disk.set({ sync: 'EIO' });
  await expect(log.append(event(1), 'written')).rejects.toMatchObject(UNAVAILABLE);
});

const DISTURBANCES: { [name: string]: (path: string) => void } = {
  deleted: (path) => rmSync(path),
  'replaced by another file': (path) => {
    renameSync(path, `${path}.moved`);
    writeFileSync(path, 'something else\n');
  },
  'replaced by a link to a full device': (path) => {
    rmSync(path);
    symlinkSync('/dev/full', path);
  },
  'replaced by a pipe that nobody reads': (path) => {
    rmSync(path);
    spawnSync('mkfifo', [path]);
  },
  'replaced by a folder': (path) => {
    rmSync(path);
    mkdirSync(path);
  },
  'cut short': (path) => truncateSync(path, 10),
  'written to by something else': (path) => appendFileSync(path, '{"forged":true}\n'),
};

test.each(Object.entries(DISTURBANCES))(
  'a segment in use that is %s: a new one, with a record that says so',
  async (_name, disturb) => {
    const dir = folder();
    const log = await open(dir);
    for (let i = 1; i <= 3; i++) await log.append(event(i), 'durable');
    const path = join(dir, segmentName(1));
    const kept = readFileSync(path, 'utf8');
    disturb(path);
    await log.append(event(4), 'durable');
    expect(log.health()).toEqual({ ok: true });
    const fresh = readFileSync(join(dir, segmentName(5)), 'utf8')
      .trimEnd()
      .split('\n');
    const [gap, next] = fresh.map((line) => JSON.parse(line) as AuditRecord);
    expect(gap).toMatchObject({ seq: 5, action: 'audit.gap', gap: { cause: 'file_replaced', lastSeq: 4 } });
    expect(next).toMatchObject({ seq: 6, sessionId: 'sess_4' });
    await log.close();
    expect((await verifyAudit(dir)).ok).toBe(false);
    // With the lost file put back, the chain is whole: nothing was numbered twice.
    rmSync(path, { recursive: true, force: true });
    writeFileSync(path, kept);
    expect(await verifyAudit(dir)).toMatchObject({ ok: true });
  },
);

test('the folder removed while open is made again, with its key', async () => {
  const dir = join(folder(), 'audit');
  const log = await open(dir);
  await log.append(event(1), 'durable');
  rmSync(dir, { recursive: true });
  await log.append(event(2), 'durable');
  await log.close();
  expect(readdirSync(dir).sort()).toEqual([segmentName(3), 'checkpoint-key.pem', 'checkpoints.jsonl']);
  expect((await verifyAudit(dir)).break).toMatchObject({ kind: 'missing_segment', seq: 1 });
});

test('the folder missing at the start is made; where it cannot be made, it is tried until it can', async () => {
  const base = folder();
  const log = await open(join(base, 'a', 'b', 'audit'));
  await log.append(event(1), 'durable');
  expect(statSync(join(base, 'a', 'b', 'audit')).mode & 0o777).toBe(0o700);

  const dir = join(base, 'blocked', 'audit');
  writeFileSync(dirname(dir), 'a file where a folder belongs');
  const blocked = await open(dir);
  expect(blocked.health().ok).toBe(false);
  await expect(blocked.append(event(1), 'written')).rejects.toMatchObject(UNAVAILABLE);
  rmSync(dirname(dir));
  await healthy(blocked);
  await blocked.append(event(2), 'durable');
  const all = await records(dir);
  expect(all.map(({ action }) => action)).toEqual(['audit.started', 'audit.gap', 'git.fetch']);
  expect(await verifyAudit(dir)).toMatchObject({ ok: true });
});

test('something that stands in the way of a new segment is moved aside, not followed', async () => {
  const dir = folder();
  symlinkSync('/dev/full', join(dir, segmentName(1)));
  const log = await open(dir);
  await log.append(event(1), 'durable');
  expect(log.health()).toEqual({ ok: true });
  expect(readdirSync(dir).some((name) => name.includes('.aside-'))).toBe(true);
});

test('a writer that dies is started again, and the chain goes on', async () => {
  const dir = folder();
  const disk = faultyDisk();
  const log = await open(dir, { diskModule: disk.module });
  await log.append(event(1), 'durable');
  disk.set({ crash: true });
  await expect(log.append(event(2), 'written')).rejects.toMatchObject(UNAVAILABLE);
  disk.set({});
  await healthy(log);
  await log.append(event(3), 'durable');
  const all = await records(dir);
  expect(all.map(({ action }) => action)).toEqual([
    'audit.started',
    'git.fetch',
    'audit.started',
    'audit.gap',
    'git.fetch',
  ]);
  expect(await verifyAudit(dir)).toMatchObject({ ok: true });
});

test('closing does not wait for a disk that hangs, and says what is not on record', async () => {
  const dir = folder();
  const disk = faultyDisk();
  const said: string[] = [];
  const say = (_fields: object, message: string) => void said.push(message);
  const log = await open(dir, {
    diskModule: disk.module,
    patience: 100,
    log: { debug: say, info: say, warn: say, error: say },
  });
  disk.set({ hang: 'write' });
  const refused = expect(log.append(event(1), 'written')).rejects.toMatchObject(UNAVAILABLE);
  await disk.hanging();
  await log.close();
  await refused;
  expect(said).toContain('The audit trail was closed with a gap that is not on record');
  await expect(log.append(event(2), 'written')).rejects.toMatchObject(UNAVAILABLE);
  disk.set({});
});

test('files are for their owner alone; a folder that others can write to is told of', async () => {
  const dir = folder();
  chmodSync(dir, 0o777);
  const said: string[] = [];
  const say = (_fields: object, message: string) => void said.push(message);
  const log = await open(dir, { log: { debug: say, info: say, warn: say, error: say } });
  await log.append(event(1), 'written');
  expect(said.join()).toContain('can be written to by others');
  for (const name of readdirSync(dir)) expect(statSync(join(dir, name)).mode & 0o777, name).toBe(0o600);
});
