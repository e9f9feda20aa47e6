import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliseProjectId, type Requester, readRequester } from '../../broker/requester.ts';
import {
  breadth,
  formatSubject,
  isWildcard,
  parseSubject,
  requesterKeys,
  type Subject,
  selects,
  subjectKey,
} from '../../broker/subject.ts';

const requester = (more: object = {}): Requester =>
  readRequester({
    projectId: '/srv/app',
    executorId: 'edge-01',
    labels: { region: 'eu', gpu: 'true' },
    ...more,
  });

describe('a subject', () => {
  it.each([
    ['project:/srv/app/', 'project:/srv/app'],
    ['project://srv//app/./', 'project:/srv/app'],
    ['project:an-opaque-id', 'project:an-opaque-id'],
    ['project:*', 'project:*'],
    ['executor:edge-01', 'executor:edge-01'],
    ['executor:*', 'executor:*'],
    ['label:region=eu,gpu=true', 'label:gpu=true,region=eu'],
    ['any', 'any'],
    ['*', 'any'],
  ])('%s is %s', (text, canonical) => {
    expect(formatSubject(parseSubject(text))).toBe(canonical);
    expect(formatSubject(parseSubject(canonical))).toBe(canonical);
  });

  it.each([
    '',
    ' any',
    'ANY',
    'all',
    'everyone',
    'project',
    'project:',
    'project: /srv/app',
    'Project:/srv/app',
    'projects:/srv/app',
    'executor:edge-*',
    'project:/srv/*',
    'project:**',
    'label:',
    'label:region',
    'label:region=',
    'label:=eu',
    'label:region=eu,',
    'label:region=eu,region=us',
    'label:region=*',
    'label:a=b=c',
    'label:__proto__=x',
    'user:alice',
    'project:/srv\u0000app',
    'project:/srv/app\n',
  ])('%j is an error, not a wider subject', (text) => {
    expect(() => parseSubject(text)).toThrow(expect.objectContaining({ code: 'invalid_input' }));
  });

  it.each<[string, boolean]>([
    ['project:/srv/app', true],
    ['project:/srv/app/', true],
    ['project:/srv/app-staging', false],
    ['project:/srv', false],
    ['project:/srv/app/sub', false],
    ['project:/SRV/app', false],
    ['project:*', true],
    ['executor:edge-01', true],
    ['executor:edge-0', false],
    ['executor:EDGE-01', false],
    ['executor:*', true],
    ['label:region=eu', true],
    ['label:region=eu,gpu=true', true],
    ['label:region=eu,gpu=false', false],
    ['label:region=eu,gpu=true,ram=big', false],
    ['label:toString=x', false],
    ['any', true],
  ])('%s selects the requester: %s', (text, expected) => {
    expect(selects(parseSubject(text), requester())).toBe(expected);
  });

  it('of a project does not select who has none, the star included', () => {
    const nobody: Requester = { labels: {} };
    for (const text of ['project:*', 'executor:*', 'label:a=b'])
      expect(selects(parseSubject(text), nobody)).toBe(false);
    expect(selects({ type: 'project', value: '' }, { projectId: '', labels: {} })).toBe(false);
    expect(selects({ type: 'label', labels: {} }, requester())).toBe(false);
  });

  it('is open-ended for any and a star, not for labels', () => {
    const wide = ['any', 'project:*', 'executor:*', 'label:a=b', 'project:/a'].map((text) =>
      isWildcard(parseSubject(text)),
    );
    expect(wide).toEqual([true, true, true, false, false]);
    const order = ['project:/a', 'label:a=b', 'project:*', 'any'].map((text) => breadth(parseSubject(text)));
    expect(order).toEqual([...order].sort());
  });
});

describe('a project', () => {
  it.each([
    ['/srv/app/', '/srv/app'],
    ['/srv//app', '/srv/app'],
    ['/srv/./app', '/srv/app'],
    ['/srv/x/../app', '/srv/app'],
    [' /srv/app ', '/srv/app'],
    ['/', '/'],
    ['///', '/'],
    ['app', 'app'],
    ['app/', 'app/'],
  ])('%j is %j', (given, normal) => {
    expect(normaliseProjectId(given)).toBe(normal);
  });

  it('has one spelling, found once', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('srv', 'app', '.', '..', '', 'a b'), { maxLength: 8 }),
        (parts) => {
          const once = normaliseProjectId(`/${parts.join('/')}`);
          expect(normaliseProjectId(once)).toBe(once);
          expect(once).not.toMatch(/\/\/|\/$(?<=..)|\/\.\.?(\/|$)/);
        },
      ),
    );
  });

  it('of a requester is one, never a star', () => {
    for (const projectId of ['*', ' * ', 'a\u0000b', 'x'.repeat(1025)])
      expect(() => readRequester({ projectId })).toThrow(expect.objectContaining({ code: 'invalid_input' }));
    expect(() => readRequester({ executorId: '*' })).toThrow();
    expect(readRequester({ projectId: ' ' }).projectId).toBeUndefined();
  });
});

describe('the index', () => {
  const word = fc.constantFrom('a', 'b', 'c', '/srv/app', '/srv/app-x');
  const labels = fc.dictionary(fc.constantFrom('k1', 'k2', 'k3'), fc.constantFrom('v1', 'v2'), {
    maxKeys: 3,
  });
  const subject: fc.Arbitrary<Subject> = fc.oneof(
    fc.record({
      type: fc.constantFrom('project' as const, 'executor' as const),
      value: fc.oneof(word, fc.constant('*')),
    }),
    labels
      .filter((all) => Object.keys(all).length > 0)
      .map((all) => ({ type: 'label' as const, labels: all })),
    fc.constant({ type: 'any' as const }),
  );

  it('finds every grant whose subject selects the requester', () => {
    fc.assert(
      fc.property(subject, fc.option(word), fc.option(word), labels, (to, projectId, executorId, own) => {
        const who = readRequester({
          projectId: projectId ?? undefined,
          executorId: executorId ?? undefined,
          labels: own,
        });
        if (selects(to, who)) expect(requesterKeys(who)).toContain(subjectKey(to));
        expect(formatSubject(parseSubject(formatSubject(to)))).toBe(formatSubject(to));
      }),
    );
  });
});
