// A disk that fails as a file beside it says, read before every operation: the writer's thread has no other door for a
// test. The module's URL names that file: `faulty-disk.ts?control=/path`.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { Disk } from '../../../audit/disk.ts';

export interface Faults {
  /** Errno code of every write, after `partial` bytes of it reached the file. */
  readonly write?: string;
  readonly partial?: number;
  readonly truncate?: string;
  readonly sync?: string;
  /** Neither returns until it is taken out of the file. */
  readonly hang?: 'write' | 'sync';
  /** The thread ends in the middle of a write. */
  readonly crash?: boolean;
}

const control = new URL(import.meta.url).searchParams.get('control') ?? '';

function faults(): Faults {
  return existsSync(control) ? (JSON.parse(readFileSync(control, 'utf8') || '{}') as Faults) : {};
}

function failure(code: string, step: string): Error {
  return Object.assign(new Error(`${code}: injected, ${step}`), { code });
}

function hang(step: 'write' | 'sync'): void {
  if (faults().hang !== step) return;
  writeFileSync(`${control}.hanging`, '');
  const cell = new Int32Array(new SharedArrayBuffer(4));
  while (faults().hang === step) Atomics.wait(cell, 0, 0, 5);
}

export function wrapDisk(disk: Disk): Disk {
  return {
    ...disk,
    write(fd, bytes) {
      hang('write');
      const { write, partial = 0, crash } = faults();
      if (crash) process.exit(1);
      if (write === undefined) return disk.write(fd, bytes);
      if (partial > 0) disk.write(fd, bytes.subarray(0, partial));
      throw failure(write, 'write');
    },
    truncate(fd, size) {
      const { truncate } = faults();
      if (truncate !== undefined) throw failure(truncate, 'ftruncate');
      disk.truncate(fd, size);
    },
    sync(fd, done) {
      if (faults().hang === 'sync') {
        const timer = setInterval(() => {
          if (faults().hang === 'sync') return;
          clearInterval(timer);
          disk.sync(fd, done);
        }, 5);
        return;
      }
      const { sync } = faults();
      if (sync === undefined) disk.sync(fd, done);
      else setImmediate(() => done(failure(sync, 'fsync')));
    },
  };
}
