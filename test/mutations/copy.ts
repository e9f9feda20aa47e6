// A private copy of the working tree, as it is and not as it was committed. Sources are copied; node_modules is a folder
// of its own with a link to each package, so that what the test runner keeps beside the packages is private too. What is
// broken is broken in the copy: the checkout is only ever read.

import { readFileSync, writeFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Mutation } from './mutation.ts';

const LEFT_OUT = new Set(['node_modules', '.git', 'var', 'coverage']);

export interface Copy {
  readonly dir: string;
  /** For what a run writes; outside of the copied tree. */
  readonly reports: string;
  remove(): Promise<void>;
}

export async function makeCopy(root: string): Promise<Copy> {
  const base = await mkdtemp(join(tmpdir(), 'postern-mutations-'));
  const dir = join(base, 'tree');
  const modules = join(dir, 'node_modules');
  const remove = (): Promise<void> => rm(base, { recursive: true, force: true, maxRetries: 3 });
  try {
    await mkdir(modules, { recursive: true });
    for (const name of await readdir(root))
      if (!LEFT_OUT.has(name)) await cp(join(root, name), join(dir, name), { recursive: true });
    for (const name of await readdir(join(root, 'node_modules')))
      if (!name.startsWith('.') || name === '.bin')
        await symlink(join(root, 'node_modules', name), join(modules, name));
    return { dir, reports: base, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** How often `find` stands in the file; -1 where there is no such file. */
export function occurrences(root: string, { file, find }: Mutation): number {
  try {
    return readFileSync(join(root, file), 'utf8').split(find).length - 1;
  } catch {
    return -1;
  }
}

/** Breaks the rule in the copy. @returns what puts the file back */
export function applyTo({ dir }: Copy, { file, find, replace }: Mutation): () => void {
  const path = join(dir, file);
  const whole = readFileSync(path, 'utf8');
  const at = whole.indexOf(find);
  writeFileSync(path, whole.slice(0, at) + replace + whole.slice(at + find.length));
  return () => writeFileSync(path, whole);
}
