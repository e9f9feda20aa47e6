// Where the chain stands when the writer starts, read from the folder: the last whole record of the last segment. A
// killed process leaves at most an unfinished last line, which is set aside and put on record; what a signed checkpoint
// vouched for and is not there any more is put on record too, and the chain goes on after it, so that the numbers of
// lost records are never used twice and verify keeps naming the hole.

import { join } from 'node:path';
import {
  CHECKPOINTS,
  checkStatement,
  PUBLIC_KEY,
  readPublicKeys,
  type SignedStatement,
} from './checkpoint.ts';
import type { Disk } from './disk.ts';
import { GENESIS, lastLine, readLink, type Tail } from './seal.ts';
import { type Segment, segmentsOf } from './segments.ts';
import type { Gap } from './writer-protocol.ts';

export interface Recovered {
  readonly tail: Tail;
  /** Of the last checkpoint; 0 without one. */
  readonly checkpointed: number;
  /** The segment to go on with. */
  readonly current: { readonly path: string; readonly size: number; readonly since: string } | undefined;
  readonly gaps: readonly Gap[];
}

/** @throws what the disk says; nothing is half done then, and it can be tried again */
export function recover(disk: Disk, dir: string, publicKeyPem: string): Recovered {
  disk.makeFolder(dir);
  publishKey(disk, dir, publicKeyPem);
  const gaps: Gap[] = [];
  const segments = segmentsOf(dir, disk.list(dir)).filter(({ path }) => disk.look(path) !== undefined);
  const checkpoint = lastCheckpoint(disk, dir);

  let tail = GENESIS;
  let last: Segment | undefined;
  let size = 0;
  for (let i = segments.length - 1; i >= 0 && tail === GENESIS; i--) {
    const segment = segments[i] as Segment;
    const end = mend(disk, dir, segment, gaps);
    if (end.tail) tail = end.tail;
    if (!last && (end.tail || segment.firstSeq === 1)) [last, size] = [segment, end.size];
    // An empty segment that is not the one to go on with would only stand in the way.
    else if (!end.tail && end.size === 0) disk.remove(segment.path);
  }

  if (checkpoint && checkpoint.seq > tail.seq) {
    gaps.push({
      cause: 'tail_missing',
      count: checkpoint.seq - tail.seq,
      firstSeq: tail.seq + 1,
      lastSeq: checkpoint.seq,
      why: `The chain ended at record ${tail.seq}, and record ${checkpoint.seq} was signed for`,
    });
    tail = { seq: checkpoint.seq, hash: checkpoint.hash, time: checkpoint.time };
    last = undefined;
  } else if (checkpoint) {
    const found = hashOf(disk, segments, checkpoint.seq);
    if (found !== undefined && found !== checkpoint.hash)
      gaps.push({
        cause: 'checkpoint_mismatch',
        firstSeq: checkpoint.seq,
        lastSeq: checkpoint.seq,
        why: `Record ${checkpoint.seq} is not the one that was signed for: the chain was rewritten`,
      });
  }
  const current = last && { path: last.path, size, since: firstTime(disk, last.path, size) };
  return { tail, checkpointed: checkpoint?.seq ?? 0, current, gaps };
}

/** Beside the statements, for whoever verifies; a key of before stays there for what it signed. */
export function publishKey(disk: Disk, dir: string, publicKeyPem: string): void {
  const path = join(dir, PUBLIC_KEY);
  const there = disk.look(path) ? disk.readAll(path).toString() : '';
  if (!there.includes(publicKeyPem.trim())) disk.replace(path, `${there}${publicKeyPem.trim()}\n`);
}

const STEP = 256 * 1024;

/** The last record of a segment, after whatever stands unfinished behind it has been set aside. */
function mend(
  disk: Disk,
  dir: string,
  segment: Segment,
  gaps: Gap[],
): { tail: Tail | undefined; size: number } {
  const whole = disk.look(segment.path)?.size ?? 0;
  let length = Math.min(STEP, whole);
  for (;;) {
    const bytes = disk.readTail(segment.path, whole, length);
    let end = bytes.length;
    // From the end, the first line that can be read as a record; a host's crash can leave a block of zeros behind it.
    for (let lines = lastLine(bytes); lines.line; lines = lastLine(bytes.subarray(0, lines.start))) {
      if (lines.start === 0 && length < whole) break;
      const link = readLink(lines.line);
      end = lines.end;
      if (!link) {
        end = lines.start;
        continue;
      }
      const size = whole - bytes.length + end;
      setAside(disk, dir, segment, size, bytes.subarray(end), link.seq, gaps);
      return { tail: { seq: link.seq, hash: link.hash, time: link.time }, size };
    }
    if (length < whole) {
      length = Math.min(whole, length * 4);
      continue;
    }
    setAside(disk, dir, segment, 0, bytes, segment.firstSeq - 1, gaps);
    return { tail: undefined, size: 0 };
  }
}

function setAside(
  disk: Disk,
  dir: string,
  at: Segment,
  size: number,
  rest: Buffer,
  seq: number,
  gaps: Gap[],
): void {
  if (rest.length === 0) return;
  const name = `torn-after-${seq}.part`;
  disk.replace(join(dir, name), rest);
  const fd = disk.open(at.path, false);
  try {
    disk.truncate(fd, size);
  } finally {
    disk.close(fd);
  }
  gaps.push({
    cause: 'torn',
    firstSeq: seq + 1,
    why: `${rest.length} bytes of an unfinished record after record ${seq} were moved to ${name}; nobody had been told that it was kept`,
  });
}

function lastCheckpoint(disk: Disk, dir: string): SignedStatement | undefined {
  const path = join(dir, CHECKPOINTS);
  if (!disk.look(path)) return undefined;
  const keys = readPublicKeys(`${disk.readAll(join(dir, PUBLIC_KEY))}`);
  const lines = disk.readAll(path).toString().trimEnd().split('\n');
  for (const line of lines.reverse()) {
    const checked = checkStatement(line, keys);
    if (checked.ok) return checked.statement;
  }
  return undefined;
}

/** undefined where the record is not in the folder (retention) */
function hashOf(disk: Disk, segments: readonly Segment[], seq: number): string | undefined {
  const segment = segments.findLast(({ firstSeq }) => firstSeq <= seq);
  if (!segment) return undefined;
  const bytes = disk.readAll(segment.path);
  const at = bytes.indexOf(`"seq":${seq},`);
  if (at < 0) return undefined;
  const end = bytes.indexOf('\n', at);
  return readLink(bytes.subarray(bytes.lastIndexOf('\n', at) + 1, end < 0 ? bytes.length : end))?.hash;
}

function firstTime(disk: Disk, path: string, size: number): string {
  const head = disk.readTail(path, Math.min(size, STEP), STEP).toString('latin1');
  return /"time":"([^"]{24})"/.exec(head)?.[1] ?? '';
}
