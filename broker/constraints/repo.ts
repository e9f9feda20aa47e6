// Repositories on a forge: `owner/repo` globs, one segment each, in any case, because forges fold the case of both. A
// name that does not reduce to exactly one owner and one repository is refused, never matched on what could be read.

import { PosternError } from '../../common/errors.ts';
import { compileGlob, isExact } from '../../common/glob.ts';
import { safeRef } from '../safe-ref.ts';
import { bad } from './constraints.ts';

const SEGMENT = /^[A-Za-z0-9._-]{1,100}$/;

/** @throws PosternError `invalid_input` */
export function checkRepoPattern(pattern: string, key: string): void {
  if (pattern === '*') return;
  const segments = pattern.split('/');
  if (segments.length !== 2)
    throw bad(
      key,
      `${JSON.stringify(pattern)} is not owner/repo`,
      'Write acme/tool, acme/* or * for every one.',
    );
  if (pattern.toLowerCase().endsWith('.git'))
    throw bad(key, `${JSON.stringify(pattern)} ends in .git`, 'Write the repository without it.');
  compileGlob(pattern, { caseInsensitive: true, key });
  if (isExact(pattern) && !segments.every((segment) => SEGMENT.test(segment)))
    throw bad(key, `${JSON.stringify(pattern)} is not owner/repo`);
}

/** Whether some pattern covers `owner/repo`. `*` alone is every repository; within a segment it stays there. */
export function coversRepo(patterns: readonly string[], repo: string): boolean {
  return patterns.some((pattern) => pattern === '*' || compileGlob(pattern, { caseInsensitive: true })(repo));
}

/**
 * `owner/repo` out of the ways in which people write a repository: the name itself, an https or ssh URL of one of
 * `hosts`, `git@host:owner/repo`, each with or without `.git`. Lower-case.
 * @throws PosternError `policy_refused`: what cannot be read is denied
 */
export function normaliseRepo(text: string, hosts: readonly string[] = ['github.com']): string {
  const path = pathOf(text.trim(), hosts)
    ?.replace(/\/$/, '')
    .replace(/\.git$/i, '');
  const [owner = '', name = '', ...more] = path?.split('/') ?? [];
  const fits = (segment: string): boolean => SEGMENT.test(segment) && segment !== '.' && segment !== '..';
  if (more.length > 0 || !fits(owner) || !fits(name) || /\.git$/i.test(name))
    throw new PosternError(
      'policy_refused',
      `The repository ${safeRef(text)} is not one owner and one name.`,
      {
        key: 'repo',
        remedy: 'Write it as owner/repo.',
      },
    );
  return `${owner}/${name}`.toLowerCase();
}

function pathOf(text: string, hosts: readonly string[]): string | undefined {
  if (/[\s%\\?#]/.test(text)) return undefined;
  const known = (host: string): boolean => hosts.includes(host.toLowerCase());
  const scp = /^git@([A-Za-z0-9.-]+):(?!\/)(.+)$/.exec(text);
  if (scp) return known(scp[1] ?? '') ? scp[2] : undefined;
  const url = /^(?:https|ssh|git):\/\/(?:git@)?([A-Za-z0-9.-]+)(?::\d{1,5})?\/(.+)$/i.exec(text);
  if (url) return known(url[1] ?? '') ? url[2] : undefined;
  return text.includes(':') || text.includes('@') ? undefined : text;
}
