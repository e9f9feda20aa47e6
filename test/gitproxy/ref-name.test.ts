import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isPushableRef, showRef } from '../../gitproxy/ref-name.ts';

const latin1 = (text: string): string => Buffer.from(text).toString('latin1');

describe('ref names', () => {
  test.each([
    'refs/heads/main',
    'refs/heads/agent/1',
    'refs/tags/v1.0',
    'refs/heads/a.b',
    'refs/heads/foo./bar',
    'refs/heads/-x',
    'refs/heads/@',
    'refs/heads/a@b',
    'refs/heads/über',
    'refs/heads/lock',
    'refs/for/main',
  ])('%s may be pushed', (ref) => {
    expect(isPushableRef(latin1(ref))).toBe(true);
  });

  test.each([
    'HEAD',
    'main',
    'heads/main',
    'refs',
    'refs/',
    'refs/x',
    'refs/heads',
    'refs/heads/',
    'Refs/heads/x',
    'refs/heads/../x',
    'refs/heads/a..b',
    'refs/heads/.x',
    'refs/heads/x.lock',
    'refs/heads/x.lock/y',
    'refs/heads//x',
    'refs/heads/x/',
    'refs/heads/x.',
    'refs/heads/a b',
    'refs/heads/a~b',
    'refs/heads/a^b',
    'refs/heads/a:b',
    'refs/heads/a?b',
    'refs/heads/a*b',
    'refs/heads/a[b',
    'refs/heads/a\\b',
    'refs/heads/a@{b',
    'refs/heads/a\nb',
    'refs/heads/a\tb',
    'refs/heads/a\x7fb',
    'refs/heads/a\0b',
    `refs/heads/${'x'.repeat(1_000)}`,
  ])('%j may not', (ref) => {
    expect(isPushableRef(ref)).toBe(false);
  });

  test('that are not UTF-8 may not: a record could not show them', () => {
    expect(isPushableRef('refs/heads/\xff')).toBe(false);
    expect(isPushableRef('refs/heads/\xc0\xaf')).toBe(false);
    expect(showRef(latin1('refs/heads/über'))).toBe('refs/heads/über');
  });

  test('that are admitted are admitted by git', () => {
    const piece = fc.oneof(
      fc.constantFrom('a', '.', '..', '.lock', '@', '@{', '~', '*', '-', 'ü', ' ', '\\', '/', 'x', '^'),
      fc.string({ maxLength: 3 }),
    );
    const admitted = new Set<string>();
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 6 }), (pieces) => {
        const ref = `refs/heads/${pieces.join('')}`;
        if (isPushableRef(latin1(ref))) admitted.add(ref);
      }),
      { numRuns: 1_500 },
    );
    for (const ref of [...admitted].slice(0, 150)) execFileSync('git', ['check-ref-format', ref]);
    expect(admitted.size).toBeGreaterThan(50);
  });
});
