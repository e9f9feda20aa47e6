// WebSocket frames from the cluster, followed so that one of ours can be put between two of its own messages (RFC 6455
// §5.2), and the two that end a session: a Status on the error channel, and a close.

import type { Status } from './status.ts';

export interface Frames {
  /**
   * Follows the bytes that pass.
   * @param stop whether to stop where the next message ends
   * @returns how many of them were followed
   */
  push(chunk: Buffer, stop?: boolean): number;
  /** Between two messages; a control frame inside a fragmented one does not end it. */
  isBetween(): boolean;
}

export function followFrames(): Frames {
  let header: number[] = [];
  let left = 0; // of the payload
  let inFrame = false;
  let continued = false; // a message whose last frame is still to come
  let final = true;

  const frameEnds = (): void => {
    inFrame = false;
    continued = !final;
  };
  /** Whether the header is whole; then `left` is known. */
  const headerEnds = (): boolean => {
    const [first = 0, second = 0] = header;
    const short = second & 0x7f;
    const extended = short === 126 ? 2 : short === 127 ? 8 : 0;
    const size = 2 + extended + (second & 0x80 ? 4 : 0);
    if (header.length < 2 || header.length < size) return false;
    left = extended === 0 ? short : header.slice(2, 2 + extended).reduce((sum, byte) => sum * 256 + byte, 0);
    const control = (first & 0x08) !== 0;
    if (control) final = !continued;
    else final = (first & 0x80) !== 0;
    header = [];
    return true;
  };

  return {
    push(chunk, stop = false) {
      let at = 0;
      while (at < chunk.length && !(stop && !inFrame && !continued && header.length === 0)) {
        if (inFrame) {
          const part = Math.min(left, chunk.length - at);
          left -= part;
          at += part;
          if (left === 0) frameEnds();
          continue;
        }
        header.push(chunk[at++] as number);
        if (!headerEnds()) continue;
        inFrame = true;
        if (left === 0) frameEnds();
      }
      return at;
    },
    isBetween: () => !inFrame && !continued && header.length === 0,
  };
}

const BINARY = 0x82;
const TEXT = 0x81;
const CLOSE = 0x88;
const ERROR_CHANNEL = 3;

/** What ends an exec or attach in the protocol chosen; a close alone where it has no Status. */
export function farewell(protocol: string, status: Status): Buffer {
  const json = Buffer.from(JSON.stringify(status));
  const close = frame(CLOSE, Buffer.from([0x03, 0xe8])); // 1000
  if (protocol === 'v4.base64.channel.k8s.io')
    return Buffer.concat([frame(TEXT, Buffer.from(`${ERROR_CHANNEL}${json.toString('base64')}`)), close]);
  if (protocol === 'v4.channel.k8s.io' || protocol === 'v5.channel.k8s.io')
    return Buffer.concat([frame(BINARY, Buffer.concat([Buffer.from([ERROR_CHANNEL]), json])), close]);
  return close;
}

function frame(first: number, payload: Buffer): Buffer {
  const { length } = payload;
  const head =
    length < 126 ? Buffer.from([first, length]) : Buffer.from([first, 126, length >> 8, length & 0xff]);
  return Buffer.concat([head, payload]);
}
