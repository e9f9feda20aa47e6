// One attempt to open a tunnel at the cluster, by http-proxy's `ws`: with a request that is built here, and none of its own
// passes but the one that connects (`web` is never used, AGENTS.md says why). The upstream's 101 is read before
// http-proxy acts on it, and replaced by ours; any other answer is taken off its hands, for the caller to judge.

import type { ClientRequest, IncomingMessage } from 'node:http';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { anyHolds } from '../relay/echo.ts';
import type { UpgradeExchange } from '../relay/listener.ts';
import type { Spend } from './credentials.ts';
import type { Admitted, FlowDeps } from './flow.ts';
import { followFrames } from './frames.ts';
import type { Front } from './front.ts';
import { answerHeaders, isEncoded, requestHeaders } from './headers.ts';
import { buildTarget } from './request-info.ts';
import { readSwitch, type Switched, type Upgrade, upgradeHeaders } from './upgrade.ts';

/** What of http-proxy 1.18 is used; its own types leave the passes out. */
interface Tunneler {
  wsPasses: ((...args: never[]) => unknown)[];
  on(name: 'proxyReqWs', listener: (upstream: ClientRequest, req: TunnelRequest) => void): void;
  ws(
    req: TunnelRequest,
    socket: Duplex,
    head: Buffer,
    options: object,
    onError: (error: Error) => void,
  ): void;
}

/** The request as http-proxy sees it: nothing of the client's own is in it. */
interface TunnelRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: { readonly [name: string]: string | string[] };
  readonly onRequest: (upstream: ClientRequest) => void;
}

const require = createRequire(import.meta.url);

function loadTunneler(): Tunneler {
  // http-proxy calls util._extend; node says once that it is deprecated (DEP0060), and it may do so here, unheard.
  const util = require('node:util') as { _extend(target: object, source: object): object };
  const { emitWarning } = process;
  process.emitWarning = () => {};
  util._extend({}, {});
  process.emitWarning = emitWarning;
  const { createProxyServer } = require('http-proxy') as { createProxyServer(options: object): Tunneler };
  const proxy = createProxyServer({ prependPath: false, toProxy: true, xfwd: false, changeOrigin: false });
  // Of [checkMethodAndHeader, XHeaders, stream]: the first refuses every SPDY upgrade, the second adds X-Forwarded-*.
  proxy.wsPasses = proxy.wsPasses.filter((pass) => pass.name === 'stream');
  if (proxy.wsPasses.length !== 1)
    throw new Error('http-proxy is not the version that tunnel.ts was written for');
  proxy.on('proxyReqWs', (upstream, req) => req.onRequest(upstream));
  return proxy;
}

let tunneler: Tunneler | undefined;

export type Attempt =
  | { readonly how: 'open'; readonly switched: Switched; readonly upstream: Socket }
  | {
      readonly how: 'answered';
      readonly status: number;
      readonly headers: IncomingMessage['headers'];
      readonly body: Buffer;
    }
  | { readonly how: 'failed'; readonly error: Error; readonly echoed?: true };

const MAX_ANSWER = 64 * 1024;

