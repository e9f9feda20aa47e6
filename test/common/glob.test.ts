import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PosternError } from '../../common/errors.ts';
import { compileGlob, isExact } from '../../common/glob.ts';

describe('what a glob matches', () => {
  it.each([
    ['acme/tool', 'acme/tool', true],
    ['acme/tool', 'acme/toolkit', false],
    ['acme/tool', 'xacme/tool', false],
    ['acme/*', 'acme/tool', true],
    ['acme/*', 'acme/.github', true],
    ['acme/*', 'acme', false],
    ['acme/*', 'acme/', false],
    ['acme/*', 'acme/a/b', false],
    ['acme/*', 'acme/..', false],
    ['*', 'acme/tool', false],
    ['*', '.', false],
    ['acme/tool-?', 'acme/tool-1', true],
    ['acme/tool-?', 'acme/tool-', false],
    ['acme/tool-?', 'acme/tool-/', false],
    ['acme/t[ao]ol', 'acme/tool', true],
    ['acme/t[ao]ol', 'acme/t[ao]ol', false],
    ['acme/t[!o]ol', 'acme/tool', false],
    ['acme/t[^a]ol', 'acme/tool', true],
    ['acme[!a]tool', 'acme/tool', false],
    ['v[0-9].*', 'v1.0', true],
    ['v[0-9].*', 'v10', false],
    ['a.c', 'abc', false],
    ['a+b@c', 'a+b@c', true],
    ['a+', 'aaa', false],
    ['*.lock', '.lock', true],
  ])('%s and %s: %s', (pattern, text, expected) => {
    expect(compileGlob(pattern)(text)).toBe(expected);
  });

  it.each([
    ['refs/heads/**', 'refs/heads/main', true],
    ['refs/heads/**', 'refs/heads/a/b/c', true],
    ['refs/heads/**', 'refs/heads', false],
    ['refs/heads/**', 'refs/heads/', false],
    ['refs/heads/**', 'refs/tags/main', false],
    ['refs/heads/**', 'refs/heads/../tags/x', false],
    ['refs/**/wip', 'refs/wip', true],
    ['refs/**/wip', 'refs/heads/a/wip', true],
    ['refs/**/wip', 'refs/heads/a/wip/b', false],
    ['**', 'anything/at/all', true],
    ['**/x', 'x', true],
    ['refs/heads/*/**', 'refs/heads/a', false],
    ['refs/heads/*/**', 'refs/heads/a/b', true],
    ['**/a/**/b', 'a/b/a/b', true],
    ['a/**/a', 'a', false],
  ])('with globstar, %s and %s: %s', (pattern, text, expected) => {
    expect(compileGlob(pattern, { globstar: true })(text)).toBe(expected);
  });

  it('folds ASCII case only where asked, and no look-alike', () => {
    expect(compileGlob('acme/tool')('ACME/Tool')).toBe(false);
    expect(compileGlob('Acme/t[a-o]*', { caseInsensitive: true })('ACME/TOOL')).toBe(true);
    expect(compileGlob('acme/kit', { caseInsensitive: true })('acme/\u212Ait')).toBe(false);
    expect(compileGlob('acme/s', { caseInsensitive: true })('acme/\u017F')).toBe(false);
  });

  it('knows a pattern that names one thing', () => {
    expect(['a/b', 'a/*', 'a?', '[a]'].map(isExact)).toEqual([true, false, false, false]);
  });
});

