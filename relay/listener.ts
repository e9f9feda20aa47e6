// The front of a guard: a TLS server with limits set on purpose, that hands each request over as an Exchange once its
// head can be read in one way only (head.ts). It decides nothing about what is asked for. No total time limit: a clone,
// a push or a watch may last for days; what is limited is silence (a head that does not come, a handshake that hangs
// here; bodies in forward.ts). Every answer, the parser's own 400 too, carries Postern-Request-Id.
//
// `Expect: 100-continue` waits for the decision: nothing is invited to send a body that will be refused. CONNECT, other
// expectations and, without an upgrade handler, Upgrade are refused; so are the HTTP/1.0 requests, because the end of an
// answer to one cannot be told from its being cut.

import {
  type IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  ServerResponse,
} from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { newId } from '../common/ids.ts';
import { type Log, silentLog } from '../common/log.ts';
import type { Refusal } from '../common/reason.ts';
import { inspectHead, ownHosts } from './head.ts';
import { limitIdle } from './idle-connections.ts';

/** One request and its answer. */
export interface Exchange {
  /** `Postern-Request-Id`, which every answer carries by itself; `exchangeId` of the records. */
  readonly id: string;
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly sourceIp: string;
  /** Invites the body of a client that asked first (`Expect: 100-continue`); call it once the decision allows. */
  continueBody(): void;
}

/** A request to change protocols; the socket is the guard's from here on. */
export interface UpgradeExchange {
  readonly id: string;
  readonly req: IncomingMessage;
  readonly socket: Socket;
  /** What the client sent after the head. */
  readonly head: Buffer;
  readonly sourceIp: string;
}

/** Bytes that are no request at all. `bearing`: they name an Authorization header. */
export interface Unreadable {
  readonly id: string;
  readonly sourceIp: string;
  readonly reason: string;
  readonly bearing: boolean;
}

export interface ListenerLimits {
  /** For a whole head to come (slowloris). */
  readonly headMs: number;
  readonly handshakeMs: number;
  /** An idle connection between two requests. */
  readonly keepAliveMs: number;
  /** `kubectl exec` with a long command has URLs of tens of KiB. */
  readonly maxHeadBytes: number;
  readonly maxConnections: number;
  /** Of one address, before idle ones are closed: see idle-connections.ts. */
  readonly maxIdle: number;
  /** Requests under way on one connection. No client of either guard sends a request before the last is answered. */
  readonly maxPipelined: number;
}

export const LISTENER_LIMITS: ListenerLimits = {
  headMs: 30_000,
  handshakeMs: 15_000,
  keepAliveMs: 75_000,
  maxHeadBytes: 64 * 1024,
  maxConnections: 10_000,
  maxIdle: 2_500,
  maxPipelined: 64,
};

/** Where certificates come from: the first ones, and a hook that keeps a running server up to date (certs/ has it). */
export interface TlsSource {
  contextOptions(): TlsOptions;
  /** Called once with the server; returns the function that lets go of it. */
  attach(server: Server): () => void;
}

export interface ListenerOptions {
  readonly tls: TlsSource;
  /** The URLs that clients are given; their hosts are this guard's names. */
  readonly advertised: readonly string[];
  /** A request whose head is sound. A rejection is logged and the answer cut. */
  readonly handle: (exchange: Exchange) => void | Promise<void>;
  /** A request whose head is not; answers it in the words of the guard's client. */
  readonly refuse: (exchange: Exchange, refusal: Refusal) => void | Promise<void>;
  readonly upgrade?: (exchange: UpgradeExchange) => void | Promise<void>;
  /** The same on a connection that asked for an upgrade: see `answerOnSocket`. */
  readonly refuseUpgrade?: (exchange: UpgradeExchange, refusal: Refusal) => void | Promise<void>;
  /** Not even a head: answered already, for the counters and the record. */
  readonly unreadable?: (what: Unreadable) => void;
  readonly limits?: Partial<ListenerLimits>;
  readonly log?: Log;
}

export interface Listener {
  readonly server: Server;
  /** `port` 0 takes a free one. @returns the address in use */
  listen(host: string, port: number): Promise<{ host: string; port: number }>;
  /** Accepts no more, closes idle connections, gives what is under way `graceMs`, then cuts it. */
  close(graceMs: number): Promise<void>;
}

/** Whoever writes the answer, and however: the id is on it. */
class IdentifiedResponse extends ServerResponse {
  requestId = '';

  override writeHead(
    status: number,
    first?: string | OutgoingHttpHeaders | OutgoingHttpHeader[],
    second?: OutgoingHttpHeaders | OutgoingHttpHeader[],
  ): this {
    // A flat list on a response without other headers is node's fast path.
    if (Array.isArray(first))
      return super.writeHead(status, ['Postern-Request-Id', this.requestId, ...first]);
    this.setHeader('Postern-Request-Id', this.requestId);
    return typeof first === 'string'
      ? super.writeHead(status, first, second)
      : super.writeHead(status, first);
  }
}

