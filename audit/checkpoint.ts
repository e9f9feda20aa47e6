// Signed statements about the chain, one line each in `<dir>/checkpoints.jsonl`: a checkpoint says that record `seq`
// had this hash, so that a cut tail and a rewritten chain are found; an anchor says the same of the last record that
// retention removed, so that the rest still has a proven beginning. The signature is Ed25519 over the canonical JSON of
// the statement without `sig`, which is the line's last member: jq and openssl can check it.
//
// The public key lies beside the statements for convenience. Against somebody who can replace the whole folder only a
// key or a checkpoint kept elsewhere helps, and verify.ts takes either.

import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto';
import { canonicalJson } from '../common/json.ts';

export const CHECKPOINTS = 'checkpoints.jsonl';
export const PUBLIC_KEY = 'checkpoint-key.pem';

export interface CheckpointSigner {
  /** SPKI PEM of the Ed25519 key. */
  readonly publicKeyPem: string;
  sign(bytes: Uint8Array): Buffer;
}

export interface Statement {
  readonly kind: 'postern.audit.checkpoint' | 'postern.audit.anchor';
  readonly seq: number;
  /** Of record `seq`. */
  readonly hash: string;
}

export interface SignedStatement extends Statement {
  readonly v: 1;
  /** When it was signed, RFC 3339 UTC. */
  readonly time: string;
  /** `keyId` of the signing key. */
  readonly key: string;
  /** base64 */
  readonly sig: string;
}

/** First 16 hex digits of SHA-256 over the key's DER. */
export function keyId(key: KeyObject): string {
  return createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest('hex')
    .slice(0, 16);
}

/** One line, without its newline. */
export function signStatement(statement: Statement, time: string, signer: CheckpointSigner): string {
  const { kind, seq, hash } = statement;
  const body = canonicalJson({
    v: 1,
    kind,
    seq,
    hash,
    time,
    key: keyId(createPublicKey(signer.publicKeyPem)),
  });
  return `${body.slice(0, -1)},"sig":"${signer.sign(Buffer.from(body)).toString('base64')}"}`;
}

export type Checked =
  | { readonly ok: true; readonly statement: SignedStatement }
  | { readonly ok: false; readonly reason: string };

/** Reads one line and checks its signature under one of `keys`. */
export function checkStatement(line: string, keys: readonly KeyObject[]): Checked {
  const statement = parse(line);
  if (!statement) return { ok: false, reason: 'it is not a checkpoint' };
  const key = keys.find((each) => keyId(each) === statement.key);
  if (!key) return { ok: false, reason: `it is signed by another key (${statement.key})` };
  const { sig, ...signed } = statement;
  const good = verify(null, Buffer.from(canonicalJson(signed)), key, Buffer.from(sig, 'base64'));
  return good ? { ok: true, statement } : { ok: false, reason: 'its signature does not match' };
}

/** Every public key of a PEM file. @throws where a block is not one */
export function readPublicKeys(pem: string): KeyObject[] {
  const blocks = pem.match(/-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g) ?? [];
  return blocks.map((block) => createPublicKey(block));
}

function parse(line: string): SignedStatement | undefined {
  try {
    const value = JSON.parse(line) as Partial<SignedStatement> | null;
    if (value === null || typeof value !== 'object') return undefined;
    const known = value.kind === 'postern.audit.checkpoint' || value.kind === 'postern.audit.anchor';
    const shaped =
      value.v === 1 &&
      Number.isSafeInteger(value.seq) &&
      typeof value.hash === 'string' &&
      typeof value.sig === 'string';
    return known && shaped ? (value as SignedStatement) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * What of the statements is still worth keeping once a segment is full: the last anchor, of each full segment the
 * last checkpoint, and every checkpoint of the segment in use. An unreadable line is evidence and stays.
 * @param firstSeqs of the segments there are, ascending
 */
export function compactStatements(lines: readonly string[], firstSeqs: readonly number[]): string[] {
  const segmentOf = (seq: number): number => firstSeqs.findLastIndex((first) => first <= seq);
  const current = firstSeqs.length - 1;
  const read = lines.map((line) => ({ line, statement: parse(line) }));
  const anchors = read.filter(({ statement }) => statement?.kind === 'postern.audit.anchor');
  const last = new Map<number, string>();
  for (const { line, statement } of read) if (statement) last.set(segmentOf(statement.seq), line);
  return read
    .filter(({ line, statement }) => {
      if (!statement) return true;
      if (statement.kind === 'postern.audit.anchor') return line === anchors.at(-1)?.line;
      const segment = segmentOf(statement.seq);
      return segment === current || (segment >= 0 && last.get(segment) === line);
    })
    .map(({ line }) => line);
}
