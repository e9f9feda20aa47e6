import { generateKeyPairSync } from 'node:crypto';
import { appendFileSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CHECKPOINTS, PUBLIC_KEY, signStatement } from '../../audit/checkpoint.ts';
import type { AuditRecord } from '../../audit/event.ts';
import { segmentName } from '../../audit/segments.ts';
import { type BreakKind, verifyAudit } from '../../audit/verify.ts';
import { event, folder, sealed, signer, testSigner, writeChain } from './support/trail.ts';

const COUNT = 24;
const PER = 8;

/** Puts lines back into the segments of a chain that was written with `writeChain(dir, COUNT, PER)`. */
function rewrite(dir: string, change: (segments: string[][]) => void): void {
  const names = [1, 1 + PER, 1 + 2 * PER].map((seq) => join(dir, segmentName(seq)));
  const segments = names.map((path) => readFileSync(path, 'utf8').trimEnd().split('\n'));
  change(segments);
  for (const [i, path] of names.entries()) {
    const lines = segments[i] ?? [];
    writeFileSync(path, lines.length > 0 ? `${lines.join('\n')}\n` : '');
  }
}

/** A record with other content and a hash that is right for it. */
function forged(line: string, reason: string): string {
  const { seq, time, prev } = JSON.parse(line) as AuditRecord;
  return sealed([event('forged', { reason })], { seq: seq - 1, hash: prev, time })[0] ?? '';
}

const place = fc.integer({ min: 1, max: COUNT });

/** Where record `seq` stands: index of its segment and in it. */
const at = (seq: number): [number, number] => [Math.floor((seq - 1) / PER), (seq - 1) % PER];
const where = (seq: number) => ({ file: segmentName(1 + PER * at(seq)[0]), line: at(seq)[1] + 1 });

test('a whole chain verifies, segment after segment', async () => {
  const dir = folder();
  writeChain(dir, COUNT, PER);
  expect(await verifyAudit(dir)).toEqual({
    ok: true,
    records: COUNT,
    first: 1,
    last: COUNT,
    checkpoints: 1,
    signedUpTo: COUNT,
  });
});

interface Attack {
  readonly kind: BreakKind;
  /** Changes the segments and says which record and which line must be named. */
  apply(segments: string[][], seq: number, other: number): { seq: number; file?: string; line?: number };
}

const line = (segments: string[][], seq: number): string => segments[at(seq)[0]]?.[at(seq)[1]] ?? '';
const set = (segments: string[][], seq: number, text: string): void => {
  const segment = segments[at(seq)[0]];
  if (segment) segment[at(seq)[1]] = text;
};
const cut = (segments: string[][], seq: number): string =>
  segments[at(seq)[0]]?.splice(at(seq)[1], 1)[0] ?? '';
const insert = (segments: string[][], seq: number, text: string): void =>
  void segments[at(seq)[0]]?.splice(at(seq)[1], 0, text);

const ATTACKS: { [name: string]: Attack } = {
  'one byte changed': {
    kind: 'changed',
    apply(segments, seq) {
      set(segments, seq, line(segments, seq).replace('acme/tool', 'acme/fool'));
      return { seq, ...where(seq) };
    },
  },
  'a member taken out': {
    kind: 'changed',
    apply(segments, seq) {
      set(segments, seq, line(segments, seq).replace('"repo":"acme/tool",', ''));
      return { seq, ...where(seq) };
    },
  },
  'the line blanked': {
    kind: 'changed',
    apply(segments, seq) {
      set(segments, seq, '{}');
      return { seq, ...where(seq) };
    },
  },
  'content changed and the hash made right': {
    kind: 'changed',
    apply(segments, seq) {
      // Of the last record only the checkpoint can tell.
      const target = Math.min(seq, COUNT - 1);
      set(segments, target, forged(line(segments, target), 'another story'));
      return { seq: target, ...where(target) };
    },
  },
  'a record removed': {
    kind: 'removed',
    apply(segments, seq) {
      // At the end of a segment it could as well be a segment that is missing, and at the end of all a cut tail.
      const target = at(seq)[1] === PER - 1 ? seq - 1 : seq;
      cut(segments, target);
      return { seq: target };
    },
  },
  'a forged record put in with the right links': {
    kind: 'added',
    apply(segments, seq) {
      const target = Math.min(seq, COUNT - 1);
      insert(segments, target, forged(line(segments, target), 'never happened'));
      return { seq: target, ...where(target) };
    },
  },
  'a copy of an earlier record put in': {
    kind: 'added',
    apply(segments, seq, other) {
      const [early, late] = [Math.min(seq, other), Math.max(seq, other)];
      insert(segments, late, line(segments, Math.max(1, early - 1)));
      return { seq: late === 1 ? 1 : Math.max(1, early - 1) };
    },
  },
  'a line of something else put in': {
    kind: 'added',
    apply(segments, seq) {
      insert(segments, seq, 'never happened');
      return { seq, ...where(seq) };
    },
  },
  'two records swapped': {
    kind: 'moved',
    apply(segments, seq, other) {
      const first = Math.min(seq, other, COUNT - 1);
      const second = Math.max(seq, other) === first ? first + 1 : Math.max(seq, other);
      const [one, two] = [line(segments, first), line(segments, second)];
      set(segments, first, two);
      set(segments, second, one);
      // Neighbours that are swapped are the later one moved.
      return { seq: second === first + 1 ? second : first, ...where(first) };
    },
  },
  'a record moved back': {
    kind: 'moved',
    apply(segments, seq, other) {
      const first = Math.min(seq, other, COUNT - 2);
      const second = Math.max(seq, other, first + 2);
      const moved = cut(segments, second);
      insert(segments, first, moved);
      return { seq: second, ...where(first) };
    },
  },
};

