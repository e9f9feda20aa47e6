// A folder of git repositories on the executor's host, opened as mounts. The payload is a path and not a credential; what
// is granted is reach into a host's file system, which is why it has a subject, a time and a record like the others, and
// why it is not a setting in a file that any pull request may change. Names are matched in their own case.

import { readdir, realpath, stat } from 'node:fs/promises';
import { join, posix, sep } from 'node:path';
import { compileGlob } from '../../common/glob.ts';
import { bad, onlyFor, requireOne } from '../constraints/constraints.ts';
import type { RepoMount } from '../material.ts';
import { direct, type KindRules } from './kind-rules.ts';
import { malformed, nothingLeft, textOf } from './payload.ts';

/** Where they appear in a sandbox: one fixed path that a README can name, outside any workspace mount. */
export const SANDBOX_REPOS = '/repos';
/** More than this and the list no longer says "these repositories" but "the machine". */
export const MAX_LOCAL_REPOS = 32;

const WHAT = 'folder of repositories';
const NAME = /^[A-Za-z0-9._@+-]{1,128}$/;

interface Wanted {
  readonly root: string;
  readonly patterns: readonly string[];
  readonly writable: boolean;
}

export const localRepo: KindRules<Wanted> = {
  kind: 'local_repo',
  constraints: ['repos', 'writable'],
  async inspect(payload) {
    const root = await realRoot(parseRoot(payload));
    return (await reposIn(root)).map(({ name }) => name);
  },
  credentials: () => [],
  checkConstraints(constraints) {
    onlyFor(constraints, ['repos', 'writable'], WHAT);
    requireOne(constraints, ['repos'], WHAT);
    for (const pattern of constraints.repos ?? []) {
      compileGlob(pattern, { key: 'constraints.repos' });
      if (pattern.includes('/'))
        throw bad('constraints.repos', `${JSON.stringify(pattern)} is not the name of a folder`);
    }
  },
  minimise: (payload, { repos = [], writable = false }) => ({
    root: parseRoot(payload),
    patterns: repos,
    writable,
  }),
  async materialise(wanted) {
    const mounts = await findRepos(wanted);
    return direct({
      mounts,
      summary: `${wanted.writable ? 'read-write' : 'read-only'} mounts of ${mounts.map(({ name }) => name).join(', ')}`,
    });
  },
};

/**
 * The path in a payload: absolute, one spelling, not the root of the file system.
 * @throws PosternError `invalid_input`
 */
export function parseRoot(payload: Buffer): string {
  const text = textOf(payload, WHAT).trim();
  if (!text.startsWith('/') || text.length > 4096 || /[\u0000-\u001f\u007f]/.test(text))
    throw malformed(WHAT, 'it is not an absolute path');
  if (text.split('/').includes('..')) throw malformed(WHAT, 'it has .. in its path');
  const path = posix.normalize(text).replace(/\/+$/, '');
  if (path === '') throw malformed(WHAT, 'it is the root of the file system');
  return path;
}

async function realRoot(root: string): Promise<string> {
  const real = await realpath(root).catch(() => undefined);
  if (real === undefined || real === '/' || !(await stat(real)).isDirectory())
    throw malformed(WHAT, 'there is no such folder on this host', 'See the path for a typing mistake.');
  if (await isRepo(real))
    throw malformed(WHAT, 'it is itself a repository', 'Store the folder that holds it, and grant its name.');
  return real;
}

async function findRepos({ root, patterns, writable }: Wanted): Promise<RepoMount[]> {
  const allowed = patterns.map((pattern) => compileGlob(pattern));
  const mounts = (
    await reposIn(await realRoot(root), (name) => allowed.some((matches) => matches(name)))
  ).map(
    ({ name, source }): RepoMount => ({
      name,
      source,
      target: `${SANDBOX_REPOS}/${name}`,
      readOnly: !writable,
    }),
  );
  if (mounts.length === 0) throw nothingLeft('The folder has no repository that the grant allows.');
  if (mounts.length > MAX_LOCAL_REPOS)
    throw nothingLeft(
      `The grant covers ${mounts.length} repositories; at most ${MAX_LOCAL_REPOS} can be opened at once.`,
    );
  return mounts;
}

async function reposIn(root: string, wanted: (name: string) => boolean = () => true) {
  const found: { name: string; source: string }[] = [];
  for (const name of (await readdir(root)).sort()) {
    if (!NAME.test(name) || !wanted(name)) continue;
    // A symbolic link under the folder must not lead a mount out of it.
    const source = await realpath(join(root, name)).catch(() => undefined);
    if (source?.startsWith(`${root}${sep}`) && (await isRepo(source))) found.push({ name, source });
  }
  return found;
}

/** A work tree (`.git` as a folder or a file), or a bare repository. */
async function isRepo(path: string): Promise<boolean> {
  const has = (name: string): Promise<boolean> =>
    stat(join(path, name)).then(
      () => true,
      () => false,
    );
  return (await has('.git')) || ((await has('HEAD')) && (await has('objects')) && (await has('refs')));
}
