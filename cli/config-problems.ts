// What is wrong with a configuration, in words: every problem at once, each with its path, the value (never one that
// could be a credential) and what would be right. Names that are nearly right get a suggestion.

import type { z } from 'zod';
import { PosternError } from '../common/errors.ts';

export interface ConfigProblem {
  /** `git.upstreams[1].url`, or a variable's name. */
  readonly key: string;
  readonly message: string;
}

/** `invalid_config`; the message has a line for each problem. */
export class ConfigError extends PosternError {
  /** The file, as messages name it. */
  readonly where: string;
  readonly problems: readonly ConfigProblem[];

  constructor(where: string, problems: readonly ConfigProblem[]) {
    const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
    const lines = problems.map(({ key, message }) => `\n  ${key === '' ? '' : `${key}: `}${message}`);
    super('invalid_config', `${where}: ${count}${lines.join('')}`, { key: problems[0]?.key ?? '' });
    this.where = where;
    this.problems = problems;
  }
}

export type Path = readonly (string | number)[];

export function formatPath(path: Path): string {
  return path.reduce<string>(
    (text, part) => (typeof part === 'number' ? `${text}[${part}]` : text === '' ? part : `${text}.${part}`),
    '',
  );
}

// Whoever writes the passphrase where its reference belongs must not find it in a log.
const SECRET = /^(?:secretKey|store\.postgres|control\.tokens)(?:$|[.[])/;

/** A value as a message may quote it. */
export function show(path: Path, value: unknown): string {
  if (value === undefined) return 'is missing';
  if (value === null) return 'is null';
  if (Array.isArray(value)) return 'is a list';
  if (typeof value === 'object') return 'is a block of keys';
  const text = String(value);
  // A user in a URL usually comes with a password; long or control-ridden text is no help anyway.
  if (SECRET.test(formatPath(path)) || text.includes('@') || text.length > 120) return 'cannot be used';
  return `is ${typeof value === 'string' ? JSON.stringify(text) : text}`;
}

/** Turns zod's issues into problems. `known` are the dotted names of every key, `from` the variable that set a path. */
export function describeIssues(
  issues: readonly z.core.$ZodIssue[],
  input: unknown,
  known: readonly string[],
  from: ReadonlyMap<string, string>,
): ConfigProblem[] {
  return issues.flatMap((issue): ConfigProblem[] => {
    const path = issue.path.map((part) => (typeof part === 'number' ? part : String(part)));
    if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => describeUnknown(path, key, known));
    const key = formatPath(path);
    const variable = from.get(key);
    const said: unknown = issue.code === 'custom' ? issue.params?.said : undefined;
    if (typeof said === 'string') return [{ key, message: said }];
    return [
      {
        key: variable === undefined ? key : `${variable} (${key})`,
        message: `${show(path, valueAt(input, path))}; it must be ${issue.message}`,
      },
    ];
  });
}

/** A credential in the wrong place can also end up as the name of a key. */
function describeUnknown(parent: Path, name: string, known: readonly string[]): ConfigProblem {
  const key = formatPath([...parent, name]);
  if (SECRET.test(key) || name.length > 40)
    return { key: formatPath(parent), message: 'there is an unknown key' };
  return { key, message: `unknown key${suggest(key, known)}` };
}

function valueAt(input: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (value, part) => (value !== null && typeof value === 'object' ? Reflect.get(value, part) : undefined),
    input,
  );
}

/** `; did you mean git.listen?`, or nothing. */
export function suggest(name: string, known: readonly string[]): string {
  const plain = (text: string): string =>
    text
      .replace(/\[\d+\]/g, '[]')
      .replace(/[_-]/g, '')
      .toLowerCase();
  const last = (text: string): string => text.slice(text.lastIndexOf('.') + 1);
  const parent = (text: string): string => plain(text.slice(0, Math.max(0, text.lastIndexOf('.'))));
  let best: string | undefined;
  let least = 3;
  for (const candidate of known) {
    const sibling = parent(candidate) === parent(name);
    const gap = distance(plain(last(name)), plain(last(candidate)));
    // A key that stands elsewhere must be spelled right; a short one may not be wrong in most of its letters.
    const cost = sibling ? gap : gap === 0 ? 2.5 : 99;
    if (cost < least && gap < last(name).length / 2 + 1) {
      best = candidate;
      least = cost;
    }
  }
  return best === undefined ? '' : `; did you mean ${best}?`;
}

/** Edits (insert, delete, replace, swap of neighbours) between two short words. */
function distance(a: string, b: string): number {
  if (a.length > 64 || b.length > 64) return 99;
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  const at = (i: number, j: number): number => rows[i]?.[j] ?? 99;
  for (let i = 1; i <= a.length; i++) {
    rows.push([i]);
    for (let j = 1; j <= b.length; j++) {
      let cost = Math.min(
        at(i - 1, j) + 1,
        at(i, j - 1) + 1,
        at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1),
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, at(i - 2, j - 2) + 1);
      rows[i]?.push(cost);
    }
  }
  return at(a.length, b.length);
}
