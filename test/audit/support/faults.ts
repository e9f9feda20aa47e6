// The test's side of faulty-disk.ts, and a real disk of a few hundred kilobytes where the machine lets us mount one.

import { spawnSync } from 'node:child_process';
import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished, vi } from 'vitest';
import type { Faults } from './faulty-disk.ts';
import { folder } from './trail.ts';

export interface FaultyDisk {
  /** For `diskModule`. */
  readonly module: string;
  /** Replaces all faults. */
  set(faults: Faults): void;
  /** Resolves when an operation hangs. */
  hanging(): Promise<void>;
}

export function faultyDisk(): FaultyDisk {
  const control = join(folder(), 'faults.json');
  const url = new URL('./faulty-disk.ts', import.meta.url);
  url.searchParams.set('control', control);
  const set = (faults: Faults): void => {
    writeFileSync(`${control}.new`, JSON.stringify(faults));
    renameSync(`${control}.new`, control);
  };
  // A thread that hangs at the end of a test would outlive it.
  onTestFinished(() => set({}));
  return {
    module: url.href,
    set(faults) {
      rmSync(`${control}.hanging`, { force: true });
      set(faults);
    },
    hanging: () =>
      vi
        .waitFor(() => existsSync(`${control}.hanging`) || Promise.reject(new Error('not yet')), 10_000)
        .then(() => {}),
  };
}

export interface SmallDisk {
  readonly path: string;
  fill(): void;
  free(): void;
}

/** A tmpfs with 64 KiB; undefined where we may not mount one (faults are injected there instead). */
export function smallDisk(): SmallDisk | undefined {
  const path = folder();
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', path]).status === 0;
  if (!mounted) return undefined;
  onTestFinished(() => void spawnSync('umount', ['-l', path]));
  const ballast = join(path, 'ballast');
  return {
    path,
    fill() {
      spawnSync('dd', ['if=/dev/zero', `of=${ballast}`, 'bs=1k', 'count=1000']);
    },
    free: () => rmSync(ballast),
  };
}
