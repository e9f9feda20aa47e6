// A plain HTTPS client for tests of the server: sends exactly the target it is given and keeps what came back.

import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { isObject, type JsonObject } from './objects/values.ts';
import type { ApiServer } from './server.ts';

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  bytes: Buffer;
  text: string;
  /** The body, when it is a JSON object. */
  json: JsonObject;
}

export interface ApiRequest {
  method?: string;
  body?: JsonObject | string | Buffer;
  headers?: Record<string, string>;
  /** A user of the server's table, `admin` by default; `null` for nobody. */
  user?: string | null;
  cert?: { cert: string; key: string };
}

export interface ApiClient {
  (target: string, options?: ApiRequest): Promise<Answer>;
  /** The answer as soon as its head is there; the caller reads and ends it. */
  open(target: string, options?: ApiRequest): Promise<IncomingMessage>;
  close(): void;
}

export function createClient(server: ApiServer): ApiClient {
  const agent = new Agent({ keepAlive: true, ca: server.ca });
  const open = (target: string, { method = 'GET', body, headers, user = 'admin', cert }: ApiRequest = {}) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const bytes =
        body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
      const sent = request(
        {
          agent,
          ca: server.ca,
          host: '127.0.0.1',
          port: server.port,
          method,
          path: target,
          ...(cert ? { ...cert, agent: false } : {}),
          headers: {
            ...(user === null ? {} : { Authorization: `Bearer ${server.users.tokenOf(user)}` }),
            ...(bytes === undefined
              ? {}
              : { 'Content-Type': 'application/json', 'Content-Length': String(Buffer.byteLength(bytes)) }),
            ...headers,
          },
        },
        resolve,
      );
      sent.on('error', reject);
      sent.end(bytes);
    });
  const call = async (target: string, options?: ApiRequest): Promise<Answer> => {
    const message = await open(target, options);
    const chunks: Buffer[] = [];
    for await (const chunk of message as AsyncIterable<Buffer>) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    const text = bytes.toString();
    return {
      status: message.statusCode ?? 0,
      headers: message.headers,
      bytes,
      text,
      json: parsed(text),
    };
  };
  return Object.assign(call, { open, close: () => agent.destroy() });
}

function parsed(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** The lines of a stream, parsed, as they come. */
export async function* events(message: IncomingMessage): AsyncGenerator<JsonObject> {
  let rest = '';
  for await (const chunk of message as AsyncIterable<Buffer>) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line !== '') yield JSON.parse(line) as JsonObject;
  }
}

/** The next few events of a stream. */
export async function take(from: AsyncGenerator<JsonObject>, count: number): Promise<JsonObject[]> {
  const out: JsonObject[] = [];
  while (out.length < count) {
    const { value, done } = await from.next();
    if (done) break;
    out.push(value);
  }
  return out;
}