describe('patterns that would not mean what they say are refused by name', () => {
  it.each([
    '',
    'a/{b,c}',
    '@(a|b)',
    'a(b)',
    'a|b',
    '!a',
    'a/!b',
    'a\\b',
    'a"b',
    'a b',
    'a\nb',
    'a\0',
    'größe',
    '/a',
    'a/',
    'a//b',
    './a',
    'a/../b',
    '**',
    'a**',
    'a/**/b',
    '[',
    '[]',
    '[!]',
    'a]',
    '[[:alpha:]]',
    '[a/b]',
    '[a*]',
    '[z-a]',
    '[a-Z]',
    '$HOME',
    'a'.repeat(257),
  ])('%j', (pattern) => {
    expect(() => compileGlob(pattern, { key: 'repo' })).toThrow(PosternError);
    expect(() => compileGlob(pattern, { key: 'repo' })).toThrow(/^repo: the pattern ".* /);
  });

  it.each(['***', 'a**', '**a', 'refs/***', '**/'])('%j also with globstar', (pattern) => {
    expect(() => compileGlob(pattern, { globstar: true })).toThrow(PosternError);
  });
});

// The reference: the definition, tried out in every way, one character or one segment at a time.
function naiveSegment(pattern: string, text: string): boolean {
  if (pattern === '') return text === '';
  if (pattern[0] === '*')
    return naiveSegment(pattern.slice(1), text) || (text !== '' && naiveSegment(pattern, text.slice(1)));
  if (text === '') return false;
  if (pattern[0] === '?') return naiveSegment(pattern.slice(1), text.slice(1));
  if (pattern[0] !== '[') return pattern[0] === text[0] && naiveSegment(pattern.slice(1), text.slice(1));
  const close = pattern.indexOf(']');
  let members = pattern.slice(1, close);
  const negated = /^[!^]/.test(members);
  if (negated) members = members.slice(1);
  let found = false;
  for (let i = 0; i < members.length; i++) {
    if (members[i + 1] === '-' && i + 2 < members.length) {
      found ||= (text[0] ?? '') >= (members[i] ?? '') && (text[0] ?? '') <= (members[i + 2] ?? '');
      i += 2;
    } else found ||= members[i] === text[0];
  }
  return found !== negated && naiveSegment(pattern.slice(close + 1), text.slice(1));
}
function naive(pattern: readonly string[], text: readonly string[]): boolean {
  const [head, ...rest] = pattern;
  if (head === undefined) return text.length === 0;
  if (head === '**')
    return (
      (rest.length > 0 && naive(rest, text)) ||
      (text.length > 0 && (naive(rest, text.slice(1)) || naive(pattern, text.slice(1))))
    );
  const [first, ...others] = text;
  return first !== undefined && naiveSegment(head, first) && naive(rest, others);
}

const token = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom('a', 'b', 'A', '.', '-') },
  { weight: 3, arbitrary: fc.constantFrom('*', '?') },
  {
    weight: 2,
    arbitrary: fc.constantFrom('[ab]', '[!a]', '[^b.]', '[a-c]', '[-a]', '[a-]', '[.]', '[0-9_]'),
  },
  { weight: 1, arbitrary: fc.constantFrom(...'0_@+#=,%&~:') },
);
const segment = fc
  .array(token, { minLength: 1, maxLength: 7 })
  .map((tokens) => tokens.join('').replace(/\*+/g, '*'))
  .filter((text) => text !== '.' && text !== '..');
const pattern = fc.array(fc.oneof({ weight: 4, arbitrary: segment }, fc.constant('**')), {
  minLength: 1,
  maxLength: 4,
});
const word = fc
  .array(fc.constantFrom('a', 'b', 'A', '.', '-', '0', '@', '+', 'é', '\n', '[', ']', '*'), {
    minLength: 1,
    maxLength: 8,
  })
  .map((chars) => chars.join(''))
  .filter((text) => text !== '.' && text !== '..');
const text = fc.array(word, { minLength: 1, maxLength: 5 });

describe('the matcher', () => {
  it('agrees with the definition on every pattern and text', () => {
    fc.assert(
      fc.property(pattern, text, (segments, parts) => {
        const matches = compileGlob(segments.join('/'), { globstar: true })(parts.join('/'));
        expect(matches).toBe(naive(segments, parts));
      }),
      { numRuns: 3000 },
    );
  });

  it('reads a plus as itself, behind a class too', () => {
    const matches = compileGlob('[ab]+*');
    expect(['a+', 'b+c', 'a', 'aa', 'aab', 'ab'].map(matches)).toEqual([
      true,
      true,
      false,
      false,
      false,
      false,
    ]);
    expect(compileGlob('c+?')('c++')).toBe(true);
  });

  it('takes what was made from the pattern', () => {
    const filled = segment.chain((glob) =>
      fc.array(fc.constantFrom('a', 'b', '.', '-', ''), { minLength: 12, maxLength: 12 }).map((fill) => ({
        glob,
        made: glob
          .replace(/\[[^\]]*\]/g, (set) => [...'ab.-0'].find((char) => naiveSegment(set, char)) ?? '?')
          .replace(/[*?]/g, (wild) => fill.pop() || (wild === '?' ? 'a' : '')),
      })),
    );
    fc.assert(
      fc.property(
        filled.filter(({ made }) => !['', '.', '..'].includes(made)),
        ({ glob, made }) => compileGlob(glob)(made),
      ),
    );
  });

  it('reads any string as a pattern or refuses it with PosternError', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (glob, input) => {
        try {
          return typeof compileGlob(glob, { globstar: true })(input) === 'boolean';
        } catch (error) {
          return error instanceof PosternError;
        }
      }),
    );
  });

  it('answers where backtracking would not', () => {
    const stars = '*a'.repeat(100);
    expect(compileGlob(`${stars}*b`)('a'.repeat(20_000))).toBe(false);
    expect(compileGlob(`${'**/a/'.repeat(40)}b`, { globstar: true })('a/'.repeat(5_000).concat('a'))).toBe(
      false,
    );
  });
});