export function createListener(options: ListenerOptions): Listener {
  const limits = { ...LISTENER_LIMITS, ...options.limits };
  const log = options.log ?? silentLog;
  const busy = new WeakMap<Socket, number>();
  let isOwnHost = (_host: string): boolean => false;
  let closing = false;

  const server = createServer<typeof IncomingMessage, typeof IdentifiedResponse>({
    ServerResponse: IdentifiedResponse,
    ...options.tls.contextOptions(),
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: limits.handshakeMs,
    requestTimeout: 0,
    headersTimeout: limits.headMs,
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: Math.min(5_000, Math.max(50, limits.headMs / 4)),
    maxHeaderSize: limits.maxHeadBytes,
    insecureHTTPParser: false,
    requireHostHeader: false, // head.ts does, with an answer that carries our id
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 60_000,
  });
  server.maxConnections = limits.maxConnections;
  server.timeout = 0;
  limitIdle(server, limits.maxIdle, (socket) => (busy.get(socket) ?? 0) > 0);
  const detach = options.tls.attach(server);

  const settle = (what: Promise<void> | void, socket: Socket, id: string): void => {
    what?.catch((error: unknown) => {
      log.error({ err: error, exchangeId: id }, 'a request failed inside the guard');
      socket.destroy();
    });
  };

  const serve = (req: IncomingMessage, res: IdentifiedResponse, expects: boolean): void => {
    const id = newId('req');
    const { socket } = req;
    const underWay = (busy.get(socket) ?? 0) + 1;
    if (underWay > limits.maxPipelined) return void socket.destroy();
    busy.set(socket, underWay);
    res.once('close', () => {
      busy.set(socket, (busy.get(socket) ?? 1) - 1);
      if (closing) setImmediate(() => server.closeIdleConnections());
    });
    res.on('error', () => {}); // a client that left; 'close' says so
    res.requestId = id;
    if (closing) res.shouldKeepAlive = false;
    let invited = !expects;
    const exchange: Exchange = {
      id,
      req,
      res,
      sourceIp: addressOf(socket),
      continueBody() {
        if (!invited && !res.headersSent) res.writeContinue();
        invited = true;
      },
    };
    const refusal = inspectHead(req, { isOwnHost, mayUpgrade: false });
    settle(refusal ? options.refuse(exchange, refusal) : options.handle(exchange), socket, id);
  };

  server.on('request', (req, res) => serve(req, res, false));
  server.on('checkContinue', (req, res) => serve(req, res, true));
  server.on('checkExpectation', (_req, res) => {
    res.requestId = newId('req');
    res.writeHead(417, { Connection: 'close', 'Content-Length': 0 }).end();
  });

  const { upgrade, refuseUpgrade } = options;
  if (upgrade)
    server.on('upgrade', (req: IncomingMessage, socket: Socket, head: Buffer) => {
      const id = newId('req');
      socket.on('error', () => {});
      const exchange = { id, req, socket, head, sourceIp: addressOf(socket) };
      const refusal = inspectHead(req, { isOwnHost, mayUpgrade: true });
      if (!refusal) settle(upgrade(exchange), socket, id);
      else if (refuseUpgrade) settle(refuseUpgrade(exchange, refusal), socket, id);
      else answerOnSocket(socket, id, 400, `${refusal.message}\n`);
    });

  const unreadable = (socket: Socket, status: number, reason: string, packet?: Buffer): void => {
    const id = newId('req');
    const bearing = packet !== undefined && /\nauthorization:/i.test(packet.toString('latin1'));
    options.unreadable?.({ id, sourceIp: addressOf(socket), reason, bearing });
    // Behind an answer that is still being written, anything more would be read as part of it.
    if ((busy.get(socket) ?? 0) > 0) socket.destroy();
    else answerOnSocket(socket, id, status, `${reason}\n`);
  };
  server.on('connect', (_req: IncomingMessage, socket: Socket) =>
    unreadable(socket, 405, 'CONNECT is not served'),
  );
  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket: Socket) => {
    if (socket.writable && error.code === 'HPE_HEADER_OVERFLOW')
      unreadable(socket, 431, 'the head of the request is too large', error.rawPacket);
    else if (socket.writable && error.code === 'ERR_HTTP_REQUEST_TIMEOUT')
      unreadable(socket, 408, 'the head of the request did not come in time');
    else if (socket.writable && error.code?.startsWith('HPE_'))
      unreadable(socket, 400, 'the bytes are not an HTTP/1.1 request', error.rawPacket);
    else socket.destroy(); // no request: a handshake that failed, a connection that broke
  });
  server.on('tlsClientError', (error) => log.debug({ err: error }, 'a TLS handshake failed'));

  return {
    server,
    listen: (host, port) =>
      new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen({ host, port }, () => {
          server.off('error', reject);
          server.on('error', (error) => log.error({ err: error }, 'the listener failed'));
          const at = server.address() as AddressInfo;
          isOwnHost = ownHosts(options.advertised, host, at.port);
          resolve({ host: at.address, port: at.port });
        });
      }),
    close: (graceMs) =>
      new Promise((resolve) => {
        closing = true;
        const cut = setTimeout(() => server.closeAllConnections(), graceMs);
        server.close(() => {
          clearTimeout(cut);
          detach();
          resolve();
        });
      }),
  };
}

/** A whole answer on a bare socket, where node gives no ServerResponse; the connection ends with it. */
export function answerOnSocket(
  socket: Socket,
  id: string,
  status: number,
  body: string,
  headers: readonly string[] = ['Content-Type', 'text/plain; charset=utf-8'],
): void {
  let text = `HTTP/1.1 ${status} ${STATUS_TEXT[status] ?? 'Refused'}\r\nPostern-Request-Id: ${id}\r\n`;
  for (let i = 0; i + 1 < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`;
  text += `Connection: close\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
  socket.on('error', () => {});
  socket.end(text + body);
  // A peer that never closes its side must not hold the connection.
  setTimeout(() => socket.destroy(), 1_000).unref();
}

const STATUS_TEXT: { readonly [status: number]: string } = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
};

function addressOf(socket: Socket): string {
  const address = socket.remoteAddress ?? '';
  return address.startsWith('::ffff:') ? address.slice(7) : address;
}
