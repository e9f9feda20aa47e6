// Finds what is in custody, by value, in one pass over the text however many values there are: a rolling hash of
// every 8 characters is looked up in a filter, and only a hit is compared. Of each value a window at every 5th place
// is on file, so that any piece of 12 characters holds one whole window: a token that something else cut short, or
// wrapped, is found too. The encoded forms a value meets on its way (base64 at each of its three alignments, so that
// the user name of a Basic pair does not matter; URL and JSON escapes) are on file a little more thinly.

import type { Span } from './redact.ts';

const WINDOW = 8;
/** Shortest piece that is redacted, of the value itself and of an encoded form. */
const PIECE = 12;
const ENCODED_PIECE = 32;
const SHORTEST = 4;
/** Of the values that share a window (the head of a JWT) so many are followed; the rest have windows of their own. */
const SHARED = 16;

const BASE = 0x01000193;
const OUT = power(BASE, WINDOW - 1);
const SPREAD = 0x9e3779b1;

interface Form {
  readonly text: string;
  /** A run shorter than this is not redacted. */
  readonly least: number;
}

interface Spot {
  readonly form: Form;
  readonly at: number;
}

export interface ValueIndex {
  add(value: string): void;
  remove(value: string): void;
  spans(text: string): Span[];
}

export function createValueIndex(): ValueIndex {
  const held = new Map<string, { count: number; forms: readonly Form[] }>();
  const spots = new Map<number, Spot | Spot[]>();
  const short = new Set<string>();
  let shortWords: RegExp | undefined;
  // One byte a slot, non-zero where a filed window hashes to. Removals leave bytes behind until the next rebuild.
  let bits = 12;
  let filter = new Uint8Array(1 << bits);
  let filed = 0;
  let stale = 0;

  function fill(): void {
    bits = Math.min(24, Math.max(12, 36 - Math.clz32(filed)));
    filter = new Uint8Array(1 << bits);
    for (const hash of spots.keys()) filter[slot(hash, bits)] = 1;
    stale = 0;
  }

  function file(form: Form): void {
    for (const at of places(form)) {
      const hash = hashAt(form.text, at);
      const there = spots.get(hash);
      if (there === undefined) spots.set(hash, { form, at });
      else if (Array.isArray(there)) there.push({ form, at });
      else spots.set(hash, [there, { form, at }]);
      filter[slot(hash, bits)] = 1;
      filed++;
    }
  }

  function unfile(form: Form): void {
    for (const at of places(form)) {
      const hash = hashAt(form.text, at);
      const left = [spots.get(hash) ?? []].flat().filter((spot) => spot.form !== form);
      if (left.length > 0) spots.set(hash, left);
      else spots.delete(hash);
      filed--;
      stale++;
    }
  }

  /** The longest run around a hit that text and form share, if it is long enough to give something away. */
  function run(text: string, at: number, spot: Spot): Span | undefined {
    const value = spot.form.text;
    let start = 0;
    while (start < WINDOW && code(text, at + start) === code(value, spot.at + start)) start++;
    if (start < WINDOW) return undefined;
    let left = 0;
    while (left < spot.at && left < at && code(text, at - left - 1) === code(value, spot.at - left - 1))
      left++;
    let right = WINDOW;
    while (spot.at + right < value.length && code(text, at + right) === code(value, spot.at + right)) right++;
    return left + right >= spot.form.least ? [at - left, at + right] : undefined;
  }

  function scan(text: string, found: Span[]): void {
    let hash = hashAt(text, 0);
    let within: Form | undefined;
    let covered = 0;
    const shift = 32 - bits;
    const last = text.length - WINDOW;
    for (let at = 0; ; at++) {
      if (filter[Math.imul(hash, SPREAD) >>> shift] !== 0) {
        let followed = 0;
        for (const spot of [spots.get(hash) ?? []].flat()) {
          // The next window of the run that was just followed.
          if (spot.form === within && at + WINDOW <= covered) break;
          const span = run(text, at, spot);
          if (!span) continue;
          found.push(span);
          within = spot.form;
          covered = span[1];
          if (++followed === SHARED) break;
        }
      }
      if (at >= last) return;
      hash = (Math.imul(hash - Math.imul(code(text, at), OUT), BASE) + code(text, at + WINDOW)) | 0;
    }
  }

  return {
    add(value) {
      const known = held.get(value);
      if (known) {
        known.count++;
        return;
      }
      if (value.length < SHORTEST) return;
      const forms = formsOf(value);
      held.set(value, { count: 1, forms });
      if (value.length < WINDOW) {
        short.add(value);
        shortWords = wordsOf(short);
      }
      for (const form of forms) file(form);
      if (filed > 1 << (bits - 4) && bits < 24) fill();
    },
    remove(value) {
      const known = held.get(value);
      if (!known || --known.count > 0) return;
      held.delete(value);
      if (short.delete(value)) shortWords = wordsOf(short);
      for (const form of known.forms) unfile(form);
      if (stale > filed + 1024) fill();
    },
    spans(text) {
      const found: Span[] = [];
      if (filed > 0 && text.length >= WINDOW) scan(text, found);
      if (shortWords)
        for (const match of text.matchAll(shortWords))
          found.push([match.index, match.index + match[0].length]);
      return found;
    },
  };
}

