import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AuditEvent, AuditRecord } from '../../audit/event.ts';
import { encodeEvent, LIMITS, RECORD_FIELDS } from '../../audit/record.ts';
import { GENESIS, readLink, sealLine } from '../../audit/seal.ts';
import { canonicalJson } from '../../common/json.ts';
import { createRedactor } from '../../common/redact.ts';
import { folder } from './support/trail.ts';

const TIME = '2026-01-01T00:00:00.000Z';
const redactor = createRedactor();

function lineOf(event: AuditEvent, by = redactor): string {
  return sealLine(encodeEvent(event, TIME, by), GENESIS).line.trimEnd();
}

function recordOf(event: AuditEvent, by = redactor): AuditRecord {
  return JSON.parse(lineOf(event, by)) as AuditRecord;
}

/** Whatever a stranger can put into a text, the characters that JSON printers differ on among them. */
const text = fc.string({
  unit: fc.oneof(
    fc.constantFrom(
      '\x00',
      '\x01',
      '\b',
      '\f',
      '\n',
      '\r',
      '\t',
      '\x1f',
      '"',
      '\\',
      '/',
      '\x7f',
      '\x80',
      '\x9f',
    ),
    fc.constantFrom(
      '\u2028',
      '\u2029',
      '\ufeff',
      '\ufffe',
      '\uffff',
      '\ud800',
      '\udc00',
      '😀',
      'é',
      '漢',
      '</script>',
    ),
    fc.string({ minLength: 1, maxLength: 3 }),
  ),
  maxLength: 30,
});
const number = fc.oneof(fc.double(), fc.integer(), fc.constantFrom(-0, 1e21, 1e-7, 0.1, 2 ** 53, Number.NaN));
const ref = fc.record({
  ref: text,
  op: fc.constantFrom('create' as const, 'update' as const, 'delete' as const),
  old: text,
  new: text,
  reason: text,
});
const someEvent: fc.Arbitrary<AuditEvent> = fc.record(
  {
    action: fc.constantFrom('git.fetch' as const, 'kube.request_allowed' as const),
    decision: fc.constantFrom('allow' as const, 'deny' as const),
    actor: text,
    leaseId: text,
    reason: text,
    userAgent: text,
    repo: text,
    verb: text,
    constraints: text,
    bytesUp: number,
    durationMs: number,
    refs: fc.array(ref, { maxLength: 3 }),
    command: fc.array(text, { maxLength: 5 }),
  },
  { requiredKeys: ['action', 'decision'] },
);

test('jq and sha256sum reproduce the hash of every record', () => {
  const dir = folder();
  let tail = GENESIS;
  const lines: string[] = [];
  fc.assert(
    fc.property(someEvent, (event) => {
      const sealed = sealLine(encodeEvent(event, TIME, redactor), tail);
      tail = sealed.tail;
      lines.push(sealed.line);
    }),
    { numRuns: 400 },
  );
  const path = join(dir, 'chain.jsonl');
  writeFileSync(path, lines.join(''));
  const printed = execFileSync('jq', ['-cS', 'del(.hash)', path], { encoding: 'utf8', maxBuffer: 1 << 28 });
  const hashes = printed
    .trimEnd()
    .split('\n')
    .map((line) => createHash('sha256').update(line).digest('hex'));
  expect(hashes).toEqual(lines.map((line) => (JSON.parse(line) as AuditRecord).hash));
});

test('the line is the canonical JSON with the hash as last member, and reads back to its links', () => {
  fc.assert(
    fc.property(someEvent, (event) => {
      const line = lineOf(event);
      const { hash, ...rest } = JSON.parse(line) as AuditRecord;
      expect(line).toBe(`${canonicalJson(rest).slice(0, -1)},"hash":"${hash}"}`);
      expect(readLink(Buffer.from(line))).toEqual({
        seq: 1,
        prev: GENESIS.hash,
        time: TIME,
        hash,
        intact: true,
      });
    }),
  );
});

test('every field of an event reaches the record under its name, absent ones are left out', () => {
  const event: AuditEvent = {
    action: 'git.push_denied',
    decision: 'deny',
    code: 'ref_not_allowed',
    refs: [
      {
        ref: 'refs/heads/main',
        op: 'update',
        old: 'a'.repeat(40),
        new: 'b'.repeat(40),
        result: 'ng',
        reason: 'no',
      },
    ],
    status: 200,
    durationMs: 12.6,
    gap: { cause: 'dropped', count: 3, first: TIME, last: TIME },
  };
  const { hash: _hash, ...record } = recordOf(event);
  expect(record).toEqual({ ...event, durationMs: 13, v: 1, seq: 1, time: TIME, prev: GENESIS.hash });
  expect(RECORD_FIELDS).toContain('refsOmitted');
});

