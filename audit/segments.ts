// The files of the chain: `<dir>/<first seq, 16 digits>.jsonl`. The names say where every record is, so that reading
// and retention need no index.

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

export interface Segment {
  readonly name: string;
  readonly path: string;
  readonly firstSeq: number;
}

export function segmentName(firstSeq: number): string {
  return `${String(firstSeq).padStart(16, '0')}.jsonl`;
}

/** The segments among the names of a folder, in the order of the chain. */
export function segmentsOf(dir: string, names: readonly string[]): Segment[] {
  return names
    .filter((name) => /^\d{16}\.jsonl$/.test(name))
    .sort()
    .map((name) => ({ name, path: join(dir, name), firstSeq: Number(name.slice(0, 16)) }));
}

/** For reading: files only, so that a pipe or a link put there holds nobody up. A folder that is missing has none. */
export async function listSegments(dir: string): Promise<Segment[]> {
  try {
    const entries = await readdir(dir, { withFileTypes: true });
    return segmentsOf(
      dir,
      entries.filter((entry) => entry.isFile()).map(({ name }) => name),
    );
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
