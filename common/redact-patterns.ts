// Credentials that nobody announced, known by their look: a person's own token in a user agent, a header dump in an
// upstream's error, a kubeconfig's line quoted by a YAML parser. Each pattern yields the span of the secret alone, so
// that the reader still sees what kind of thing stood there. One test (TRIGGER) decides whether any of them can match;
// it must stay a superset of them, and a property test holds it to that. Every repetition is bounded or cannot
// overlap itself: the text comes from strangers.

import type { Span } from './redact.ts';

/** A word that ends a name whose value is a credential: `GITHUB_TOKEN`, `client-secret`, `accessToken`. */
const NAME =
  'tokens?|passw(?:or)?d|passphrase|pwd|secret|api[-_]?key|access[-_]?key|private[-_]?key|secret[-_]?key|client[-_]?key(?:[-_]data)?|credentials?|signature|authorization|cookie|\\bsig|\\bauth|\\bpass';
const HEADER =
  'authorization|cookie2?|x-(?:[a-z-]{0,40}-)?(?:token|api-key|auth|key|signature)|private-token';
/** What can stand between a name and its value: closing quotes (escaped ones too), white space, then `:` or `=`. */
const TO_VALUE = '\\\\{0,3}["\']?[ \\t]{0,8}(?:=>?|:)';
const OWN_PREFIX =
  'glpat-|gldt-|xox[a-z]-|npm_|pypi-|sk-|hv[sbr]\\.|ya29\\.|AIza|dckr_pat_|k8s-aws-v1\\.|gh[a-z]_|github_pat_';

const TRIGGER = new RegExp(
  [
    `${OWN_PREFIX}|eyJ|LS0tLS1|PRIVATE KEY|A(?:KIA|SIA|ROA|IDA)[A-Z0-9]`,
    '(?:bearer|basic|negotiate|token)\\s+\\S',
    '://[^\\s/?#"\'<>]*@',
    `(?:${NAME}|${HEADER})${TO_VALUE}`,
    `-(?:${NAME})\\s|-[a-z-]{0,40}-(?:${NAME})\\s`,
  ].join('|'),
  'i',
);

/** Ordinary words after `Bearer` and `Basic`: the scheme is being talked about, not used. */
const PROSE =
  '(?!(?:tokens?|auth|authentication|authori[sz]ation|credentials?|challenge|error|headers?|scheme|and|or|is|was|are|only|required|for|from|of|in|to|as|not|with|realm=\\S*)(?![A-Za-z0-9+/=_~.-]))';

