// Reviews: kinds that are answered and never stored. What a user may do comes from the same rules that judge requests.

import { randomUUID } from 'node:crypto';
import { modelOf } from '../kinds/models.ts';
import type { ResourceType } from '../kinds/resources.ts';
import { fieldsOf, toFieldsV1 } from '../objects/field-sets.ts';
import { type Cause, invalid } from '../objects/status.ts';
import { isObject, type JsonObject, kubeTime, obj, text } from '../objects/values.ts';
import type { Attributes, Identity, Rule, Users } from './users.ts';

export const REVIEWS = new Set([
  'selfsubjectaccessreviews',
  'selfsubjectrulesreviews',
  'selfsubjectreviews',
  'subjectaccessreviews',
  'localsubjectaccessreviews',
  'tokenreviews',
]);

export interface Reviewer {
  who: Identity;
  users: Users;
  manager: string;
  now: number;
}

/** @throws ApiError 422 */
export function review(type: ResourceType, namespace: string, body: JsonObject, by: Reviewer): JsonObject {
  const spec = obj(body.spec);
  const answer = (status: JsonObject): JsonObject => ({
    kind: type.kind,
    apiVersion: `${type.group}/${type.version}`,
    metadata: managed(type, spec, by),
    spec: type.resource === 'selfsubjectrulesreviews' ? {} : spec,
    status,
  });
  switch (type.resource) {
    case 'selfsubjectaccessreviews':
      return answer(verdict(by.users, by.who, readAttributes(type, spec)));
    case 'subjectaccessreviews':
    case 'localsubjectaccessreviews': {
      const attributes = readAttributes(type, spec);
      const groups = Array.isArray(spec.groups) ? spec.groups.map((one) => text(one)) : [];
      const user = text(spec.user);
      if (user === '' && groups.length === 0)
        refuse(type, 'spec.user', 'at least one of user or group must be specified');
      if (type.resource === 'localsubjectaccessreviews' && attributes.namespace !== namespace)
        refuse(type, 'spec.resourceAttributes.namespace', `must match metadata.namespace`);
      return answer(verdict(by.users, by.users.identity(user, groups), attributes));
    }
    case 'selfsubjectrulesreviews':
      if (text(spec.namespace) === '') refuse(type, 'spec.namespace', 'no namespace on request');
      return answer(rulesIn(text(spec.namespace), by.users.rulesFor(by.who)));
    case 'selfsubjectreviews':
      return {
        kind: type.kind,
        apiVersion: `${type.group}/${type.version}`,
        metadata: { creationTimestamp: kubeTime(by.now) },
        status: { userInfo: userInfo(by.who) },
      };
    default: {
      const found = by.users.byToken(text(spec.token));
      return answer(
        found
          ? { authenticated: true, user: userInfo(found), audiences: ['https://kubernetes.default.svc'] }
          : { user: {}, error: '[invalid bearer token, token lookup failed]' },
      );
    }
  }
}

function userInfo(who: Identity): JsonObject {
  return { username: who.username, ...(who.uid ? { uid: who.uid } : {}), groups: [...who.groups] };
}

function verdict(users: Users, who: Identity, attributes: Attributes): JsonObject {
  return users.allows(who, attributes) ? { allowed: true } : { allowed: false };
}

function readAttributes(type: ResourceType, spec: JsonObject): Attributes {
  const wanted = spec.resourceAttributes;
  const path = spec.nonResourceAttributes;
  if (isObject(wanted) === isObject(path))
    refuse(
      type,
      'spec.resourceAttributes',
      isObject(wanted)
        ? 'cannot be specified in combination with nonResourceAttributes'
        : 'exactly one of nonResourceAttributes or resourceAttributes must be specified',
    );
  if (isObject(path))
    return {
      verb: text(path.verb),
      path: text(path.path),
      group: '',
      resource: '',
      subresource: '',
      namespace: '',
      name: '',
    };
  const from = obj(wanted);
  return {
    verb: text(from.verb),
    group: text(from.group),
    resource: text(from.resource),
    subresource: text(from.subresource),
    namespace: text(from.namespace),
    name: text(from.name),
  };
}

function refuse(type: ResourceType, field: string, why: string): never {
  const cause: Cause = { reason: 'FieldValueInvalid', message: `Invalid value: null: ${why}`, field };
  throw invalid(type.kind, type.group, '', [cause]);
}

function rulesIn(namespace: string, rules: readonly Rule[]): JsonObject {
  const here = rules.filter((rule) => !rule.namespaces || rule.namespaces.includes(namespace));
  return {
    resourceRules: here
      .filter((rule) => rule.resources)
      .map((rule) => ({
        verbs: [...rule.verbs],
        apiGroups: [...(rule.apiGroups ?? [''])],
        resources: [...(rule.resources ?? [])],
        ...(rule.resourceNames ? { resourceNames: [...rule.resourceNames] } : {}),
      })),
    nonResourceRules: here
      .filter((rule) => rule.nonResourceURLs)
      .map((rule) => ({ verbs: [...rule.verbs], nonResourceURLs: [...(rule.nonResourceURLs ?? [])] })),
    incomplete: false,
  };
}

function managed(type: ResourceType, spec: JsonObject, by: Reviewer): JsonObject {
  const model = modelOf(type.group, type.version, type.kind);
  const set = model && fieldsOf({ spec }, model);
  if (!set || set.size === 0 || type.resource === 'selfsubjectrulesreviews') return {};
  return {
    managedFields: [
      {
        manager: by.manager,
        operation: 'Update',
        apiVersion: `${type.group}/${type.version}`,
        time: kubeTime(by.now),
        fieldsType: 'FieldsV1',
        fieldsV1: toFieldsV1(set),
      },
    ],
  };
}

/** serviceaccounts/token: a token that this server takes until it expires. */
export function tokenRequest(
  namespace: string,
  name: string,
  uid: string,
  body: JsonObject,
  users: Users,
  now: number,
): JsonObject {
  const spec = obj(body.spec);
  const asked = spec.expirationSeconds;
  const seconds = typeof asked === 'number' ? asked : 3600;
  if (seconds < 600)
    throw invalid('TokenRequest', 'authentication.k8s.io', '', [
      {
        reason: 'FieldValueInvalid',
        message: `Invalid value: ${seconds}: may not specify a duration less than 10 minutes`,
        field: 'spec.expirationSeconds',
      },
    ]);
  const subject = `system:serviceaccount:${namespace}:${name}`;
  const part = (value: JsonObject): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const claims = { sub: subject, exp: Math.floor(now / 1000) + seconds, jti: randomUUID() };
  const token = `${part({ alg: 'RS256', kid: 'test' })}.${part(claims)}.${Buffer.from(randomUUID()).toString('base64url')}`;
  users.issue(subject, ['system:serviceaccounts', `system:serviceaccounts:${namespace}`], token);
  setTimeout(() => users.revoke(token), Math.min(seconds * 1000, 2 ** 31 - 1)).unref();
  return {
    kind: 'TokenRequest',
    apiVersion: 'authentication.k8s.io/v1',
    metadata: { name, namespace, uid, creationTimestamp: kubeTime(now) },
    spec: { audiences: ['https://kubernetes.default.svc'], expirationSeconds: seconds, ...spec },
    status: { token, expirationTimestamp: kubeTime(now + seconds * 1000) },
  };
}
