// `kubectl auth can-i` and its kind, answered with the truth: yes only where both the guard's policy and the cluster say
// yes, with the reason naming who refuses. The review is read, judged by the very function that judges requests, written
// anew as JSON for the cluster, and the cluster's answer is joined with the guard's.

import type { BodyTransform } from '../relay/forward.ts';
import { mediaType } from './headers.ts';
import { decide, type Facts, type SelfReview } from './policy.ts';
import { bytesField, readMessage, textField, unwrap } from './protobuf.ts';
import type { RequestInfo } from './request-info.ts';
import { type ClusterRules, intersectRules } from './rules-review.ts';
import type { Words } from './status.ts';
import { VERBS } from './verbs.ts';

export const MAX_REVIEW_BYTES = 256 * 1024;

type Value = { [key: string]: unknown };

export interface Review {
  /** JSON for the cluster. */
  readonly body: Buffer;
  /** Joins the cluster's answer with the guard's. */
  readonly answer: () => BodyTransform;
}

export interface Attributes {
  readonly namespace: string;
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  readonly name: string;
}

interface Spec {
  readonly resourceAttributes?: Attributes & {
    readonly fieldSelector?: unknown;
    readonly labelSelector?: unknown;
  };
  readonly nonResourceAttributes?: { readonly path: string; readonly verb: string };
  readonly namespace?: string;
}

/** @returns what to send and how to answer, or why it is refused */
export function readReview(
  kind: SelfReview,
  info: RequestInfo,
  contentType: string | undefined,
  body: Buffer,
  facts: Facts,
): Review | Words {
  const spec = readSpec(kind, contentType, body);
  if ('code' in spec) return spec;
  const review = { kind: KINDS[kind], apiVersion: `${info.apiGroup}/${info.apiVersion}`, metadata: {}, spec };
  return {
    body: Buffer.from(JSON.stringify(review)),
    answer: () => joinAnswer((status) => join(kind, spec, facts, status)),
  };
}

const KINDS = {
  selfsubjectaccessreviews: 'SelfSubjectAccessReview',
  selfsubjectrulesreviews: 'SelfSubjectRulesReview',
  selfsubjectreviews: 'SelfSubjectReview',
} as const;

function readSpec(kind: SelfReview, contentType: string | undefined, body: Buffer): Spec | Words {
  const type = mediaType(contentType);
  const malformed = (message: string): Words => ({ code: 'malformed_request', message });
  if (type === 'application/vnd.kubernetes.protobuf')
    return protobufSpec(kind, body) ?? malformed(`the body is no ${KINDS[kind]}`);
  if (type !== '' && type !== 'application/json')
    return { ...malformed('a self review is read in JSON or in protobuf'), status: 415 };
  let review: unknown;
  try {
    review = JSON.parse(body.toString('utf8'));
  } catch {
    return malformed('the body is not JSON');
  }
  if (!isObject(review) || (review.kind !== undefined && review.kind !== KINDS[kind]))
    return malformed(`the body is no ${KINDS[kind]}`);
  const spec = isObject(review.spec) ? review.spec : {};
  if (kind === 'selfsubjectreviews') return {};
  if (kind === 'selfsubjectrulesreviews') return { namespace: str(spec.namespace) };
  const { resourceAttributes: resource, nonResourceAttributes: path } = spec;
  if (isObject(resource) === isObject(path))
    return malformed('exactly one of resourceAttributes and nonResourceAttributes is asked about');
  if (isObject(path)) return { nonResourceAttributes: { path: str(path.path), verb: str(path.verb) } };
  const asked = resource as Value;
  return {
    resourceAttributes: {
      namespace: str(asked.namespace),
      verb: str(asked.verb),
      group: str(asked.group),
      version: str(asked.version),
      resource: str(asked.resource),
      subresource: str(asked.subresource),
      name: str(asked.name),
      ...(asked.fieldSelector === undefined ? {} : { fieldSelector: asked.fieldSelector }),
      ...(asked.labelSelector === undefined ? {} : { labelSelector: asked.labelSelector }),
    },
  };
}

