// The paths that are no resource: discovery, version, OpenAPI, health, and the few others that a cluster answers.

import {
  aggregatedDiscovery,
  aggregatedVersion,
  coreVersions,
  groupList,
  oneGroup,
  resourceList,
} from './discovery.ts';
import { type Call, send, sendBytes } from './http.ts';
import type { OpenApi } from './openapi.ts';
import { encodeOpenApiV2, PROTO_V2 } from './openapi-v2.ts';
import type { Registry } from './resources.ts';
import { methodNotAllowed, notAcceptable } from './status.ts';
import type { JsonObject } from './values.ts';

export interface NonResource {
  registry: Registry;
  openApi: OpenApi;
  /** host:port, as /api names it. */
  address(): string;
  /** Health checks that fail now, by name. */
  failing: ReadonlySet<string>;
}

const VERSION: JsonObject = {
  major: '1',
  minor: '36',
  emulationMajor: '1',
  emulationMinor: '36',
  minCompatibilityMajor: '1',
  minCompatibilityMinor: '35',
  gitVersion: 'v1.36.2',
  gitCommit: 'test',
  gitTreeState: 'clean',
  buildDate: '2026-08-21T00:00:00Z',
  goVersion: 'go1.26.10',
  compiler: 'gc',
  platform: 'linux/amd64',
};

const CHECKS = [
  'ping',
  'log',
  'poststarthook/start-apiextensions-informers',
  'poststarthook/rbac/bootstrap-roles',
];

export function serveNonResource(call: Call, server: NonResource): void {
  const { path } = call.target;
  const trimmed = path.replace(/\/$/, '');
  const onlyGet = (): void => {
    if (call.request.method !== 'GET') throw methodNotAllowed();
  };
  if (path === '/') return send(call, 200, { paths: rootPaths(server.registry) });
  if (trimmed === '/api') {
    const version = aggregatedVersion(call.request.headers.accept);
    onlyGet();
    return version
      ? sendAggregated(call, server, true, version)
      : send(call, 200, coreVersions(server.address()));
  }
  if (trimmed === '/apis') {
    const version = aggregatedVersion(call.request.headers.accept);
    return version
      ? sendAggregated(call, server, false, version)
      : send(call, 200, groupList(server.registry));
  }
  const inGroup = /^\/apis\/([^/]+)(?:\/([^/]+))?$/.exec(trimmed);
  if (inGroup && inGroup[2] === undefined) {
    const group = oneGroup(server.registry, inGroup[1] ?? '');
    return group ? send(call, 200, group) : nowhere(call);
  }
  const [group, version] = inGroup
    ? [inGroup[1] ?? '', inGroup[2] ?? '']
    : ['', trimmed === '/api/v1' ? 'v1' : ''];
  if (version !== '' && server.registry.hasVersion(group, version)) {
    onlyGet();
    return send(call, 200, resourceList(server.registry, group, version));
  }
  if (trimmed === '/version') {
    onlyGet();
    return send(call, 200, VERSION);
  }
  const health = /^\/(healthz|livez|readyz)(?:\/(.+))?$/.exec(path);
  if (health) return serveHealth(call, health[2], server.failing);
  if (path === '/metrics' || path === '/metrics/slis')
    return plain(call, 200, '# HELP apiserver_request_total Counter of requests.\n');
  if (path === '/openapi/v2') return serveV2(call, server.openApi);
  if (trimmed === '/openapi/v3') return send(call, 200, server.openApi.v3Index());
  if (path.startsWith('/openapi/v3/')) {
    const document = server.openApi.v3(path.slice('/openapi/v3/'.length));
    return document ? send(call, 200, document) : nowhere(call);
  }
  if (path === '/.well-known/openid-configuration') {
    onlyGet();
    const issuer = 'https://kubernetes.default.svc';
    return send(call, 200, { issuer, jwks_uri: `https://${server.address()}/openid/v1/jwks` });
  }
  if (path === '/openid/v1/jwks') {
    onlyGet();
    return send(call, 200, { keys: [] });
  }
  return nowhere(call);
}

/** The end of the chain: no Status, as in Go's own handler. */
export function nowhere(call: Call): void {
  call.response.setHeader('X-Content-Type-Options', 'nosniff');
  plain(call, 404, '404 page not found\n');
}

function plain(call: Call, code: number, text: string): void {
  sendBytes(call, code, Buffer.from(text), 'text/plain; charset=utf-8');
}

function rootPaths(registry: Registry): string[] {
  const versions = registry
    .types()
    .map((type) => (type.group ? `/apis/${type.group}/${type.version}` : '/api/v1'));
  const fixed = [
    '/api',
    '/apis',
    '/healthz',
    '/livez',
    '/metrics',
    '/openapi/v2',
    '/openapi/v3',
    '/readyz',
    '/version',
  ];
  return [...new Set([...fixed, ...versions])].sort();
}

function sendAggregated(call: Call, server: NonResource, core: boolean, version: 'v2' | 'v2beta1'): void {
  const body = Buffer.from(`${JSON.stringify(aggregatedDiscovery(server.registry, core, version))}\n`);
  call.response.setHeader('Cache-Control', 'public');
  call.response.setHeader('Vary', 'Accept');
  sendBytes(call, 200, body, `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`);
}

function serveHealth(call: Call, check: string | undefined, failing: ReadonlySet<string>): void {
  if (check !== undefined && !CHECKS.includes(check)) return nowhere(call);
  const bad = CHECKS.filter((name) => (check === undefined || check === name) && failing.has(name));
  if (bad.length === 0) return plain(call, 200, 'ok');
  const lines = CHECKS.map((name) =>
    failing.has(name) ? `[-]${name} failed: reason withheld` : `[+]${name} ok`,
  );
  return plain(call, 500, `${lines.join('\n')}\nhealthz check failed\n`);
}

/** Other clients than client-go ask for JSON. */
function serveV2(call: Call, openApi: OpenApi): void {
  const accept = String(call.request.headers.accept ?? '*/*');
  if (accept.includes('com.github.proto-openapi.spec.v2'))
    return sendBytes(call, 200, encodeOpenApiV2(openApi.v2()), PROTO_V2);
  if (/application\/json|\*\/\*|application\/\*/.test(accept)) return send(call, 200, openApi.v2());
  throw notAcceptable(['application/json', PROTO_V2]);
}
