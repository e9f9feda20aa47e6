// For random policies and random requests, the set that reaches the cluster is the set that a naive model allows, and
// what reaches it is byte for byte what was asked. Every request goes through the whole guard, over TLS.

import { createServer } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PosternError } from '../../common/errors.ts';
import { decide } from '../../kubeguard/policy.ts';
import { parseRequest } from '../../kubeguard/request-info.ts';
import { ceilingLimits, grantLimits, readRules } from '../../kubeguard/rules.ts';
import { closeAll, type Held, kubeconfigFor, onClose, type Session, startGuard } from './harness.ts';
import { type Asked, mayPass, type Rules, targetOf } from './model.ts';

const NONE: Rules = { verbs: [], namespaces: [], resources: [] };
const reached: string[] = [];
let origin: string;
const agent = new Agent({ keepAlive: true, maxSockets: 8 });

beforeAll(async () => {
  const server = createServer((req, res) => {
    reached.push(`${req.method} ${req.url}`);
    req.resume();
    res.setHeader('Content-Type', 'application/json');
    res.end('{"kind":"List","items":[],"status":{"allowed":true}}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  onClose(() => void server.close());
});
afterAll(async () => {
  agent.destroy();
  await closeAll();
});

const some = <T>(values: readonly T[], most = 3) =>
  fc.uniqueArray(fc.constantFrom(...values), { maxLength: most });
const VERBS = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection', '*'];
const NAMESPACES = ['team-a', 'team-b', 'team-*', '*-a', '*', 'prod'];
const RESOURCES = [
  'pods',
  'pods/log',
  'pods/exec',
  'pods/*',
  'secrets',
  'deployments',
  'deployments.apps',
  '*.apps',
  '*',
  '*/*',
  '*/scale',
  'namespaces',
  'namespaces/status',
  'services/proxy',
  'serviceaccounts/token',
  'nodes',
  'configmaps',
  'certificatesigningrequests/approval',
];
const PATHS = ['/metrics', '/logs/*', '/configz'];
const wide = fc.record({
  verbs: fc.constant(['*']),
  namespaces: fc.constantFrom<string[][]>([], ['team-a', 'team-*'], ['*']),
  resources: fc.constantFrom<string[][]>([], ['*'], ['*', '*/*'], ['*', 'pods/exec']),
  nonResourcePaths: some(PATHS, 2),
});
const narrow = fc.record({
  verbs: some(VERBS),
  namespaces: some(NAMESPACES, 2),
  resources: some(RESOURCES, 3),
  nonResourcePaths: some(PATHS, 2),
});
const rules = fc.oneof(wide, narrow);
const limit = fc.oneof(
  { weight: 4, arbitrary: fc.constant(NONE) },
  {
    weight: 1,
    arbitrary: fc.record({
      verbs: some(VERBS),
      namespaces: some(NAMESPACES, 2),
      resources: some(RESOURCES, 3),
    }),
  },
);

const place = fc.constantFrom(
  ['', 'v1'],
  ['', 'v2'],
  ['apps', 'v1'],
  ['example.com', 'v1beta1'],
  ['certificates.k8s.io', 'v1'],
  ['coordination.k8s.io', 'v1'],
  ['authorization.k8s.io', 'v1'],
  ['authentication.k8s.io', 'v1'],
);
const thing = fc
  .record({
    where: place,
    namespace: fc.constantFrom('', 'team-a', 'team-a', 'team-b', 'team-b', 'prod', 'kube-system', 'x-a'),
    plural: fc.constantFrom(
      'pods',
      'secrets',
      'deployments',
      'services',
      'leases',
      'nodes',
      'namespaces',
      'configmaps',
      'serviceaccounts',
      'certificatesigningrequests',
      'selfsubjectaccessreviews',
      'selfsubjectreviews',
      'widgets',
    ),
    name: fc.constantFrom('', 'x', 'team-a', 'prod', 'system:node'),
    subresource: fc.constantFrom(
      '',
      '',
      '',
      '',
      '',
      '',
      'log',
      'exec',
      'attach',
      'portforward',
      'proxy',
      'status',
      'scale',
      'token',
      'approval',
      'ephemeralcontainers',
      'eviction',
    ),
    prefix: fc.oneof(
      { weight: 8, arbitrary: fc.constant('' as const) },
      { weight: 1, arbitrary: fc.constantFrom('watch' as const, 'proxy' as const) },
    ),
  })
  .filter(({ plural, name }) => plural !== 'namespaces' || name !== 'system:node')
  .map(({ where, plural, namespace, name, subresource, prefix }) => {
    const [group = '', version = ''] = where;
    // The third part of namespaces/{name}/{x} is another resource, unless it is status or finalize.
    const sub =
      name === '' || (plural === 'namespaces' && subresource !== 'status') || prefix === 'proxy'
        ? ''
        : subresource;
    return {
      group,
      version,
      plural,
      prefix,
      name,
      subresource: sub,
      namespace: plural === 'namespaces' ? '' : namespace,
    };
  });
const asked: fc.Arbitrary<Asked> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      method: fc.constantFrom('GET', 'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'),
      resource: thing,
      watch: fc.option(fc.constantFrom('1', 'true', '0', 'false', 'no'), { nil: undefined }),
      contentType: fc.constantFrom('application/json', 'application/apply-patch+yaml'),
    }) as fc.Arbitrary<Asked>,
  },
  {
    weight: 1,
    arbitrary: fc.record({
      method: fc.constantFrom('GET', 'HEAD', 'POST', 'DELETE'),
      path: fc.constantFrom(
        '/api',
        '/apis',
        '/api/v1',
        '/apis/apps/v1',
        '/version',
        '/openapi/v2',
        '/healthz',
        '/livez/ping',
        '/metrics',
        '/metrics/slis',
        '/logs/x',
        '/configz',
        '/',
        '/secret',
      ),
    }),
  },
);

