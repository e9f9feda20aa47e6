// Searches the answer of an exchange for the credential, in the text that git shows and not only in the bytes that carry
// it: what a hook prints comes in side-band packets of some hundred bytes, whose headers would cut a long token to
// pieces that no search finds. So the framing is followed (gitprotocol-common, side-band of gitprotocol-pack), each band
// is searched by itself, and what may pass is framed anew. Packets are not gathered: a part of one is passed as a packet
// of its own. Lines outside of bands (acknowledgements, refs, a report without side-band) are searched as they lie, and
// so is everything from the point where the bytes are no pkt-lines (a bare pack of protocol v0). A pack is searched like
// the rest; but it is compressed, and what a file of the repository holds is not an echo.
//
// The same reading stops what nobody asked for and what would lead the client to another host: the answer to
// `command=bundle-uri` and the section `packfile-uris` of protocol v2. The advertisement is cleaned of both
// (advertisement.ts); a client that asks all the same may do so in a compressed request, which is why it is the answer
// that is looked at.

import { createEchoScan, type EchoScan, type Needles } from '../relay/echo.ts';
import { MAX_PKT } from './pkt-line.ts';

export class DetourError extends Error {
  constructor() {
    super('the answer would send the client to another host');
    this.name = 'DetourError';
  }
}

/** How what leads elsewhere begins, outside of bands and in band 1 (`sideband-all`). */
const DETOURS: readonly (readonly string[])[] = [['packfile-uris', 'bundle.'], ['packfile-uris']];
const LENGTH = /^[0-9a-f]{4}$/;

/** `push` throws DetourError. */
export function createBandScan(needles: Needles): EchoScan {
  /** By band; 0 is what is in none. */
  const scans: EchoScan[] = [];
  const scanOf = (band: number): EchoScan => {
    scans[band] ??= createEchoScan(needles);
    return scans[band];
  };
  let framed = true;
  let header = ''; // digits of a length so far
  let band = 0;
  let left = 0; // of the payload
  let most = MAX_PKT - 5; // data in a packet of this band
  let start: string | undefined; // of a payload, as long as it could be a detour

  const watchStart = (chunk: Buffer, from: number, to: number): void => {
    for (let at = from; at < to && start !== undefined; at++) {
      const sofar: string = start + String.fromCharCode(chunk[at] as number);
      const possible = DETOURS[band]?.filter((detour) => detour.startsWith(sofar)) ?? [];
      if (possible.includes(sofar)) throw new DetourError();
      start = possible.length > 0 ? sofar : undefined;
    }
  };

  const reframe = (out: Buffer[], of: number, data: Buffer): void => {
    for (let at = 0; at < data.length; at += most) {
      const part = data.subarray(at, at + most);
      out.push(headerOf(of, part.length), part);
    }
  };

  /** What is held back, before something that ends the bands. */
  const release = (out: Buffer[]): void => {
    for (let of = 0; of < scans.length; of++) {
      const rest = scans[of]?.end();
      if (rest && rest.length > 0) {
        if (of === 0) out.push(rest);
        else reframe(out, of, rest);
      }
    }
  };

  return {
    push(chunk) {
      const out: Buffer[] = [];
      let at = 0;
      let plain = -1; // from here on, bytes of no band that are not searched yet
      let undecided = 0; // digits at the end of the chunk
      const flushPlain = (to: number): boolean => {
        if (plain < 0 || plain === to) return true;
        const passed = scanOf(0).push(chunk.subarray(plain, to));
        plain = -1;
        if (passed && passed.length > 0) out.push(passed);
        return passed !== undefined;
      };
      /** The length that was read last is of no band: it passes as it came. */
      const headerIsPlain = (inChunk: number): boolean => {
        if (plain >= 0) return true;
        plain = at - inChunk;
        if (inChunk === header.length) return true;
        const passed = scanOf(0).push(Buffer.from(header.slice(0, header.length - inChunk), 'latin1'));
        if (passed && passed.length > 0) out.push(passed);
        return passed !== undefined;
      };

      while (framed && at < chunk.length) {
        if (left > 0) {
          const to = Math.min(chunk.length, at + left);
          if (start !== undefined) watchStart(chunk, at, to);
          left -= to - at;
          if (band === 0) {
            if (plain < 0) plain = at;
          } else {
            const passed = scanOf(band).push(chunk.subarray(at, to));
            if (!passed) return undefined;
            reframe(out, band, passed);
          }
          at = to;
          continue;
        }
        let inChunk = 0;
        if (header.length < 4) {
          const digits = chunk.toString('latin1', at, at + 4 - header.length);
          header += digits;
          inChunk = digits.length;
          at += inChunk;
        }
        if (header.length < 4) {
          undecided = inChunk;
          break;
        }
        const length = LENGTH.test(header) ? Number.parseInt(header, 16) : 3;
        if (length === 3 || length > MAX_PKT) {
          framed = false;
          if (!headerIsPlain(inChunk)) return undefined;
          break;
        }
        if (length <= 4) {
          if (length === 0) {
            if (!flushPlain(at - inChunk)) return undefined;
            release(out);
          }
          if (!headerIsPlain(inChunk)) return undefined;
          header = '';
          continue;
        }
        if (at === chunk.length) {
          undecided = inChunk; // the first byte of the payload says what it is
          break;
        }
        const first = chunk[at] as number;
        band = first >= 1 && first <= 3 ? first : 0;
        start = band <= 1 ? '' : undefined;
        left = length - 4;
        if (band === 0) {
          if (!headerIsPlain(inChunk)) return undefined;
        } else {
          if (!flushPlain(at - inChunk)) return undefined;
          const held = scans[0]?.end();
          if (held && held.length > 0) out.push(held);
          most = length <= 1_000 ? 995 : MAX_PKT - 5;
          at += 1;
          left -= 1;
          if (left === 0) out.push(headerOf(band, 0)); // sent to keep the connection
        }
        header = '';
      }
      if (!framed && plain < 0) plain = at;
      if (!flushPlain(chunk.length - undecided)) return undefined;
      return out.length === 1 && out[0] ? out[0] : Buffer.concat(out);
    },

    end() {
      const out: Buffer[] = [];
      release(out);
      if (framed) out.push(Buffer.from(header, 'latin1')); // cut within a length
      return Buffer.concat(out);
    },
  };
}

function headerOf(band: number, length: number): Buffer {
  return Buffer.from((length + 5).toString(16).padStart(4, '0') + String.fromCharCode(band), 'latin1');
}
