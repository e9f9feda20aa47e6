// Label and field selectors: what kubectl's -l and --field-selector become.

import type { KObject } from './values.ts';
import { at, obj } from './values.ts';

export interface FieldTerm {
  field: string;
  equals: boolean;
  value: string;
}

/** `a=b,c==d,e!=f` with `\` before a literal `,`, `=` or `\`. @returns undefined when it can't be read */
export function parseFieldSelector(raw: string): FieldTerm[] | undefined {
  const terms: FieldTerm[] = [];
  for (const part of split(raw)) {
    if (part === '') continue;
    const match = /^((?:[^=!\\]|\\.|!(?!=))*?)(!=|==|=)((?:[^\\]|\\.)*)$/s.exec(part);
    if (!match) return undefined;
    const [, field = '', operator, value = ''] = match;
    if (/(^|[^\\])=/.test(value)) return undefined;
    terms.push({ field, equals: operator !== '!=', value: value.replace(/\\([\\,=])/g, '$1') });
  }
  return terms;
}

function split(raw: string): string[] {
  const parts: string[] = [''];
  for (let i = 0; i < raw.length; i++) {
    const char = raw[i] ?? '';
    if (char === '\\') parts.push((parts.pop() ?? '') + char + (raw[++i] ?? ''));
    else if (char === ',') parts.push('');
    else parts.push((parts.pop() ?? '') + char);
  }
  return parts;
}

/** Fields that a kind can be selected by, beside metadata.name (and metadata.namespace where it has one). */
export const SELECTABLE: Record<string, readonly string[]> = {
  pods: [
    'spec.nodeName',
    'spec.restartPolicy',
    'spec.schedulerName',
    'spec.serviceAccountName',
    'spec.hostNetwork',
    'status.phase',
    'status.podIP',
    'status.podIPs',
    'status.nominatedNodeName',
  ],
  events: [
    'involvedObject.kind',
    'involvedObject.namespace',
    'involvedObject.name',
    'involvedObject.uid',
    'involvedObject.apiVersion',
    'involvedObject.resourceVersion',
    'involvedObject.fieldPath',
    'reason',
    'reportingComponent',
    'source',
    'type',
  ],
  secrets: ['type'],
  namespaces: ['status.phase'],
  nodes: ['spec.unschedulable'],
  services: ['spec.clusterIP', 'spec.type'],
  replicasets: ['status.replicas'],
  replicationcontrollers: ['status.replicas'],
  jobs: ['status.successful'],
  certificatesigningrequests: ['spec.signerName'],
};

export function matchesFields(terms: readonly FieldTerm[], object: KObject): boolean {
  return terms.every((term) => {
    const value = at(object, ...term.field.split('.'));
    const shown = value === undefined || value === null ? '' : String(value);
    return (shown === term.value) === term.equals;
  });
}

export type LabelTerm =
  | { key: string; operator: 'in'; values: string[] }
  | { key: string; operator: 'notin'; values: string[] }
  | { key: string; operator: 'exists' }
  | { key: string; operator: 'absent' };

const KEY = String.raw`(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?`;
const VALUE = String.raw`(?:[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?)?`;

/** @returns undefined when it can't be read */
export function parseLabelSelector(raw: string): LabelTerm[] | undefined {
  const terms: LabelTerm[] = [];
  let rest = raw.trim();
  while (rest !== '') {
    let match: RegExpExecArray | null;
    const set = new RegExp(String.raw`^(${KEY})\s+(in|notin)\s*\(([^()]*)\)\s*(?:,|$)`).exec(rest);
    const compare = new RegExp(String.raw`^(${KEY})\s*(==|=|!=)\s*(${VALUE})\s*(?:,|$)`).exec(rest);
    const exists = new RegExp(String.raw`^(!?)\s*(${KEY})\s*(?:,|$)`).exec(rest);
    if (set) {
      match = set;
      const values = (set[3] ?? '').split(',').map((value) => value.trim());
      terms.push({ key: set[1] ?? '', operator: set[2] === 'in' ? 'in' : 'notin', values });
    } else if (compare) {
      match = compare;
      terms.push({
        key: compare[1] ?? '',
        operator: compare[2] === '!=' ? 'notin' : 'in',
        values: [compare[3] ?? ''],
      });
    } else if (exists) {
      match = exists;
      terms.push({ key: exists[2] ?? '', operator: exists[1] ? 'absent' : 'exists' });
    } else return undefined;
    rest = rest.slice(match[0].length).trim();
  }
  return terms;
}

export function matchesLabels(terms: readonly LabelTerm[], object: KObject): boolean {
  const labels = obj(object.metadata.labels);
  return terms.every((term) => {
    const value = labels[term.key];
    if (term.operator === 'exists') return value !== undefined;
    if (term.operator === 'absent') return value === undefined;
    const among = typeof value === 'string' && term.values.includes(value);
    return term.operator === 'in' ? among : !among;
  });
}
