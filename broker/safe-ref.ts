// How a reference that somebody typed is shown back. "There is no secret called …" is the commonest place where a pasted
// token ends up in a log: people put the credential where its name belongs. A known token shape is hidden; anything else
// that does not look like a name is cut short, which also covers the shapes that nobody has listed.

import type { Span } from '../common/redact.ts';
import { patternSpans } from '../common/redact-patterns.ts';

const ID = /^(?:sec|grant|lease|req)_[0-9a-z]{26}$/;
/** A name has separators; a token is one long run. */
const RUN = /[A-Za-z0-9+/=]{18,}/;
const SHOWN = 6;

/** For messages and records: the reference where it is plainly a name or an id, else its beginning and its length. */
export function safeRef(ref: string): string {
  if (ID.test(ref)) return ref;
  if (looksSecret(ref)) return `[redacted] (${ref.length} characters)`;
  if (ref.length <= 40 && !RUN.test(ref) && /^[A-Za-z0-9._-]*$/.test(ref)) return JSON.stringify(ref);
  const shown = ref.slice(0, SHOWN).replaceAll(/[^ -~]|["\\]/g, '?');
  return `"${shown}…" (${ref.length} characters)`;
}

/** The file that an option names, where what stands there is plainly a path and not what the file should hold. */
export function safePath(path: string): string {
  const plain = /^\.{0,2}\//.test(path) || /\.[a-z0-9]{1,8}$/i.test(path);
  return plain && path.length <= 4096 && !looksSecret(path) ? `the file ${path}` : 'the file that it names';
}

/** Whether a text has the look of a known credential. */
export function looksSecret(text: string): boolean {
  const spans: Span[] = [];
  patternSpans(text, spans);
  return spans.length > 0;
}
