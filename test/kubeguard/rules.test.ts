import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compileGlob } from '../../common/glob.ts';
import { globsMeet } from '../../kubeguard/globs-meet.ts';
import {
  type Ceiling,
  ceilingLimits,
  checkCeiling,
  grantLimits,
  type RuleInput,
  readRules,
} from '../../kubeguard/rules.ts';
import { effectiveVerbs, isReadOnly } from '../../kubeguard/verbs.ts';

describe('verbs', () => {
  test('nothing said is read-only', () => expect(effectiveVerbs([])).toEqual(['get', 'list', 'watch']));
  test('the star is every verb', () => expect(effectiveVerbs(['*'])).toHaveLength(8));
  test('read-only is what only reads', () =>
    expect([['get'], ['list', 'watch'], ['get', 'create'], ['deletecollection']].map(isReadOnly)).toEqual([
      true,
      true,
      false,
      false,
    ]));
  test.each([
    ['lst', 'list'],
    ['GET', 'get'],
    ['wacth', 'watch'],
    ['delte', 'delete'],
    ['deleteCollection', 'deletecollection'],
    ['post', 'create'],
    ['put', 'update'],
    ['read', 'get, list and watch'],
    ['exec', 'create (and the resource pods/exec)'],
    ['apply', 'get, create and patch'],
    ['logs', 'get (and the resource pods/log'],
    ['all', '*'],
    ['impersonate', undefined],
    ['bind', undefined],
    ['', undefined],
    ['*.*', undefined],
  ])('%s is refused when it is written, and %s offered', (word, meant) => {
    expect(() => effectiveVerbs(['get', word])).toThrow(
      meant === undefined ? 'is not a verb' : `did you mean ${meant}`,
    );
  });
});

describe('what cannot mean anything is refused when it is written', () => {
  test.each<[RuleInput, RegExp]>([
    [{}, /neither namespaces nor contexts/],
    [{ namespaces: [''] }, /empty/],
    [{ namespaces: ['Team-A'] }, /no namespace/],
    [{ namespaces: ['a.b'] }, /no namespace/],
    [{ namespaces: ['a/b'] }, /no namespace/],
    [{ namespaces: ['team_a*'] }, /no namespace/],
    [{ namespaces: ['team-{a,b}'] }, /wildcards are/],
    [{ namespaces: ['**'] }, /\*\*/],
    [{ namespaces: ['a'.repeat(64)] }, /no namespace/],
    [{ contexts: ['c'], resources: ['Pods'] }, /lower case/],
    [{ contexts: ['c'], resources: ['po'] }, /write pods/],
    [{ contexts: ['c'], resources: ['secret'] }, /write secrets/],
    [{ contexts: ['c'], resources: ['pods/exce'] }, /did you mean pods\/exec/],
    [{ contexts: ['c'], resources: ['deployments.v1.apps'] }, /write deployments\.apps/],
    [{ contexts: ['c'], resources: ['pods.v1'] }, /write pods/],
    [{ contexts: ['c'], resources: ['pods/log/x'] }, /cannot be read/],
    [{ contexts: ['c'], resources: [''] }, /cannot be read/],
    [{ contexts: ['c'], nonResourcePaths: ['metrics'] }, /not a path/],
    [{ contexts: ['c'], nonResourcePaths: ['/a/../b'] }, /not a path/],
    [{ contexts: ['c'], nonResourcePaths: ['/a*b'] }, /not a path/],
  ])('%j', (input, message) => expect(() => readRules(input)).toThrow(message));

  test.each([
    'pods',
    'pods/log',
    'pods/exec',
    'deployments.apps',
    'deployments.apps/scale',
    '*.apps',
    '*',
    '*/*',
    '*/scale',
    'pods/*',
    'widgets.example.com',
    'virtualmachineinstances.subresources.kubevirt.io/vnc',
  ])('%s can be written', (resource) =>
    expect(readRules({ contexts: ['c'], resources: [resource] }).resources).toEqual([resource]),
  );
  test('a list with one of two is enough', () => {
    expect(readRules({ namespaces: ['team-a'] }).namespaces).toEqual(['team-a']);
    expect(readRules({ contexts: ['prod'] }).namespaces).toEqual([]);
  });
});

