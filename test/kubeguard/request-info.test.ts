import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { buildTarget, parseRequest, type RequestInfo } from '../../kubeguard/request-info.ts';

interface Row {
  method: string;
  target: string;
  status: number;
  read: null | {
    verb: string;
    apiGroup: string;
    apiVersion: string;
    resource: string;
    subresource: string;
    namespace: string;
    name: string;
    isResource: boolean;
  };
}

const rows = readFileSync(join(import.meta.dirname, '../fixtures/kube/requestinfo.jsonl'), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Row);

function fieldsOf(info: RequestInfo): Row['read'] {
  const { verb, apiGroup, apiVersion, resource, subresource, namespace, name, isResource } = info;
  return { verb, apiGroup, apiVersion, resource, subresource, namespace, name, isResource };
}

function read(method: string, target: string): RequestInfo {
  const parsed = parseRequest(method, target);
  if (!parsed.ok) throw new Error(`${method} ${target}: ${parsed.refusal.message}`);
  return parsed.info;
}

test('every recorded request is read as the API server read it, or refused as non-canonical', () => {
  const count = { same: 0, refused: 0 };
  for (const row of rows) {
    const parsed = parseRequest(row.method, row.target);
    if (!parsed.ok) {
      expect(parsed.refusal.code, row.target).toBe('non_canonical_path');
      count.refused++;
    } else {
      expect(fieldsOf(parsed.info), `${row.method} ${row.target}`).toEqual(row.read);
      expect(buildTarget(parsed.info)).toBe(row.target);
      count.same++;
    }
  }
  expect(count).toEqual({ same: 2803, refused: 260 });
});

test('what is refused among the recorded ones is odd, never an everyday spelling', () => {
  const refused = new Set(
    rows.filter((row) => !parseRequest(row.method, row.target).ok).map((row) => row.target),
  );
  const everyday = [...refused].filter(
    (target) =>
      !/%|;|\\|\/\/|\/\.{1,2}\/|\/\.\.$|[A-Z]|namespaces\/(-a|a\.b|team_a)\/|\/watch$|watch=[^&]*&watch=/.test(
        target.replace(/%3D/g, '='),
      ),
  );
  expect(everyday).toEqual([]);
});

