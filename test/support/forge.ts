// Repositories at the test forge, made by git itself, quickly.

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Forge, type ForgeOptions, startForge } from '../../cli/demo/forge.ts';
import type { Git } from './git.ts';

/** A credential with the shape of a real one, and known to no other test. */
export const FORGE_TOKEN = 'ghp_Qm3vX8sK1tZ6bN0wR4yJ7uE2oP5aD9fGhLcV';

export function testForge(options: Partial<ForgeOptions> = {}): Promise<Forge> {
  const root = mkdtempSync(join(tmpdir(), 'postern-test-forge-'));
  return startForge({ root, token: FORGE_TOKEN, ...options });
}

export interface Content {
  /** Commits on main, each with a file of its own. */
  readonly commits?: number;
  /** Bytes that do not compress, in the last commit. */
  readonly noise?: number;
  readonly branches?: number;
  readonly tags?: number;
}

/** Fills a bare repository by `git fast-import`. @returns what main points to */
export async function fill(git: Git, bare: string, content: Content = {}): Promise<string> {
  const { commits = 3, noise = 0, branches = 0, tags = 0 } = content;
  const who = 'Test <test@localhost> 1700000000 +0000';
  const stream: string[] = [];
  for (let i = 1; i <= commits; i++) {
    const text = `file ${i}\n`;
    stream.push(
      `commit refs/heads/main\nmark :${i}\ncommitter ${who}\ndata ${`commit ${i}`.length}\ncommit ${i}\n`,
    );
    stream.push(`M 100644 inline file-${i}\ndata ${text.length}\n${text}\n`);
    if (i === commits && noise > 0) {
      const hex = noiseOf(noise);
      stream.push(`M 100644 inline noise\ndata ${hex.length}\n${hex}\n`);
    }
  }
  for (let i = 0; i < branches; i++) stream.push(`reset refs/heads/b${i}\nfrom :${(i % commits) + 1}\n\n`);
  for (let i = 0; i < tags; i++)
    stream.push(
      `tag v${i}\nfrom :${(i % commits) + 1}\ntagger ${who}\ndata ${`tag ${i}`.length}\ntag ${i}\n`,
    );
  await git.ok(['-c', 'pack.compression=0', '-c', 'core.compression=0', 'fast-import', '--quiet'], {
    cwd: bare,
    input: stream.join(''),
  });
  return git.ok(['rev-parse', 'refs/heads/main'], { cwd: bare });
}

/** ASCII that zlib gets little out of. */
function noiseOf(bytes: number): string {
  let state = 0x9e3779b9;
  const words = new Uint8Array(bytes);
  for (let i = 0; i < bytes; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = 33 + ((state >>> 8) % 94);
  }
  return Buffer.from(words).toString('latin1');
}

/** Every ref and what it points to. */
export function refsOf(git: Git, folder: string): Promise<string> {
  return git.ok(['for-each-ref', '--format=%(refname) %(objectname)'], { cwd: folder });
}