describe('a session that the ceiling leaves nothing is refused, and both sides are named', () => {
  const none: Ceiling = { verbs: [], namespaces: [], resources: [] };
  const check = (input: RuleInput, ceiling: Partial<Ceiling>) => () =>
    checkCeiling(
      grantLimits(readRules({ contexts: ['c'], ...input })),
      ceilingLimits({ ...none, ...ceiling }),
    );
  test.each<[RuleInput, Partial<Ceiling>, RegExp]>([
    [{ verbs: ['delete'] }, { verbs: ['get', 'list'] }, /verbs \(delete\).*kube\.ceiling\.verbs: get, list/],
    [{}, { verbs: ['create'] }, /verbs \(get, list, watch\).*create/],
    [{ namespaces: ['prod'] }, { namespaces: ['team-*'] }, /namespaces \(prod\).*team-\*/],
    [{ namespaces: ['prod-*'] }, { namespaces: ['team-*'] }, /prod-\*.*team-\*/],
    [{ resources: ['secrets'] }, { resources: ['pods', '*.apps'] }, /resources \(secrets\).*pods, \*\.apps/],
    [{ resources: ['pods/exec'] }, { resources: ['*'] }, /pods\/exec/],
    [{}, { resources: ['secrets'] }, /everything but Secrets/],
    [{}, { resources: ['pods/exec'] }, /pods\/exec/],
    [{ resources: ['pods.metrics.k8s.io'] }, { resources: ['*.apps'] }, /nothing in common/],
    [{ resources: ['pods/log'] }, { resources: ['pods/status'] }, /nothing in common/],
  ])('%j under %j', (input, ceiling, message) => expect(check(input, ceiling)).toThrow(message));
  test.each<[RuleInput, Partial<Ceiling>]>([
    [{ verbs: ['*'] }, { verbs: ['get'] }],
    [{ namespaces: ['team-*'] }, { namespaces: ['*-a'] }],
    [{ namespaces: [] }, { namespaces: ['team-*'] }],
    [{ resources: ['pods/log'] }, { resources: ['pods'] }],
    [{ resources: ['*'] }, { resources: ['secrets'] }],
    [{ resources: ['*/*'] }, { resources: ['pods/exec'] }],
    [{}, { resources: ['*'] }],
    [{ resources: ['deployments'] }, { resources: ['*.apps'] }],
    [{ verbs: ['delete'] }, {}],
  ])('%j under %j is let through', (input, ceiling) => expect(check(input, ceiling)).not.toThrow());
});

const glob = fc
  .array(fc.oneof(fc.constantFrom('a', 'b', '-', '*', '?'), fc.constantFrom('[ab]', '[!a]', '[a-c]')), {
    minLength: 1,
    maxLength: 6,
  })
  .map((parts) => parts.join('').replace(/\*{2,}/g, '*'));

test('two globs meet whenever some name matches both', () => {
  fc.assert(
    fc.property(
      glob,
      glob,
      fc.array(fc.constantFrom('a', 'b', 'c', '-'), { minLength: 1, maxLength: 7 }),
      (a, b, name) => {
        if (compileGlob(a)(name.join('')) && compileGlob(b)(name.join('')))
          expect(globsMeet(a, b)).toBe(true);
      },
    ),
    { numRuns: 5_000, seed: 3 },
  );
});
test.each([
  ['team-*', 'prod-*', false],
  ['*-a', 'team-*', true],
  ['a', 'a', true],
  ['a?', 'ab', true],
  ['a?', 'a', false],
  ['[ab]x', '[c-z]x', false],
  ['[!a]', 'a', false],
  ['*', 'x', true],
])('%s and %s meet: %s', (a, b, expected) => expect(globsMeet(a, b)).toBe(expected));
