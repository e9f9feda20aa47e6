// The parameters of list, watch and deletecollection, checked as the server checks them.

import type { ResourceType } from '../kinds/resources.ts';
import {
  type FieldTerm,
  type LabelTerm,
  matchesFields,
  matchesLabels,
  parseFieldSelector,
  parseLabelSelector,
  SELECTABLE,
} from '../objects/selectors.ts';
import { ApiError, badRequest, failure, invalid } from '../objects/status.ts';
import type { KObject } from '../objects/values.ts';
import { type Call, param } from './http.ts';
import { flag } from './target.ts';

export interface ListOptions {
  fields: FieldTerm[];
  labels: LabelTerm[];
  limit: number;
  continue: string;
  /** '' when absent; '0' is "whatever you have". */
  resourceVersion: string;
  resourceVersionMatch: string;
  timeoutSeconds: number | undefined;
  allowWatchBookmarks: boolean;
  sendInitialEvents: boolean | undefined;
}

function integer(call: Call, key: string): number | undefined {
  const raw = call.target.query.get(key)?.[0];
  if (raw === undefined || raw === '') return undefined;
  if (!/^[+-]?\d+$/.test(raw))
    throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(raw)}: invalid syntax`);
  return Number(raw);
}

/** @throws ApiError 400, 422 */
export function readListOptions(call: Call, type: ResourceType): ListOptions {
  const limit = integer(call, 'limit') ?? 0;
  const timeoutSeconds = integer(call, 'timeoutSeconds');
  const fields = parseFieldSelector(param(call, 'fieldSelector'));
  if (!fields) throw badRequest(`invalid field selector: ${JSON.stringify(param(call, 'fieldSelector'))}`);
  const selectable = ['metadata.name', ...(type.namespaced ? ['metadata.namespace'] : [])];
  if (!type.custom) selectable.push(...(SELECTABLE[type.resource] ?? []));
  for (const { field } of fields)
    if (!selectable.includes(field))
      throw badRequest(
        `Unable to find "${type.group}/${type.version}, Resource=${type.resource}" that match label selector ` +
          `"${param(call, 'labelSelector')}", field selector "${param(call, 'fieldSelector')}": field label not ` +
          `supported: ${field}`,
      );
  const labels = parseLabelSelector(param(call, 'labelSelector'));
  if (!labels)
    throw badRequest(`unable to parse requirement: ${JSON.stringify(param(call, 'labelSelector'))}`);
  const options: ListOptions = {
    fields,
    labels,
    limit,
    continue: param(call, 'continue'),
    resourceVersion: param(call, 'resourceVersion'),
    resourceVersionMatch: param(call, 'resourceVersionMatch'),
    timeoutSeconds,
    allowWatchBookmarks: flag(call.target.query, 'allowWatchBookmarks'),
    sendInitialEvents: call.target.query.has('sendInitialEvents')
      ? flag(call.target.query, 'sendInitialEvents')
      : undefined,
  };
  if (options.resourceVersion !== '' && !/^\d+$/.test(options.resourceVersion))
    throw badRequest(
      `resourceVersion: Invalid value: ${JSON.stringify(options.resourceVersion)}: invalid syntax`,
    );
  return options;
}

export function matches(options: ListOptions, object: KObject): boolean {
  return matchesFields(options.fields, object) && matchesLabels(options.labels, object);
}

/** @throws ApiError 422 */
export function checkMatch(options: ListOptions, watching: boolean): void {
  const { resourceVersion, resourceVersionMatch: match, sendInitialEvents } = options;
  const refuse = (why: string, field = 'resourceVersionMatch'): never => {
    throw invalid('ListOptions', 'meta.k8s.io', '', [
      { reason: 'FieldValueForbidden', message: `Forbidden: ${why}`, field },
    ]);
  };
  if (sendInitialEvents !== undefined) {
    if (!watching) refuse('sendInitialEvents is forbidden for list', 'sendInitialEvents');
    if (match !== 'NotOlderThan')
      refuse('sendInitialEvents requires setting resourceVersionMatch to NotOlderThan');
    if (sendInitialEvents && !options.allowWatchBookmarks)
      refuse('sendInitialEvents requires setting allowWatchBookmarks to true', 'allowWatchBookmarks');
    return;
  }
  if (match === '') return;
  if (watching) refuse('resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided');
  if (resourceVersion === '') refuse('resourceVersionMatch is forbidden unless resourceVersion is provided');
  if (match !== 'Exact' && match !== 'NotOlderThan') refuse(`supported values: "Exact", "NotOlderThan"`);
  if (match === 'Exact' && resourceVersion === '0')
    refuse('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"');
}

/** @throws ApiError 504 as the watch cache does for a version of the future */
export function notTooNew(options: ListOptions, current: number): void {
  const asked = Number(options.resourceVersion || 0);
  if (asked <= current) return;
  const error = failure(504, 'Timeout', `Too large resource version: ${asked}, current: ${current}`, {
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    retryAfterSeconds: 1,
  });
  throw new ApiError(error.status, 504, { 'Retry-After': '1' });
}