describe('how a URL is read', () => {
  const cases: [string, string, Partial<RequestInfo>][] = [
    ['GET', '/', { isResource: false, verb: 'get' }],
    ['OPTIONS', '/version', { isResource: false, verb: 'options' }],
    ['GET', '/api/v1', { isResource: false }],
    ['GET', '/apis/apps/v1/', { isResource: false }],
    ['GET', '/metrics/slis/x/y', { isResource: false }],
    ['POST', '/api/v1/namespaces/a/pods', { verb: 'create', resource: 'pods', namespace: 'a', name: '' }],
    ['HEAD', '/api/v1/namespaces/a/pods/p', { verb: 'get', name: 'p' }],
    [
      'PUT',
      '/apis/apps/v1/namespaces/a/deployments/d',
      { verb: 'update', apiGroup: 'apps', apiVersion: 'v1' },
    ],
    ['PATCH', '/apis/apps/v1/namespaces/a/deployments/d/scale', { verb: 'patch', subresource: 'scale' }],
    ['DELETE', '/api/v1/namespaces/a/pods/p', { verb: 'delete' }],
    ['DELETE', '/api/v1/namespaces/a/pods', { verb: 'deletecollection' }],
    ['OPTIONS', '/api/v1/namespaces/a/pods', { verb: '' }],
    ['TRACE', '/api/v1/namespaces/a/pods', { verb: '' }],
    ['GET', '/api/v1/namespaces/foo', { resource: 'namespaces', namespace: 'foo', name: 'foo', verb: 'get' }],
    [
      'PUT',
      '/api/v1/namespaces/foo/finalize',
      { resource: 'namespaces', subresource: 'finalize', name: 'foo' },
    ],
    ['GET', '/api/v1/namespaces/foo/status', { resource: 'namespaces', subresource: 'status', name: 'foo' }],
    [
      'GET',
      '/api/v1/namespaces/namespaces/namespaces',
      { resource: 'namespaces', namespace: 'namespaces', name: '' },
    ],
    ['DELETE', '/api/v1/watch/namespaces/a/pods', { verb: 'watch', verbFromPath: true, resource: 'pods' }],
    ['GET', '/api/v1/proxy/namespaces/a/pods/p/x', { verb: 'proxy', subresource: '', name: 'p' }],
    ['GET', '/api/v1/namespaces/a/pods/p/exec?command=a&command=b', { verb: 'get', subresource: 'exec' }],
    [
      'GET',
      '/api/v1/namespaces/a/services/https:web:443/proxy/x/y',
      { name: 'https:web:443', subresource: 'proxy' },
    ],
    ['GET', '/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node', { name: 'system:node' }],
    ['GET', '/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode', { name: 'system:node' }],
    ['GET', '/apis/rbac.authorization.k8s.io/v1/clusterroles/a%20b%C3%A9', { name: 'a bé' }],
    ['GET', '/api/v1/pods?watch', { verb: 'watch' }],
    ['GET', '/api/v1/pods?watch=', { verb: 'watch' }],
    ['GET', '/api/v1/pods?watch=no', { verb: 'watch' }],
    ['GET', '/api/v1/pods?watch=+0', { verb: 'watch' }],
    ['GET', '/api/v1/pods?watch=0', { verb: 'list' }],
    ['GET', '/api/v1/pods?watch=FaLsE', { verb: 'list' }],
    ['GET', '/api/v1/pods?Watch=true', { verb: 'list' }],
    ['GET', '/api/v1/namespaces/a/pods/p?watch=true', { verb: 'get' }],
    ['GET', '/api/v1/pods?fieldSelector=metadata.name%3Dx', { verb: 'list', name: 'x' }],
    ['GET', '/api/v1/pods?fieldSelector=metadata.name==x&watch=1', { verb: 'watch', name: 'x' }],
    ['GET', '/api/v1/pods?fieldSelector=a%3Db,metadata.name%3Dx&labelSelector=a+in+(b,c),!d', { name: 'x' }],
    ['GET', '/api/v1/pods?fieldSelector=metadata.name%3Db,metadata.name%3Da', { name: 'a' }],
    ['GET', '/api/v1/pods?fieldSelector=metadata.name!%3Dx', { name: '' }],
    ['GET', '/api/v1/pods?fieldSelector=metadata.name%3Dx%5C,y', { name: 'x,y' }],
    ['GET', '/api/v1/pods?fieldSelector=metadata.name%3Dx%5Cy', { name: '' }],
    ['GET', '/api/v1/pods?fieldSelector=metadata.name%3Da%3Db', { name: '' }],
    ['GET', '/api/v1/pods?fieldSelector=metadata.name%3D..', { name: '' }],
    ['GET', '/api/v1/pods?fieldSelector=metadata.name%3Dx&limit=ten', { name: '' }],
    ['DELETE', '/api/v1/pods?fieldSelector=metadata.name%3Dx', { verb: 'deletecollection', name: '' }],
  ];
  test.each(cases)('%s %s', (method, target, expected) =>
    expect(read(method, target)).toMatchObject(expected),
  );
});

describe('spellings that two readers could take for different things are refused', () => {
  test.each([
    '/api/v1/namespaces/team-a/../kube-system/secrets',
    '/api/v1/namespaces/team-a/./pods',
    '/api/v1/namespaces/team-a/%2e%2e/kube-system/secrets',
    '/api/v1/namespaces/team-a/%2E%2E/kube-system/secrets',
    '/api/v1/namespaces/../pods',
    '/api/v1/namespaces/team-a%2Fpods',
    '/api/v1/namespaces/team-a%2fpods',
    '/api/v1/namespaces/team-a/pods/x%5Clog',
    '/api/v1/namespaces/team-a/pods%00',
    '/api/v1/namespaces/team-a/pods/x%0A',
    '/api/v1/namespaces/team-a/pods/x%C2%85',
    '/api/v1/namespaces/team-a\\pods',
    '/api/v1/namespaces/team-a//pods',
    '//api/v1/pods',
    '/api/v1/pods//',
    '/api/v1/namespaces/team-a/pods;x=1',
    '/api/v1/namespaces/team-a/pods/x%3Blog',
    '/api/v1/namespaces/team-a/pods/x%3Fwatch',
    '/api/v1/namespaces/team-a/pods/x%252Fexec',
    '/api/v1/namespaces/team-a/p%6Fds',
    '/api/v1/namespaces/team-a/pods/%zz',
    '/api/v1/namespaces/team-a/pods/%',
    '/api/v1/namespaces/team-a/pods/x%FF',
    '/api/v1/namespaces/team-a/pods/x%c3%a9',
    '/api/v1/namespaces/team-a/pods/\u00e9',
    '/api/v1/namespaces/TEAM-A/pods',
    '/api/v1/namespaces/team_a/pods',
    '/api/v1/namespaces/-a/pods',
    '/api/v1/namespaces/a.b/pods',
    `/api/v1/namespaces/${'a'.repeat(64)}/pods`,
    '/api/v1/namespaces/team-a/Secrets',
    '/api/v1/namespaces/team-a/pods/x/EXEC',
    '/api/v1/namespaces/team-a/pods/x/exec%20',
    '/api/v1/watch',
    '/apis/apps/v1/proxy',
    'https://evil.example/api/v1/pods',
    'api/v1/pods',
    '',
    '*',
    '/api/v1/pods#x',
    '/api/v1/pods?',
    '/api/v1/pods?watch=1&',
    '/api/v1/pods?&watch=1',
    '/api/v1/pods?=x',
    '/api/v1/pods?watch=true&watch=false',
    '/api/v1/pods?limit=1&w%61tch=1',
    '/api/v1/pods?watch=%74rue',
    '/api/v1/pods?watch=%zz',
    '/api/v1/pods?watch=true;x',
    '/api/v1/pods?;watch=true',
    '/api/v1/pods?a=%00',
    '/api/v1/pods?a=%FF',
    '/api/v1/pods?a=b#c',
    '/api/v1/pods?a=b c',
    '/api/v1/pods?fieldSelector=metadata.name%3Dx&labelSelector=((',
    '/api/v1/namespaces/a/pods/p/exec?container=a&container=b',
    '/api/v1/namespaces/a/pods/p/proxy/../../../../nodes',
  ])('%s', (target) => {
    const parsed = parseRequest('GET', target);
    expect(parsed.ok || parsed.refusal.code).toBe('non_canonical_path');
  });
});

