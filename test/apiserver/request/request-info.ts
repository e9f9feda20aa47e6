// What a request asks for, read as kube-apiserver reads it: its RequestInfo, written from its documentation and proved
// against recorded answers. This is the server's own reader; the guard has another one, written apart from it, so that
// the two can be compared.

import { parseFieldSelector } from '../objects/selectors.ts';
import { first, flag, type Target } from './target.ts';

export interface RequestInfo {
  isResource: boolean;
  /** RBAC's verb; for other paths the lower-case method; '' for a method that has none. */
  verb: string;
  apiGroup: string;
  apiVersion: string;
  namespace: string;
  resource: string;
  subresource: string;
  name: string;
  path: string;
}

const VERBS: Record<string, string> = {
  POST: 'create',
  GET: 'get',
  HEAD: 'get',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};

/** @returns undefined where the real server gives up with a 500 (`/api/v1/watch` names nothing to watch) */
export function requestInfo(method: string, target: Target): RequestInfo | undefined {
  const info: RequestInfo = {
    isResource: false,
    verb: method.toLowerCase(),
    apiGroup: '',
    apiVersion: '',
    namespace: '',
    resource: '',
    subresource: '',
    name: '',
    path: target.path,
  };
  const trimmed = target.path.replace(/^\/+|\/+$/g, '');
  let parts = trimmed === '' ? [] : trimmed.split('/');
  if (parts.length < 3) return info;
  if (parts[0] === 'apis') {
    if (parts.length < 4) return info;
    info.apiGroup = parts[1] ?? '';
    parts = parts.slice(2);
  } else if (parts[0] === 'api') parts = parts.slice(1);
  else return info;

  info.isResource = true;
  info.apiVersion = parts[0] ?? '';
  parts = parts.slice(1);
  if (parts[0] === 'watch' || parts[0] === 'proxy') {
    if (parts.length < 2) return undefined;
    info.verb = parts[0];
    parts = parts.slice(1);
  } else info.verb = VERBS[method] ?? '';

  if (parts[0] === 'namespaces' && parts.length > 1) {
    info.namespace = parts[1] ?? '';
    if (parts.length > 2 && parts[2] !== 'status' && parts[2] !== 'finalize') parts = parts.slice(2);
  }
  info.resource = parts[0] ?? '';
  info.name = parts[1] ?? '';
  if (info.verb !== 'proxy') info.subresource = parts[2] ?? '';

  if (info.name === '' && info.verb === 'get') {
    info.verb = flag(target.query, 'watch') ? 'watch' : 'list';
    info.name = nameSelected(target);
  }
  if (info.name === '' && info.verb === 'delete') info.verb = 'deletecollection';
  return info;
}

/** `fieldSelector=metadata.name=x` names x; list options that can't be read make the server forget the selector. */
function nameSelected(target: Target): string {
  for (const key of ['limit', 'timeoutSeconds']) {
    const value = target.query.get(key)?.[0];
    if (value !== undefined && !/^[+-]?\d+$/.test(value)) return '';
  }
  const selector = parseFieldSelector(first(target.query, 'fieldSelector'));
  const exact = selector?.find((term) => term.field === 'metadata.name' && term.equals);
  const name = exact?.value ?? '';
  return name === '.' || name === '..' || /[/%]/.test(name) ? '' : name;
}
