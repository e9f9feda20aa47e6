// The link of the chain. A record's line is its canonical JSON with `hash` as last member; the hash is over the same
// JSON without it, and that JSON names the hash of the record before (`prev`). Reading takes the four members that the
// chain is made of out of the bytes without parsing the rest: a quote inside a JSON string is always escaped, so
// `"seq":` can stand nowhere but before the member's value.

import { hash } from 'node:crypto';
import { PART } from './record.ts';

/** The last record of a chain. */
export interface Tail {
  /** 0 before the first. */
  readonly seq: number;
  readonly hash: string;
  /** RFC 3339; empty before the first. */
  readonly time: string;
}

export const GENESIS: Tail = { seq: 0, hash: '0'.repeat(64), time: '' };

/** `,"hash":"` + 64 hex digits + `"}` */
const SUFFIX = 75;
const NEWLINE = 10;

/**
 * Closes an encoded event (record.ts) into the line after `tail`. Time never runs backward in a chain: a clock that
 * was set back repeats the last time.
 */
export function sealLine(encoded: string, tail: Tail): { line: string; tail: Tail } {
  const [stamp = '', a = '', b = '', c = '', d = ''] = encoded.split(PART);
  const time = later(stamp, tail.time);
  const seq = tail.seq + 1;
  const body = `${a}"prev":"${tail.hash}",${b}"seq":${seq},${c}"time":"${time}",${d.slice(0, -1)}`;
  const digest = hash('sha256', `${body}}`, 'hex');
  return { line: `${body},"hash":"${digest}"}\n`, tail: { seq, hash: digest, time } };
}

/** The later of two times; their form sorts as they do. */
export function later(one: string, other: string): string {
  return one < other ? other : one;
}

/** What a line claims about its place, and whether its hash is the hash of its bytes. */
export interface Link extends Tail {
  readonly prev: string;
  readonly intact: boolean;
}

/** @param line the bytes of one line, without its newline; read in place, unchanged afterwards */
export function readLink(line: Buffer): Link | undefined {
  const end = line.length - SUFFIX;
  if (
    end < 2 ||
    line.toString('latin1', end, end + 9) !== ',"hash":"' ||
    line.toString('latin1', line.length - 2) !== '"}'
  )
    return undefined;
  const seq = /^\d+/.exec(member(line, '"seq":', 16));
  const prev = member(line, '"prev":"', 64);
  const time = member(line, '"time":"', 24);
  const digest = line.toString('latin1', end + 9, end + 73);
  if (!seq || !HEX.test(prev) || !HEX.test(digest)) return undefined;
  line[end] = 0x7d;
  const actual = hash('sha256', line.subarray(0, end + 1), 'hex');
  line[end] = 0x2c;
  return { seq: Number(seq[0]), prev, time, hash: digest, intact: actual === digest };
}

const HEX = /^[0-9a-f]{64}$/;

function member(line: Buffer, name: string, length: number): string {
  const at = line.indexOf(name, 0, 'latin1');
  return at < 0 ? '' : line.toString('latin1', at + name.length, at + name.length + length);
}

/** The last whole line of a buffer that starts at a line's start or in the middle of one. */
export function lastLine(bytes: Buffer): { line: Buffer | undefined; start: number; end: number } {
  const end = bytes.lastIndexOf(NEWLINE);
  if (end < 0) return { line: undefined, start: 0, end: 0 };
  const start = end === 0 ? 0 : bytes.lastIndexOf(NEWLINE, end - 1) + 1;
  return { line: bytes.subarray(start, end), start, end: end + 1 };
}
