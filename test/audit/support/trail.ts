// What the tests of the trail share: a signer, a folder that goes away, events, and a chain written without a server.

import { generateKeyPairSync, sign } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { CHECKPOINTS, type CheckpointSigner, PUBLIC_KEY, signStatement } from '../../../audit/checkpoint.ts';
import type { AuditEvent, AuditRecord } from '../../../audit/event.ts';
import type { AuditLog } from '../../../audit/log.ts';
import { type AuditOptions, openAuditLog } from '../../../audit/open.ts';
import { encodeEvent } from '../../../audit/record.ts';
import { GENESIS, sealLine } from '../../../audit/seal.ts';
import { listSegments, segmentName } from '../../../audit/segments.ts';
import { createRedactor } from '../../../common/redact.ts';

export function testSigner(): CheckpointSigner {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  return {
    publicKeyPem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    sign: (bytes) => sign(null, bytes, privateKey),
  };
}

export const signer = testSigner();

export function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'postern-audit-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

export function event(n: number | string, more: Partial<AuditEvent> = {}): AuditEvent {
  return { action: 'git.fetch', decision: 'allow', sessionId: `sess_${n}`, repo: 'acme/tool', ...more };
}

export function defaults(dir: string, more: Partial<AuditOptions> = {}): AuditOptions {
  return {
    dir,
    onFailure: 'refuse',
    syncReads: false,
    retention: 90 * 86_400_000,
    signer,
    redactor: createRedactor(),
    probeEvery: 50,
    ...more,
  };
}

/** Opened, and closed at the end of the test. */
export async function open(dir: string, more: Partial<AuditOptions> = {}): Promise<AuditLog> {
  const log = await openAuditLog(defaults(dir, more));
  onTestFinished(() => log.close());
  return log;
}

export async function lines(dir: string): Promise<string[]> {
  const segments = await listSegments(dir);
  return segments.flatMap(({ path }) =>
    readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== ''),
  );
}

/** @param torn whether a last line that a killed process left unfinished may be there; it is no record */
export async function records(dir: string, torn?: 'torn'): Promise<AuditRecord[]> {
  const all = await lines(dir);
  const whole = torn && !all.at(-1)?.endsWith('"}') ? all.slice(0, -1) : all;
  return whole.map((line) => JSON.parse(line) as AuditRecord);
}

/** Of the chains written here; recent, so that retention leaves them alone. */
export const START = Date.now() - 3_600_000;

/** Sealed lines of the events, without newlines; one second apart. */
export function sealed(events: readonly AuditEvent[], from = GENESIS): string[] {
  let tail = from;
  return events.map((each) => {
    const time = new Date(START + (tail === GENESIS ? 0 : tail.seq * 1000)).toISOString();
    const next = sealLine(encodeEvent(each, time, undefined), tail);
    tail = next.tail;
    return next.line.trimEnd();
  });
}

/** A chain of `count` records in segments of `perSegment`, signed at its end. */
export function writeChain(
  dir: string,
  count: number,
  perSegment = count,
  make = (n: number) => event(n),
): string[] {
  const all = sealed(Array.from({ length: count }, (_, i) => make(i + 1)));
  for (let at = 0; at < all.length; at += perSegment)
    writeFileSync(join(dir, segmentName(at + 1)), `${all.slice(at, at + perSegment).join('\n')}\n`);
  writeFileSync(join(dir, PUBLIC_KEY), signer.publicKeyPem);
  const last = JSON.parse(all.at(-1) ?? '{}') as AuditRecord;
  const statement = { kind: 'postern.audit.checkpoint', seq: last.seq, hash: last.hash } as const;
  writeFileSync(join(dir, CHECKPOINTS), `${signStatement(statement, last.time, signer)}\n`);
  return all;
}