const BY_LOOK: readonly RegExp[] = [
  /(?<![A-Za-z0-9])(?:gh[a-z]_|github_pat_)[A-Za-z0-9_.-]{6,}/g,
  new RegExp(`(?<![A-Za-z0-9])(?:${OWN_PREFIX})[A-Za-z0-9_.-]{16,}`, 'g'),
  // A JWT, whole, cut short, or with the five parts of a JWE; `eyJ` is base64 for an opening brace and quote.
  /eyJ[A-Za-z0-9_-]{9,}={0,2}(?:\.[A-Za-z0-9_-]*){0,4}/g,
  // A PEM block in base64, as kubeconfigs carry it; not a certificate, which is public.
  /LS0tLS1CRUdJTi(?!BDRVJUSUZJQ0FUR)[A-Za-z0-9+/=_-]*/g,
  /(?<![A-Za-z0-9])A(?:KIA|SIA|ROA|IDA)[A-Z0-9]{12,}/g,
  new RegExp(`(?<=\\b(?:bearer|basic)\\s{1,8})${PROSE}[^\\s"'\\\\,;<>]+`, 'gi'),
  /(?<=\b(?:negotiate|token)\s{1,8})(?=[^\s"'\\,;<>]*\d)[A-Za-z0-9+/=_.~-]{16,}/gi,
  // `--token abc` within one string.
  new RegExp(`(?<=(?<![\\w-])--?(?:[a-z-]{0,40}-)?(?:${NAME})\\s{1,8})[^\\s"'-][^\\s"']*`, 'gi'),
];
const USER_INFO = /(?<=:\/\/)[^\s/?#"'<>]*(?=@)/g;
const NAMED: readonly [RegExp, (text: string, at: number, name: string) => Span][] = [
  [new RegExp(`(?:${HEADER})${TO_VALUE}(?<!=)`, 'gi'), headerValue],
  [new RegExp(`(?:${NAME})${TO_VALUE}`, 'gi'), namedValue],
];

/** Adds to `spans` whatever looks like a credential. */
export function patternSpans(text: string, spans: Span[]): void {
  if (!TRIGGER.test(text)) return;
  const urls = [...text.matchAll(USER_INFO)].map(({ index, 0: { length } }): Span => [index, index + length]);
  spans.push(...urls.filter(([start, end]) => end > start));
  for (const pattern of BY_LOOK) {
    for (const { index, 0: match } of text.matchAll(pattern)) spans.push([index, index + match.length]);
  }
  privateKeys(text, spans);
  for (const [pattern, valueAt] of NAMED) {
    let url = 0;
    let reach = 0;
    for (const { index, 0: name } of text.matchAll(pattern)) {
      const at = index + name.length;
      // `x-access-token:…@host`: the user information is gone already, and the host should stay readable.
      while ((urls[url]?.[1] ?? at) < at) url++;
      if (at >= (urls[url]?.[0] ?? at + 1) || at < reach || marked(text, skipSpace(text, at))) continue;
      const span = valueAt(text, at, name);
      push(spans, span);
      reach = span[1];
    }
  }
}

/** What is redacted already stays so, and does not grow when it is read again. */
function marked(text: string, at: number): boolean {
  return (
    text.startsWith('[redacted]', at) && /^(?:[\s"'`&,;<>(){}\\\]@]|$)/.test(text.slice(at + 10, at + 11))
  );
}

function push(spans: Span[], [start, end]: Span): void {
  if (end > start) spans.push([start, end]);
}

/** A header's value: a quoted string, a list of them, or the rest of the line. */
function headerValue(text: string, at: number): Span {
  const start = skipSpace(text, at);
  if (text[start] === '[') return [start, indexOr(text, ']', start)]; // several
  return quoted(text, start) ?? [start, lineEnd(text, start)];
}

/**
 * The value of a pair. After `=`, and after `:` with nothing between (`token:abc`), it is one word or a quoted string.
 * After a colon and a space stands a YAML value or a sentence (`token: not given`): it goes where it is quoted, is the
 * only word left, or does not look like a word.
 */
function namedValue(text: string, at: number, name: string): Span {
  const start = skipSpace(text, at);
  const string = quoted(text, start);
  if (string) return string;
  const end = wordEnd(text, start);
  if (start === at || !name.endsWith(':')) return [start, end];
  if (/pass|pwd|key/i.test(name) && startsLine(text, at - name.length)) return [start, lineEnd(text, start)];
  const more = /[ \t]*[^\s]/y;
  more.lastIndex = end;
  const prose = /^[A-Z]?[a-z]+[.,]?$/.test(text.slice(start, end)) && more.test(text);
  return prose ? [start, start] : [start, end];
}

/** Within quotes of any kind; each opening `\` (a string inside a JSON string) is part of the quote. */
function quoted(text: string, at: number): Span | undefined {
  const open = /(\\{0,3})(["'`])/y;
  open.lastIndex = at;
  const [all, slashes = '', mark = ''] = open.exec(text) ?? [];
  if (all === undefined) return undefined;
  const start = at + all.length;
  for (let end = text.indexOf(mark, start); end >= 0; end = text.indexOf(mark, end + 1)) {
    let before = 0;
    while (end - before > start && text[end - before - 1] === '\\') before++;
    if (before <= slashes.length) return [start, end - before];
  }
  return [start, text.length];
}

function startsLine(text: string, at: number): boolean {
  return /(?:^|[\r\n]|\\n)[\s>|-]{0,40}[\w.-]{0,40}$/.test(text.slice(Math.max(0, at - 80), at));
}

function skipSpace(text: string, at: number): number {
  let start = at;
  while (text[start] === ' ' || text[start] === '\t') start++;
  return start;
}

function lineEnd(text: string, at: number): number {
  return first(text, /[\r\n]|\\[rn]/g, at);
}

function wordEnd(text: string, at: number): number {
  return first(text, /[\s"'`&,;<>(){}\\\]]/g, at);
}

function first(text: string, pattern: RegExp, at: number): number {
  pattern.lastIndex = at;
  return pattern.exec(text)?.index ?? text.length;
}

function indexOr(text: string, mark: string, at: number): number {
  const found = text.indexOf(mark, at);
  return found < 0 ? text.length : found;
}

/** PEM private keys: from BEGIN to END; a block cut at either side is taken as far as it goes. */
function privateKeys(text: string, spans: Span[]): void {
  for (let at = text.indexOf('PRIVATE KEY'); at >= 0; at = text.indexOf('PRIVATE KEY', at + 1)) {
    const word = /-----(BEGIN|END) [A-Z0-9 ]*$/.exec(text.slice(Math.max(0, at - 60), at));
    if (!word) continue;
    const dashes = at - word[0].length;
    if (word[1] === 'BEGIN') {
      const end = text.indexOf('-----END', at);
      spans.push([dashes, end < 0 ? text.length : indexOr(text, '-----', end + 8)]);
    } else {
      let start = dashes;
      while (start > 0 && /[A-Za-z0-9+/=\s\\]/.test(text[start - 1] ?? '')) start--;
      push(spans, [start, dashes]);
    }
  }
}
