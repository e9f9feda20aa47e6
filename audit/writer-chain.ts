// The writer's end of the chain: it holds where the chain stands (the only copy of `prev`) and the segment in use, and
// appends a group of batches with one write, all of it or nothing. What the disk does meanwhile (full, read-only, the
// file deleted, replaced, cut or written to by others) ends in an exception and an unchanged state, so that the next
// try starts from the same place; a segment that is not what this process left there is given up for a new one, and
// the new one begins with a record that says so.

import { join } from 'node:path';
import type { Disk } from './disk.ts';
import type { AuditEvent } from './event.ts';
import { encodeEvent } from './record.ts';
import { GENESIS, later, sealLine, type Tail } from './seal.ts';
import { segmentName } from './segments.ts';
import type { Batch, FromWriter, Gap, WriterSettings } from './writer-protocol.ts';
import { publishKey, recover } from './writer-recover.ts';

interface OpenSegment {
  readonly fd: number;
  readonly path: string;
  readonly dev: number;
  readonly ino: number;
  /** What this process knows to be in it. */
  size: number;
  /** Time of its first record. */
  since: string;
  /** A failed write may have left bytes behind `size`. */
  dirty: boolean;
}

export interface Chain {
  /** Where the chain stands; nothing before the first success. */
  tail(): Tail;
  /** From the last signed checkpoint, as found at the start. */
  checkpointed(): number;
  /** @throws what the disk says; nothing was appended then */
  append(batches: readonly Pick<Batch, 'text' | 'now' | 'gaps'>[], own?: readonly AuditEvent[]): void;
  /** Whether a segment was left since the last `unsynced`. */
  hasRetired(): boolean;
  /** Descriptors whose content may not be on the disk yet; `retired` are to be closed after the sync. */
  unsynced(): { current: number | undefined; retired: number[]; folder: boolean };
  /** The segment in use can no longer be trusted to reach the disk. */
  abandonSegment(): void;
}

export function createChain(
  disk: Disk,
  settings: WriterSettings,
  tell: (message: FromWriter) => void,
): Chain {
  const { dir } = settings;
  let tail: Tail | undefined;
  let checkpointed = 0;
  let segment: OpenSegment | undefined;
  let retired: number[] = [];
  let folderChanged = false;
  /** The writer's own records, until they are written. */
  let own: AuditEvent[] = [];

  function open(): Tail {
    const found = recover(disk, dir, settings.publicKeyPem);
    if (found.current) {
      const fd = disk.open(found.current.path, false);
      segment = {
        fd,
        ...disk.identify(fd),
        path: found.current.path,
        since: found.current.since,
        dirty: false,
      };
    }
    if (disk.isOpenToOthers(dir))
      tell({ type: 'trouble', message: `${dir} can be written to by others: chmod 700 it` });
    checkpointed = found.checkpointed;
    const begins =
      found.tail.seq === 0 ? 'A new chain begins' : `The chain goes on after record ${found.tail.seq}`;
    own = [...found.gaps.map(gapEvent), { action: 'audit.started', decision: 'allow', reason: begins }];
    tail = found.tail;
    return tail;
  }

  function retire(): void {
    if (segment) retired.push(segment.fd);
    segment = undefined;
  }

  function begin(after: Tail): OpenSegment {
    const path = join(dir, segmentName(after.seq + 1));
    let fd: number;
    try {
      fd = disk.open(path, true);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') {
        disk.makeFolder(dir);
        publishKey(disk, dir, settings.publicKeyPem);
      } else if (code === 'EEXIST') {
        const aside = `${path}.aside-${Date.now()}`;
        disk.move(path, aside);
        tell({ type: 'trouble', message: `${path} was in the way of a new segment; it is now ${aside}` });
      } else {
        throw error;
      }
      fd = disk.open(path, true);
    }
    folderChanged = true;
    return { fd, ...disk.identify(fd), path, since: '', dirty: false };
  }

  /** Whether the path still names the file that this process wrote, with what it wrote in it and nothing more. */
  function intact(open: OpenSegment): boolean {
    if (open.dirty) {
      disk.truncate(open.fd, open.size);
      open.dirty = false;
    }
    const there = disk.look(open.path);
    return there?.ino === open.ino && there.dev === open.dev && there.size === open.size;
  }

  /** The segment to write to now. */
  function ready(after: Tail, now: string): OpenSegment {
    if (segment && !intact(segment)) {
      const why = `${segment.path} was deleted, replaced or changed by something else while it was open`;
      own.push(gapEvent({ cause: 'file_replaced', lastSeq: after.seq, why }));
      tell({ type: 'trouble', message: why });
      retire();
    } else if (segment && segment.size > 0 && isFull(segment, now)) {
      retire();
    }
    segment ??= begin(after);
    return segment;
  }

  function isFull({ size, since }: OpenSegment, now: string): boolean {
    return size >= settings.segmentBytes || Date.parse(now) - Date.parse(since) >= settings.segmentMs;
  }

  return {
    tail: () => tail ?? GENESIS,
    checkpointed: () => checkpointed,
    append(batches, events = []) {
      let at = tail ?? open();
      const now = later(batches.at(-1)?.now ?? '', at.time) || new Date().toISOString();
      const to = ready(at, now);
      const first = batches[0]?.now ?? now;
      const lines: string[] = [];
      const put = (encoded: string): void => {
        const sealed = sealLine(encoded, at);
        lines.push(sealed.line);
        at = sealed.tail;
      };
      for (const event of own) put(encodeEvent(event, later(first, at.time), undefined));
      for (const { text, gaps, now: from } of batches) {
        for (const gap of gaps) put(encodeEvent(gapEvent(gap), later(from, at.time), undefined));
        if (text !== '') for (const encoded of text.split('\n')) put(encoded);
      }
      for (const event of events) put(encodeEvent(event, later(now, at.time), undefined));
      if (lines.length === 0) return;
      const bytes = Buffer.from(lines.join(''));
      try {
        disk.write(to.fd, bytes);
      } catch (error) {
        to.dirty = true;
        // Taken back at once where the disk allows it, so that no reader meets half a record.
        if (!attempt(() => disk.truncate(to.fd, to.size))) throw error;
        to.dirty = false;
        throw error;
      }
      to.size += bytes.length;
      to.since ||= now;
      tail = at;
      for (const { action, reason = '' } of [...own, ...events]) {
        if (action === 'audit.started' || action === 'audit.gap' || action === 'audit.retention')
          tell({ type: 'own', action, reason });
      }
      own = [];
    },
    hasRetired: () => retired.length > 0,
    unsynced() {
      const due = { current: segment?.fd, retired, folder: folderChanged };
      retired = [];
      folderChanged = false;
      return due;
    },
    abandonSegment() {
      if (segment) disk.close(segment.fd);
      segment = undefined;
    },
  };
}

function gapEvent({ why, ...gap }: Gap): AuditEvent {
  return { action: 'audit.gap', decision: 'error', reason: why, gap };
}

function attempt(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}
