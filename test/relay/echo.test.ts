import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createEchoScan, needlesOf } from '../../relay/echo.ts';

const token = 'ghp_Tq7uW0yZr3cVb9nXk2mLs8dFg5hJ1pQa4eRt';
const needles = needlesOf([token, Buffer.from(`x-access-token:${token}`).toString('base64')]);

/** What left before it was found (or everything), and whether it was. */
function run(chunks: readonly Buffer[], wanted = needles): { out: string; found: boolean } {
  const scan = createEchoScan(wanted);
  let out = '';
  for (const chunk of chunks) {
    const passed = scan.push(chunk);
    if (!passed) return { out, found: true };
    out += passed.toString('latin1');
  }
  return { out: out + scan.end().toString('latin1'), found: false };
}

function split(text: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [0, ...cuts.map((cut) => cut % (text.length + 1)).sort((a, b) => a - b), text.length];
  return at.slice(1).map((end, i) => text.subarray(at[i], end));
}

const cuts = fc.array(fc.nat(), { maxLength: 12 });

describe('the credential in an answer', () => {
  test.each(needles.texts.map((needle) => [needle]))('is found at every split in two: %s', (needle) => {
    const text = Buffer.from(`before ${needle} after`);
    for (let cut = 0; cut <= text.length; cut++) {
      const { found, out } = run([text.subarray(0, cut), text.subarray(cut)]);
      expect(found).toBe(true);
      expect(out.length).toBeLessThanOrEqual('before '.length + 7);
    }
  });

  test('is found however it is split, and at most seven characters of it have left', () => {
    fc.assert(
      fc.property(fc.string(), fc.nat(1), fc.string(), cuts, (before, which, after, at) => {
        const needle = needles.texts[which] as string;
        const { found, out } = run(split(Buffer.from(before + needle + after), at));
        expect(found).toBe(true);
        expect(out).not.toContain(needle.slice(0, 8));
      }),
    );
  });

  test('is found byte by byte', () => {
    expect(run([...Buffer.from(`a${token}`)].map((byte) => Buffer.from([byte]))).found).toBe(true);
  });
});

describe('an answer without it', () => {
  test('passes unchanged, however it is split, also when it begins like the credential', () => {
    const almost = fc.oneof(
      fc.string(),
      fc.nat(token.length - 1).map((length) => token.slice(0, length)),
      fc.constant(`${token.slice(0, 20)}ghp_`),
    );
    fc.assert(
      fc.property(fc.array(almost), cuts, (parts, at) => {
        const text = Buffer.from(parts.join('|'));
        expect(run(split(text, at))).toEqual({ out: text.toString('latin1'), found: false });
      }),
    );
  });

  test('is not delayed: what cannot be the credential leaves with its chunk', () => {
    const scan = createEchoScan(needles);
    expect(scan.push(Buffer.from('an event\n'))?.toString()).toBe('an event\n');
    expect(scan.push(Buffer.from('ends like ghp_'))?.toString()).toBe('ends like ghp_');
  });

  test('with nothing to look for is left alone', () => {
    const chunk = Buffer.from('x');
    expect(createEchoScan(needlesOf([])).push(chunk)).toBe(chunk);
    expect(createEchoScan(needlesOf(['short'])).push(chunk)).toBe(chunk);
  });
});