test.each(Object.entries(ATTACKS))('found, with its place: %s', async (_name, { kind, apply }) => {
  const dir = folder();
  const original = writeChain(dir, COUNT, PER);
  await fc.assert(
    fc.asyncProperty(place, place, async (seq, other) => {
      for (let i = 0; i < COUNT; i += PER)
        writeFileSync(join(dir, segmentName(i + 1)), `${original.slice(i, i + PER).join('\n')}\n`);
      let expected: object = {};
      rewrite(dir, (segments) => {
        expected = apply(segments, seq, other);
      });
      const result = await verifyAudit(dir);
      expect(result.ok).toBe(false);
      expect(result.break).toMatchObject({ kind, ...expected });
    }),
    { numRuns: 40 },
  );
});

test('any edit of any byte is found', async () => {
  const dir = folder();
  writeChain(dir, COUNT, PER);
  const path = join(dir, segmentName(1 + PER));
  const whole = readFileSync(path);
  await fc.assert(
    fc.asyncProperty(fc.nat(whole.length - 1), fc.integer({ min: 1, max: 255 }), async (index, flip) => {
      const bytes = Buffer.from(whole);
      bytes[index] = (bytes[index] ?? 0) ^ flip;
      writeFileSync(path, bytes);
      const { ok, break: found } = await verifyAudit(dir);
      expect(ok).toBe(false);
      const line = whole.subarray(0, index).toString('latin1').split('\n').length;
      // The newline belongs to both of the lines that it parts.
      expect(Math.abs((found?.line ?? 0) - line)).toBeLessThanOrEqual(1);
      expect(found?.file).toBe(segmentName(1 + PER));
    }),
    { numRuns: 150 },
  );
});

test('a cut tail is found by the checkpoint, wherever it was cut', async () => {
  for (const left of [0, 1, PER - 1, PER, PER + 1, COUNT - 1]) {
    const dir = folder();
    writeChain(dir, COUNT, PER);
    rewrite(dir, (segments) => {
      for (const [i, segment] of segments.entries()) segment.splice(Math.max(0, left - i * PER));
    });
    const result = await verifyAudit(dir);
    expect(result).toMatchObject({ ok: false, records: left, break: { kind: 'tail_cut', seq: left + 1 } });
  }
});

test('a tail cut in the middle of a record is torn', async () => {
  const dir = folder();
  writeChain(dir, COUNT, PER);
  const path = join(dir, segmentName(1 + 2 * PER));
  truncateSync(path, readFileSync(path).length - 20);
  expect((await verifyAudit(dir)).break).toMatchObject({ kind: 'torn', seq: COUNT, line: PER });
});

test('a last record that lost only its newline is torn: whoever appends would join two records', async () => {
  const dir = folder();
  writeChain(dir, COUNT, PER);
  const path = join(dir, segmentName(1 + 2 * PER));
  truncateSync(path, readFileSync(path).length - 1);
  expect((await verifyAudit(dir)).break).toMatchObject({ kind: 'torn', seq: COUNT, line: PER });
});

test('a number left out is found, though every record names the one before it', async () => {
  const dir = folder();
  const first = sealed([event(1), event(2)]);
  const { hash, time } = JSON.parse(first[1] ?? '') as AuditRecord;
  const rest = sealed([event(4), event(5)], { seq: 3, hash, time });
  writeFileSync(join(dir, segmentName(1)), `${[...first, ...rest].join('\n')}\n`);
  expect(await verifyAudit(dir)).toMatchObject({ ok: false, records: 2, break: { kind: 'removed', seq: 3 } });
});

