// What reached the server: each request's line and headers as they were on the wire, and on demand every byte of every
// connection, so that a test can say exactly what came through, and that nothing did.

import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

export interface RequestRecord {
  at: number;
  method: string;
  /** As received, never decoded. */
  target: string;
  /** `GET /api HTTP/1.1` */
  line: string;
  /** In the order and case in which they came. */
  headers: readonly (readonly [name: string, value: string])[];
  /** All values of a header, whatever its case. */
  header(name: string): string[];
  upgrade: boolean;
  /** Which connection it came on, counted from 1. */
  connection: number;
  /** Who it was taken for; undefined until then, and for whom nobody knows. */
  user: string | undefined;
  auditId: string;
  /** The body, where a handler read one. */
  body: Buffer | undefined;
  /** The status it got; 0 while it hasn't; 101 for an upgrade. */
  status: number;
}

export interface Recorder {
  requests: RequestRecord[];
  /** Bytes by connection, when they are captured. */
  bytes: Map<number, Buffer[]>;
  connected(socket: Socket): void;
  /** After the HTTP server has taken the socket: what it reads is copied from here on. */
  capture(socket: Socket): void;
  note(request: IncomingMessage, upgrade: boolean): RequestRecord;
  clear(): void;
}

export function createRecorder(keep: number): Recorder {
  const requests: RequestRecord[] = [];
  const bytes = new Map<number, Buffer[]>();
  const numbers = new WeakMap<Socket, number>();
  let count = 0;
  const numberOf = (socket: Socket): number => {
    const known = numbers.get(socket);
    if (known !== undefined) return known;
    numbers.set(socket, ++count);
    return count;
  };
  return {
    requests,
    bytes,
    connected: (socket) => void numberOf(socket),
    capture(socket) {
      const chunks: Buffer[] = [];
      bytes.set(numberOf(socket), chunks);
      socket.on('data', (chunk: Buffer) => chunks.push(Buffer.from(chunk)));
    },
    note(request, upgrade) {
      const headers: [string, string][] = [];
      for (let i = 0; i + 1 < request.rawHeaders.length; i += 2)
        headers.push([request.rawHeaders[i] ?? '', request.rawHeaders[i + 1] ?? '']);
      const method = request.method ?? '';
      const target = request.url ?? '';
      const record: RequestRecord = {
        at: Date.now(),
        method,
        target,
        line: `${method} ${target} HTTP/${request.httpVersion}`,
        headers,
        header: (name) =>
          headers.filter(([own]) => own.toLowerCase() === name.toLowerCase()).map(([, value]) => value),
        upgrade,
        connection: numberOf(request.socket),
        user: undefined,
        auditId: '',
        body: undefined,
        status: 0,
      };
      requests.push(record);
      if (requests.length > keep) requests.splice(0, requests.length - keep);
      return record;
    },
    clear() {
      requests.length = 0;
      bytes.clear();
    },
  };
}