/** A spelling of the same thing that is not the canonical one. */
const twist = fc.constantFrom<(target: string) => string>(
  (target) =>
    target.replace(
      /\/([a-z])([^/?]*)$/,
      (_, first: string, rest: string) => `/%${first.charCodeAt(0).toString(16)}${rest}`,
    ),
  (target) => `/${target}`,
  (target) => target.replace('/v', '/./v'),
  (target) => target.replace(/\/([^/?]+)(\?|$)/, '/x/../$1$2'),
  (target) => `${target}${target.includes('?') ? '&' : '?'}a=1&a=2`,
  (target) => `${target.split('?')[0]};x${target.includes('?') ? `?${target.split('?')[1]}` : ''}`,
);

function send(
  held: Held,
  session: Session,
  method: string,
  target: string,
  contentType: string | undefined,
): Promise<number> {
  const body = ['POST', 'PUT', 'PATCH'].includes(method)
    ? '{"spec":{"resourceAttributes":{"verb":"get"}}}'
    : undefined;
  return new Promise((resolve, reject) => {
    const headers = {
      Authorization: `Bearer ${session.token}`,
      ...(body ? { 'Content-Type': contentType ?? 'application/json', 'Content-Length': body.length } : {}),
    };
    const request = httpsRequest({
      host: '127.0.0.1',
      port: held.port,
      ca: held.ca,
      method,
      path: session.prefix + target,
      agent,
      headers,
    });
    request.on('error', reject).on('response', (response) =>
      response
        .resume()
        .on('end', () => resolve(response.statusCode ?? 0))
        .on('error', reject),
    );
    request.end(body);
  });
}

test('what reaches the cluster is what the model allows, as it was asked', async () => {
  let sent = 0;
  let passed = 0;
  await fc.assert(
    fc.asyncProperty(
      rules,
      limit,
      fc.array(
        fc.tuple(
          asked,
          fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: twist }),
        ),
        {
          minLength: 25,
          maxLength: 25,
        },
      ),
      async (grant, ceiling, requests) => {
        const held = await startGuard({ ceiling });
        let session: Session;
        try {
          session = await held.issue({ kubeconfig: kubeconfigFor(origin), ...grant });
        } catch (error) {
          // Nothing in common with the ceiling, or no namespace to pin: no session, nothing to check.
          expect(error).toBeInstanceOf(PosternError);
          return;
        } finally {
          reached.length = 0;
        }
        for (const [request, change] of requests) {
          const canonical = targetOf(request);
          const target = change ? change(canonical) : canonical;
          const twisted = target !== canonical;
          const isReview = request.resource?.plural.startsWith('selfsubject');
          const contentType = isReview ? 'application/json' : request.contentType;
          const allowed =
            !twisted && mayPass(grant, ceiling, { ...request, ...(contentType ? { contentType } : {}) });
          const status = await send(held, session, request.method, target, contentType);
          sent++;
          const what = `${request.method} ${target} under ${JSON.stringify({ grant, ceiling })}: ${status}`;
          if (!allowed) expect(reached, what).toEqual([]);
          else {
            passed++;
            expect(reached, what).toHaveLength(1);
            // A narrowed list of namespaces may be asked for by name.
            const got = reached[0]?.replace(/[?&]fieldSelector=metadata\.name%3D[a-z-]+$/, '');
            expect(got, what).toBe(`${request.method} ${target}`);
          }
          reached.length = 0;
        }
        await held.guard.close(0);
      },
    ),
    { numRuns: 140, seed: 20261130 },
  );
  expect(sent).toBeGreaterThan(2_000);
  expect(passed).toBeGreaterThan(sent / 10);
}, 240_000);

test('the decision alone agrees with the model on many more', () => {
  let allowed = 0;
  fc.assert(
    fc.property(
      rules,
      limit,
      fc.array(asked, { minLength: 50, maxLength: 50 }),
      (grant, ceiling, requests) => {
        const written = readRules({ contexts: ['test'], ...grant });
        const sides = [grantLimits(written), ceilingLimits(ceiling)];
        for (const request of requests) {
          const parsed = parseRequest(request.method, targetOf(request));
          if (!parsed.ok) throw new Error(`${targetOf(request)}: ${parsed.refusal.message}`);
          const { allow } = decide(parsed.info, {
            sides,
            nonResourcePaths: written.nonResourcePaths,
            contentType: request.contentType,
          });
          if (allow) allowed++;
          expect(
            allow,
            `${request.method} ${targetOf(request)} under ${JSON.stringify({ grant, ceiling })}`,
          ).toBe(mayPass(grant, ceiling, request));
        }
      },
    ),
    { numRuns: 2_000, seed: 42 },
  );
  expect(allowed).toBeGreaterThan(10_000);
}, 60_000);
