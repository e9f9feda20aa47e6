// The guard as a user runs it: `postern serve` in a process of its own, configured by a file, driven by the CLI.

import { type ChildProcess, execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { start } from './tools.ts';

export const postern = join(import.meta.dirname, '..', '..', 'cli', 'postern.js');

export interface Guard {
  readonly process: ChildProcess;
  readonly pid: number;
  readonly config: string;
  readonly git: string;
  readonly kube: string;
  readonly ca: string;
  /** Runs `postern … --json` and reads its answer. */
  cli<T>(...args: string[]): T;
}

/** @param settings the configuration but for the addresses and the data folder, as YAML accepts JSON */
export async function serve(folder: string, settings: Record<string, unknown>): Promise<Guard> {
  const home = join(folder, 'postern');
  mkdirSync(home, { recursive: true });
  const config = join(home, 'postern.yaml');
  const addressed = (section: unknown) => ({
    listen: '127.0.0.1:0',
    advertise: null,
    ...(section as object),
  });
  writeFileSync(
    config,
    JSON.stringify({
      dataDir: join(home, 'var'),
      ...settings,
      git: addressed(settings['git'] ?? { enabled: false }),
      kube: addressed(settings['kube'] ?? { enabled: false }),
      ops: { listen: '127.0.0.1:0' },
    }),
  );
  const child = start(process.execPath, [postern, 'serve', '--config', config]);
  const ready = await new Promise<{ git: string; kube: string }>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`serve ended with ${code}`)));
    const lines = createInterface({ input: child.stdout ?? process.stdin });
    lines.on('line', (line) => {
      const entry = JSON.parse(line) as { msg?: string; git: string; kube: string };
      if (entry.msg === 'ready') resolve(entry);
    });
  });
  return {
    process: child,
    pid: child.pid ?? 0,
    config,
    git: ready.git,
    kube: ready.kube,
    ca: join(home, 'var', 'ca.pem'),
    cli(...args) {
      const out = execFileSync(process.execPath, [postern, ...args, '--config', config, '--json'], {
        encoding: 'utf8',
      });
      return JSON.parse(out || 'null');
    },
  };
}
