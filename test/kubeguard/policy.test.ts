import { describe, expect, test } from 'vitest';
import { type Decision, decide } from '../../kubeguard/policy.ts';
import { parseRequest } from '../../kubeguard/request-info.ts';
import {
  type Ceiling,
  ceilingLimits,
  grantLimits,
  type RuleInput,
  readRules,
} from '../../kubeguard/rules.ts';

const NO_CEILING: Ceiling = { verbs: [], namespaces: [], resources: [] };

function ask(
  input: RuleInput,
  method: string,
  target: string,
  ceiling: Ceiling = NO_CEILING,
  contentType?: string,
): Decision {
  const parsed = parseRequest(method, target);
  if (!parsed.ok) throw new Error(parsed.refusal.message);
  const rules = readRules({ contexts: ['prod'], ...input });
  const sides = [grantLimits(rules), ceilingLimits(ceiling)];
  return decide(parsed.info, { sides, nonResourcePaths: rules.nonResourcePaths, contentType });
}

function code(decision: Decision): string {
  return decision.allow ? 'allow' : decision.refusal.code;
}

const TEAM: RuleInput = { namespaces: ['team-a'] };
const POD = '/api/v1/namespaces/team-a/pods';

describe('what a grant with nothing said about verbs and resources allows in its namespaces', () => {
  test.each([
    ['GET', POD, 'allow'],
    ['GET', `${POD}/x`, 'allow'],
    ['HEAD', `${POD}/x`, 'allow'],
    ['GET', `${POD}?watch=1`, 'allow'],
    ['GET', `${POD}/x/log?follow=true`, 'allow'],
    ['GET', '/apis/apps/v1/namespaces/team-a/deployments/d/scale', 'allow'],
    ['GET', '/api/v1/watch/namespaces/team-a/pods', 'allow'],
    ['GET', '/apis/example.com/v1/namespaces/team-a/widgets', 'allow'],
    ['POST', POD, 'verb_not_allowed'],
    ['POST', `${POD}?dryRun=All`, 'verb_not_allowed'],
    ['DELETE', `${POD}/x`, 'verb_not_allowed'],
    ['DELETE', POD, 'verb_not_allowed'],
    ['PATCH', `${POD}/x`, 'verb_not_allowed'],
    ['PUT', `${POD}/x/status`, 'verb_not_allowed'],
    ['POST', `${POD}/x/eviction`, 'verb_not_allowed'],
    ['OPTIONS', POD, 'method_not_allowed'],
    ['OPTIONS', '/version', 'method_not_allowed'],
    ['TRACE', `${POD}/x`, 'method_not_allowed'],
    ['DELETE', '/api/v1/watch/namespaces/team-a/pods', 'method_not_allowed'],
    ['GET', '/api/v1/namespaces/team-a/secrets', 'resource_not_allowed'],
    ['GET', '/api/v1/namespaces/team-a/secrets/x', 'resource_not_allowed'],
    ['GET', '/api/v2/namespaces/team-a/secrets', 'resource_not_allowed'],
    ['GET', '/api/v1/watch/namespaces/team-a/secrets', 'resource_not_allowed'],
    ['GET', '/api/v1/secrets', 'resource_not_allowed'],
    ['GET', '/apis/image.openshift.io/v1/namespaces/team-a/imagestreams/x/secrets', 'resource_not_allowed'],
    ['GET', '/api/v1/namespaces/kube-system/pods', 'namespace_not_allowed'],
    ['GET', '/api/v1/namespaces/team-ab/pods', 'namespace_not_allowed'],
    ['GET', '/api/v1/namespaces/kube-system', 'namespace_not_allowed'],
    ['GET', '/api/v1/pods', 'cluster_scope'],
    ['GET', '/api/v1/watch/pods', 'cluster_scope'],
    ['GET', '/api/v1/nodes', 'cluster_scope'],
    ['GET', '/api/v1/nodes/n1', 'cluster_scope'],
    ['GET', '/api/v1/persistentvolumes', 'cluster_scope'],
    ['GET', '/apis/rbac.authorization.k8s.io/v1/clusterroles', 'cluster_scope'],
    ['GET', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', 'cluster_scope'],
    ['GET', '/api/v1/namespaces/team-a', 'allow'],
    ['GET', '/api/v1/namespaces', 'allow'],
    ['GET', '/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dteam-a', 'allow'],
    ['GET', '/api/v1/watch/namespaces/team-a', 'allow'],
    ['GET', '/api/v1/watch/namespaces/team-b', 'namespace_not_allowed'],
  ])('%s %s: %s', (method, target, expected) => expect(code(ask(TEAM, method, target))).toBe(expected));
});

describe('dangerous subresources, whatever the method', () => {
  const doors = [
    ...['exec', 'attach', 'portforward', 'proxy', 'proxy/a/b', 'ephemeralcontainers'].map(
      (door) => `${POD}/x/${door}`,
    ),
    '/api/v1/namespaces/team-a/services/web:80/proxy/',
    '/api/v1/nodes/n1/proxy/run',
    '/api/v1/namespaces/team-a/serviceaccounts/default/token',
    '/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval',
    '/api/v1/watch/namespaces/team-a/pods/x/exec',
    '/api/v1/proxy/namespaces/team-a/pods/x',
    '/apis/subresources.kubevirt.io/v1/namespaces/team-a/virtualmachineinstances/x/portforward',
  ];
  const all: RuleInput = { verbs: ['*'] };
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'])
    test.each(doors)(`${method} %s`, (door) => {
      for (const resources of [
        [],
        ['*'],
        ['pods', 'services', 'nodes', 'serviceaccounts', '*.certificates.k8s.io'],
      ])
        expect(code(ask({ ...all, resources }, method, door))).toBe('dangerous_subresource');
    });

  test.each([
    ['GET', 'pods/exec', `${POD}/x/exec?command=id`],
    ['POST', 'pods/exec', `${POD}/x/exec?command=id`],
    ['POST', 'pods/*', `${POD}/x/attach`],
    ['GET', '*/*', `${POD}/x/portforward`],
    ['PATCH', 'pods/ephemeralcontainers', `${POD}/x/ephemeralcontainers`],
    ['PUT', 'services/proxy', '/api/v1/namespaces/team-a/services/x/proxy/a'],
    ['POST', 'serviceaccounts/token', '/api/v1/namespaces/team-a/serviceaccounts/x/token'],
    [
      'PUT',
      'certificatesigningrequests.certificates.k8s.io/approval',
      '/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval',
    ],
  ])('%s is opened by %s and the verb create, and by no other verb', (method, resource, target) => {
    const resources = [resource];
    expect(code(ask({ resources, verbs: ['create'] }, method, target))).toBe('allow');
    expect(
      code(ask({ resources, verbs: ['get', 'list', 'watch', 'update', 'patch', 'delete'] }, method, target)),
    ).toBe('verb_not_allowed');
    expect(code(ask({ resources: ['pods', 'services'], verbs: ['*'] }, method, target))).toBe(
      'dangerous_subresource',
    );
  });

  test('the old proxy path stays shut also where everything is open', () =>
    expect(code(ask({ resources: ['*/*'], verbs: ['*'] }, 'GET', '/api/v1/proxy/nodes/n1'))).toBe(
      'dangerous_subresource',
    ));

  test('an opened one keeps to the namespaces', () => {
    const grant = { ...TEAM, resources: ['pods/exec', 'nodes/proxy'], verbs: ['create'] };
    expect(code(ask(grant, 'POST', '/api/v1/namespaces/team-b/pods/x/exec'))).toBe('namespace_not_allowed');
    expect(code(ask(grant, 'GET', '/api/v1/nodes/n1/proxy'))).toBe('cluster_scope');
  });
});

describe('resources as kubectl writes them', () => {
  test.each([
    [['secrets'], '/api/v1/namespaces/a/secrets/x', 'allow'],
    [['*'], '/api/v1/namespaces/a/secrets/x', 'allow'],
    [['*/*'], '/api/v1/namespaces/a/secrets', 'allow'],
    [['*.apps'], '/api/v1/namespaces/a/secrets', 'resource_not_allowed'],
    [['*.apps'], '/apis/apps/v1/namespaces/a/deployments', 'allow'],
    [['*.apps'], '/apis/apps/v2/namespaces/a/deployments/d/scale', 'allow'],
    [['*.apps'], '/apis/batch/v1/namespaces/a/jobs', 'resource_not_allowed'],
    [['deployments'], '/apis/apps/v1/namespaces/a/deployments', 'allow'],
    [['deployments.apps'], '/apis/apps/v1beta1/namespaces/a/deployments', 'allow'],
    [['deployments.apps'], '/apis/example.com/v1/namespaces/a/deployments', 'resource_not_allowed'],
    [['pods'], '/api/v1/namespaces/a/pods/x/log', 'allow'],
    [['pods/log'], '/api/v1/namespaces/a/pods/x/log', 'allow'],
    [['pods/log'], '/api/v1/namespaces/a/pods/x', 'resource_not_allowed'],
    [['pods/log'], '/api/v1/namespaces/a/pods/x/status', 'resource_not_allowed'],
    [['pods'], '/api/v1/namespaces/a/services', 'resource_not_allowed'],
    [['*/scale'], '/apis/apps/v1/namespaces/a/deployments/x/scale', 'allow'],
    [['*/scale'], '/apis/apps/v1/namespaces/a/deployments/x', 'resource_not_allowed'],
    [
      ['imagestreams'],
      '/apis/image.openshift.io/v1/namespaces/a/imagestreams/x/secrets',
      'resource_not_allowed',
    ],
  ])('%s, asked for %s: %s', (resources, target, expected) =>
    expect(code(ask({ resources }, 'GET', target))).toBe(expected),
  );
});

test('server-side apply creates, and so needs the verb create beside patch', () => {
  const apply = (verbs: string[], type?: string) =>
    code(ask({ verbs }, 'PATCH', `${POD}/x`, NO_CEILING, type));
  expect(apply(['patch'], 'application/apply-patch+yaml')).toBe('verb_not_allowed');
  expect(apply(['patch', 'create'], 'application/apply-patch+yaml')).toBe('allow');
  expect(apply(['patch'], 'application/strategic-merge-patch+json')).toBe('allow');
});

describe('a PUT that creates where there is nothing', () => {
  const put = (path: string, ...verbs: string[]) => ask({ verbs, resources: ['*'] }, 'PUT', path);
  test.each([
    '/api/v1/namespaces/a/services/x',
    '/api/v1/namespaces/a/endpoints/x',
    '/api/v1/namespaces/a/events/x',
    '/api/v1/namespaces/a/limitranges/x',
    '/apis/events.k8s.io/v1/namespaces/a/events/x',
    '/apis/coordination.k8s.io/v1/namespaces/a/leases/x',
    '/apis/coordination.k8s.io/v1alpha2/namespaces/a/leasecandidates/x',
    '/apis/rbac.authorization.k8s.io/v1beta1/namespaces/a/roles/x',
    '/apis/rbac.authorization.k8s.io/v1/namespaces/a/rolebindings/x',
    '/apis/rbac.authorization.k8s.io/v1/clusterroles/x',
    '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/x',
    '/apis/node.k8s.io/v1/runtimeclasses/x',
  ])('%s needs the verb create beside update', (path) => {
    expect(code(put(path, 'get', 'update'))).toBe('verb_not_allowed');
    expect(code(put(path, 'create', 'update'))).toBe('allow');
    expect(code(put(path, 'create'))).toBe('verb_not_allowed');
    expect(code(put(`${path}/status`, 'update'))).toBe('allow');
    expect(code(ask({ verbs: ['patch'], resources: ['*'] }, 'PATCH', path))).toBe('allow');
  });
  test.each([
    '/api/v1/namespaces/a/configmaps/x',
    '/apis/apps/v1/namespaces/a/deployments/x',
    '/apis/serving.example.com/v1/namespaces/a/services/x',
  ])('%s does not', (path) => expect(code(put(path, 'update'))).toBe('allow'));
  test('and says why, to kubectl replace and to a leader that is elected', () =>
    expect(put('/apis/coordination.k8s.io/v1/namespaces/a/leases/x', 'get', 'update')).toMatchObject({
      refusal: {
        message: expect.stringMatching(
          /^replacing leases\.coordination\.k8s\.io creates what does not exist and so needs the verb create.*kubectl edit/,
        ),
      },
    }));
});

describe('paths outside the API', () => {
  test.each([
    ['/api', 'allow'],
    ['/apis', 'allow'],
    ['/api/v1', 'allow'],
    ['/apis/apps/v1', 'allow'],
    ['/apis/apps/', 'allow'],
    ['/version', 'allow'],
    ['/version/', 'allow'],
    ['/openapi/v2', 'allow'],
    ['/openapi/v3/apis/apps/v1?hash=A1', 'allow'],
    ['/healthz', 'allow'],
    ['/livez/ping', 'allow'],
    ['/readyz?verbose', 'allow'],
    ['/metrics', 'non_resource_path'],
    ['/logs/x', 'non_resource_path'],
    ['/debug/pprof/', 'non_resource_path'],
    ['/', 'non_resource_path'],
    ['/API/v1/pods', 'non_resource_path'],
    ['/versions', 'non_resource_path'],
    ['/configz', 'non_resource_path'],
  ])('%s: %s', (path, expected) => {
    expect(code(ask({ verbs: ['create'], resources: ['pods'], ...TEAM }, 'GET', path))).toBe(expected);
  });
  test('a grant opens more by name, for reading only', () => {
    const grant = { nonResourcePaths: ['/metrics', '/logs/*'] };
    expect(code(ask(grant, 'GET', '/metrics'))).toBe('allow');
    expect(code(ask(grant, 'GET', '/metrics/slis'))).toBe('non_resource_path');
    expect(code(ask(grant, 'GET', '/logs/x'))).toBe('allow');
    expect(code(ask({ ...grant, verbs: ['*'] }, 'POST', '/metrics'))).toBe('method_not_allowed');
  });
});

describe('the Namespace objects under a namespace list', () => {
  const grant: RuleInput = { namespaces: ['team-*'], verbs: ['*'] };
  test('lists and watches are narrowed to the allowed ones', () => {
    for (const target of ['/api/v1/namespaces', '/api/v1/namespaces?watch=1', '/api/v1/watch/namespaces']) {
      const decision = ask(grant, 'GET', target);
      expect(
        decision.allow && [decision.narrow?.admits('team-a'), decision.narrow?.admits('kube-system')],
      ).toEqual([true, false]);
    }
  });
  test('without a list nothing is narrowed', () =>
    expect(ask({ verbs: ['list'] }, 'GET', '/api/v1/namespaces')).toEqual({ allow: true, rule: 'grant' }));
  test.each(['PUT', 'PATCH', 'DELETE'])(
    '%s is allowed only where the resources name namespaces',
    (method) => {
      expect(code(ask(grant, method, '/api/v1/namespaces/team-a'))).toBe('cluster_scope');
      expect(code(ask({ ...grant, resources: ['*'] }, method, '/api/v1/namespaces/team-a'))).toBe(
        'cluster_scope',
      );
      expect(code(ask({ ...grant, resources: ['namespaces'] }, method, '/api/v1/namespaces/team-a'))).toBe(
        'allow',
      );
      expect(code(ask({ ...grant, resources: ['namespaces'] }, method, '/api/v1/namespaces/prod'))).toBe(
        'namespace_not_allowed',
      );
    },
  );
  test('none is made, because its name is in the body', () =>
    expect(code(ask({ ...grant, resources: ['namespaces'] }, 'POST', '/api/v1/namespaces'))).toBe(
      'cluster_scope',
    ));
});

describe('a session may always ask what it may do', () => {
  const none: RuleInput = { namespaces: ['team-a'], verbs: ['delete'], resources: ['pods'] };
  test.each([
    '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
    '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews',
    '/apis/authentication.k8s.io/v1beta1/selfsubjectreviews',
  ])('%s', (target) => expect(ask(none, 'POST', target)).toMatchObject({ allow: true, rule: 'self-review' }));
  test.each([
    ['GET', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'],
    ['POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews'],
    ['POST', '/apis/authentication.k8s.io/v1/tokenreviews'],
    ['POST', '/apis/authentication.k8s.io/v1/selfsubjectaccessreviews'],
    ['POST', '/apis/authorization.k8s.io/v1/watch/selfsubjectaccessreviews'],
    ['POST', '/apis/authorization.k8s.io/v1/namespaces/team-a/localsubjectaccessreviews'],
    ['POST', '/apis/authorization.k8s.io/v1/namespaces/team-a/selfsubjectaccessreviews'],
    ['POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x'],
    ['POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x/status'],
  ])('but not %s %s', (method, target) => expect(ask(none, method, target).allow).toBe(false));
});

describe("the deployment's ceiling", () => {
  const ceiling: Ceiling = {
    verbs: ['get', 'list', 'patch'],
    namespaces: ['team-*'],
    resources: ['pods', '*.apps'],
  };
  test.each([
    ['GET', POD, 'allow'],
    ['GET', `${POD}?watch=1`, 'verb_not_allowed'],
    ['DELETE', `${POD}/x`, 'verb_not_allowed'],
    ['GET', '/api/v1/namespaces/team-a/configmaps', 'resource_not_allowed'],
    ['GET', '/api/v1/namespaces/team-a/secrets', 'resource_not_allowed'],
    ['GET', '/api/v1/namespaces/prod/pods', 'namespace_not_allowed'],
    ['GET', '/api/v1/pods', 'cluster_scope'],
    ['POST', `${POD}/x/exec`, 'dangerous_subresource'],
    ['GET', '/version', 'allow'],
  ])('%s %s under a grant of everything: %s', (method, target, expected) => {
    const decision = ask({ verbs: ['*'], resources: ['*/*'] }, method, target, ceiling);
    expect(code(decision)).toBe(expected);
    if (!decision.allow) expect(decision.refusal.message).toContain("this deployment's ceiling");
  });
});

describe('the order of messages, and what they teach', () => {
  const grant: RuleInput = { namespaces: ['team-a', 'team-b'], resources: ['pods', 'deployments.apps'] };
  test.each([
    [
      'POST',
      '/api/v1/namespaces/x/pods/p/exec',
      'dangerous_subresource',
      /pods\/exec is outside the session's grant.*name it \(pods\/exec\).*create/,
    ],
    [
      'DELETE',
      '/api/v1/namespaces/x/secrets/s',
      'verb_not_allowed',
      /the verb delete is outside the session's grant, which allows get, list and watch/,
    ],
    [
      'GET',
      '/api/v1/namespaces/x/secrets/s',
      'resource_not_allowed',
      /secrets is outside the session's grant, which allows pods and deployments\.apps/,
    ],
    [
      'GET',
      '/api/v1/namespaces/x/pods',
      'namespace_not_allowed',
      /the namespace x is outside .* the namespaces team-a and team-b/,
    ],
    [
      'GET',
      '/api/v1/pods',
      'cluster_scope',
      /pods over all namespaces is outside .*; name a namespace with -n, such as -n team-a/,
    ],
    ['GET', '/api/v1/pods/x', 'cluster_scope', /-n team-a/],
    ['GET', '/metrics', 'non_resource_path', /discovery, version, openapi and health/],
  ] as const)('%s %s: %s', (method, target, expected, message) => {
    const decision = ask(grant, method, target);
    expect(decision).toMatchObject({
      allow: false,
      refusal: { code: expected, message: expect.stringMatching(message) },
    });
  });
  test.each(['/api/v1/secrets', '/api/v1/pods', '/apis/rbac.authorization.k8s.io/v1/clusterroles'])(
    '%s over everything, where the resources allow it: -n',
    (path) =>
      expect(ask({ ...TEAM, resources: ['*'] }, 'GET', path)).toMatchObject({
        refusal: { code: 'cluster_scope', message: expect.stringMatching(/name a namespace with -n/) },
      }),
  );
  test('cluster-wide things say -n too', () =>
    expect(ask({ namespaces: ['team-*'] }, 'GET', '/api/v1/nodes')).toMatchObject({
      refusal: { message: expect.stringMatching(/nodes at the scope of the whole cluster .* -n NAMESPACE/) },
    }));
  test('Secrets say how they are granted', () =>
    expect(ask(TEAM, 'GET', '/api/v1/namespaces/team-a/secrets')).toMatchObject({
      refusal: { message: expect.stringMatching(/only where the resources name them \(secrets\)/) },
    }));
});
