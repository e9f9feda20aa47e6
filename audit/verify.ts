// Reads the whole chain and names its first break. A chain without one proves that no record was changed, removed,
// added or moved by anybody who could not compute the rest of it anew; the signed checkpoints close that gap and show
// a cut tail, as far as the last of them. Retention's anchors take the place of the records that it removed.
//
// What a break is called is decided by classify.ts from the records around it; here is the walk.

import { createPublicKey, type KeyObject } from 'node:crypto';
import { open, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PosternError } from '../common/errors.ts';
import {
  CHECKPOINTS,
  checkStatement,
  PUBLIC_KEY,
  readPublicKeys,
  type SignedStatement,
} from './checkpoint.ts';
import { classify, type Place } from './classify.ts';
import { blocksForward } from './lines.ts';
import { GENESIS, readLink, type Tail } from './seal.ts';
import { listSegments } from './segments.ts';

export const BREAK_KINDS = [
  'changed',
  'removed',
  'added',
  'moved',
  'torn',
  'missing_segment',
  'tail_cut',
  'rewritten',
  'bad_checkpoint',
] as const;

export type BreakKind = (typeof BREAK_KINDS)[number];

export interface Break {
  readonly kind: BreakKind;
  /** Of the record concerned; of the first of them where several are gone. */
  readonly seq: number;
  /** File name within the folder, and line from 1, where it shows. */
  readonly file: string;
  readonly line: number;
  /** For a person. */
  readonly message: string;
}

export interface VerifyResult {
  readonly ok: boolean;
  /** Records that were found to be linked, up to the break. */
  readonly records: number;
  readonly first?: number;
  readonly last?: number;
  /** Good signatures, and the highest record that one of them vouches for. */
  readonly checkpoints: number;
  readonly signedUpTo?: number;
  readonly break?: Break;
}

export interface VerifyOptions {
  /** PEM that was kept elsewhere; default: the key beside the chain, which whoever owns the folder can replace. */
  readonly publicKey?: string;
  /** Lines of `checkpoints.jsonl` that were kept elsewhere, to be found again in the chain. */
  readonly checkpoints?: readonly string[];
}

/** How often a chain that changed under the reader (a record half written, a segment removed) is read again. */
const TRIES = 5;

/** @throws PosternError `not_found` (no chain in the folder), `invalid_input` (a key or a checkpoint of `options`) */
export async function verifyAudit(dir: string, options: VerifyOptions = {}): Promise<VerifyResult> {
  for (let left = TRIES; ; left--) {
    try {
      const result = await verifyOnce(dir, options);
      if (result.break?.kind !== 'torn' || left === 0 || !(await grows(join(dir, result.break.file))))
        return result;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || left === 0) throw error;
    }
  }
}

/** Whether somebody is writing the file just now. */
async function grows(path: string): Promise<boolean> {
  const { size } = await stat(path);
  await sleep(200);
  return (await stat(path)).size !== size;
}

async function verifyOnce(dir: string, options: VerifyOptions): Promise<VerifyResult> {
  // The statements first: the chain only grows meanwhile, so whatever they vouch for has to be in what is read after.
  const statements = await readStatements(dir, options);
  const { signed, bad } = statements;
  if (signed.length === 0 && (await listSegments(dir)).length === 0) throw noChain(dir);
  const walk = await walkChain(dir, statements);
  const signedUpTo = signed.reduce((most, { seq }) => Math.max(most, seq), 0);
  let found = walk.break;
  if (!found && signedUpTo > walk.last.seq) {
    const message = `The chain ends at record ${walk.last.seq}, and record ${signedUpTo} was signed for`;
    found = { kind: 'tail_cut', seq: walk.last.seq + 1, file: walk.file, line: walk.line, message };
  }
  found ??= bad;
  return {
    ok: found === undefined,
    records: walk.records,
    ...(walk.records > 0 && { first: walk.last.seq - walk.records + 1, last: walk.last.seq }),
    checkpoints: signed.length,
    ...(signedUpTo > 0 && { signedUpTo }),
    ...(found && { break: found }),
  };
}

export function noChain(dir: string): PosternError {
  return new PosternError('not_found', `${dir} holds no audit chain.`, {
    remedy: 'Name the folder that audit.dir of the configuration names.',
  });
}

interface Statements {
  readonly signed: readonly SignedStatement[];
  readonly bad: Break | undefined;
}

