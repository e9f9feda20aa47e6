// What a GitHub credential may do: `name:level` as GitHub names its permissions, or `*` for everything that the
// credential itself can. Silence is `contents:read`: a credential is given to clone, and who says nothing about writing
// has not authorised any.

import { bad } from './constraints.ts';

const LEVELS = ['read', 'write', 'admin'] as const;
type Level = (typeof LEVELS)[number];

/** What GitHub adds to every token. */
const IMPLIED = 'metadata';

/** @throws PosternError `invalid_input`: a level that does not exist is refused in front of who wrote it */
export function checkPermission(permission: string, key: string): void {
  if (permission === '*') return;
  const [name = '', level = '', ...more] = permission.split(':');
  if (more.length > 0 || !/^[a-z][a-z_]{0,63}$/.test(name) || !isLevel(level))
    throw bad(
      key,
      `${JSON.stringify(permission)} is not a permission`,
      'Write contents:read, contents:write, pull_requests:write, or * for all that the credential has.',
    );
}

/** The permissions by name with the highest level given; `undefined` where `*` asks for all. */
export function permissionMap(
  permissions: readonly string[] | undefined,
): { [name: string]: Level } | undefined {
  const list = permissions?.length ? permissions : ['contents:read'];
  if (list.includes('*')) return undefined;
  const map: { [name: string]: Level } = {};
  for (const permission of list) {
    const [name = '', level = ''] = permission.split(':');
    if (!isLevel(level)) continue;
    const before = Object.hasOwn(map, name) ? map[name] : undefined;
    if (before === undefined || rank(level) > rank(before)) map[name] = level;
  }
  return map;
}

/** Whether `name:level` is within what was granted; a higher level takes in the lower ones. */
export function allowsPermission(granted: readonly string[] | undefined, wanted: string): boolean {
  const map = permissionMap(granted);
  const [name = '', level = ''] = wanted.split(':');
  if (!isLevel(level)) return false;
  if (map === undefined) return true;
  if (name === IMPLIED && level === 'read') return true;
  const has = Object.hasOwn(map, name) ? map[name] : undefined;
  return has !== undefined && rank(has) >= rank(level);
}

/** What an answer has beyond what was asked for, as `name:level`; GitHub's own addition is none. */
export function wider(
  asked: { readonly [name: string]: string } | undefined,
  got: { readonly [name: string]: string },
): string[] {
  if (asked === undefined) return [];
  return Object.entries(got)
    .filter(([name, level]) => {
      if (name === IMPLIED && level === 'read') return false;
      const has = Object.hasOwn(asked, name) ? asked[name] : undefined;
      return has === undefined || !isLevel(level) || !isLevel(has) || rank(level) > rank(has);
    })
    .map(([name, level]) => `${name}:${level}`);
}

function isLevel(text: string): text is Level {
  return (LEVELS as readonly string[]).includes(text);
}

function rank(level: Level): number {
  return LEVELS.indexOf(level);
}
