// Globs of repositories, refs and namespaces: `*`, `?` and `[classes]` within one segment, `**` as a whole segment and
// only where the caller asks for it. Everything else that a shell would read (braces, extglobs, negation, backslash)
// is refused instead of read literally, so that nobody writes a rule that means something else than it says.
//
// picomatch compiles what stands between the stars; each such part has a fixed length. The stars are ours: a part is
// taken where it fits first, so that a match costs at most (length of the pattern) x (length of the text). One regular
// expression for the whole pattern would backtrack for minutes on `*a*a*a*a*b` and a hostile ref name.

import picomatch from 'picomatch';
import { PosternError } from './errors.ts';

export interface GlobOptions {
  /** Lets `**` stand for any number of segments, none included; at the end of the pattern at least one. */
  readonly globstar?: boolean;
  /** ASCII letters. */
  readonly caseInsensitive?: boolean;
  /** The configuration key, flag or JSON path that a refusal names. */
  readonly key?: string;
}

export const MAX_GLOB_LENGTH = 256;

/** A class: members and ascending ranges; `-` stands for itself at either end. */
const CLASS = /\[[!^]?(?!\])-?(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9._])*-?\]/;
const LITERAL = /[A-Za-z0-9._@+#=,%&~:-]/;
const SEGMENT = new RegExp(`^(?:${CLASS.source}|${LITERAL.source}|[*?])+$`);

/** Something of a fixed size that fits at a place of a text, or does not. */
interface Part<Text> {
  readonly size: number;
  readonly fits: (text: Text, at: number) => boolean;
}

/**
 * Compiles a pattern to a predicate. A wildcard also takes a leading dot; a segment that is empty, `.` or `..` is
 * matched by nothing.
 * @throws PosternError `invalid_input` naming the pattern and what in it cannot be used
 */
export function compileGlob(pattern: string, options: GlobOptions = {}): (text: string) => boolean {
  checkGlob(pattern, options);
  const groups: Part<readonly string[]>[] = [];
  let run: ((segment: string) => boolean)[] = [];
  const endGroup = (): void => {
    const matchers = run;
    run = [];
    groups.push({
      size: matchers.length,
      fits: (segments, at) => matchers.every((matches, i) => matches(segments[at + i] ?? '')),
    });
  };
  const segments = pattern.split('/');
  for (const [i, segment] of segments.entries()) {
    if (segment !== '**') {
      run.push(compileSegment(segment, options.caseInsensitive === true));
      continue;
    }
    if (i === segments.length - 1) run.push(() => true);
    endGroup();
  }
  endGroup();
  return (text) => {
    const parts = text.split('/');
    return parts.every((part) => part !== '' && part !== '.' && part !== '..') && allFit(groups, parts);
  };
}

/** Whether the pattern has no wildcard at all: it names one thing. */
export function isExact(pattern: string): boolean {
  return !/[*?[]/.test(pattern);
}

function compileSegment(segment: string, nocase: boolean): (text: string) => boolean {
  const parts = segment.split('*').map((piece): Part<string> => {
    const size = piece.replace(new RegExp(CLASS, 'g'), '?').length;
    if (size === 0) return { size, fits: () => true };
    // Behind a class picomatch would read a plus as a quantifier.
    const expression = picomatch.makeRe(piece.replaceAll('+', '[+]'), {
      dot: true,
      nobrace: true,
      noext: true,
      noglobstar: true,
      nonegate: true,
      literalBrackets: false,
      posix: true, // reads [!a] as [^a]
      strictSlashes: true,
      nocase,
    });
    return { size, fits: (text, at) => expression.test(text.slice(at, at + size)) };
  });
  return (text) => allFit(parts, text);
}

/** The first part at the start, the last at the end, those between in order, each where it fits first. */
function allFit<Text extends { readonly length: number }>(parts: readonly Part<Text>[], text: Text): boolean {
  const first = parts[0];
  const last = parts[parts.length - 1];
  if (!first || !last) return false;
  if (parts.length === 1) return text.length === first.size && first.fits(text, 0);
  const end = text.length - last.size;
  let at = first.size;
  if (at > end || !first.fits(text, 0) || !last.fits(text, end)) return false;
  for (const part of parts.slice(1, -1)) {
    while (at + part.size <= end && !part.fits(text, at)) at++;
    at += part.size;
    if (at > end) return false;
  }
  return true;
}

function checkGlob(pattern: string, options: GlobOptions): void {
  const problem = globProblem(pattern, options.globstar === true);
  if (problem === undefined) return;
  const shown = JSON.stringify(pattern.length > 80 ? `${pattern.slice(0, 80)}…` : pattern);
  const { key } = options;
  throw new PosternError(
    'invalid_input',
    `${key === undefined ? '' : `${key}: `}the pattern ${shown} ${problem}`,
    {
      ...(key === undefined ? {} : { key }),
    },
  );
}

function globProblem(pattern: string, globstar: boolean): string | undefined {
  if (pattern === '') return 'is empty; write * for any name';
  if (pattern.length > MAX_GLOB_LENGTH) return `is longer than ${MAX_GLOB_LENGTH} characters`;
  const allowed = `*, ? and [classes] within a segment${globstar ? ', and ** as a whole segment' : ''}`;
  for (const segment of pattern.split('/')) {
    if (segment === '') return 'has an empty segment; write one / between names and none at either end';
    if (segment === '.' || segment === '..') return `has the segment ${segment}, which matches nothing`;
    if (segment === '**' && globstar) continue;
    if (segment.includes('**')) return `has ** where it cannot stand; the wildcards are ${allowed}`;
    if (!SEGMENT.test(segment)) {
      const odd = [...segment].find((char) => !LITERAL.test(char) && !'*?[]'.includes(char));
      const what = odd === undefined ? 'a class that cannot be read' : JSON.stringify(odd);
      return `has ${what}; the wildcards are ${allowed}, everything else is plain ASCII`;
    }
    for (const range of segment.match(/[A-Za-z0-9]-[A-Za-z0-9](?=[^[]*\])/g) ?? [])
      if (range.charCodeAt(0) > range.charCodeAt(2)) return `has the range ${range}, which runs backwards`;
  }
  return undefined;
}
