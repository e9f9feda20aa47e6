// What a request asks for: a pure reading of method, raw target and the few headers that choose a meaning. Git's smart
// HTTP has exactly three shapes here, and LFS a fourth that is known in order to be refused in its own words:
//
//     GET  /owner/name[.git]/info/refs?service=git-upload-pack | git-receive-pack     (the raw query, literally)
//     POST /owner/name[.git]/git-upload-pack        POST /owner/name[.git]/git-receive-pack     (no query at all)
//
// A target with a second spelling is refused, not repaired: no escapes, dot segments, empty segments or odd characters.
// What is admitted is a value from which the upstream's path is built again (`upstreamPath`). Names are lower case in it,
// for the policy and for the upstream alike, so that what was judged is what is asked for; a forge that tells two
// repositories apart by case alone serves the lower-case one here. See git's Documentation/gitprotocol-http.

import type { Refusal } from '../common/reason.ts';

export type Service = 'git-upload-pack' | 'git-receive-pack';
export type ProtocolVersion = 0 | 1 | 2;

/** Lower case, without `.git`. */
export interface Repository {
  readonly owner: string;
  readonly name: string;
}

export type Route =
  | {
      readonly kind: 'advertise';
      readonly service: Service;
      readonly repo: Repository;
      /** Asked for with Git-Protocol; never on receive-pack, where it changes the answer's shape for nothing. */
      readonly protocol?: ProtocolVersion;
    }
  | {
      readonly kind: 'exchange';
      readonly service: Service;
      readonly repo: Repository;
      readonly protocol?: ProtocolVersion;
      readonly gzip: boolean;
    }
  | { readonly kind: 'lfs'; readonly repo: Repository };

/** The parts of a request that say what is asked for. */
export interface RequestLine {
  readonly method: string;
  /** As it came: path and query. */
  readonly target: string;
  readonly contentType?: string | undefined;
  readonly contentEncoding?: string | undefined;
  readonly gitProtocol?: string | undefined;
  readonly hasBody: boolean;
}

export interface RouteRefusal extends Refusal {
  /** Where it is not the code's own. */
  readonly status?: number;
  readonly allow?: string;
}

export type Parsed =
  | { readonly ok: true; readonly route: Route }
  | { readonly ok: false; readonly refusal: RouteRefusal };

const PATH = /^(?:\/[A-Za-z0-9._-]+)+$/;
const MAX_NAME = 100;

export function parseRoute(request: RequestLine): Parsed {
  const { method, target } = request;
  const mark = target.indexOf('?');
  const path = mark < 0 ? target : target.slice(0, mark);
  const query = mark < 0 ? undefined : target.slice(mark + 1);
  if (path === '/') return notFound();
  if (!PATH.test(path)) return spelling('the path has characters or segments that no repository has');
  const [owner = '', name = '', ...rest] = path.slice(1).split('/');
  if ([owner, name, ...rest].some((segment) => segment === '.' || segment === '..'))
    return spelling('the path has a dot segment');

  const tail = rest.join('/');
  const isLfs = tail === 'info/lfs' || tail.startsWith('info/lfs/');
  if (!isLfs && tail !== 'info/refs' && tail !== 'git-upload-pack' && tail !== 'git-receive-pack')
    return notFound();
  const repo = parseRepository(owner, name);
  if (!repo) return spelling('the repository is not written as owner/name or owner/name.git');
  if (isLfs) return { ok: true, route: { kind: 'lfs', repo } };
  if (tail === 'git-upload-pack' || tail === 'git-receive-pack') return exchange(request, repo, tail, query);
  return advertise(request, repo, query);

  function notFound(): Parsed {
    return refuse(
      'not_found',
      'route',
      `this guard serves git's smart HTTP protocol only, not ${method} here`,
    );
  }
}

