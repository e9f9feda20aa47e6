// Git's framing: four hex digits of length (their own four included), then the payload; 0000 is a flush, 0001 and 0002
// separate and end in protocol v2 (gitprotocol-common). The reader takes bytes in any portions and holds one line at
// a time. It is stricter than git in one point: the digits are lower case, as every client writes them.

export const MAX_PKT = 65_520;

export type Pkt =
  | { readonly kind: 'line'; readonly payload: Buffer }
  | { readonly kind: 'flush' }
  | { readonly kind: 'delimiter' }
  | { readonly kind: 'end' };

export class PktError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'PktError';
  }
}

export interface PktReader {
  /**
   * Calls `onPkt` for each whole pkt-line, with the number of bytes of `chunk` used up by then; stops when that
   * returns `stop`.
   * @returns how many bytes of the chunk were used
   * @throws PktError where the bytes are no pkt-line
   */
  push(chunk: Buffer, onPkt: (pkt: Pkt, used: number) => unknown): number;
  /** Whether the bytes so far end with a whole pkt-line. */
  isBetween(): boolean;
}

const FLUSH: Pkt = { kind: 'flush' };
const DELIMITER: Pkt = { kind: 'delimiter' };
const END: Pkt = { kind: 'end' };
const NONE = Buffer.alloc(0);

export function createPktReader(): PktReader {
  let digits = '';
  let payload = NONE;
  let filled = -1; // -1: reading digits

  return {
    push(chunk, onPkt) {
      let at = 0;
      while (at < chunk.length) {
        if (filled < 0) {
          const more = chunk.toString('latin1', at, at + 4 - digits.length);
          digits += more;
          at += more.length;
          if (digits.length < 4) break;
          const length = lengthOf(digits);
          digits = '';
          if (length >= 4) {
            filled = 0;
            const whole = chunk.subarray(at, at + length - 4);
            if (whole.length === length - 4) {
              // The usual case: the line lies in this chunk, nothing is copied.
              filled = -1;
              at += whole.length;
              if (onPkt({ kind: 'line', payload: whole }, at) === 'stop') return at;
              continue;
            }
            payload = Buffer.allocUnsafe(length - 4);
            continue;
          }
          const pkt = length === 0 ? FLUSH : length === 1 ? DELIMITER : END;
          if (onPkt(pkt, at) === 'stop') return at;
          continue;
        }
        const copied = chunk.copy(payload, filled, at);
        filled += copied;
        at += copied;
        if (filled < payload.length) break;
        const line = payload;
        payload = NONE;
        filled = -1;
        if (onPkt({ kind: 'line', payload: line }, at) === 'stop') return at;
      }
      return at;
    },
    isBetween: () => filled < 0 && digits === '',
  };
}

function lengthOf(digits: string): number {
  if (!/^[0-9a-f]{4}$/.test(digits)) throw new PktError('a pkt-line does not begin with its length');
  const length = Number.parseInt(digits, 16);
  if (length === 3 || length > MAX_PKT) throw new PktError('a pkt-line has an impossible length');
  return length;
}

/** @param payload at most MAX_PKT - 4 bytes; text goes out one byte a character (latin1) */
export function pktLine(payload: string | Buffer): Buffer {
  const bytes = typeof payload === 'string' ? Buffer.from(payload, 'latin1') : payload;
  if (bytes.length > MAX_PKT - 4) throw new PktError('a pkt-line would be too long');
  return Buffer.concat([Buffer.from((bytes.length + 4).toString(16).padStart(4, '0'), 'latin1'), bytes]);
}

export const FLUSH_PKT: Buffer = Buffer.from('0000');
