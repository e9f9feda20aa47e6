// The paths that are no resource: discovery, version, OpenAPI, health, and the few others that a cluster answers.

import {
  aggregatedDiscovery,
  aggregatedVersion,
  coreVersions,
  groupList,
  oneGroup,
  resourceList,
} from '../kinds/discovery.ts';
import type { OpenApi } from '../kinds/openapi.ts';
import { encodeOpenApiV2, PROTO_V2 } from '../kinds/openapi-v2.ts';
import type { Registry } from '../kinds/resources.ts';
import { methodNotAllowed, notAcceptable } from '../objects/status.ts';
import type { JsonObject } from '../objects/values.ts';
import { type Call, send, sendBytes } from './http.ts';

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

interface Answer {
  code: number;
  /** Text and bytes go as they are, anything else as JSON. */
  body: JsonObject | string | Buffer;
  type?: string;
  headers?: Record<string, string>;
}

const ok = (body: JsonObject): Answer => ({ code: 200, body });
/** The end of the chain: no Status, as in Go's own handler. */
const NOWHERE: Answer = {
  code: 404,
  body: '404 page not found\n',
  headers: { 'X-Content-Type-Options': 'nosniff' },
};

export function serveNonResource(call: Call, server: NonResource): void {
  put(call, answer(call, server));
}

export function nowhere(call: Call): void {
  put(call, NOWHERE);
}

function put(call: Call, { code, body, type, headers }: Answer): void {
  for (const [name, value] of Object.entries(headers ?? {})) call.response.setHeader(name, value);
  if (typeof body === 'string') sendBytes(call, code, Buffer.from(body), type ?? 'text/plain; charset=utf-8');
  else if (Buffer.isBuffer(body)) sendBytes(call, code, body, type ?? 'application/octet-stream');
  else if (type) sendBytes(call, code, Buffer.from(`${JSON.stringify(body)}\n`), type);
  else send(call, code, body);
}

/** @throws ApiError 405 where only GET is served, 406 */
function answer(call: Call, server: NonResource): Answer {
  const { registry } = server;
  const { path } = call.target;
  const accept = call.request.headers.accept;
  const trimmed = path.replace(/\/$/, '');
  const onlyGet = (): void => {
    if (call.request.method !== 'GET') throw methodNotAllowed();
  };
  if (path === '/') return ok({ paths: rootPaths(registry) });
  if (trimmed === '/api') {
    onlyGet();
    const version = aggregatedVersion(accept);
    return version ? aggregated(registry, true, version) : ok(coreVersions(server.address()));
  }
  if (trimmed === '/apis') {
    const version = aggregatedVersion(accept);
    return version ? aggregated(registry, false, version) : ok(groupList(registry));
  }
  const inGroup = /^\/apis\/([^/]+)(?:\/([^/]+))?$/.exec(trimmed);
  if (inGroup && inGroup[2] === undefined) {
    const group = oneGroup(registry, inGroup[1] ?? '');
    return group ? ok(group) : NOWHERE;
  }
  const [group, version] = inGroup
    ? [inGroup[1] ?? '', inGroup[2] ?? '']
    : ['', trimmed === '/api/v1' ? 'v1' : ''];
  if (version !== '' && registry.hasVersion(group, version)) {
    onlyGet();
    return ok(resourceList(registry, group, version));
  }
  if (trimmed === '/version') {
    onlyGet();
    return ok(VERSION);
  }
  const health = /^\/(healthz|livez|readyz)(?:\/(.+))?$/.exec(path);
  if (health) return healthOf(health[2], server.failing);
  switch (path) {
    case '/metrics':
    case '/metrics/slis':
      return { code: 200, body: '# HELP apiserver_request_total Counter of requests.\n' };
    case '/openapi/v2':
      return openApiV2(accept, server.openApi);
    case '/openapi/v3':
    case '/openapi/v3/':
      return ok(server.openApi.v3Index());
    case '/.well-known/openid-configuration':
      onlyGet();
      return ok({
        issuer: 'https://kubernetes.default.svc',
        jwks_uri: `https://${server.address()}/openid/v1/jwks`,
      });
    case '/openid/v1/jwks':
      onlyGet();
      return ok({ keys: [] });
  }
  const document = path.startsWith('/openapi/v3/') && server.openApi.v3(path.slice('/openapi/v3/'.length));
  return document ? ok(document) : NOWHERE;
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

function aggregated(registry: Registry, core: boolean, version: 'v2' | 'v2beta1'): Answer {
  return {
    code: 200,
    body: aggregatedDiscovery(registry, core, version),
    type: `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`,
    headers: { 'Cache-Control': 'public', Vary: 'Accept' },
  };
}

function healthOf(check: string | undefined, failing: ReadonlySet<string>): Answer {
  if (check !== undefined && !CHECKS.includes(check)) return NOWHERE;
  const bad = CHECKS.filter((name) => (check === undefined || check === name) && failing.has(name));
  if (bad.length === 0) return { code: 200, body: 'ok' };
  const lines = CHECKS.map((name) =>
    failing.has(name) ? `[-]${name} failed: reason withheld` : `[+]${name} ok`,
  );
  return { code: 500, body: `${lines.join('\n')}\nhealthz check failed\n` };
}

/** client-go reads it as protobuf; other clients ask for JSON. */
function openApiV2(accept: string | undefined, openApi: OpenApi): Answer {
  if (accept?.includes('com.github.proto-openapi.spec.v2'))
    return { code: 200, body: encodeOpenApiV2(openApi.v2()), type: PROTO_V2 };
  if (/application\/json|\*\/\*|application\/\*/.test(accept ?? '*/*')) return ok(openApi.v2());
  throw notAcceptable(['application/json', PROTO_V2]);
}