function advertise(request: RequestLine, repo: Repository, query: string | undefined): Parsed {
  if (request.method !== 'GET') return { ok: false, refusal: wrongMethod(request.method, 'GET') };
  if (query === undefined)
    return refuse(
      'not_found',
      'dumb-protocol',
      'the dumb HTTP protocol is not served; use a git with smart HTTP',
    );
  const service = /^service=([a-z-]+)$/.exec(query)?.[1];
  if (service === undefined)
    return spelling(
      'the query of info/refs is service=git-upload-pack or service=git-receive-pack, and nothing else',
    );
  if (service !== 'git-upload-pack' && service !== 'git-receive-pack')
    return refuse('not_found', 'service', 'the services are git-upload-pack and git-receive-pack');
  if (request.hasBody) return refuse('malformed_request', 'body', 'a GET has no body');
  const protocol = parseProtocol(request, service);
  if (protocol === 'odd') return oddProtocol();
  return { ok: true, route: { kind: 'advertise', service, repo, ...protocol } };
}

function exchange(
  request: RequestLine,
  repo: Repository,
  service: Service,
  query: string | undefined,
): Parsed {
  if (request.method !== 'POST') return { ok: false, refusal: wrongMethod(request.method, 'POST') };
  if (query !== undefined) return spelling('a POST takes no query');
  const wanted = `application/x-${service}-request`;
  if (request.contentType !== wanted)
    return refuse('malformed_request', 'content-type', `the Content-Type is ${wanted}, exactly`, 415);
  const gzip = request.contentEncoding === 'gzip';
  if (request.contentEncoding !== undefined && (!gzip || service === 'git-receive-pack'))
    return refuse(
      'malformed_request',
      'content-encoding',
      service === 'git-receive-pack'
        ? 'a push is never compressed as a whole; its commands must be readable'
        : 'the only Content-Encoding is gzip',
      415,
    );
  const protocol = parseProtocol(request, service);
  if (protocol === 'odd') return oddProtocol();
  return { ok: true, route: { kind: 'exchange', service, repo, gzip, ...protocol } };
}

/** `.git` is taken off once. @returns undefined where the names could mean something else to somebody */
export function parseRepository(owner: string, name: string): Repository | undefined {
  const bare = name.endsWith('.git') ? name.slice(0, -4) : name;
  const isName = (text: string): boolean =>
    /^[A-Za-z0-9._-]+$/.test(text) &&
    text.length <= MAX_NAME &&
    text !== '.' &&
    text !== '..' &&
    !text.toLowerCase().endsWith('.git');
  if (!isName(owner) || !isName(bare)) return undefined;
  return { owner: owner.toLowerCase(), name: bare.toLowerCase() };
}

/** `owner/name`, the form of policies, records and messages. */
export function repositoryName(repo: Repository): string {
  return `${repo.owner}/${repo.name}`;
}

/** The one spelling that is asked for upstream. */
export function upstreamPath(route: Exclude<Route, { kind: 'lfs' }>): string {
  const base = `/${route.repo.owner}/${route.repo.name}.git`;
  return route.kind === 'advertise'
    ? `${base}/info/refs?service=${route.service}`
    : `${base}/${route.service}`;
}

function parseProtocol(request: RequestLine, service: Service): { protocol?: ProtocolVersion } | 'odd' {
  if (request.gitProtocol === undefined || service === 'git-receive-pack') return {};
  const version = /^version=([012])$/.exec(request.gitProtocol)?.[1];
  return version === undefined ? 'odd' : { protocol: Number(version) as ProtocolVersion };
}

function oddProtocol(): Parsed {
  return refuse('malformed_request', 'git-protocol', 'Git-Protocol is version=0, version=1 or version=2');
}

function spelling(message: string): Parsed {
  return refuse('non_canonical_path', 'spelling', message);
}

function wrongMethod(method: string, allow: string): RouteRefusal {
  return {
    code: 'method_not_allowed',
    rule: 'method',
    message: `${method} is not served here, ${allow} is`,
    allow,
  };
}

function refuse(code: Refusal['code'], rule: string, message: string, status?: number): Parsed {
  return { ok: false, refusal: { code, rule, message, ...(status === undefined ? {} : { status }) } };
}
