// Which of a session's contexts a request is for.

import { describe, expect, test } from 'vitest';
import { findPlace, type KubeContext, type KubePolicy, splitTarget } from '../../kubeguard/session-policy.ts';
import type { Session } from '../../sessions/session.ts';

const context = (name: string, credentialId: string): KubeContext => ({
  name,
  segment: name,
  source: name,
  credentialId,
  host: 'api.example.com',
  port: 6443,
});

const rules = { verbs: ['get'], namespaces: [], resources: [], nonResourcePaths: [] } as const;

function session(contexts: readonly KubeContext[], held: readonly string[]): Session<KubePolicy> {
  return {
    id: 'ses_1',
    guard: 'kube',
    leaseId: 'lease_1',
    labels: {},
    credentials: held.map((id) => ({ id })),
    policy: { contexts, current: 'prod', rules: { c1: rules, c2: rules } },
    createdAt: 0,
    expiresAt: 1,
    hardExpiresAt: 1,
  };
}

const both = [context('prod', 'c1'), context('stage', 'c2')];

describe('the place of a request', () => {
  test.each([
    ['prod', 'prod'],
    ['stage', 'stage'],
    ['other', undefined],
    ['PROD', undefined],
    [undefined, undefined],
  ])('of two contexts, %s is for %s', (segment, name) =>
    expect(findPlace(session(both, ['c1', 'c2']), segment)?.context.name).toBe(name),
  );

  test('without a name is the only context of the session', () =>
    expect(findPlace(session([context('prod', 'c1')], ['c1']), undefined)?.context.name).toBe('prod'));

  test('is not a context whose credential was taken out', () => {
    const left = session(both, ['c2']);
    expect(findPlace(left, 'prod')).toBeUndefined();
    expect(findPlace(left, 'stage')?.context.name).toBe('stage');
    expect(findPlace(left, undefined)?.context.name).toBe('stage');
  });

  test.each([
    ['/c/prod/api?x', { segment: 'prod', rest: '/api?x' }],
    ['/c/prod', { segment: 'prod', rest: '/' }],
    ['/c/prod?x', { segment: 'prod', rest: '/?x' }],
    ['/api', { rest: '/api' }],
    ['/c/../api', { rest: '/c/../api' }],
    ['/c/./api', { rest: '/c/./api' }],
    ['/c/a%2fb/api', { rest: '/c/a%2fb/api' }],
    ['/cc/prod/api', { rest: '/cc/prod/api' }],
  ])('%s', (target, split) => expect(splitTarget(target)).toEqual(split));
});
