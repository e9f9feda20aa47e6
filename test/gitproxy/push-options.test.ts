import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { judgePush } from '../../gitproxy/policy.ts';
import { judgeOptions, optionName } from '../../gitproxy/push-options.ts';

const verdict = (entries: string[], ...options: string[]): string =>
  judgeOptions(entries, options)?.message ?? 'ok';

const BEYOND = [
  'merge_request.create',
  'merge_request.target=main',
  'mr.auto_merge',
  'MR.create',
  '.merge_request.create',
  '..mr.create',
  'ci.variable=A=b',
  'ci.variable',
  'ci.input=a=b',
  'integrations.skip_ci',
  'secret_push_protection.skip_all',
  'secret_detection.skip_all',
  'security_policy.bypass_reason=x',
  'repo.private=false',
  'repo.template',
  'topic=x',
  'title=x',
  'description',
  'force-push=true',
  'submit',
  'skip-validation',
  'notedb=allow',
  'visibility=public',
];
const HARMLESS = [
  'ci.skip',
  'skip-ci',
  'a=merge_request.create',
  'merge_requests.x',
  'topics',
  'note=x/y z',
  '',
  '=',
];

describe('a push option', () => {
  test.each(BEYOND)('that acts beyond the refs is not among everything: %s', (option) => {
    expect(verdict(['*'], option)).toMatch(/acts beyond the refs/);
    expect(verdict(['*', '**', '***'], option)).toMatch(/acts beyond the refs/);
    expect(verdict(['m*', 'c*', 't*', '.*', '*e*'], option)).not.toBe('ok');
    expect(verdict([option.replace(/^\.+/, ''), option], option)).toBe('ok');
  });

  test.each(HARMLESS)('that is harmless is: %j', (option) => {
    expect(verdict(['*'], option)).toBe('ok');
    expect(verdict([], option)).toMatch(/does not admit/);
  });

  test.each<[string[], string, boolean]>([
    [['merge_request.*'], 'merge_request.create', true],
    [['merge_request.target=agent/*'], 'merge_request.target=agent/x', true],
    [['merge_request.target=agent/*'], 'merge_request.target=main', false],
    [['merge_request.target=agent/*'], 'merge_request.create', false],
    [['ci.variable=TAG=*'], 'ci.variable=TAG=v1', true],
    [['ci.variable=TAG=*'], 'ci.variable=OTHER=v1', false],
    [['merge_request.*'], 'mr.create', false],
    [['topic=*'], 'topic=x', true],
    [['topic'], 'topic=x', false],
    [['ci.skip'], 'ci.skip', true],
    [['ci.skip'], 'ci.skipped', false],
    [['a*b*c'], 'a1b2b3c', true],
    [['a*b*c'], 'a1c', false],
    [['ab*ba'], 'aba', false],
    [['*x'], 'x', true],
  ])('of %j: %s', (entries, option, admitted) => {
    expect(verdict(entries, option) === 'ok').toBe(admitted);
  });

  test('is told from others as a whole text, as a regular expression would', () => {
    const piece = fc.stringMatching(/^[ab]{0,3}$/);
    fc.assert(
      fc.property(
        fc.array(piece, { minLength: 1, maxLength: 4 }),
        fc.stringMatching(/^[ab]{0,8}$/),
        (pieces, text) => {
          const expected = new RegExp(`^${pieces.join('[^]*')}$`).test(text);
          expect(verdict([pieces.join('*')], text) === 'ok').toBe(expected);
        },
      ),
    );
  });

  test('shows its name and never its value', () => {
    expect(optionName('ci.variable=TOKEN=secret')).toBe('ci.variable');
    expect(optionName('flag')).toBe('flag');
    expect(verdict(['x'], 'password=secret')).not.toContain('secret');
  });

  test('is one of so many that a record holds', () => {
    const many = Array.from({ length: 33 }, (_, i) => `o${i}`);
    expect(verdict(['*'], ...many.slice(1))).toBe('ok');
    expect(verdict(['*'], ...many)).toMatch(/one push may carry 32/);
    expect(verdict(['*'], 'n'.repeat(101))).toMatch(/too long/);
    expect(verdict(['*'], `n=${'v'.repeat(1000)}`)).toBe('ok');
  });
});

describe('a push', () => {
  const grant = {
    credentialId: 'c1',
    upstream: 'https://github.com',
    username: 'x-access-token',
    repos: ['*'],
    write: true,
    pushRefs: ['refs/heads/**'],
    allowDelete: false,
  };
  const ceiling = { refs: ['refs/**'], options: ['ci.skip'], maxRefs: 8, maxPackBytes: 1_000 };
  const command = { old: '1'.repeat(40), new: '2'.repeat(40), ref: 'refs/heads/main' };

  test('is judged with its options: every ref is refused for one that is not admitted', () => {
    expect(judgePush(grant, ceiling, [command], ['ci.skip'])).toEqual({ ok: true });
    expect(judgePush(grant, ceiling, [command, { ...command, ref: 'refs/heads/a' }], ['x'])).toMatchObject({
      ok: false,
      refusal: { code: 'push_not_allowed', rule: 'git.push.options' },
      reasons: [expect.stringMatching(/push_not_allowed/), expect.stringMatching(/push_not_allowed/)],
    });
  });

  test('may carry what is harmless where the deployment says nothing', () => {
    const { options: _, ...silent } = ceiling;
    expect(judgePush(grant, silent, [command], ['note=x'])).toEqual({ ok: true });
    expect(judgePush(grant, silent, [command], ['merge_request.create']).ok).toBe(false);
  });
});
