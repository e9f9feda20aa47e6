// Removes credentials from text and from anything that can be logged. Two ways at once, on the same original text:
// by value what is in custody (redact-values.ts: any piece of 12 characters, and the encoded forms), by pattern what
// is not (redact-patterns.ts). The spans of both are joined before anything is replaced; one after the other would
// let a shared JWT header be cut out first and hide the rest of somebody else's JWT from its pattern.
//
// Clean text is the usual case and comes back as the same string, after one pass and one test.

import { credentialsIn } from './redact-documents.ts';
import { patternSpans } from './redact-patterns.ts';
import { createValueIndex } from './redact-values.ts';
import { walk } from './redact-walk.ts';

export const REDACTED = '[redacted]';

/** Removes credentials from text: by value what is in custody, by pattern what is not. */
export interface Redactor {
  /**
   * Everything in custody is announced here when it is opened or taken. Counted: a value added twice is removed
   * twice. Of a document (a kubeconfig, a JSON payload) the credentials in it are taken, see `credentialsIn`.
   * Values under 8 characters are found as whole words only, under 4 not at all.
   */
  add(value: string): void;
  remove(value: string): void;
  /** Returns the same string where there is nothing to remove. */
  text(text: string): string;
  /** The same for every string inside a value, as plain JSON-able data: errors with their causes, Maps, cycles. */
  value(value: unknown): unknown;
}

const SHORT = 256;
const MOST_CLEAN = 8192;

/** Half-open: [start, end). */
export type Span = readonly [start: number, end: number];

export function createRedactor(): Redactor {
  const index = createValueIndex();
  const held = new Map<string, { count: number; parts: readonly string[] }>();
  // Ids, names and user agents come again and again: short texts that were clean are not searched twice. Emptied
  // when something new comes into custody.
  const clean = new Set<string>();

  function text(input: string): string {
    const short = input.length <= SHORT;
    if (short && clean.has(input)) return input;
    const spans = index.spans(input);
    patternSpans(input, spans);
    if (spans.length > 0) return replace(input, spans);
    if (short) {
      if (clean.size >= MOST_CLEAN) clean.clear();
      clean.add(input);
    }
    return input;
  }

  return {
    add(value) {
      const known = held.get(value);
      if (known) {
        known.count++;
        return;
      }
      const parts = [...new Set([value, ...credentialsIn(value)])];
      held.set(value, { count: 1, parts });
      clean.clear();
      for (const part of parts) index.add(part);
    },
    remove(value) {
      const known = held.get(value);
      if (!known || --known.count > 0) return;
      held.delete(value);
      for (const part of known.parts) index.remove(part);
    },
    text,
    value: (value) => walk(value, text),
  };
}

function replace(text: string, spans: Span[]): string {
  spans.sort((a, b) => a[0] - b[0]);
  let out = '';
  let done = 0;
  let [start, end] = spans[0] ?? [0, 0];
  for (const [from, to] of spans) {
    // Spans that touch become one: a credential found in two pieces is one credential.
    if (from <= end) {
      end = Math.max(end, to);
      continue;
    }
    out += text.slice(done, start) + REDACTED;
    done = end;
    [start, end] = [from, to];
  }
  return out + text.slice(done, start) + REDACTED + text.slice(end);
}
