// The file of signed statements, and retention, which needs one: before whole segments go, the last of their records
// is signed for (an anchor) and put on record (`audit.retention`), so that what is left still has a proven beginning.
// Killed between any two steps, the folder still verifies: there are at most more segments than the anchor needs.

import { join } from 'node:path';
import { CHECKPOINTS, compactStatements } from './checkpoint.ts';
import type { Disk } from './disk.ts';
import type { AnchorRecord } from './event.ts';
import { lastLine, readLink, type Tail } from './seal.ts';
import { type Segment, segmentsOf } from './segments.ts';

/** Above this the file of statements is rewritten without what later ones cover. */
const COMPACT_OVER = 256 * 1024;
const LONGEST_LINE = 1024 * 1024;

/** Appends one signed line; a half-written one is taken back. @throws what the disk says */
export function appendStatement(disk: Disk, dir: string, line: string): void {
  const path = join(dir, CHECKPOINTS);
  const there = disk.look(path);
  const fd = disk.open(path, there === undefined);
  try {
    const { size } = disk.identify(fd);
    // A line that a crash left unfinished is not continued.
    const torn = size > 0 && disk.readTail(path, size, 1).toString() !== '\n';
    try {
      disk.write(fd, Buffer.from(`${torn ? '\n' : ''}${line}\n`));
    } catch (error) {
      disk.truncate(fd, size);
      throw error;
    }
    disk.sync(fd, () => disk.close(fd));
  } catch (error) {
    disk.close(fd);
    throw error;
  }
  if ((there?.size ?? 0) > COMPACT_OVER) compact(disk, dir);
}

export function compact(disk: Disk, dir: string): void {
  const path = join(dir, CHECKPOINTS);
  const lines = disk
    .readAll(path)
    .toString()
    .split('\n')
    .filter((line) => line !== '');
  const kept = compactStatements(
    lines,
    segmentsOf(dir, disk.list(dir)).map(({ firstSeq }) => firstSeq),
  );
  if (kept.length < lines.length) disk.replace(path, `${kept.join('\n')}\n`);
}

export interface Expired {
  readonly segments: readonly Segment[];
  /** The last record of the last of them. */
  readonly tail: Tail;
  readonly anchor: AnchorRecord;
}

/** The whole segments, oldest first, whose last record is older than `before`; never the one in use. */
export function expired(disk: Disk, dir: string, before: string): Expired | undefined {
  const segments = segmentsOf(dir, disk.list(dir));
  const old: Segment[] = [];
  let tail: Tail | undefined;
  for (const segment of segments.slice(0, -1)) {
    const size = disk.look(segment.path)?.size ?? 0;
    const { line } = lastLine(disk.readTail(segment.path, size, LONGEST_LINE));
    const link = line && readLink(line);
    if (!link || link.time >= before) break;
    old.push(segment);
    tail = link;
  }
  const [first] = old;
  if (!first || !tail) return undefined;
  const anchor = { lastSeq: tail.seq, lastHash: tail.hash, count: tail.seq - first.firstSeq + 1 };
  return { segments: old, tail, anchor };
}
