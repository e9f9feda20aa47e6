import { describe, expect, test } from 'vitest';
import { lengthField, wrap } from '../../kubeguard/protobuf.ts';
import { parseRequest } from '../../kubeguard/request-info.ts';
import {
  type Ceiling,
  ceilingLimits,
  grantLimits,
  type RuleInput,
  readRules,
} from '../../kubeguard/rules.ts';
import { intersectRules } from '../../kubeguard/rules-review.ts';
import { type Review, readReview } from '../../kubeguard/self-review.ts';

const NONE: Ceiling = { verbs: [], namespaces: [], resources: [] };
function facts(input: RuleInput, ceiling: Ceiling = NONE) {
  const rules = readRules({ contexts: ['c'], ...input });
  return { sides: [grantLimits(rules), ceilingLimits(ceiling)], nonResourcePaths: rules.nonResourcePaths };
}
const parsed = parseRequest('POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews');
if (!parsed.ok) throw new Error('unread');
const { info } = parsed;

function review(body: unknown, input: RuleInput, type = 'application/json') {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
  return readReview('selfsubjectaccessreviews', info, type, bytes, facts(input));
}
/** What the client is told, when the cluster says `status`. */
function told(
  read: ReturnType<typeof review>,
  status: object,
): { allowed?: boolean; reason?: string; denied?: boolean } {
  if ('code' in read) throw new Error(read.message);
  const transform = (read as Review).answer();
  const text = JSON.stringify({ kind: 'SelfSubjectAccessReview', status });
  const out = Buffer.concat([
    transform.push(Buffer.from(text.slice(0, 9))),
    transform.push(Buffer.from(text.slice(9))),
    transform.end(),
  ]);
  return JSON.parse(out.toString()).status;
}
const about = (attributes: object) => ({
  kind: 'SelfSubjectAccessReview',
  spec: { resourceAttributes: attributes },
});
const TEAM: RuleInput = { namespaces: ['team-a'] };
const PODS = { namespace: 'team-a', verb: 'get', resource: 'pods' };

describe('may I', () => {
  test.each<[boolean, boolean, RegExp]>([
    [true, true, /^$/],
    [true, false, /^the cluster refuses: no RBAC$/],
    [false, true, /^the guard refuses: the namespace prod is outside/],
    [false, false, /^the guard refuses: .*; the cluster refuses: no RBAC$/],
  ])('guard %s and cluster %s', (guard, cluster, reason) => {
    const answer = told(review(about({ ...PODS, namespace: guard ? 'team-a' : 'prod' }), TEAM), {
      allowed: cluster,
      ...(cluster ? {} : { reason: 'no RBAC' }),
    });
    expect(answer.allowed).toBe(guard && cluster);
    expect(answer.reason ?? '').toMatch(reason);
  });

  test.each<[object, RuleInput, boolean]>([
    [{ ...PODS, verb: 'delete' }, TEAM, false],
    [{ ...PODS, verb: '*' }, TEAM, false],
    [{ ...PODS, verb: '*' }, { ...TEAM, verbs: ['*'] }, true],
    [{ ...PODS, verb: 'impersonate' }, { ...TEAM, verbs: ['*'] }, false],
    [{ ...PODS, resource: 'secrets' }, TEAM, false],
    [{ ...PODS, resource: '*' }, TEAM, false],
    [{ ...PODS, resource: '*', group: '*' }, { ...TEAM, resources: ['*'] }, true],
    [{ ...PODS, namespace: '' }, TEAM, false],
    [{ ...PODS, namespace: '' }, {}, true],
    [{ verb: 'list', resource: 'namespaces' }, TEAM, true],
    [{ verb: 'get', resource: 'namespaces', name: 'team-a' }, TEAM, true],
    [{ verb: 'get', resource: 'namespaces', name: 'prod' }, TEAM, false],
    [{ verb: 'delete', resource: 'namespaces', name: 'team-a' }, { ...TEAM, verbs: ['*'] }, false],
    [{ verb: 'get', resource: 'nodes' }, TEAM, false],
    [{ ...PODS, verb: 'create', subresource: 'exec' }, { ...TEAM, verbs: ['*'] }, false],
    [
      { ...PODS, verb: 'create', subresource: 'exec' },
      { ...TEAM, verbs: ['create'], resources: ['pods/exec'] },
      true,
    ],
    [{ ...PODS, verb: 'get', subresource: 'log' }, TEAM, true],
    [{ verb: 'create', group: 'authorization.k8s.io', resource: 'selfsubjectaccessreviews' }, TEAM, true],
  ])('%j under %j: %s', (attributes, input, allowed) =>
    expect(told(review(about(attributes), input), { allowed: true }).allowed).toBe(allowed),
  );

  test.each([
    ['/version', true],
    ['/metrics', false],
    ['version', false],
  ])('the path %s: %s', (path, allowed) =>
    expect(
      told(review({ spec: { nonResourceAttributes: { path, verb: 'get' } } }, TEAM), { allowed: true })
        .allowed,
    ).toBe(allowed),
  );
});

