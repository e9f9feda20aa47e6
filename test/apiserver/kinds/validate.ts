// What makes an object Invalid (422): names, labels, required fields, and the rules of single kinds that people run
// into. The causes are those of the real server.

import { type Cause, invalid } from '../objects/status.ts';
import {
  arr,
  equal,
  isObject,
  type Json,
  type JsonObject,
  type KObject,
  num,
  obj,
  objects,
  text,
} from '../objects/values.ts';
import type { Model } from './models.ts';
import type { ResourceType } from './resources.ts';

const SUBDOMAIN =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and " +
  "end with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
  "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with " +
  "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is " +
  "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035 =
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, " +
  "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is " +
  "'[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and " +
  "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is " +
  "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const wrong = (field: string, value: Json | undefined, why: string): Cause => ({
  reason: 'FieldValueInvalid',
  message: `Invalid value: ${JSON.stringify(value)}: ${why}`,
  field,
});
const required = (field: string, why = ''): Cause => ({
  reason: 'FieldValueRequired',
  message: `Required value${why ? `: ${why}` : ''}`,
  field,
});
const forbiddenField = (field: string, why: string): Cause => ({
  reason: 'FieldValueForbidden',
  message: `Forbidden: ${why}`,
  field,
});

export function nameProblem(type: ResourceType, name: string): string {
  if (type.group === 'rbac.authorization.k8s.io' || type.resource === 'certificatesigningrequests')
    return name === '.' || name === '..' || /[/%]/.test(name) ? "may not contain '/' or '%'" : '';
  if (type.resource === 'namespaces' && type.group === '')
    return /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name) && name.length <= 63 ? '' : LABEL;
  if (type.resource === 'services' && type.group === '')
    return /^[a-z]([-a-z0-9]*[a-z0-9])?$/.test(name) && name.length <= 63 ? '' : LABEL_1035;
  const fine = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
  return fine.test(name) && name.length <= 253 ? '' : SUBDOMAIN;
}

/** @throws ApiError 422 with a cause for each problem */
export function validate(
  type: ResourceType,
  model: Model | undefined,
  object: KObject,
  before?: KObject,
): void {
  const causes: Cause[] = [];
  const { name, generateName } = object.metadata as JsonObject;
  if (!name) causes.push(required('metadata.name', generateName ? '' : 'name or generateName is required'));
  else {
    const problem = nameProblem(type, text(name));
    if (problem) causes.push(wrong('metadata.name', name, problem));
  }
  labels(object.metadata.labels, 'metadata.labels', causes);
  const spec = model?.fields.get('spec')?.schema;
  if (spec?.type === 'model') missing(obj(object.spec), spec.model, 'spec', causes);
  else if (model)
    for (const [key, field] of model.fields)
      if (field.required && object[key] === undefined && key !== 'status') causes.push(required(key));
  if (!type.custom) KINDS[type.kind]?.(object, causes, before);
  if (causes.length > 0) throw invalid(type.kind, type.group, text(name), causes);
}

function labels(value: Json | undefined, path: string, causes: Cause[]): void {
  for (const item of Object.values(obj(value)))
    if (typeof item === 'string' && (!/^(([A-Za-z0-9][-\w.]*)?[A-Za-z0-9])?$/.test(item) || item.length > 63))
      causes.push(wrong(path, item, LABEL_VALUE));
}

function missing(value: JsonObject, model: Model, path: string, causes: Cause[]): void {
  for (const [key, field] of model.fields) {
    const here = `${path}.${key}`;
    const item = value[key];
    if (item === undefined || (field.required && item === '')) {
      if (field.required) causes.push(required(here));
      continue;
    }
    const { schema } = field;
    if (schema.type === 'model' && isObject(item)) missing(item, schema.model, here, causes);
    else if (schema.type === 'list' && schema.items.type === 'model') {
      const { model: inner } = schema.items;
      for (const [i, one] of objects(item).entries()) missing(one, inner, `${here}[${i}]`, causes);
      if (field.required && arr(item).length === 0) causes.push(required(here));
    }
  }
}

type Check = (object: KObject, causes: Cause[], before: KObject | undefined) => void;

const selectorMatchesTemplate: Check = (object, causes, before) => {
  const spec = obj(object.spec);
  const selector = obj(obj(spec.selector).matchLabels);
  const found = obj(obj(obj(spec.template).metadata).labels);
  const fits = Object.entries(selector).every(([key, value]) => found[key] === value);
  if (!fits)
    causes.push(wrong('spec.template.metadata.labels', found, '`selector` does not match template `labels`'));
  if (Object.keys(obj(spec.selector)).length === 0)
    causes.push(wrong('spec.selector', spec.selector ?? {}, 'empty selector is invalid for deployment'));
  if (num(spec.replicas) < 0)
    causes.push(wrong('spec.replicas', spec.replicas, 'must be greater than or equal to 0'));
  if (before && !equal(obj(before.spec).selector, spec.selector))
    causes.push(wrong('spec.selector', spec.selector, 'field is immutable'));
};

const roleRefStays: Check = (object, causes, before) => {
  if (before && !equal(before.roleRef, object.roleRef))
    causes.push(wrong('roleRef', object.roleRef, 'cannot change roleRef'));
};

const immutableData: Check = (object, causes, before) => {
  if (before?.immutable !== true) return;
  for (const field of ['data', 'binaryData'])
    if (!equal(before[field], object[field]))
      causes.push(forbiddenField(field, 'field is immutable when `immutable` is set'));
};

const KINDS: Record<string, Check> = {
  Deployment: selectorMatchesTemplate,
  ReplicaSet: selectorMatchesTemplate,
  StatefulSet: selectorMatchesTemplate,
  DaemonSet: selectorMatchesTemplate,
  RoleBinding: roleRefStays,
  ClusterRoleBinding: roleRefStays,
  ConfigMap(object, causes, before) {
    for (const key of Object.keys(obj(object.data)))
      if (!/^[-._a-zA-Z0-9]+$/.test(key))
        causes.push(
          wrong(
            `data[${key}]`,
            key,
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
          ),
        );
    immutableData(object, causes, before);
  },
  Secret(object, causes, before) {
    if (before && before.type !== object.type) causes.push(wrong('type', object.type, 'field is immutable'));
    immutableData(object, causes, before);
  },
  Pod(object, causes, before) {
    if (!before) return;
    const frozen = (pod: KObject): JsonObject => {
      const { tolerations, activeDeadlineSeconds, terminationGracePeriodSeconds, ...spec } = obj(pod.spec);
      const images = (list: Json | undefined): JsonObject[] =>
        objects(list).map(({ image, resources, ...rest }) => rest);
      return {
        ...spec,
        containers: images(spec.containers),
        initContainers: images(spec.initContainers),
        ephemeralContainers: [],
      };
    };
    if (!equal(frozen(object), frozen(before)))
      causes.push(
        forbiddenField(
          'spec',
          'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,' +
            '`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),' +
            '`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
        ),
      );
  },
  Service(object, causes, before) {
    const spec = obj(object.spec);
    if (arr(spec.ports).length === 0 && spec.clusterIP !== 'None' && spec.type !== 'ExternalName')
      causes.push(required('spec.ports'));
    if (before && obj(before.spec).clusterIP !== spec.clusterIP)
      causes.push(wrong('spec.clusterIPs[0]', spec.clusterIP, 'may not change once set'));
  },
  Job(object, causes, before) {
    if (before && !equal(obj(before.spec).template, obj(object.spec).template))
      causes.push(wrong('spec.template', '...', 'field is immutable'));
  },
};
