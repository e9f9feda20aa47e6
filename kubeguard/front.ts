// The client's side of a tunnel, as http-proxy is given it in place of the socket. http-proxy pipes the upstream into it
// and it into the upstream, so backpressure, drain and half-close are its; what this adds is counting, keeping our own
// head in front, and an honest end: what the upstream has begun to say is finished, the last words follow, and nothing
// moves any more. Nothing is read from the client before the upstream has agreed.

import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { Frames } from './frames.ts';

export interface Front {
  /** What http-proxy gets. */
  readonly stream: Duplex;
  /** The upstream has agreed: sends the head, and lets bytes flow from now on. */
  open(head: string, early: Buffer, frames: Frames | undefined): void;
  /** Puts the last words between two messages and ends; resolves when they have left or can't any more. */
  farewell(words: Buffer): Promise<void>;
  /** Nothing from the client counts any more; its connection is closed when it has read to the end, or soon. */
  linger(): void;
  counts(): { bytesUp: number; bytesDown: number };
}

/** For a message that has begun to end, for last words to leave, and for the client to close. */
const LINGER_MS = 1_000;
/** Silence of the cluster after the client has ended its side. */
const HALF_CLOSED_MS = 5_000;

export function createFront(socket: Socket): Front {
  let isOpen = false;
  let headSeen = false;
  let frames: Frames | undefined;
  let words: Buffer | undefined;
  let bytesUp = 0;
  let bytesDown = 0;

  const onData = (chunk: Buffer): void => {
    bytesUp += chunk.length;
    if (!stream.push(chunk)) socket.pause();
  };
  // The end of what the client sends can be the end of the client too: it is waited on only while there is something.
  let halfClosed: NodeJS.Timeout | undefined;
  const onEnd = (): void => {
    stream.push(null);
    halfClosed = setTimeout(() => socket.destroy(), HALF_CLOSED_MS).unref();
  };
  const send = (chunk: Buffer, sent: () => void): void => {
    bytesDown += chunk.length;
    halfClosed?.refresh();
    if (socket.write(chunk)) sent();
    else socket.once('drain', sent);
  };
  const sayGoodbye = (): void => {
    if (words) socket.end(words);
    words = undefined;
    isOpen = false;
  };

  // Closing a socket with something unread resets it, and a reset can overtake what was said last.
  const linger = (): void => {
    socket.off('data', onData).off('end', onEnd);
    socket.on('data', () => {}).on('end', () => socket.destroySoon());
    socket.resume();
    setTimeout(() => socket.destroy(), LINGER_MS).unref();
  };

  const stream = new Duplex({
    allowHalfOpen: true,
    read() {
      if (isOpen) socket.resume();
    },
    write(chunk: Buffer, _encoding, done) {
      // The first thing http-proxy writes is the upstream's head in its own form; ours has left already.
      if (!headSeen || !isOpen) {
        headSeen = true;
        return done();
      }
      const whole = frames ? frames.push(chunk, words !== undefined) : chunk.length;
      if (words === undefined) return send(chunk, done);
      send(chunk.subarray(0, whole), done);
      if (frames?.isBetween()) sayGoodbye();
    },
    final(done) {
      if (isOpen) socket.end(() => done());
      else done();
    },
    destroy(error, done) {
      socket.off('data', onData).off('end', onEnd);
      socket.destroy();
      done(error);
    },
  });
  stream.on('error', () => {});
  // A client that has said all it has to say still wants to hear the rest.
  socket.allowHalfOpen = true;
  socket.on('close', () => {
    clearTimeout(halfClosed);
    stream.destroy();
  });
  // What a socket has and a stream has not; the real one is set by the listener.
  const still = (): Duplex => stream;
  Object.assign(stream, { setTimeout: still, setNoDelay: still, setKeepAlive: still });

  return {
    stream,
    open(head, early, follow) {
      frames = follow;
      isOpen = true;
      socket.write(head);
      if (early.length > 0) onData(early);
      socket.on('data', onData).on('end', onEnd);
    },
    async farewell(last) {
      if (!isOpen || socket.destroyed || !frames) {
        socket.destroy();
        return;
      }
      linger();
      const left = new Promise<void>((resolve) => {
        socket.once('finish', resolve).once('close', resolve);
      });
      words = last;
      if (frames.isBetween()) sayGoodbye();
      await left;
    },
    linger,
    counts: () => ({ bytesUp, bytesDown }),
  };
}