test('parameters that repeat by design may, and keep their order', () => {
  const info = read(
    'POST',
    '/api/v1/namespaces/a/pods/p/exec?command=sh&command=-c&command=echo+%22a%26b%22%0A&ports=1&ports=2',
  );
  expect(info.query.map(({ value }) => value)).toEqual(['sh', '-c', 'echo "a&b"\n', '1', '2']);
});

const methods = fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE');
const piece = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom(
      'api',
      'apis',
      'v1',
      'apps',
      'namespaces',
      'team-a',
      'pods',
      'x',
      'exec',
      'watch',
      'proxy',
      'status',
    ),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom('..', '.', '', '%2e', '%2F', '%3A', 'a%20b', ';', 'A', 'system:x', '%', 'é'),
  },
  { weight: 1, arbitrary: fc.string({ maxLength: 4 }) },
);
const parameter = fc.oneof(
  fc.constantFrom(
    'watch=1',
    'watch',
    'watch=0',
    'limit=5',
    'fieldSelector=metadata.name%3Dx',
    'command=a',
    'command=b',
    'x=%2F',
    'x=%zz',
    '',
  ),
  fc.string({ maxLength: 6 }),
);
const targets = fc
  .tuple(
    fc.array(piece, { maxLength: 9 }),
    fc.option(fc.array(parameter, { maxLength: 4 }), { nil: undefined }),
  )
  .map(([path, query]) => `/${path.join('/')}${query ? `?${query.join('&')}` : ''}`);

test('what is admitted is built back byte for byte and reads as itself', () => {
  fc.assert(
    fc.property(methods, targets, (method, target) => {
      const parsed = parseRequest(method, target);
      if (!parsed.ok) return;
      const built = buildTarget(parsed.info);
      expect(built).toBe(target);
      expect(parseRequest(method, built)).toEqual(parsed);
      expect(built).toMatch(/^\/[\x21-\x7e]*$/);
      expect(built.split('?')[0]).not.toMatch(/\/\.{0,2}\/|\/\.{1,2}$|[;\\#]|%(2[EeFf5]|5[Cc]|00|3[Bb])/);
    }),
    { numRuns: 5_000, seed: 7 },
  );
});

test('another URL reader (WHATWG) sees the same path and the same parameters', () => {
  fc.assert(
    fc.property(methods, targets, (method, target) => {
      const parsed = parseRequest(method, target);
      if (!parsed.ok) return;
      const url = new URL(`https://host${target}`);
      expect(url.pathname.replaceAll("'", '%27')).toBe(parsed.info.path.replaceAll("'", '%27'));
      expect([...url.searchParams]).toEqual(parsed.info.query.map(({ key, value }) => [key, value]));
    }),
    { numRuns: 5_000, seed: 11 },
  );
});

test('a long selector does not hold the reader up', () => {
  const start = performance.now();
  for (const labels of [
    `a=${'+'.repeat(3000)}`,
    `a in (${',+'.repeat(1000)}`.replaceAll(' ', '+'),
    `${'a-'.repeat(1500)}!`,
    `${'a.'.repeat(1500)}/`,
  ])
    parseRequest('GET', `/api/v1/pods?fieldSelector=metadata.name%3Dx&labelSelector=${labels}`);
  expect(performance.now() - start).toBeLessThan(2_000);
});