/** Where the windows of a form are taken. A form that counts only as a whole needs one. */
function* places(form: Form): Generator<number> {
  const last = form.text.length - WINDOW;
  if (form.least === form.text.length) {
    yield last >> 1;
    return;
  }
  for (let at = 0; at <= last; at += form.least - WINDOW + 1) yield at;
}

function formsOf(value: string): Form[] {
  const forms = new Map<string, Form>();
  const put = (text: string, piece: number): void => {
    if (text.length >= WINDOW && !forms.has(text))
      forms.set(text, { text, least: Math.min(piece, text.length) });
  };
  // A piece of a document is mostly not secret (`apiVersion: v1`): it counts whole, and its credentials by themselves.
  const document = isDocument(value);
  const trimmed = document ? value.trim() : value;
  const piece = document ? Number.POSITIVE_INFINITY : PIECE;
  put(trimmed, piece);
  put(JSON.stringify(trimmed).slice(1, -1), piece);
  if (document) return [...forms.values()];
  put(encodeURIComponent(trimmed.toWellFormed()), PIECE);
  put(new URLSearchParams([['', trimmed]]).toString().slice(1), PIECE);
  for (const core of base64Cores(trimmed)) put(core, ENCODED_PIECE);
  return [...forms.values()];
}

export function isDocument(value: string): boolean {
  if (/[\r\n]/.test(value.trim())) return true;
  if (!/^\s*[{[]/.test(value)) return false;
  try {
    JSON.parse(value);
    return true;
  } catch {
    return false;
  }
}

/** The part of base64 that is the same whatever stands before and after the value, for each alignment. */
export function base64Cores(value: string): string[] {
  const bytes = Buffer.from(value);
  const cores: string[] = [];
  for (const pad of [0, 1, 2]) {
    const whole = Buffer.concat([Buffer.alloc(pad), bytes]);
    const first = Math.ceil((pad * 8) / 6);
    const last = Math.floor((whole.length * 8) / 6);
    const core = whole.toString('base64').slice(first, last);
    // Under 11 characters (8 bytes) a core is common enough to be found in innocent text.
    if (core.length >= 10) cores.push(core);
  }
  return cores;
}

function wordsOf(words: ReadonlySet<string>): RegExp | undefined {
  if (words.size === 0) return undefined;
  const any = [...words].map((word) => word.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|');
  return new RegExp(`(?<![A-Za-z0-9])(?:${any})(?![A-Za-z0-9])`, 'g');
}

/** `-` reads as `+` and `_` as `/`, so that base64url needs no form of its own; past the end: NaN, equal to nothing. */
function code(text: string, at: number): number {
  const unit = text.charCodeAt(at);
  return unit === 45 ? 43 : unit === 95 ? 47 : unit;
}

function hashAt(text: string, at: number): number {
  let hash = 0;
  for (let i = 0; i < WINDOW; i++) hash = (Math.imul(hash, BASE) + code(text, at + i)) | 0;
  return hash;
}

function slot(hash: number, bits: number): number {
  return Math.imul(hash, SPREAD) >>> (32 - bits);
}

function power(base: number, exponent: number): number {
  let out = 1;
  for (let i = 0; i < exponent; i++) out = Math.imul(out, base);
  return out;
}
