// Searches what comes back from an upstream for the credential that was sent there: an answer that echoes it is not
// passed on. Matches across chunk boundaries are found; of a match that begins at the end of a chunk at most a few
// characters (no more than the `ghp_` that every such token begins with tells) have left before the rest is withheld.

import { base64Cores } from '../common/redact-values.ts';

/** The longest beginning of a needle that may pass before it is known whether the rest follows. */
const MAY_PASS = 7;

/** Every form in which a credential could come back; made once for each credential. */
export interface Needles {
  readonly bytes: readonly Buffer[];
  readonly texts: readonly string[];
  readonly longest: number;
}

/**
 * How a credential comes back in texts, commands and error pages: as it is, percent-encoded in either case and as a form
 * field, within JSON (also where slashes are escaped), and in base64 at any offset, which takes in a Basic header.
 * Other encodings (hex, compressed, base64 in lines) are not looked for.
 */
export function formsOf(secret: string): string[] {
  const percent = encodeURIComponent(secret.toWellFormed());
  const field = new URLSearchParams([['', secret]]).toString().slice(1);
  const lower = (text: string): string => text.replace(/%../g, (code) => code.toLowerCase());
  const json = JSON.stringify(secret).slice(1, -1);
  const cores = base64Cores(secret);
  const url = cores.map((core) => core.replaceAll('+', '-').replaceAll('/', '_'));
  const slashes = json.replaceAll('/', '\\/');
  return [
    ...new Set([secret, percent, lower(percent), field, lower(field), json, slashes, ...cores, ...url]),
  ];
}

/** Forms too short to be told from chance are left out. */
export function needlesOf(forms: readonly string[]): Needles {
  const texts = forms.filter((form) => form.length > MAY_PASS);
  const bytes = texts.map((text) => Buffer.from(text));
  return { texts, bytes, longest: Math.max(0, ...bytes.map(({ length }) => length)) };
}

export function anyHolds(values: readonly string[], { texts }: Needles): boolean {
  return values.some((value) => texts.some((text) => value.includes(text)));
}

export interface EchoScan {
  /** @returns what may be passed on now (the end can be withheld until the next chunk), or undefined: found */
  push(chunk: Buffer): Buffer | undefined;
  /** What was withheld, once nothing follows. */
  end(): Buffer;
}

const EMPTY = Buffer.alloc(0);

export function createEchoScan({ bytes: wanted, longest }: Needles): EchoScan {
  let held = EMPTY;
  let passed = EMPTY; // the last MAY_PASS bytes that have left

  return {
    push(chunk) {
      if (wanted.length === 0) return chunk;
      const data = held.length > 0 ? Buffer.concat([held, chunk]) : chunk;
      const seam = passed.length > 0 ? Buffer.concat([passed, data.subarray(0, longest)]) : EMPTY;
      for (const needle of wanted) if (data.includes(needle) || seam.includes(needle)) return undefined;

      const hold = beginningAtEnd(
        data.length >= longest ? data : Buffer.concat([passed, data]),
        wanted,
        longest,
      );
      const kept = Math.min(hold, data.length);
      held = kept > 0 ? Buffer.from(data.subarray(data.length - kept)) : EMPTY;
      const out = kept > 0 ? data.subarray(0, data.length - kept) : data;
      if (out.length > 0)
        passed = Buffer.from(
          (out.length >= MAY_PASS ? out : Buffer.concat([passed, out])).subarray(-MAY_PASS),
        );
      return out;
    },
    end() {
      const rest = held;
      held = EMPTY;
      return rest;
    },
  };
}

/** Length of the longest end of `data` that begins a needle and is too long to pass; 0 if none. */
function beginningAtEnd(data: Buffer, needles: readonly Buffer[], longest: number): number {
  const tail = data.subarray(Math.max(0, data.length - longest + 1));
  let hold = 0;
  for (const needle of needles) {
    const start = needle.subarray(0, MAY_PASS + 1);
    for (let at = tail.indexOf(start); at >= 0; at = tail.indexOf(start, at + 1)) {
      const length = tail.length - at;
      if (length < needle.length && tail.subarray(at).equals(needle.subarray(0, length))) {
        hold = Math.max(hold, length);
        break; // an earlier start is a longer hold
      }
    }
  }
  return hold;
}