test('no record holds a credential, in whatever field it came', () => {
  const secret = 'kx7Qp2-vault.Entry/88+tail"q';
  const guarded = createRedactor();
  guarded.add(secret);
  const strings = RECORD_FIELDS.filter(
    (name) => !['v', 'seq', 'time', 'prev', 'hash', 'gap', 'anchor'].includes(name),
  );
  for (const name of strings) {
    if (['action', 'decision', 'code', 'guard', 'refs', 'command'].includes(name)) continue;
    const line = lineOf({ action: 'git.fetch', decision: 'allow', [name]: `a ${secret} b` }, guarded);
    expect(line, name).not.toContain('vault.Entry/');
  }
  const line = lineOf(
    {
      action: 'git.push_denied',
      decision: 'deny',
      refs: [{ ref: `refs/heads/${secret}`, op: 'create', old: secret, new: secret, reason: secret }],
      command: ['curl', '-u', secret, '--password', 'other', `x${secret}y`],
      userAgent: 'git/2 (token=abcdef)',
    },
    guarded,
  );
  expect(line).not.toContain('vault.Entry/');
  expect(line).not.toContain('other');
  expect(line).not.toContain('abcdef');
});

test('a credential that the limit cuts through leaves nothing of itself', () => {
  const secret = 'kx7Qp2-vault.Entry/88+tail';
  const guarded = createRedactor();
  guarded.add(secret);
  for (let before = LIMITS.userAgent - 40; before < LIMITS.userAgent + 5; before++) {
    const { userAgent = '' } = recordOf(
      { action: 'git.fetch', decision: 'allow', userAgent: 'u'.repeat(before) + secret + 'z'.repeat(9000) },
      guarded,
    );
    expect(userAgent).not.toMatch(/kx7Qp2|tail/);
  }
});

test('long texts are cut with a mark, and many arguments or refs too', () => {
  const refs = Array.from({ length: 5000 }, (_, i) => ({
    ref: `refs/heads/b${i}`,
    op: 'create' as const,
    old: '0'.repeat(40),
    new: '1'.repeat(40),
  }));
  const record = recordOf({
    action: 'git.push_denied',
    decision: 'deny',
    userAgent: 'a'.repeat(1_000_000),
    reason: 'b'.repeat(2000),
    command: ['sh', '-c', 'c'.repeat(10_000), 'd', 'e'],
    refs,
  });
  expect(record.userAgent).toBe(`${'a'.repeat(256)}…[+999744]`);
  expect(record.reason).toBe(`${'b'.repeat(1024)}…[+976]`);
  expect(record.command?.at(-1)).toBe('…[+2 arguments]');
  expect(JSON.stringify(record.command).length).toBeLessThan(4200);
  expect(record.refs).toHaveLength(LIMITS.refs);
  expect(record.refsOmitted).toBe(5000 - LIMITS.refs);
});

test('time never runs backward in a chain', () => {
  const first = sealLine(encodeEvent({ action: 'git.fetch', decision: 'allow' }, TIME, undefined), GENESIS);
  const second = sealLine(
    encodeEvent({ action: 'git.fetch', decision: 'allow' }, '2025-01-01T00:00:00.000Z', undefined),
    first.tail,
  );
  expect(second.tail.time).toBe(TIME);
});

test('a record of refs stays under 1 MiB, whatever their names are made of, and says how many it left out', () => {
  for (const name of ['\x01'.repeat(900), '\ufffd'.repeat(1000), '"'.repeat(1000)]) {
    const refs = Array.from({ length: 1000 }, () => ({
      ref: name,
      op: 'create' as const,
      old: '0'.repeat(64),
      new: '1'.repeat(64),
      result: 'ng' as const,
      reason: 'x'.repeat(300),
    }));
    const line = lineOf({ action: 'git.push_denied', decision: 'deny', refs });
    expect(Buffer.byteLength(line)).toBeLessThan(1024 * 1024);
    const record = JSON.parse(line) as AuditRecord;
    expect((record.refs?.length ?? 0) + (record.refsOmitted ?? 0)).toBe(1000);
    expect(record.refs?.length).toBeGreaterThan(100);
  }
});

test('a thousand refs of the length that people give them are all there', () => {
  const refs = Array.from({ length: 1000 }, (_, i) => ({
    ref: `refs/heads/agent/${'feature'.repeat(20)}/${i}`,
    op: 'update' as const,
    old: '0'.repeat(64),
    new: '1'.repeat(64),
    result: 'ng' as const,
    reason: 'refused as a whole: another ref was (ref_not_allowed)',
  }));
  const record = recordOf({ action: 'git.push_denied', decision: 'deny', refs });
  expect(record.refs).toHaveLength(1000);
  expect(record.refsOmitted).toBeUndefined();
});

test('the options of a push are there by name, redacted and bounded', () => {
  const pushOptions = [
    'ci.skip',
    `ghp_${'a1B2'.repeat(9)}`,
    ...Array.from({ length: 40 }, () => 'x'.repeat(200)),
  ];
  const record = recordOf({ action: 'git.push_denied', decision: 'deny', pushOptions });
  expect(record.pushOptions?.[0]).toBe('ci.skip');
  expect(JSON.stringify(record)).not.toContain('a1B2a1B2');
  expect(JSON.stringify(record.pushOptions).length).toBeLessThan(4500);
});
