// A client that sends exactly the bytes it is given, over TLS: what no well-behaved HTTP library can be made to send.

import { connect, type TLSSocket } from 'node:tls';

export interface RawAnswer {
  readonly status: number;
  /** Names in lower case; the last one wins. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Everything as it came. */
  readonly text: string;
}

export function rawConnect(port: number, ca: string): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, ca, servername: 'localhost' }, () => {
      socket.off('error', reject);
      socket.on('error', () => {});
      resolve(socket);
    });
    socket.once('error', reject);
  });
}

/** Sends `bytes` (parts one after the other) and reads one answer (its end as its head tells it, the close, or silence). */
export async function rawExchange(
  port: number,
  ca: string,
  bytes: string | Buffer | readonly (string | Buffer)[],
  settleMs = 2_000,
): Promise<RawAnswer> {
  const socket = await rawConnect(port, ca);
  for (const part of Array.isArray(bytes) ? bytes : [bytes]) {
    socket.write(part);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return readAnswer(socket, settleMs);
}

export function readAnswer(socket: TLSSocket, settleMs = 2_000): Promise<RawAnswer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let timer: NodeJS.Timeout | undefined;
    const finish = (): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(parseAnswer(Buffer.concat(chunks)));
    };
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      clearTimeout(timer);
      if (isWhole(parseAnswer(Buffer.concat(chunks)))) finish();
      else timer = setTimeout(finish, settleMs);
    });
    socket.on('close', finish);
    socket.on('end', finish);
  });
}

export function parseAnswer(bytes: Buffer): RawAnswer {
  const text = bytes.toString('latin1');
  const end = text.indexOf('\r\n\r\n');
  const [line = '', ...lines] = (end < 0 ? text : text.slice(0, end)).split('\r\n');
  const headers: Record<string, string> = {};
  for (const each of lines) {
    const colon = each.indexOf(':');
    headers[each.slice(0, colon).toLowerCase()] = each.slice(colon + 1).trim();
  }
  return {
    status: Number(/^HTTP\/1\.1 (\d{3})/.exec(line)?.[1] ?? 0),
    headers,
    body: end < 0 ? '' : text.slice(end + 4),
    text,
  };
}

function isWhole(answer: RawAnswer): boolean {
  if (answer.status < 200 || !answer.text.includes('\r\n\r\n')) return false;
  const length = answer.headers['content-length'];
  if (length !== undefined) return answer.body.length >= Number(length);
  return answer.headers['transfer-encoding'] === 'chunked' && answer.body.endsWith('0\r\n\r\n');
}
