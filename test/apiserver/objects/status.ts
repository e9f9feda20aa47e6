// The Status objects of refusals, in the words of the real server: kubectl and client-go act on reason and details.

import type { GroupResource } from '../kinds/resources.ts';
import { type JsonObject, obj } from './values.ts';

export interface Cause extends JsonObject {
  reason: string;
  message: string;
  field?: string;
}

/** Thrown by handlers, answered as a Status. `headers` go with it (Retry-After). */
export class ApiError extends Error {
  readonly status: JsonObject;
  readonly code: number;
  readonly headers: Record<string, string>;

  constructor(status: JsonObject, code: number, headers: Record<string, string> = {}) {
    super(typeof status.message === 'string' ? status.message : `status ${code}`);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

export function failure(code: number, reason: string, message: string, details?: JsonObject): ApiError {
  return new ApiError(
    {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message,
      ...(reason ? { reason } : {}),
      ...(details ? { details } : {}),
      code,
    },
    code,
  );
}

/** `pods` or `deployments.apps`, as messages name a resource. */
export function qualified(resource: GroupResource): string {
  return resource.group ? `${resource.resource}.${resource.group}` : resource.resource;
}

function details(resource: GroupResource, name: string, more: JsonObject = {}): JsonObject {
  return {
    ...(name ? { name } : {}),
    ...(resource.group ? { group: resource.group } : {}),
    kind: resource.resource,
    ...more,
  };
}

export const unauthorized = (): ApiError => failure(401, 'Unauthorized', 'Unauthorized');

export const badRequest = (message: string): ApiError => failure(400, 'BadRequest', message);

export const notFound = (resource: GroupResource, name: string): ApiError =>
  failure(404, 'NotFound', `${qualified(resource)} "${name}" not found`, details(resource, name));

export const noRoute = (): ApiError =>
  failure(404, 'NotFound', 'the server could not find the requested resource', {});

export const methodNotAllowed = (): ApiError =>
  failure(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource', {});

export const alreadyExists = (resource: GroupResource, name: string): ApiError =>
  failure(409, 'AlreadyExists', `${qualified(resource)} "${name}" already exists`, details(resource, name));

export const conflict = (resource: GroupResource, name: string, why: string): ApiError =>
  failure(
    409,
    'Conflict',
    `Operation cannot be fulfilled on ${qualified(resource)} "${name}": ${why}`,
    details(resource, name),
  );

export const modified = (resource: GroupResource, name: string): ApiError =>
  conflict(
    resource,
    name,
    'the object has been modified; please apply your changes to the latest version and try again',
  );

export function forbidden(resource: GroupResource, name: string, why: string, causes?: Cause[]): ApiError {
  if (!resource.resource) return failure(403, 'Forbidden', `forbidden: ${why}`, {});
  return failure(
    403,
    'Forbidden',
    `${qualified(resource)}${name ? ` "${name}"` : ''} is forbidden: ${why}`,
    details(resource, name, causes ? { causes } : {}),
  );
}

/** 422 with a cause for each field; the message is what the causes say, in the real server's brackets. */
export function invalid(kind: string, group: string, name: string, causes: Cause[]): ApiError {
  const said = causes.map((cause) => `${cause.field}: ${cause.message}`);
  const all = said.length === 1 ? (said[0] ?? '') : `[${said.join(', ')}]`;
  const full = group ? `${kind}.${group}` : kind;
  return failure(422, 'Invalid', `${full} "${name}" is invalid: ${all}`, {
    ...(name ? { name } : {}),
    ...(group ? { group } : {}),
    kind,
    causes,
  });
}

export const expired = (message: string): ApiError => failure(410, 'Expired', message);

/** 429 as priority and fairness answers it. */
export function tooManyRequests(retryAfterSeconds: number): ApiError {
  const error = failure(429, 'TooManyRequests', 'too many requests, please try again later', {
    retryAfterSeconds,
  });
  return new ApiError(error.status, 429, { 'Retry-After': String(retryAfterSeconds) });
}

export const unsupportedMediaType = (accepted: string[]): ApiError =>
  failure(
    415,
    'UnsupportedMediaType',
    `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`,
  );

export const notAcceptable = (accepted: string[]): ApiError =>
  failure(406, 'NotAcceptable', `only the following media types are accepted: ${accepted.join(', ')}`);

export const internal = (message: string): ApiError =>
  failure(500, 'InternalError', `Internal error occurred: ${message}`, { causes: [{ message }] });

/** The Status of a deletion that is done. */
export function deleted(resource: GroupResource, name: string, uid: string): JsonObject {
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Success',
    details: { ...obj(details(resource, name)), uid },
  };
}
