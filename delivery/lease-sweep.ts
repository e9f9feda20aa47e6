// At every start, before a new folder is made: the folders whose process is gone are wiped. A killed process is the common
// case, and a tmpfs is cleared by the host's restart only.

import { wipeFolder } from './lease-folder.ts';
import { forget, isAlive, type LeaseRecords, recorded } from './lease-records.ts';

/**
 * One that can't be removed keeps its record, for the next start, and no other from being wiped.
 * @returns the folders that were wiped
 */
export async function sweepLeaseFolders(records: LeaseRecords): Promise<string[]> {
  const wiped: string[] = [];
  for (const record of await recorded(records)) {
    try {
      if (await isAlive(record)) continue;
      if (await wipeFolder(record.folder)) wiped.push(record.folder);
      await forget(records, record.folder);
    } catch {}
  }
  return wiped;
}
