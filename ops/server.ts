// `/livez`, `/readyz` and `/metrics` over plain HTTP, and nothing else: for the kubelet, a load balancer, Prometheus.
// Nothing here takes a credential, names a session or changes anything.

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PosternError } from '../common/errors.ts';
import type { Log } from '../common/log.ts';
import type { Health, Report } from './health.ts';
import type { MetricsRegistry } from './metrics.ts';

export interface OpsOptions {
  readonly listen: { readonly host: string; readonly port: number };
  readonly health: Health;
  readonly metrics: Pick<MetricsRegistry, 'scrape'>;
  readonly log: Log;
}

export interface OpsServer {
  readonly host: string;
  /** The real one. */
  readonly port: number;
  close(): Promise<void>;
}

/** @throws PosternError `invalid_config` naming `ops.listen` where the address cannot be had */
export async function startOps(options: OpsOptions): Promise<OpsServer> {
  const { listen, log } = options;
  const server = createServer({ maxHeaderSize: 8 * 1024, requestTimeout: 10_000, headersTimeout: 10_000 });
  server.on('request', (request, response) => {
    answer(options, request, response).catch((error: unknown) => {
      log.error({ err: error }, 'the ops endpoint failed');
      if (response.headersSent) response.destroy();
      else send(response, 500, 'text/plain; charset=utf-8', 'it failed; see the log\n');
    });
  });
  server.listen(listen.port, listen.host);
  try {
    await once(server, 'listening');
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'unknown error';
    const what = code === 'EADDRINUSE' ? 'is taken by another process' : `cannot be listened on (${code})`;
    throw new PosternError('invalid_config', `ops.listen: ${listen.host}:${listen.port} ${what}`, {
      key: 'ops.listen',
      remedy: 'choose another address, or port 0',
      cause,
    });
  }
  server.on('error', (error) => log.error({ err: error }, 'the ops endpoint failed'));
  const { address, port } = server.address() as AddressInfo;
  return {
    host: address,
    port,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

async function answer(
  options: OpsOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = request.url?.split('?')[0];
  if (path !== '/livez' && path !== '/readyz' && path !== '/metrics')
    return send(response, 404, 'text/plain; charset=utf-8', 'there is /livez, /readyz and /metrics\n');
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD');
    return send(response, 405, 'text/plain; charset=utf-8', 'only GET\n');
  }
  if (path === '/metrics') {
    const { contentType, body } = await options.metrics.scrape();
    return send(response, 200, contentType, body);
  }
  const report = path === '/livez' ? { ok: true, message: 'live', checks: {} } : await options.health.ready();
  const status = report.ok ? 200 : 503;
  if (request.headers.accept?.startsWith('text/plain'))
    return send(response, status, 'text/plain; charset=utf-8', asText(report));
  send(response, status, 'application/json', `${JSON.stringify(report)}\n`);
}

function asText(report: Report): string {
  const lines = Object.entries(report.checks).map(([name, { ok, reason }]) =>
    ok ? `[+] ${name}${reason === undefined ? '' : `: ${reason}`}` : `[-] ${name}: ${reason ?? 'failed'}`,
  );
  return [...lines, report.message, ''].join('\n');
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
  });
  response.end(body); // node leaves it out of an answer to HEAD
}
