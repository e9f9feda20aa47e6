// The body of a request on its way up, and what happens to one that is not wanted.

import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';

/** More came than `maxBytes`; nothing beyond it was passed on. */
export class OverLimit extends Error {
  constructor(limit: number) {
    super(`the request body is larger than ${limit} bytes`);
    this.name = 'OverLimit';
  }
}

/** The client's side of the body broke off. */
export class ClientLeft extends Error {
  constructor() {
    super('the client left before its body ended');
    this.name = 'ClientLeft';
  }
}

export interface Upload {
  /** Read already, judged, and sent before the rest. */
  readonly first?: readonly Buffer[];
  readonly rest: IncomingMessage;
  /** Of `first` and `rest` together. */
  readonly maxBytes?: number;
}

/**
 * What undici reads from. It is a stream of its own and never the request itself, because undici destroys what it reads
 * from when an answer comes early, and with the request would go the connection that the answer has to travel on.
 */
export function uploadStream(upload: Upload, onBytes: (count: number) => void): Readable {
  const { rest, maxBytes = Number.POSITIVE_INFINITY } = upload;
  let first = upload.first ?? [];
  let total = 0;

  const take = (chunk: Buffer): boolean => {
    total += chunk.length;
    if (total > maxBytes) {
      stream.destroy(new OverLimit(maxBytes));
      return false;
    }
    onBytes(chunk.length);
    return stream.push(chunk);
  };
  const onData = (chunk: Buffer): void => {
    if (!take(chunk)) rest.pause();
  };
  const onEnd = (): void => {
    stream.push(null);
  };
  const onClose = (): void => {
    if (!rest.readableEnded) stream.destroy(new ClientLeft());
  };
  const detach = (): void => {
    rest.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
    rest.on('error', () => {});
    rest.pause();
  };

  const stream = new Readable({
    highWaterMark: 64 * 1024,
    read() {
      if (first.length > 0) {
        const chunks = first;
        first = [];
        let more = true;
        for (const chunk of chunks) if (!stream.destroyed) more = take(chunk);
        if (!more) return;
      }
      if (rest.readableEnded) onEnd();
      else rest.resume();
    },
    destroy(error, done) {
      detach();
      done(error);
    },
  });
  rest.pause();
  rest.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose);
  if (rest.destroyed && !rest.readableEnded) onClose();
  return stream;
}

const DROP_TOTAL_MS = 60_000;

/**
 * Reads and drops the rest of a body, so that the client gets to read the answer: most clients send everything before
 * they look. A body that goes on past the limit, stops coming for `idleMs` or has not ended after `totalMs` costs its
 * connection.
 * @returns when it has ended or the connection is cut
 */
export function dropBody(
  req: IncomingMessage,
  maxBytes: number,
  idleMs: number,
  totalMs = DROP_TOTAL_MS,
): Promise<void> {
  const { socket } = req;
  if (req.readableEnded || req.destroyed || socket.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    let left = maxBytes;
    const cut = (): void => {
      socket.destroy();
      finish();
    };
    const timer = setTimeout(cut, idleMs);
    const deadline = setTimeout(cut, totalMs);
    const onData = (chunk: Buffer): void => {
      timer.refresh();
      left -= chunk.length;
      if (left < 0) cut();
    };
    const finish = (): void => {
      clearTimeout(timer);
      clearTimeout(deadline);
      req.off('data', onData).off('end', finish).off('close', finish);
      socket.off('close', finish);
      resolve();
    };
    req.on('error', () => {});
    req.on('data', onData).on('end', finish).on('close', finish);
    socket.on('close', finish); // node does not tell a request that is answered already
    req.resume();
  });
}

/** Whether the head announces a body at all. */
export function hasBody(req: IncomingMessage): boolean {
  const length = req.headers['content-length'];
  return req.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}