async function readStatements(dir: string, options: VerifyOptions): Promise<Statements> {
  const keys = await trustedKeys(dir, options.publicKey);
  const signed: SignedStatement[] = [];
  let bad: Break | undefined;
  const text = await readIfThere(join(dir, CHECKPOINTS));
  for (const [i, line] of text.split('\n').entries()) {
    if (line === '') continue;
    const checked = checkStatement(line, keys);
    if (checked.ok) signed.push(checked.statement);
    // The last line may be half written.
    else if (text.endsWith('\n') || i < text.split('\n').length - 1)
      bad ??= {
        kind: 'bad_checkpoint',
        seq: Number(/"seq":(\d{1,16})/.exec(line)?.[1] ?? 0),
        file: CHECKPOINTS,
        line: i + 1,
        message: `Line ${i + 1} of ${CHECKPOINTS} cannot be trusted: ${checked.reason}`,
      };
  }
  for (const line of options.checkpoints ?? []) {
    const checked = checkStatement(line, keys);
    if (!checked.ok)
      throw new PosternError(
        'invalid_input',
        `The checkpoint to compare with cannot be used: ${checked.reason}.`,
        {
          remedy:
            'Give a whole line of checkpoints.jsonl, and the public key of the trail that it came from.',
        },
      );
    signed.push(checked.statement);
  }
  return { signed, bad };
}

async function trustedKeys(dir: string, pem: string | undefined): Promise<KeyObject[]> {
  if (pem === undefined) return readPublicKeys(await readIfThere(join(dir, PUBLIC_KEY)));
  try {
    return [createPublicKey(pem)];
  } catch (cause) {
    throw new PosternError('invalid_input', 'The public key to verify with is not a PEM public key.', {
      cause,
    });
  }
}

async function readIfThere(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

interface Walk {
  readonly records: number;
  readonly last: Tail;
  readonly file: string;
  readonly line: number;
  readonly break?: Break;
}

async function walkChain(dir: string, statements: Statements): Promise<Walk> {
  const places = readPlaces(dir);
  try {
    return await walkPlaces(places, statements);
  } finally {
    await places.return(undefined);
  }
}

async function walkPlaces(places: AsyncGenerator<Place>, { signed }: Statements): Promise<Walk> {
  const vouched = new Map<number, string>();
  for (const { seq, hash } of signed) vouched.set(seq, hash);
  const anchored = Math.max(
    0,
    ...signed.filter(({ kind }) => kind === 'postern.audit.anchor').map(({ seq }) => seq),
  );
  let last: Tail = GENESIS;
  if (anchored > 0) last = { seq: anchored, hash: vouched.get(anchored) ?? '', time: '' };
  let before: Place | undefined;
  let records = 0;
  for (let next = await places.next(); !next.done; next = await places.next()) {
    const place = next.value;
    const { link } = place;
    // Retention signs before it removes: the chain may begin anywhere up to the record after the anchor.
    if (before === undefined && link?.intact === true && link.seq <= anchored)
      last =
        link.seq === 1
          ? GENESIS
          : { seq: link.seq - 1, hash: vouched.get(link.seq - 1) ?? link.prev, time: '' };
    const linked =
      link?.intact === true && place.whole && link.seq === last.seq + 1 && link.prev === last.hash;
    if (!linked) {
      const found = await classify({ last, before, place, rest: places });
      return { records, last, file: place.file, line: place.line, break: found };
    }
    const known = vouched.get(link.seq);
    if (known !== undefined && known !== link.hash) {
      const message = `Record ${link.seq} is not the one that was signed for: the chain was rewritten up to there`;
      const found: Break = { kind: 'rewritten', seq: link.seq, file: place.file, line: place.line, message };
      return { records, last, file: place.file, line: place.line, break: found };
    }
    last = link;
    before = place;
    records++;
  }
  return { records, last, file: before?.file ?? '', line: before?.line ?? 0 };
}

/** Every line of the chain in order. A line without its newline is not whole. */
async function* readPlaces(dir: string): AsyncGenerator<Place> {
  for (const segment of await listSegments(dir)) {
    const file = await open(segment.path);
    try {
      const { size } = await file.stat();
      let line = 0;
      for await (const { bytes } of blocksForward(file, 0, size)) {
        for (let start = 0; start < bytes.length; ) {
          const stop = bytes.indexOf(10, start);
          const end = stop < 0 ? bytes.length : stop;
          line++;
          const link = readLink(bytes.subarray(start, end));
          yield { file: segment.name, firstSeq: segment.firstSeq, line, link, whole: stop >= 0 };
          start = end + 1;
        }
      }
    } finally {
      await file.close();
    }
  }
}
