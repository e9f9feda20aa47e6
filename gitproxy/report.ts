// What receive-pack says at the end of a push: `unpack ok`, then `ok <ref>` or `ng <ref> <reason>` for each ref, as
// pkt-lines inside band 1 where the client asked for bands, with text for the person in band 2 (gitprotocol-pack,
// "Report Status"; gitprotocol-capabilities, side-band-64k). Written here for a refused push, because nothing else makes
// git print `! [remote rejected] … (reason)` for each ref; read here, as it streams by, for the record of an allowed one.

import type { BodyTransform } from '../relay/forward.ts';
import { createPktReader, FLUSH_PKT, PktError, pktLine } from './pkt-line.ts';
import type { PushCapabilities } from './receive-pack.ts';

export interface RefResult {
  readonly ok: boolean;
  readonly reason?: string;
}

/**
 * @param refs each with the reason of its refusal, one line
 * @param words lines for the person
 * @param unpack in place of `ok`, where the refs are not known
 * @returns undefined where the client asked for nothing in which it could be said
 */
export function refusedReport(
  capabilities: PushCapabilities,
  refs: readonly (readonly [ref: string, reason: string])[],
  words: readonly string[],
  unpack = 'ok',
): Buffer | undefined {
  const { report, band } = capabilities;
  const text = Buffer.from(words.map((word) => `${word}\n`).join(''));
  const status = report
    ? Buffer.concat([
        pktLine(`unpack ${unpack}\n`),
        ...refs.map(([ref, reason]) => pktLine(`ng ${ref} ${oneLine(reason)}\n`)),
        FLUSH_PKT,
      ])
    : Buffer.alloc(0);
  if (band > 0)
    return Buffer.concat([
      ...banded(report ? 2 : 3, text, band),
      ...(report ? banded(1, status, band) : []),
      FLUSH_PKT,
    ]);
  return report ? status : undefined;
}

function banded(band: number, bytes: Buffer, most: number): Buffer[] {
  const packets: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += most)
    packets.push(pktLine(Buffer.concat([Buffer.from([band]), bytes.subarray(at, at + most)])));
  return packets;
}

function oneLine(text: string): string {
  return text.replace(/[^\x20-\x7e]+/g, ' ').slice(0, 300);
}

export interface ReportReader {
  /** Passes the body on unchanged. */
  readonly transform: BodyTransform;
  /** By ref (latin1); empty where the upstream sent no report that could be read. */
  readonly results: ReadonlyMap<string, RefResult>;
  /** What came after `unpack`, where it was not `ok`. */
  unpackError(): string | undefined;
}

/** @param refs those that were pushed; others in the report are left out */
export function createReportReader(capabilities: PushCapabilities, refs: ReadonlySet<string>): ReportReader {
  const outer = createPktReader();
  const inner = createPktReader();
  const results = new Map<string, RefResult>();
  let unpackError: string | undefined;
  let readable = capabilities.report;

  const onStatus = (line: string): void => {
    const [, verdict, rest = ''] = /^(ok|ng|unpack) (.*?)\n?$/s.exec(line) ?? [];
    if (verdict === 'unpack' && rest !== 'ok') unpackError = oneLine(rest);
    if (verdict === 'ok' && refs.has(rest)) results.set(rest, { ok: true });
    if (verdict !== 'ng') return;
    const space = rest.indexOf(' ');
    const ref = space < 0 ? rest : rest.slice(0, space);
    if (refs.has(ref))
      results.set(ref, { ok: false, reason: oneLine(space < 0 ? '' : rest.slice(space + 1)) });
  };
  const readStatus = (chunk: Buffer): void => {
    inner.push(chunk, (pkt) => {
      if (pkt.kind === 'line') onStatus(pkt.payload.toString('latin1'));
    });
  };

  return {
    transform: {
      push(chunk) {
        try {
          if (readable && capabilities.band === 0) readStatus(chunk);
          else if (readable)
            outer.push(chunk, (pkt) => {
              if (pkt.kind === 'line' && pkt.payload[0] === 1) readStatus(pkt.payload.subarray(1));
            });
        } catch (error) {
          if (!(error instanceof PktError)) throw error;
          readable = false;
        }
        return chunk;
      },
      end: () => Buffer.alloc(0),
    },
    results,
    unpackError: () => unpackError,
  };
}
