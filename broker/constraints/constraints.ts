// What narrows a grant. Which members apply is the kind's business (kinds/); here is their shape, how they are read and
// how they are written down for people. A wildcard is always spelt out: an empty list never means "everything", because
// an allowlist that fails open nearly always does so by being empty.

import { PosternError } from '../../common/errors.ts';
import { isPlain } from '../text.ts';

export interface Constraints {
  /** GitHub: `acme/tool`, `acme/*`, `*`, in any case. local_repo: folder names, case-sensitive. */
  readonly repos?: readonly string[];
  /** GitHub: `contents:read`, `pull_requests:write`, `*`. Absent: `contents:read`. */
  readonly permissions?: readonly string[];
  /** GitHub: globs of full ref names that a push may touch; `create:`, `update:`, `delete:` in front narrow one. */
  readonly pushRefs?: readonly string[];
  readonly allowDelete?: boolean;
  readonly contexts?: readonly string[];
  readonly namespaces?: readonly string[];
  /** Absent: get, list and watch. */
  readonly verbs?: readonly string[];
  /** Absent: everything but Secrets and the dangerous subresources. */
  readonly resources?: readonly string[];
  readonly registries?: readonly string[];
  /** Absent: every key of the secret; its keys are its scope. */
  readonly envKeys?: readonly string[];
  /** `api.example.com`, `*.example.com` (subdomains only), `*`. */
  readonly hosts?: readonly string[];
  readonly devices?: readonly string[];
  /** local_repo: a mount that can be written to. The one member that widens, so its absence is the safe reading. */
  readonly writable?: boolean;
}

export type ConstraintName = keyof Constraints;
export type ListName = Exclude<ConstraintName, 'allowDelete' | 'writable'>;

const LISTS: readonly ListName[] = [
  'repos',
  'permissions',
  'pushRefs',
  'contexts',
  'namespaces',
  'verbs',
  'resources',
  'registries',
  'envKeys',
  'hosts',
  'devices',
];
const FLAGS: readonly ConstraintName[] = ['allowDelete', 'writable'];

export const MAX_PATTERNS = 256;
const MAX_PATTERN_LENGTH = 512;

/**
 * Reads constraints from outside: known members only, lists of distinct, printable strings. Empty lists are left out,
 * as if they had not been given; whether a kind can do without is its own question.
 * @throws PosternError `invalid_input` naming the member
 */
export function parseConstraints(input: unknown, key = 'constraints'): Constraints {
  if (input === undefined || input === null) return {};
  if (typeof input !== 'object' || Array.isArray(input)) throw bad(key, 'they must be an object');
  const read: { [name: string]: readonly string[] | boolean } = {};
  for (const [name, value] of Object.entries(input)) {
    const path = `${key}.${name}`;
    if (value === undefined) continue;
    if ((LISTS as readonly string[]).includes(name)) {
      const list = readList(value, path);
      if (list.length > 0) read[name] = list;
    } else if ((FLAGS as readonly string[]).includes(name)) {
      if (typeof value !== 'boolean') throw bad(path, 'it must be true or false');
      if (value) read[name] = true;
    } else
      throw bad(key, `there is no constraint of that name; the names are ${[...LISTS, ...FLAGS].join(', ')}`);
  }
  return read;
}

function readList(value: unknown, path: string): readonly string[] {
  if (!Array.isArray(value)) throw bad(path, 'it must be a list');
  if (value.length > MAX_PATTERNS) throw bad(path, `there are more than ${MAX_PATTERNS} entries`);
  const seen = new Set<string>();
  for (const entry of value as unknown[]) {
    if (typeof entry !== 'string' || entry.trim() === '')
      throw bad(path, 'an entry is empty; write * for all');
    if (entry !== entry.trim() || !isPlain(entry, MAX_PATTERN_LENGTH))
      throw bad(path, 'an entry has white space around it, is too long or cannot be printed');
    seen.add(entry);
  }
  return [...seen];
}

/** Short and sorted, for listings and records: `contents:write; repos=acme/lib,acme/tool`. Patterns only. */
export function summarise(constraints: Constraints): string {
  const parts = Object.entries(constraints)
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([name, value]) => (Array.isArray(value) ? `${name}=${[...value].sort().join(',')}` : name));
  return parts.sort().join('; ') || 'none';
}

export function bad(key: string, problem: string, remedy?: string): PosternError {
  return new PosternError('invalid_input', `${key}: ${problem}.`, {
    key,
    ...(remedy === undefined ? {} : { remedy }),
  });
}

/** @throws PosternError `invalid_input` where a list that has to gate this kind is absent */
export function requireOne(constraints: Constraints, names: readonly ListName[], kind: string): void {
  if (names.some((name) => (constraints[name]?.length ?? 0) > 0)) return;
  throw bad(
    `constraints.${names[0]}`,
    `a grant of a ${kind} must say which ${names.join(' or ')} it is for; an empty list opens nothing`,
    'List them, or write * for all.',
  );
}

/** @throws PosternError `invalid_input` where a member does not apply to the kind: it would promise what nobody keeps */
export function onlyFor(constraints: Constraints, names: readonly ConstraintName[], kind: string): void {
  for (const name of Object.keys(constraints) as ConstraintName[])
    if (constraints[name] !== undefined && !names.includes(name))
      throw bad(
        `constraints.${name}`,
        `it does not narrow a ${kind}`,
        names.length > 0 ? `What does: ${names.join(', ')}.` : 'Leave it out.',
      );
}