/** Numbers of generated.proto in k8s.io/api/authorization/v1. */
function protobufSpec(kind: SelfReview, body: Buffer): Spec | undefined {
  const object = unwrap(body);
  const review = object?.kind === KINDS[kind] ? readMessage(object.raw) : undefined;
  if (!review) return undefined;
  if (kind === 'selfsubjectreviews') return {};
  const spec = readMessage(bytesField(review, 2) ?? Buffer.alloc(0));
  if (!spec) return undefined;
  if (kind === 'selfsubjectrulesreviews') return { namespace: textField(spec, 1) };
  const [resourceBytes, pathBytes] = [bytesField(spec, 1), bytesField(spec, 2)];
  const resource = resourceBytes && readMessage(resourceBytes);
  const path = pathBytes && readMessage(pathBytes);
  if ((resource === undefined) === (path === undefined)) return undefined;
  if (path) return { nonResourceAttributes: { path: textField(path, 1), verb: textField(path, 2) } };
  const [namespace, verb, group, version, name, subresource, last] = [1, 2, 3, 4, 7, 6, 5].map((n) =>
    textField(resource ?? [], n),
  );
  return {
    resourceAttributes: { namespace, verb, group, version, name, subresource, resource: last } as Attributes,
  };
}

function joinAnswer(change: (status: Value) => Value): BodyTransform {
  let held: Buffer[] = [];
  let size = 0;
  return {
    whole: true,
    push(chunk) {
      size += chunk.length;
      if (size > 8 * MAX_REVIEW_BYTES) throw new Error('the answer to a self review is too large');
      held.push(chunk);
      return Buffer.alloc(0);
    },
    end() {
      const review = JSON.parse(Buffer.concat(held).toString('utf8')) as unknown;
      held = [];
      if (!isObject(review) || !isObject(review.status))
        throw new Error('the answer to a self review has no status');
      return Buffer.from(`${JSON.stringify({ ...review, status: change(review.status) })}\n`);
    },
  };
}

function join(kind: SelfReview, spec: Spec, facts: Facts, status: Value): Value {
  if (kind === 'selfsubjectreviews') return status;
  if (kind === 'selfsubjectrulesreviews')
    return intersectRules(status as unknown as ClusterRules, spec.namespace ?? '', facts) as unknown as Value;
  const refused = guardRefuses(spec, facts);
  const cluster = str(status.reason);
  const reasons = [
    ...(refused === undefined ? [] : [`the guard refuses: ${refused}`]),
    ...(status.allowed === true ? [] : [`the cluster refuses${cluster === '' ? '' : `: ${cluster}`}`]),
  ];
  if (reasons.length === 0) return status;
  return {
    ...status,
    allowed: false,
    ...(refused === undefined ? {} : { denied: true }),
    reason: reasons.join('; '),
  };
}

/** The words of a refusal, or undefined. A `*` asks for all of it at once. */
export function guardRefuses(spec: Spec, facts: Facts): string | undefined {
  const { resourceAttributes: asked, nonResourceAttributes: path } = spec;
  if (path) {
    if (!path.path.startsWith('/')) return 'only paths are served';
    const method = path.verb === '*' ? 'PUT' : path.verb.toUpperCase();
    return refusedBecause({ ...EMPTY, method, verb: path.verb, path: path.path }, facts);
  }
  if (!asked) return 'nothing is asked about';
  const everything = asked.resource === '*' && facts.sides.some(({ resources }) => resources?.length === 0);
  if (everything) return 'Secrets and the dangerous subresources are left out';
  for (const verb of asked.verb === '*' ? VERBS : [asked.verb]) {
    const { namespace, name, subresource, resource, group: apiGroup, version: apiVersion } = asked;
    const named = resource === 'namespaces' && apiGroup === '' ? name : '';
    const info = {
      ...EMPTY,
      isResource: true,
      method: METHODS[verb] ?? 'GET',
      verb,
      apiGroup,
      apiVersion,
      resource,
      subresource,
      name,
      namespace: namespace === '' ? named : namespace,
    };
    const refused = refusedBecause(info, facts);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

const METHODS: { readonly [verb: string]: string } = {
  create: 'POST',
  update: 'PUT',
  patch: 'PATCH',
  delete: 'DELETE',
  deletecollection: 'DELETE',
};

const EMPTY: RequestInfo = {
  method: 'GET',
  isResource: false,
  verb: '',
  apiGroup: '',
  apiVersion: '',
  resource: '',
  subresource: '',
  namespace: '',
  name: '',
  verbFromPath: false,
  path: '',
  query: [],
};

function refusedBecause(info: RequestInfo, facts: Facts): string | undefined {
  const decision = decide(info, facts);
  return decision.allow ? undefined : decision.refusal.message;
}

function str(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function isObject(value: unknown): value is Value {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