describe('the review that the cluster gets', () => {
  test('is written anew: nothing but what was read is in it', () => {
    const read = review(
      {
        kind: 'SelfSubjectAccessReview',
        apiVersion: 'evil/v9',
        metadata: { name: 'x', annotations: { a: 'b' } },
        spec: { resourceAttributes: { ...PODS, extra: 1, name: 5 }, user: 'root' },
        status: { allowed: true },
      },
      TEAM,
    );
    expect(JSON.parse((read as Review).body.toString())).toEqual({
      kind: 'SelfSubjectAccessReview',
      apiVersion: 'authorization.k8s.io/v1',
      metadata: {},
      spec: {
        resourceAttributes: {
          namespace: 'team-a',
          verb: 'get',
          group: '',
          version: '',
          resource: 'pods',
          subresource: '',
          name: '',
        },
      },
    });
  });
  test('may come in protobuf', () => {
    const attributes = Buffer.concat([
      lengthField(1, 'team-a'),
      lengthField(2, 'delete'),
      lengthField(3, 'apps'),
      lengthField(5, 'deployments'),
      lengthField(6, 'scale'),
      lengthField(7, 'web'),
    ]);
    const raw = lengthField(2, lengthField(1, attributes));
    const body = wrap({ apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', raw });
    const read = review(body, TEAM, 'application/vnd.kubernetes.protobuf');
    expect(JSON.parse((read as Review).body.toString()).spec.resourceAttributes).toMatchObject({
      namespace: 'team-a',
      verb: 'delete',
      group: 'apps',
      resource: 'deployments',
      subresource: 'scale',
      name: 'web',
    });
    expect(told(read, { allowed: true }).reason).toMatch(/the verb delete is outside/);
    for (let cut = 0; cut < body.length; cut++)
      expect(() => review(body.subarray(0, cut), TEAM, 'application/vnd.kubernetes.protobuf')).not.toThrow();
  });
  test.each<[unknown, string, number | undefined]>([
    [Buffer.from('{'), 'application/json', undefined],
    [[], 'application/json', undefined],
    [{ kind: 'Pod' }, 'application/json', undefined],
    [{ spec: {} }, 'application/json', undefined],
    [{ spec: { resourceAttributes: {}, nonResourceAttributes: {} } }, 'application/json', undefined],
    [{ spec: {} }, 'application/yaml', 415],
    [Buffer.from('k8s\0junk'), 'application/vnd.kubernetes.protobuf', undefined],
  ])('is refused where it cannot be read: %j', (body, type, status) =>
    expect(review(body, TEAM, type)).toMatchObject({
      code: 'malformed_request',
      ...(status ? { status } : {}),
    }),
  );
});

describe('the list of what I may', () => {
  const admin = {
    resourceRules: [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }],
    nonResourceRules: [{ verbs: ['*'], nonResourceURLs: ['*'] }],
    incomplete: false,
  };
  test('is what both allow', () => {
    const list = intersectRules(
      admin,
      'team-a',
      facts({ ...TEAM, verbs: ['get', 'create'], resources: ['pods', 'pods/exec', '*.apps'] }),
    );
    expect(list.resourceRules).toEqual([
      { verbs: ['get', 'create'], apiGroups: ['*'], resources: ['pods'] },
      { verbs: ['create'], apiGroups: ['*'], resources: ['pods/exec'] },
      { verbs: ['get', 'create'], apiGroups: ['apps'], resources: ['*'] },
    ]);
    expect(list.nonResourceRules?.[0]?.nonResourceURLs).toContain('/version');
    expect(list.nonResourceRules?.[0]?.nonResourceURLs).not.toContain('*');
    expect(list.incomplete).toBe(false);
  });
  test("says where a * is not everything, and leaves the cluster's own limits alone", () => {
    expect(intersectRules(admin, 'team-a', facts(TEAM))).toMatchObject({
      resourceRules: [{ verbs: ['get', 'list', 'watch'], resources: ['*'] }],
      incomplete: true,
      evaluationError: expect.stringMatching(/leaves Secrets/),
    });
    const few = {
      resourceRules: [
        {
          verbs: ['get', 'delete'],
          apiGroups: [''],
          resources: ['pods', 'secrets', 'pods/exec', 'pods/log'],
        },
      ],
    };
    expect(intersectRules(few, 'team-a', facts(TEAM)).resourceRules).toEqual([
      { verbs: ['get'], apiGroups: [''], resources: ['pods', 'pods/log'] },
    ]);
  });
  test('is empty but for the questions in a namespace that the guard does not open', () => {
    const rules = [
      ...admin.resourceRules,
      { verbs: ['create'], apiGroups: ['authorization.k8s.io'], resources: ['selfsubjectaccessreviews'] },
    ];
    const list = intersectRules({ ...admin, resourceRules: rules }, 'prod', facts(TEAM));
    expect(list.resourceRules).toEqual([rules[1]]);
    expect(list.evaluationError).toMatch(/the guard refuses: the namespace prod/);
  });
});
