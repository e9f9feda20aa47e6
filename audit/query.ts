// Reading the trail from its folder, no server needed: filters, either order, paging by seq, and export of the lines as
// they are (so that what was exported can be verified too). A million records are 700 MB: segments are skipped by their
// names and times, the place within one is found by bisection, and a record is parsed only after the bytes of the
// filters were found in its line.

import { type FileHandle, open } from 'node:fs/promises';
import type { AuditRecord } from './event.ts';
import { type Block, blocksBackward, blocksForward, findLine } from './lines.ts';
import { listSegments, type Segment } from './segments.ts';

export interface AuditQuery {
  readonly sessionId?: string;
  readonly leaseId?: string;
  readonly action?: string;
  readonly decision?: string;
  /** Milliseconds since the epoch, both inclusive. */
  readonly since?: number;
  readonly until?: number;
  /** Default: no limit. */
  readonly limit?: number;
  /** Default `oldest`: first to last. */
  readonly order?: 'oldest' | 'newest';
  /** The page after the record with this seq, in the order asked for. */
  readonly after?: number;
}

/** Records that match, parsed. */
export async function* queryAudit(dir: string, query: AuditQuery = {}): AsyncGenerator<AuditRecord> {
  for await (const line of matching(dir, query)) yield JSON.parse(line.toString()) as AuditRecord;
}

/** The same records as the chain's own lines, each with its newline. */
export async function* exportAudit(dir: string, query: AuditQuery = {}): AsyncGenerator<string> {
  for await (const line of matching(dir, query)) yield `${line.toString()}\n`;
}

async function* matching(dir: string, query: AuditQuery): AsyncGenerator<Buffer> {
  let left = query.limit ?? Number.POSITIVE_INFINITY;
  if (left <= 0) return;
  const accepts = matcher(query);
  const newest = query.order === 'newest';
  const segments = await listSegments(dir);
  const relevant = await narrowed(segments, query);
  for (const segment of newest ? relevant.reverse() : relevant) {
    const file = await openSegment(segment);
    if (!file) continue;
    try {
      const [from, to] = await range(file, query);
      const blocks = newest ? blocksBackward(file, from, to) : blocksForward(file, from, to);
      for await (const block of blocks) {
        const found = accepts(block);
        for (const line of newest ? found.reverse() : found) {
          yield line;
          if (--left <= 0) return;
        }
      }
    } finally {
      await file.close();
    }
  }
}

/** A segment that retention removed meanwhile has nothing to say. */
async function openSegment(segment: Segment): Promise<FileHandle | undefined> {
  try {
    return await open(segment.path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Leaves out the segments that end before or begin after what is asked for, by names and first times. */
async function narrowed(segments: readonly Segment[], query: AuditQuery): Promise<Segment[]> {
  const { after, order, since, until } = query;
  const kept: Segment[] = [];
  for (const [i, segment] of segments.entries()) {
    const next = segments[i + 1];
    if (after !== undefined && order === 'newest' && segment.firstSeq >= after) continue;
    if (after !== undefined && order !== 'newest' && next && next.firstSeq <= after + 1) continue;
    if (until !== undefined && (await firstTime(segment)) > iso(until)) break;
    const ends = since !== undefined && next ? await firstTime(next) : '';
    if (since !== undefined && ends !== '' && ends < iso(since)) continue;
    kept.push(segment);
  }
  return kept;
}

async function firstTime(segment: Segment): Promise<string> {
  const file = await openSegment(segment);
  if (!file) return '';
  try {
    for await (const { bytes } of blocksForward(file, 0, 64 * 1024)) return member(bytes, '"time":"') ?? '';
    return '';
  } finally {
    await file.close();
  }
}

/** The bytes of a segment between which everything asked for lies. */
async function range(file: FileHandle, query: AuditQuery): Promise<[number, number]> {
  const { since, until, after, order } = query;
  const { size } = await file.stat();
  let from = 0;
  let to = size;
  const later = (time: string, strictly: boolean) => (line: Buffer) => {
    const at = member(line, '"time":"') ?? '';
    return strictly ? at > time : at >= time;
  };
  if (since !== undefined) from = await findLine(file, size, later(iso(since), false));
  if (until !== undefined) to = await findLine(file, size, later(iso(until), true));
  if (after !== undefined) {
    const place = await findLine(
      file,
      size,
      (line) => seqOf(line) > (order === 'newest' ? after - 1 : after),
    );
    if (order === 'newest') to = Math.min(to, place);
    else from = Math.max(from, place);
  }
  return [from, Math.max(from, to)];
}

function seqOf(line: Buffer): number {
  const at = line.indexOf('"seq":', 0, 'latin1');
  return at < 0 ? 0 : Number.parseInt(line.toString('latin1', at + 6, at + 22), 10);
}

function member(line: Buffer, name: string): string | undefined {
  const at = line.indexOf(name, 0, 'latin1');
  return at < 0 ? undefined : line.toString('latin1', at + name.length, at + name.length + 24);
}

function iso(ms: number): string {
  return new Date(Math.max(-8.64e15, Math.min(8.64e15, ms))).toISOString();
}

/**
 * Finds the lines of a block that hold every filter's member. A quote inside a JSON string is escaped, so the bytes
 * `"action":"git.fetch"` can be nothing but that member; none of the filtered names is used inside another member.
 */
export function matcher(query: AuditQuery): (block: Pick<Block, 'bytes'>) => Buffer[] {
  const { sessionId, leaseId, action, decision } = query;
  // The rarest first: it is searched for, the others are looked for in the lines where it was found.
  const needles = Object.entries({ sessionId, leaseId, action, decision })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => Buffer.from(`"${name}":${JSON.stringify(value)}`));
  const [first, ...others] = needles;
  return ({ bytes }) => {
    const found: Buffer[] = [];
    for (let start = 0; start < bytes.length; ) {
      if (first) {
        const hit = bytes.indexOf(first, start);
        if (hit < 0) break;
        start = Math.max(start, bytes.lastIndexOf(10, hit) + 1);
      }
      const stop = bytes.indexOf(10, start);
      // What has no newline is being written at this moment, or torn: it is not a record yet.
      if (stop < 0) break;
      const line = bytes.subarray(start, stop);
      if (line.length > 0 && others.every((needle) => line.includes(needle))) found.push(line);
      start = stop + 1;
    }
    return found;
  };
}
