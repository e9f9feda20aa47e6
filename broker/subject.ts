// Whom a grant is for, written as `--to` takes it: `project:/srv/app`, `project:*`, `executor:edge-01`,
// `label:region=eu,gpu=true`, `any`. Read strictly: a typo in the target of a grant must never widen it, so whatever is
// not one of these is an error and never a default.

import { PosternError } from '../common/errors.ts';
import { LABEL_KEY, LABEL_VALUE, normaliseProjectId, type Requester } from './requester.ts';
import { safeRef } from './safe-ref.ts';
import { isPlain } from './text.ts';

export type Subject =
  | { readonly type: 'project' | 'executor'; readonly value: string }
  /** Every pair must be among the requester's labels. */
  | { readonly type: 'label'; readonly labels: { readonly [label: string]: string } }
  | { readonly type: 'any' };

const FORMS = 'project:PATH, project:*, executor:ID, executor:*, label:key=value[,key=value], or any';

/** @throws PosternError `invalid_input` naming `key` */
export function parseSubject(text: string, key = 'subject'): Subject {
  const fail = (problem: string): PosternError =>
    new PosternError('invalid_input', `${key}: ${safeRef(text)} ${problem}; write ${FORMS}.`, { key });
  if (text === 'any' || text === '*') return { type: 'any' };
  const colon = text.indexOf(':');
  const type = text.slice(0, Math.max(0, colon));
  const value = text.slice(colon + 1);
  if (type !== 'project' && type !== 'executor' && type !== 'label') throw fail('is not a subject');
  if (value === '' || value.trim() !== value) throw fail('names nothing');
  if (!isPlain(value, 1024)) throw fail('is not usable');
  if (type === 'label') return { type, labels: parseLabels(value, fail) };
  if (value === '*') return { type, value };
  if (value.includes('*')) throw fail('has a star inside: a subject is one name or * alone');
  return { type, value: type === 'project' ? normaliseProjectId(value) : value };
}

function parseLabels(text: string, fail: (problem: string) => PosternError): { [label: string]: string } {
  const labels = new Map<string, string>();
  for (const pair of text.split(',')) {
    const [key = '', value = '', ...more] = pair.split('=');
    if (more.length > 0 || !LABEL_KEY.test(key) || !LABEL_VALUE.test(value))
      throw fail('has a label that is not key=value');
    if (labels.has(key)) throw fail('names a label twice');
    labels.set(key, value);
  }
  return Object.fromEntries([...labels].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The spelling that `parseSubject` reads back; one for each subject. */
export function formatSubject(subject: Subject): string {
  switch (subject.type) {
    case 'any':
      return 'any';
    case 'label':
      return `label:${Object.entries(subject.labels)
        .map(([key, value]) => `${key}=${value}`)
        .sort()
        .join(',')}`;
    default:
      return `${subject.type}:${subject.value}`;
  }
}

/** Whether the subject selects the requester. An empty name on either side never matches. */
export function selects(subject: Subject, requester: Requester): boolean {
  switch (subject.type) {
    case 'any':
      return true;
    case 'label': {
      const pairs = Object.entries(subject.labels);
      return pairs.length > 0 && pairs.every(([key, value]) => own(requester.labels, key) === value);
    }
    default: {
      const id = subject.type === 'project' ? requester.projectId : requester.executorId;
      if (id === undefined || id === '' || subject.value === '') return false;
      return subject.value === '*' || subject.value === id;
    }
  }
}

function own(labels: { readonly [label: string]: string }, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}

/** Whether it selects an open-ended set: `any`, or a star. Labels name a property of machines that somebody chose. */
export function isWildcard(subject: Subject): boolean {
  return subject.type === 'any' || (subject.type !== 'label' && subject.value === '*');
}

/** Narrow first: where two grants would set the same variable, the one that names its target wins. */
export function breadth(subject: Subject): number {
  if (subject.type === 'any') return 3;
  if (subject.type === 'label') return 1;
  return subject.value === '*' ? 2 : 0;
}

/** The index value under which a grant for this subject is stored. */
export function subjectKey(subject: Subject): string {
  if (subject.type !== 'label') return formatSubject(subject);
  return `label:${
    Object.entries(subject.labels)
      .map(([key, value]) => `${key}=${value}`)
      .sort()[0]
  }`;
}

/** Every index value under which a grant that selects the requester can be: `selects` decides among what is found. */
export function requesterKeys(requester: Requester): string[] {
  return [
    ...(requester.projectId === undefined ? [] : [`project:${requester.projectId}`, 'project:*']),
    ...(requester.executorId === undefined ? [] : [`executor:${requester.executorId}`, 'executor:*']),
    ...Object.entries(requester.labels).map(([key, value]) => `label:${key}=${value}`),
    'any',
  ];
}
