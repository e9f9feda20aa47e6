// Which ref names git itself would take in a push: refs/<kind>/<name>, well formed (git-check-ref-format(1), and the
// "funny refname" rule of receive-pack). Stricter in two points: the name must be valid UTF-8, so that a record shows
// what was judged, and of a length that no file system minds.

const MAX_REF_BYTES = 1_000;
const FORBIDDEN = /[\x00-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\/|\.lock(?:\/|$)|(?:^|\/)\.|\.$|\/$/;

/** @param ref one character a byte (latin1), as it stands in the command */
export function isPushableRef(ref: string): boolean {
  if (!ref.startsWith('refs/') || ref.length > MAX_REF_BYTES || FORBIDDEN.test(ref)) return false;
  return ref.split('/').length >= 3 && isUtf8(ref);
}

/** For people and records. */
export function showRef(ref: string): string {
  return Buffer.from(ref, 'latin1').toString('utf8');
}

function isUtf8(bytes: string): boolean {
  return /^[\x00-\x7f]*$/.test(bytes) || Buffer.from(showRef(bytes), 'utf8').toString('latin1') === bytes;
}
