/** Control characters and line separators: what a terminal, a log line or a file name would stumble over. */
const ODD = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

/** One line of printable, well-formed text. */
export function isPlain(text: string, max: number): boolean {
  return text.length <= max && text.isWellFormed() && !ODD.test(text);
}

/** What somebody typed, as the id of a row or a value of an index; nothing is found under what can be neither. */
export function rowKey(text: string): string {
  return text !== '' && isPlain(text, 1100) ? text : '-';
}
