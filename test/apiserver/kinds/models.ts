// The field types of every built-in kind, read from the generated models of @kubernetes/client-node (Kubernetes 1.36):
// the `.js` holds names, types and formats as JSON, the `.d.ts` the descriptions and which fields are required. Read
// as text and on demand, a few hundred small files at most; importing the package would load all of them.

import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** How a list merges: whole, as a set of scalars, or by the keys of its items (the first is strategic merge's). */
export type ListMerge = 'atomic' | 'set' | readonly string[];

export type Schema =
  | { type: 'any' | 'boolean' | 'int-or-string' | 'quantity' }
  | { type: 'string' | 'integer' | 'number'; format?: string }
  | { type: 'map'; values: Schema }
  | { type: 'list'; items: Schema; merge: ListMerge }
  | { type: 'model'; model: Model };

export interface Field {
  schema: Schema;
  description: string;
  required: boolean;
}

export interface Model {
  /** The Go type's name, without a version: `PodSpec`. */
  name: string;
  /** The generated class: `V1PodSpec`. */
  className: string;
  description: string;
  fields: ReadonlyMap<string, Field>;
}

const MERGE: Record<string, ListMerge> = {
  'ObjectMeta.ownerReferences': ['uid'],
  'ObjectMeta.finalizers': 'set',
  'PodSpec.containers': ['name'],
  'PodSpec.initContainers': ['name'],
  'PodSpec.ephemeralContainers': ['name'],
  'PodSpec.volumes': ['name'],
  'PodSpec.imagePullSecrets': ['name'],
  'PodSpec.hostAliases': ['ip'],
  'PodSpec.topologySpreadConstraints': ['topologyKey', 'whenUnsatisfiable'],
  'PodSpec.schedulingGates': ['name'],
  'PodSpec.resourceClaims': ['name'],
  'Container.ports': ['containerPort', 'protocol'],
  'Container.env': ['name'],
  'Container.volumeMounts': ['mountPath'],
  'Container.volumeDevices': ['devicePath'],
  'EphemeralContainer.ports': ['containerPort', 'protocol'],
  'EphemeralContainer.env': ['name'],
  'EphemeralContainer.volumeMounts': ['mountPath'],
  'ResourceRequirements.claims': ['name'],
  'PodStatus.podIPs': ['ip'],
  'ServiceSpec.ports': ['port', 'protocol'],
  'ServiceAccount.secrets': ['name'],
  'NodeSpec.podCIDRs': 'set',
  'NodeStatus.addresses': ['type'],
  'MutatingWebhookConfiguration.webhooks': ['name'],
  'ValidatingWebhookConfiguration.webhooks': ['name'],
};

/** Maps from a name to a resource quantity, which JSON may give as a number. */
const QUANTITIES = new Set([
  'limits',
  'requests',
  'capacity',
  'allocatable',
  'hard',
  'used',
  'max',
  'min',
  'default',
  'defaultRequest',
  'maxLimitRequestRatio',
  'overhead',
  'podFixed',
  'sizeLimit',
  'divisor',
]);

const folder = join(
  dirname(createRequire(import.meta.url).resolve('@kubernetes/client-node')),
  'gen',
  'models',
);
const loaded = new Map<string, Model>();

/** The model of a kind of a group and version. */
export function modelOf(group: string, version: string, kind: string): Model | undefined {
  const short = group.split('.')[0] || 'core';
  const upper = version[0]?.toUpperCase() + version.slice(1);
  for (const name of [`${short[0]?.toUpperCase()}${short.slice(1)}${upper}${kind}`, `${upper}${kind}`]) {
    if (loaded.has(name) || existsSync(join(folder, `${name}.js`))) return load(name);
  }
  return undefined;
}

export const OBJECT_META = (): Model => load('V1ObjectMeta');

interface Attribute {
  baseName: string;
  type: string;
  format: string;
}

function load(className: string): Model {
  const known = loaded.get(className);
  if (known) return known;
  const fields = new Map<string, Field>();
  const name = /^(?:[A-Z][a-z]+)??V\d+(?:(?:alpha|beta)\d+)?(.+)$/.exec(className)?.[1] ?? className;
  const declared = readFileSync(join(folder, `${className}.d.ts`), 'utf8');
  const about = /\/\*\*\n\* (.*)\n\*\/\nexport declare class/.exec(declared)?.[1] ?? '';
  const model: Model = { name, className, description: plain(about), fields };
  loaded.set(className, model); // before its fields: JSONSchemaProps refers to itself
  const source = readFileSync(join(folder, `${className}.js`), 'utf8');
  const json = /attributeTypeMap = (\[[\s\S]*?\n\]|\[\]);/.exec(source)?.[1] ?? '[]';
  const docs = readDeclarations(declared);
  for (const attribute of JSON.parse(json) as (Attribute & { name: string })[]) {
    const doc = docs.get(attribute.name) ?? { description: '', required: false };
    fields.set(attribute.baseName, { ...doc, schema: schemaOf(name, attribute) });
  }
  return model;
}

function readDeclarations(declared: string): Map<string, { description: string; required: boolean }> {
  const docs = new Map<string, { description: string; required: boolean }>();
  for (const match of declared.matchAll(/(?: {4}\/\*\*\n {4}\* (.*)\n {4}\*\/\n)? {4}'([^']+)'(\??):/g))
    docs.set(match[2] ?? '', { description: plain(match[1] ?? ''), required: match[3] === '' });
  return docs;
}

function plain(comment: string): string {
  return comment.replace(/\\(['"\\])/g, '$1');
}

function schemaOf(owner: string, { baseName, type, format }: Attribute): Schema {
  const list = /^Array<(.+)>$/.exec(type)?.[1];
  if (list !== undefined) {
    const known = MERGE[`${owner}.${baseName}`];
    const merge = known ?? (baseName === 'conditions' && owner.endsWith('Status') ? ['type'] : 'atomic');
    return { type: 'list', items: schemaOf('', { baseName: '', type: list, format }), merge };
  }
  const map = /^\{ \[key: string\]: (.+); \}$/.exec(type)?.[1];
  if (map !== undefined) {
    if (map === 'string' && QUANTITIES.has(baseName)) return { type: 'map', values: { type: 'quantity' } };
    return { type: 'map', values: schemaOf('', { baseName: '', type: map, format }) };
  }
  switch (type) {
    case 'any':
    case 'object':
      return { type: 'any' };
    case 'boolean':
      return { type: 'boolean' };
    case 'IntOrString':
      return { type: 'int-or-string' };
    case 'number':
      return format === 'double'
        ? { type: 'number', format }
        : { type: 'integer', format: format || 'int32' };
    case 'Date':
    case 'V1MicroTime':
      return { type: 'string', format: 'date-time' };
    case 'string':
      if (QUANTITIES.has(baseName)) return { type: 'quantity' };
      return format ? { type: 'string', format } : { type: 'string' };
    default:
      return { type: 'model', model: load(type) };
  }
}