/** @returns the function that gives it up */
export function dial(
  { patience }: FlowDeps,
  { exchange, info }: Admitted<UpgradeExchange>,
  upgrade: Upgrade,
  { target, basePath, headers: credential, needles }: Spend,
  front: Front,
  settle: (result: Attempt) => void,
): () => void {
  const { socket, id, req, head: early } = exchange;
  const url = new URL(target.origin);
  const path = basePath + buildTarget(info);
  let settled = false;
  let upstreamRequest: ClientRequest | undefined;
  const timer = setTimeout(() => fail(new Error('no answer to the upgrade in time')), patience.upgradeMs);
  const finish = (result: Attempt): void => {
    if (settled) return;
    settled = true;
    clearTimeout(timer);
    socket.off('close', onClose);
    settle(result);
  };
  const fail = (error: Error): void => {
    finish({ how: 'failed', error });
    upstreamRequest?.destroy();
  };
  const onClose = (): void => fail(new Error('the client left'));
  socket.on('close', onClose);

  const onRequest = (request: ClientRequest): void => {
    upstreamRequest = request;
    request.path = path; // what http-proxy joins its paths to is not byte for byte what was judged
    // These come before http-proxy's own listeners.
    request.on('upgrade', (answer: IncomingMessage, upstream: Socket) => {
      upstream.on('error', () => {});
      const switched = answer.statusCode === 101 ? readSwitch(upgrade, answer.headers) : undefined;
      answer.headers = {};
      if (settled || !switched) {
        upstream.destroy();
        return fail(new Error('the 101 of the cluster does not answer what was asked'));
      }
      const frames = upgrade.protocol === 'websocket' ? followFrames() : undefined;
      front.open(ourHead(id, switched), early, frames);
      finish({ how: 'open', switched, upstream });
    });
    request.on('response', (answer: IncomingMessage) => {
      mark(answer, true); // http-proxy leaves it alone
      void readAnswer(answer).then((body) => {
        const status = answer.statusCode ?? 502;
        if (!body || isEncoded(answer.headers))
          finish({ how: 'failed', error: new Error('the answer to the upgrade cannot be searched') });
        else if (
          needles.bytes.some((needle) => body.includes(needle)) ||
          anyHolds(answerHeaders(status, answer.headers, id), needles)
        )
          finish({ how: 'failed', error: new Error('the answer held the credential'), echoed: true });
        else finish({ how: 'answered', status, headers: answer.headers, body });
        request.destroy();
      });
    });
  };

  tunneler ??= loadTunneler();
  const { ca, cert, key, servername } = target;
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  const host = url.hostname.replace(/^\[|\]$/g, '');
  tunneler.ws(
    {
      method: info.method,
      url: path,
      headers: toObject(
        [
          'Host',
          url.host,
          ...requestHeaders(req.rawHeaders, ['content-type', 'accept-encoding']),
          'Audit-ID',
          id,
          ...credential,
        ],
        upgradeHeaders(upgrade),
      ),
      onRequest,
    },
    front.stream,
    Buffer.alloc(0),
    {
      target: { protocol: url.protocol, host, hostname: host, port, ca, cert, key },
      ssl: {
        minVersion: 'TLSv1.2',
        ALPNProtocols: ['http/1.1'],
        ...(servername === undefined ? {} : { servername }),
      },
      secure: true,
    },
    fail,
  );
  // This comes after http-proxy's own listener; node must not take the mark for its own.
  (upstreamRequest as ClientRequest | undefined)?.on('response', (answer: IncomingMessage) =>
    mark(answer, false),
  );
  return () => fail(new Error('given up'));
}

/** `upgrade` of a response is node's and http-proxy's to read, and in no type. */
function mark(answer: IncomingMessage, upgrade: boolean): void {
  Object.assign(answer, { upgrade });
}

function ourHead(id: string, { headers }: Switched): string {
  let text = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nPostern-Request-Id: ${id}\r\nAudit-ID: ${id}\r\n`;
  for (let i = 0; i + 1 < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return `${text}\r\n`;
}

function toObject(
  flat: readonly string[],
  more: { [name: string]: string | string[] },
): { [name: string]: string | string[] } {
  const made: { [name: string]: string | string[] } = { ...more };
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const [name, value] = [flat[i] as string, flat[i + 1] as string];
    const before = made[name];
    made[name] = before === undefined ? value : [before, value].flat();
  }
  return made;
}

/** An answer that is no 101. One that is large or breaks off is undefined: it could not be searched to its end. */
function readAnswer(answer: IncomingMessage): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const done = (): void => resolve(answer.complete ? Buffer.concat(chunks) : undefined);
    answer.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_ANSWER) return answer.destroy();
      chunks.push(chunk);
    });
    answer.on('end', done).on('close', done).on('error', done);
  });
}
