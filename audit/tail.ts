// Following the trail as it grows, from the folder, across rotation. It looks at the file's size instead of relying on
// change notices, which network file systems and some overlays do not send.

import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AuditRecord } from './event.ts';
import { blocksForward } from './lines.ts';
import { type AuditQuery, matcher, queryAudit } from './query.ts';
import { listSegments, type Segment } from './segments.ts';

export interface TailOptions extends Pick<AuditQuery, 'sessionId' | 'leaseId' | 'action' | 'decision'> {
  /** How many of the matching records that are there already come first; default 10. */
  readonly last?: number;
  /** Ends the generator. */
  readonly signal?: AbortSignal;
  /** Milliseconds between looks; default 250. */
  readonly every?: number;
}

export async function* tailAudit(dir: string, options: TailOptions = {}): AsyncGenerator<AuditRecord> {
  const { last = 10, signal, every = 250, ...filters } = options;
  let at = await end(dir);
  const before: AuditRecord[] = [];
  for await (const record of queryAudit(dir, { ...filters, order: 'newest', limit: last }))
    before.push(record);
  const accepts = matcher(filters);
  const seen = before[0]?.seq ?? 0;
  yield* before.reverse();
  while (!signal?.aborted) {
    for (const segment of (await listSegments(dir)).filter(({ firstSeq }) => firstSeq >= at.firstSeq)) {
      let from = segment.firstSeq === at.firstSeq ? at.offset : 0;
      for await (const { bytes, next } of whole(segment, from)) {
        from = next;
        for (const line of accepts({ bytes })) {
          const record = JSON.parse(line.toString()) as AuditRecord;
          // Written between the look at the end and the query.
          if (record.seq > seen) yield record;
        }
      }
      at = { firstSeq: segment.firstSeq, offset: from };
    }
    await sleep(every, undefined, signal ? { signal } : {}).catch(() => {});
  }
}

async function end(dir: string): Promise<{ firstSeq: number; offset: number }> {
  const segment = (await listSegments(dir)).at(-1);
  if (!segment) return { firstSeq: 0, offset: 0 };
  let offset = 0;
  const file = await open(segment.path);
  try {
    const { size } = await file.stat();
    const from = Math.max(0, size - 1024 * 1024);
    for await (const { bytes, at } of blocksForward(file, from, size))
      offset = at + bytes.lastIndexOf(10) + 1;
  } finally {
    await file.close();
  }
  return { firstSeq: segment.firstSeq, offset };
}

/** Blocks of complete lines only; what has no newline yet is read again later. */
async function* whole(segment: Segment, from: number): AsyncGenerator<{ bytes: Buffer; next: number }> {
  const file = await open(segment.path).catch(() => undefined);
  if (!file) return;
  try {
    const { size } = await file.stat();
    for await (const { bytes, at } of blocksForward(file, from, size)) {
      const complete = bytes.lastIndexOf(10) + 1;
      if (complete > 0) yield { bytes: bytes.subarray(0, complete), next: at + complete };
    }
  } finally {
    await file.close();
  }
}
