// A kubectl of another generation, from Debian's package, unpacked beside the system's own: 1.20 speaks SPDY only and asks
// for other versions of things.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PACKAGE = 'kubernetes-client';

/** @returns the path of the program; fetched and unpacked once for a machine */
export function oldKubectl(): string {
  const home = join(tmpdir(), `postern-test-${PACKAGE}`);
  const program = join(home, 'usr/bin/kubectl');
  if (existsSync(program)) return program;
  const work = mkdtempSync(join(tmpdir(), 'postern-unpack-'));
  const run = (file: string, ...args: string[]): void => {
    execFileSync(file, args, { cwd: work, stdio: ['ignore', 'ignore', 'pipe'] });
  };
  try {
    run('apt-get', 'download', PACKAGE);
  } catch {
    run('apt-get', 'update');
    run('apt-get', 'download', PACKAGE);
  }
  const deb = readdirSync(work).find((name) => name.endsWith('.deb')) ?? '';
  mkdirSync(join(work, 'root'));
  run('dpkg-deb', '-x', deb, 'root');
  try {
    renameSync(join(work, 'root'), home);
  } catch {
    // Another test file was faster.
  }
  rmSync(work, { recursive: true, force: true });
  return program;
}
