// Lines of a file as bytes, in either direction, a block at a time: a segment is up to 32 MiB and more, and most of
// what is asked of it lies at one end.

import type { FileHandle } from 'node:fs/promises';

const NEWLINE = 10;
const BLOCK = 1024 * 1024;

/** A block of whole lines, each with its newline but perhaps the file's last. `at` is its place in the file. */
export interface Block {
  readonly bytes: Buffer;
  readonly at: number;
}

/** From `from` (a line's start) to `to`. Blocks are reused by nobody: they may be kept. */
export async function* blocksForward(file: FileHandle, from: number, to: number): AsyncGenerator<Block> {
  let rest: Buffer = Buffer.alloc(0);
  let at = from;
  while (at + rest.length < to) {
    const start = at + rest.length;
    const bytes = Buffer.allocUnsafe(rest.length + Math.min(BLOCK, to - start));
    rest.copy(bytes);
    const { bytesRead } = await file.read(bytes, rest.length, bytes.length - rest.length, start);
    if (bytesRead === 0) break;
    const got = bytes.subarray(0, rest.length + bytesRead);
    const end = got.lastIndexOf(NEWLINE) + 1;
    if (end > 0) yield { bytes: got.subarray(0, end), at };
    at += end;
    rest = got.subarray(end);
  }
  if (rest.length > 0) yield { bytes: rest, at };
}

/** The same blocks from `to` (a line's end) back to `from`; the lines within a block are in the file's order. */
export async function* blocksBackward(file: FileHandle, from: number, to: number): AsyncGenerator<Block> {
  let rest: Buffer = Buffer.alloc(0);
  let end = to;
  while (end > from) {
    const size = Math.min(BLOCK, end - from);
    const bytes = Buffer.allocUnsafe(size + rest.length);
    await readFully(file, bytes, size, end - size);
    rest.copy(bytes, size);
    end -= size;
    // The first line of the block may begin before it.
    const start = end === from ? 0 : bytes.indexOf(NEWLINE) + 1;
    if (start > 0 || end === from) {
      yield { bytes: bytes.subarray(start), at: end + start };
      rest = bytes.subarray(0, start);
    } else {
      rest = bytes;
    }
  }
}

async function readFully(file: FileHandle, into: Buffer, length: number, at: number): Promise<void> {
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(into, done, length - done, at + done);
    if (bytesRead === 0) return void into.fill(0, done, length);
    done += bytesRead;
  }
}

/**
 * The start of the first line for which `isAfter` holds; `to` where it holds for none. Lines must be sorted by it.
 */
export async function findLine(
  file: FileHandle,
  to: number,
  isAfter: (line: Buffer) => boolean,
): Promise<number> {
  // Bisects places, not lines: of each place counts the first line that starts at or after it. `low` is always the
  // start of a line, and every line before it is not after.
  let low = 0;
  let high = to;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const next = await lineAt(file, middle, low, to);
    if (!next || isAfter(next.line)) high = middle;
    else low = next.end;
  }
  return low;
}

/** The first line that starts at or after `at`; `low` is known to be the start of a line. */
async function lineAt(
  file: FileHandle,
  at: number,
  low: number,
  to: number,
): Promise<{ line: Buffer; end: number } | undefined> {
  for (let size = 4096; ; size *= 4) {
    const from = at === low ? at : at - 1;
    const bytes = Buffer.allocUnsafe(Math.min(size, to - from));
    await readFully(file, bytes, bytes.length, from);
    const start = at === low ? 0 : bytes.indexOf(NEWLINE) + 1;
    const end = start === 0 && at !== low ? -1 : bytes.indexOf(NEWLINE, start);
    if (end >= 0) return { line: bytes.subarray(start, end), end: from + end + 1 };
    if (bytes.length === to - from) return undefined;
  }
}
