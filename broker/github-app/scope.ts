// How narrow an installation token is asked for, and whether the answer is as narrow. Pure.

import { compileGlob, isExact } from '../../common/glob.ts';
import type { Constraints } from '../constraints/constraints.ts';
import { permissionMap, wider } from '../constraints/permission.ts';
import type { InstallationRepo, InstallationToken } from './api.ts';

export interface TokenScope {
  /** Absent: the whole installation, which only a written-out `*` asks for. */
  readonly repositoryIds?: readonly number[];
  readonly permissions?: { readonly [name: string]: string };
}

/** Absent where the grant says `*`; the default is `contents:read`. */
export function appPermissions(constraints: Constraints): TokenScope['permissions'] {
  return permissionMap(constraints.permissions);
}

export function wholeInstallation(constraints: Constraints): boolean {
  return (constraints.repos ?? []).includes('*');
}

/** GitHub narrows a token to this many repositories at most. */
const MAX_REPOSITORIES = 500;

/**
 * The repositories of an installation that a grant covers. A repository that is named outright and is not there is a
 * refusal that names it: delivering the rest would look like a whole grant. A pattern means "those that are there".
 */
export function selectRepos(
  patterns: readonly string[],
  installed: readonly InstallationRepo[],
): { readonly ids: readonly number[] } | { readonly problem: string } {
  const missing: string[] = [];
  const ids = new Set<number>();
  for (const pattern of patterns) {
    const covers = compileGlob(pattern, { caseInsensitive: true });
    const found = installed.filter(({ fullName }) => covers(fullName));
    if (found.length === 0 && isExact(pattern)) missing.push(pattern);
    for (const { id } of found) ids.add(id);
  }
  if (missing.length > 0) return { problem: `the installation does not cover ${missing.join(', ')}` };
  if (ids.size === 0) return { problem: `the installation covers nothing of ${patterns.join(', ')}` };
  if (ids.size > MAX_REPOSITORIES)
    return {
      problem: `the grant covers ${ids.size} repositories; GitHub narrows a token to ${MAX_REPOSITORIES} at most`,
    };
  return { ids: [...ids].sort((a, b) => a - b) };
}

/** What a token has beyond what was asked for; empty where it is as narrow. */
export function excess(asked: TokenScope, token: InstallationToken): string[] {
  const found = wider(asked.permissions, token.permissions);
  if (asked.repositoryIds === undefined) return found;
  if (token.repositorySelection !== 'selected') found.push('all repositories');
  for (const { id, fullName } of token.repositories ?? [])
    if (!asked.repositoryIds.includes(id)) found.push(`the repository ${fullName}`);
  return found;
}
