// An old kubectl for tests: Debian's package of 1.20, unpacked beside the project's other caches, so that the system's
// own one stays what it is.

import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const folder = join(root, 'node_modules', '.cache', 'kubernetes-client');
const binary = join(folder, 'usr', 'bin', 'kubectl');

/**
 * @returns the path of the binary
 * @throws Error that says what is missing on this machine and what to do about it
 */
export async function oldKubectl(): Promise<string> {
  const given = process.env.POSTERN_TEST_OLD_KUBECTL;
  if (given) {
    if (!existsSync(given)) throw new Error(`POSTERN_TEST_OLD_KUBECTL names ${given}, which does not exist`);
    return given;
  }
  if (existsSync(binary)) return binary;
  mkdirSync(dirname(folder), { recursive: true });
  const work = mkdtempSync(join(dirname(folder), 'unpack-'));
  try {
    await tool('apt-get', ['download', 'kubernetes-client'], work);
    const archive = readdirSync(work).find((name) => name.endsWith('.deb'));
    if (!archive) throw new Error('apt-get download kubernetes-client left no package');
    await tool('dpkg', ['-x', archive, 'unpacked'], work);
    try {
      renameSync(join(work, 'unpacked'), folder);
    } catch (error) {
      if (!existsSync(binary)) throw error; // else another run of the tests was faster
    }
    return binary;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function tool(program: string, args: string[], cwd: string): Promise<void> {
  try {
    await run(program, args, { cwd });
  } catch (error) {
    const why = error instanceof Error ? error.message.trim() : String(error);
    throw new Error(
      `The tests want a kubectl of 1.20 from Debian's package kubernetes-client, and \`${program} ${args.join(' ')}\` ` +
        `failed: ${why}. On Debian, run \`apt-get update\` as root; elsewhere, set POSTERN_TEST_OLD_KUBECTL to the ` +
        'path of an old kubectl.',
      { cause: error },
    );
  }
}