test.each([1, 1 + PER])('a whole segment that is gone is named (records from %i)', async (seq) => {
  const dir = folder();
  writeChain(dir, COUNT, PER);
  rmSync(join(dir, segmentName(seq)));
  const file = segmentName(seq + PER);
  expect((await verifyAudit(dir)).break).toMatchObject({ kind: 'missing_segment', seq, file, line: 1 });
});

test('a chain rewritten to its end, every hash right, is not the one that was signed for', async () => {
  const dir = folder();
  const original = writeChain(dir, COUNT, COUNT);
  const story = sealed(original.map((_, i) => event(i + 1, { reason: 'another story' })));
  writeFileSync(join(dir, segmentName(1)), `${story.join('\n')}\n`);
  expect((await verifyAudit(dir)).break).toMatchObject({ kind: 'rewritten', seq: COUNT, line: COUNT });
});

test.each([
  ['another hash in it', (text: string) => text.replace(/"hash":"./, '"hash":"_')],
  ['another seq in it', (text: string) => text.replace(`"seq":${COUNT}`, '"seq":3')],
  ['another signature', (text: string) => text.replace(/"sig":"..../, '"sig":"AAAA')],
  ['something else on its line', () => 'x\n'],
])('a checkpoint that cannot be trusted is named: %s', async (_name, change) => {
  const dir = folder();
  writeChain(dir, COUNT, PER);
  const path = join(dir, CHECKPOINTS);
  writeFileSync(path, change(readFileSync(path, 'utf8')));
  expect((await verifyAudit(dir)).break).toMatchObject({
    kind: 'bad_checkpoint',
    file: CHECKPOINTS,
    line: 1,
  });
});

test('a checkpoint by another key is refused, also when that key lies in the folder and ours was kept elsewhere', async () => {
  const dir = folder();
  const original = writeChain(dir, COUNT, PER);
  const thief = testSigner();
  const last = JSON.parse(original.at(-1) ?? '') as AuditRecord;
  const statement = { kind: 'postern.audit.checkpoint', seq: last.seq, hash: last.hash } as const;
  writeFileSync(join(dir, CHECKPOINTS), `${signStatement(statement, last.time, thief)}\n`);
  expect((await verifyAudit(dir)).break?.kind).toBe('bad_checkpoint');
  writeFileSync(join(dir, PUBLIC_KEY), thief.publicKeyPem);
  expect((await verifyAudit(dir)).ok).toBe(true);
  expect((await verifyAudit(dir, { publicKey: signer.publicKeyPem })).break?.kind).toBe('bad_checkpoint');
});

test('a checkpoint kept elsewhere finds what was cut together with the checkpoints', async () => {
  const dir = folder();
  writeChain(dir, COUNT, PER);
  const kept = readFileSync(join(dir, CHECKPOINTS), 'utf8').trimEnd();
  rmSync(join(dir, CHECKPOINTS));
  rmSync(join(dir, segmentName(1 + 2 * PER)));
  expect((await verifyAudit(dir)).ok).toBe(true);
  const result = await verifyAudit(dir, { checkpoints: [kept] });
  expect(result.break).toMatchObject({ kind: 'tail_cut', seq: 1 + 2 * PER });
});

test('an anchor stands for what retention removed, and for nothing more', async () => {
  const dir = folder();
  const original = writeChain(dir, COUNT, PER);
  const anchor = JSON.parse(original[PER - 1] ?? '') as AuditRecord;
  const statement = { kind: 'postern.audit.anchor', seq: PER, hash: anchor.hash } as const;
  appendFileSync(join(dir, CHECKPOINTS), `${signStatement(statement, anchor.time, signer)}\n`);
  // Killed before the removal: there is more than the anchor needs.
  expect(await verifyAudit(dir)).toMatchObject({ ok: true, first: 1, records: COUNT });
  rmSync(join(dir, segmentName(1)));
  expect(await verifyAudit(dir)).toMatchObject({ ok: true, first: 1 + PER, records: COUNT - PER });
  rmSync(join(dir, segmentName(1 + PER)));
  expect((await verifyAudit(dir)).break).toMatchObject({ kind: 'missing_segment', seq: 1 + PER });
});

test('wrong input is told from a broken chain', async () => {
  const empty = folder();
  await expect(verifyAudit(empty)).rejects.toMatchObject({ code: 'not_found' });
  await expect(verifyAudit(join(empty, 'nowhere'))).rejects.toMatchObject({ code: 'not_found' });
  const dir = folder();
  writeChain(dir, 2);
  await expect(verifyAudit(dir, { publicKey: 'x' })).rejects.toMatchObject({ code: 'invalid_input' });
  await expect(verifyAudit(dir, { checkpoints: ['{}'] })).rejects.toMatchObject({ code: 'invalid_input' });
  const rsa = generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' }).toString();
  expect((await verifyAudit(dir, { publicKey: rsa })).break?.kind).toBe('bad_checkpoint');
});
