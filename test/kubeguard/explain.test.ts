import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Credential } from '../../common/credential.ts';
import { explain } from '../../kubeguard/explain.ts';
import { prepareSession } from '../../kubeguard/issue.ts';
import { ceilingLimits } from '../../kubeguard/rules.ts';
import type { KubePolicy } from '../../kubeguard/session-policy.ts';
import type { Session } from '../../sessions/session.ts';
import { kubeconfigFor } from './harness.ts';

const ceiling = ceilingLimits({ verbs: [], namespaces: [], resources: [] });
function session(more: Partial<Session<KubePolicy>> = {}): Session<KubePolicy> {
  const kubeconfig = new Credential(kubeconfigFor('https://one.example:6443'));
  const { policy, credentials } = prepareSession(
    [{ kubeconfig, namespaces: ['team-a'], resources: ['pods', 'pods/exec'], verbs: ['get', 'create'] }],
    ceiling,
    { execPlugins: [] },
  );
  return {
    id: 'ses_1',
    guard: 'kube',
    leaseId: 'l',
    labels: {},
    credentials,
    policy,
    createdAt: 0,
    expiresAt: 100,
    hardExpiresAt: 100,
    ...more,
  };
}
const ask = (method: string, target: string, more: Partial<Session<KubePolicy>> = {}, now = 50) =>
  explain(session(more), { now, ceiling }, { method, target });

describe('what the guard would decide', () => {
  test('names what was read, the rule and the reason', () => {
    expect(ask('GET', '/c/test/api/v1/namespaces/team-a/pods/x/exec?command=id&command=-u')).toEqual({
      decision: 'allow',
      rule: 'grant',
      reason: 'the grant for the context test allows it',
      request: {
        method: 'GET',
        host: 'one.example',
        port: 6443,
        verb: 'get',
        apiGroup: '',
        apiVersion: 'v1',
        resource: 'pods',
        subresource: 'exec',
        namespace: 'team-a',
        name: 'x',
        isResource: true,
        command: ['id', '-u'],
      },
    });
    expect(ask('DELETE', '/api/v1/namespaces/team-a/pods/x')).toMatchObject({
      decision: 'deny',
      code: 'verb_not_allowed',
      rule: 'verbs',
      reason: expect.stringMatching(/get and create/),
      request: { verb: 'delete', name: 'x' },
    });
  });
  test.each<[string, string, Partial<Session<KubePolicy>>, number, string]>([
    ['GET', '/api/v1/namespaces/../pods', {}, 50, 'non_canonical_path'],
    ['GET', '/c/other/api/v1/pods', {}, 50, 'not_found'],
    ['GET', '/api/v1/pods', { credentials: [] }, 50, 'not_found'],
    ['GET', '/api/v1/pods', { revokedAt: 1 }, 50, 'session_revoked'],
    ['GET', '/api/v1/pods', {}, 100, 'session_expired'],
    ['OPTIONS', '/api/v1/pods', {}, 50, 'method_not_allowed'],
    ['GET', '/metrics', {}, 50, 'non_resource_path'],
  ])('%s %s of %j at %s: %s', (method, target, more, now, code) =>
    expect(ask(method, target, more, now)).toMatchObject({ decision: 'deny', code }),
  );

  test("reads as the cluster's own audit log did, for every recorded request", () => {
    const rows = readFileSync(join(import.meta.dirname, '../fixtures/kube/requestinfo.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    for (const { method, target, read } of rows) {
      const { request, code } = ask(method, target);
      if (code === 'non_canonical_path') continue;
      expect(request, `${method} ${target}`).toMatchObject(read);
    }
  });
});
