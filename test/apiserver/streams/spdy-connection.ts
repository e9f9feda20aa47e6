// One SPDY/3.1 connection, the server's side: streams that the client opens become Duplexes. The implementation that
// Kubernetes uses on both ends knows no flow control, so windows bind only a peer that has shown that it keeps them
// (by SETTINGS or WINDOW_UPDATE); the transport's own backpressure holds always.

import { Duplex } from 'node:stream';
import {
  decodeFrame,
  encodeFrame,
  type Frame,
  type HeaderCodec,
  type Headers,
  headerCodec,
} from './spdy-frames.ts';

export interface SpdyStream {
  id: number;
  headers: Headers;
  duplex: Duplex;
}

export interface SpdyConnection {
  /** GOAWAY, then the end of the transport once what was written has left. */
  close(): void;
  destroy(): void;
  /** Frames that came, by type. */
  seen: ReadonlyMap<string, number>;
}

const MAX_DATA = 32 * 1024;
const INITIAL_WINDOW = 65_536;
const INVALID_STREAM = 2;

interface Open {
  duplex: Duplex;
  window: number;
  waiting: (() => void) | undefined;
}

export function serveSpdy(
  transport: Duplex,
  onStream: (stream: SpdyStream) => void,
  onClosed: () => void,
): SpdyConnection {
  const codec: HeaderCodec = headerCodec();
  const streams = new Map<number, Open>();
  const seen = new Map<string, number>();
  let lastStream = 0;
  let connectionWindow = INITIAL_WINDOW;
  let windows = false;
  let initialWindow = INITIAL_WINDOW;
  let bytes: Buffer = Buffer.alloc(0);
  let working = false;
  let over = false;

  const finish = (): void => {
    if (over) return;
    over = true;
    for (const { duplex } of streams.values()) duplex.destroy();
    streams.clear();
    codec.close();
    onClosed();
  };
  const put = (frame: Exclude<Frame, { type: 'settings' }>, sent?: (error?: Error | null) => void): void => {
    if (over || transport.destroyed || transport.writableEnded) sent?.(new Error('the connection is closed'));
    else transport.write(encodeFrame(frame), sent);
  };

  const open = (id: number): Duplex => {
    const state: Open = { duplex: undefined as unknown as Duplex, window: initialWindow, waiting: undefined };
    const sendData = (data: Buffer, done: (error?: Error | null) => void): void => {
      const room = windows ? Math.min(state.window, connectionWindow) : MAX_DATA;
      if (room <= 0) {
        state.waiting = () => sendData(data, done);
        return;
      }
      const part = data.subarray(0, Math.min(room, MAX_DATA));
      const rest = data.subarray(part.length);
      state.window -= part.length;
      connectionWindow -= part.length;
      put({ type: 'data', stream: id, fin: false, data: part }, (error) => {
        if (error || rest.length === 0) done(error);
        else sendData(rest, done);
      });
    };
    state.duplex = new Duplex({
      allowHalfOpen: true,
      read: () => transport.resume(),
      write: (chunk: Buffer, _encoding, done) => sendData(chunk, done),
      final(done) {
        put({ type: 'data', stream: id, fin: true, data: Buffer.alloc(0) }, () => done());
      },
      destroy(error, done) {
        if (error && !over) put({ type: 'reset', stream: id, code: 5 }); // CANCEL
        streams.delete(id);
        done(null);
      },
    });
    state.duplex.on('error', () => {});
    streams.set(id, state);
    return state.duplex;
  };

  const wake = (): void => {
    for (const state of streams.values()) {
      const { waiting } = state;
      state.waiting = undefined;
      waiting?.();
    }
  };

  const take = async (frame: Frame): Promise<void> => {
    seen.set(frame.type, (seen.get(frame.type) ?? 0) + 1);
    switch (frame.type) {
      case 'syn': {
        const headers = await codec.decode(frame.block);
        if (frame.stream <= lastStream || frame.stream % 2 === 0)
          throw new RangeError('a stream id that goes backwards or is the server’s');
        lastStream = frame.stream;
        const duplex = open(frame.stream);
        put({ type: 'reply', stream: frame.stream, fin: false, block: await codec.encode(new Map()) });
        onStream({ id: frame.stream, headers, duplex });
        if (frame.fin) duplex.push(null);
        return;
      }
      case 'data': {
        const state = streams.get(frame.stream);
        if (!state) return put({ type: 'reset', stream: frame.stream, code: INVALID_STREAM });
        if (frame.data.length > 0) {
          if (!state.duplex.push(frame.data)) transport.pause();
          if (windows)
            for (const stream of [0, frame.stream]) put({ type: 'window', stream, delta: frame.data.length });
        }
        if (frame.fin) state.duplex.push(null);
        return;
      }
      case 'headers':
        await codec.decode(frame.block); // the state of the compression has to follow
        if (frame.fin) streams.get(frame.stream)?.duplex.push(null);
        return;
      case 'reset':
        streams.get(frame.stream)?.duplex.destroy();
        return;
      case 'ping':
        if (frame.id % 2 === 1) put(frame);
        return;
      case 'settings':
        windows = true;
        initialWindow = frame.initialWindow ?? initialWindow;
        return;
      case 'window':
        if (!windows) {
          // Until now nothing was counted: start from the peer's point of view.
          windows = true;
          connectionWindow = INITIAL_WINDOW;
        }
        if (frame.stream === 0) connectionWindow += frame.delta;
        else {
          const state = streams.get(frame.stream);
          if (state) state.window += frame.delta;
        }
        return wake();
      case 'goaway':
      case 'reply':
        return;
    }
  };

  const work = async (): Promise<void> => {
    if (working) return;
    working = true;
    try {
      for (;;) {
        const next = decodeFrame(bytes);
        if (!next) break;
        bytes = bytes.subarray(next.size);
        if (next.frame) await take(next.frame);
      }
    } catch {
      put({ type: 'goaway', lastStream, code: 1 }); // PROTOCOL_ERROR
      transport.end();
      finish();
    } finally {
      working = false;
    }
  };

  transport.on('data', (chunk: Buffer) => {
    bytes = bytes.length > 0 ? Buffer.concat([bytes, chunk]) : chunk;
    void work();
  });
  transport.on('end', () => {
    for (const { duplex } of streams.values()) duplex.push(null);
    transport.end();
  });
  transport.on('close', finish);
  transport.on('error', finish);

  return {
    close() {
      put({ type: 'goaway', lastStream, code: 0 });
      if (!transport.writableEnded) transport.end();
    },
    destroy: () => void transport.destroy(),
    seen,
  };
}
