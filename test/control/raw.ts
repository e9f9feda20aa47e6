// One call as its bytes go over the wire, for what the typed client would never send.

import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { World } from './fakes.ts';

export interface RawCall {
  readonly method?: string;
  readonly path: string;
  readonly body?: string;
  readonly type?: string;
  readonly authorization?: string;
  readonly over?: 'socket' | 'tls';
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: { readonly [name: string]: string | string[] | undefined };
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads into whatever came
  readonly json: any;
}

export function rawCall(world: World, call: RawCall): Promise<RawAnswer> {
  const { method = 'GET', path, body, over = 'socket' } = call;
  const headers = {
    ...(body !== undefined && { 'content-type': call.type ?? 'application/json' }),
    ...(call.authorization !== undefined && { authorization: call.authorization }),
  };
  const url = new URL(world.url);
  const options =
    over === 'socket'
      ? { socketPath: world.socket, method, path, headers, agent: false as const }
      : {
          host: url.hostname,
          port: url.port,
          ca: world.certificates.ca,
          method,
          path,
          headers,
          agent: false as const,
        };
  return new Promise((resolve, reject) => {
    const request = (over === 'socket' ? httpRequest : httpsRequest)(options, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => {
        let json: unknown;
        try {
          json = JSON.parse(text);
        } catch {}
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json });
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}
