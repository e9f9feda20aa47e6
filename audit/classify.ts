// What the first break of a chain is: from the last good record, the line that does not follow it, and what comes
// after. The rules are about what an editor of the file can do; where two readings are possible, the one that leaves
// most of the chain whole is named.

import type { Link, Tail } from './seal.ts';
import type { Break, BreakKind } from './verify.ts';

/** One line of a segment, and where it stands. */
export interface Place {
  readonly file: string;
  /** The seq in the file's name. */
  readonly firstSeq: number;
  readonly line: number;
  /** undefined: not a record at all */
  readonly link: Link | undefined;
  /** Whether the line ends with a newline. */
  readonly whole: boolean;
}

export interface Situation {
  /** The end of the good part. */
  readonly last: Tail;
  /** Its place; undefined at the beginning. */
  readonly before: Place | undefined;
  readonly place: Place;
  /** The lines after `place`; used up here. */
  readonly rest: AsyncIterator<Place>;
}

export async function classify({ last, before, place, rest }: Situation): Promise<Break> {
  const expected = last.seq + 1;
  const { link } = place;
  const following = await rest.next();
  const next = following.done ? undefined : following.value;
  const at = (kind: BreakKind, seq: number, message: string, where = place): Break => ({
    kind,
    seq,
    file: where.file,
    line: where.line,
    message: `${message} (${where.file}, line ${where.line})`,
  });

  if (!place.whole) return at('torn', expected, `Record ${expected} is unfinished`);

  if (!link?.intact) {
    if (follows(next, last))
      return at('added', expected, `A line that is no record stands before record ${expected}`);
    return at('changed', expected, `Record ${expected} is not what its hash says`);
  }

  if (link.seq === expected) {
    // Its hash is right and it names another record before it. Whether it or that one was replaced, its successor says.
    if (next?.link?.intact && next.link.seq === expected && next.link.prev === last.hash)
      return at('added', expected, `A second record ${expected} was put in`);
    const heirless =
      next?.link?.intact === true && next.link.seq === expected + 1 && next.link.prev !== link.hash;
    if (heirless || !before) return at('changed', expected, `Record ${expected} was replaced`);
    return at(
      'changed',
      last.seq,
      `Record ${last.seq} was replaced: record ${expected} follows another one`,
      before,
    );
  }

  if (link.seq <= last.seq) {
    // The same number again. The one that the chain goes on from is the real one.
    const heir = next?.link?.intact === true && next.link.prev === link.hash && link.hash !== last.hash;
    const impostor = before && link.seq === last.seq && heir;
    return at('added', link.seq, `A second record ${link.seq} was put in`, impostor ? before : place);
  }

  // Records are skipped. Are they gone, or somewhere else?
  let expectedLater = next?.link?.seq === expected;
  let again = next?.link?.seq === link.seq;
  for (let more = await rest.next(); !more.done; more = await rest.next()) {
    if (more.value.link?.seq === expected) expectedLater = true;
    if (more.value.link?.seq === link.seq) again = true;
  }
  if (follows(next, last)) {
    if (again)
      return at('added', link.seq, `A copy of record ${link.seq} was put in before record ${expected}`);
    return at('moved', link.seq, `Record ${link.seq} is not in its place, but before record ${expected}`);
  }
  if (expectedLater)
    return at('moved', expected, `Record ${expected} is not in its place; record ${link.seq} is there`);
  const gone =
    link.seq - expected === 1 ? `Record ${expected} is` : `Records ${expected} to ${link.seq - 1} are`;
  if (place.line === 1 && place.firstSeq === link.seq)
    return at('missing_segment', expected, `${gone} missing before this segment`);
  return at('removed', expected, `${gone} missing`);
}

function follows(place: Place | undefined, last: Tail): boolean {
  return place?.link?.intact === true && place.link.seq === last.seq + 1 && place.link.prev === last.hash;
}
