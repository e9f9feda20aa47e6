// A disk whose writes block in a system call: nobody ever opens the other end of this pipe.
import { openSync, writeFileSync } from 'node:fs';
import type { Disk } from '../../audit/disk.ts';

const pipe = new URL(import.meta.url).searchParams.get('pipe') ?? '';

export const wrapDisk = (disk: Disk): Disk => ({
  ...disk,
  write: () => {
    writeFileSync(`${pipe}.reached`, '');
    openSync(pipe, 'r');
  },
});
