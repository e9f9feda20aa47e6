// What is seen by asking: the server at the socket, the guards at the addresses that sandboxes are told, the upstreams.

import { readFile } from 'node:fs/promises';
import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { PosternError } from '../../common/errors.ts';
import type { ControlClient } from '../../control/client.ts';
import type { Config } from '../config.ts';
import { type Check, fail, ok, warn } from './check.ts';

const PATIENCE = 3_000;

export async function remoteChecks(config: Config, client: ControlClient): Promise<Check[]> {
  return (await Promise.all([server(config, client), ...config.git.upstreams.map(upstream)])).flat();
}

async function server(config: Config, client: ControlClient): Promise<Check[]> {
  let status: Awaited<ReturnType<ControlClient['status']>>;
  try {
    status = await client.status();
  } catch (error) {
    if (error instanceof PosternError && error.code === 'unreachable')
      return [warn('server', `No server answers at ${config.control.socket}.`, 'Start it: postern serve')];
    throw error;
  }
  const checks = [ok('server', `version ${status.version}, since ${status.startedAt}`)];
  for (const check of status.checks) {
    const name = `server: ${check.name}`;
    const remedy = 'See the log of the server.';
    if (!check.ok) checks.push(fail(name, check.reason ?? 'not ready', remedy));
    else checks.push(check.degraded ? warn(name, check.reason ?? 'degraded', remedy) : ok(name, 'ready'));
  }
  const { rowsToRotate = 0, requestsWaiting = 0 } = status.broker ?? {};
  checks.push(
    rowsToRotate === 0
      ? ok('keys', 'every sealed row is under the primary key')
      : warn(
          'keys',
          `${rowsToRotate} sealed rows are under a key that is not the primary.`,
          'postern key rotate',
        ),
  );
  if (requestsWaiting > 0)
    checks.push(warn('requests', `${requestsWaiting} wait for a decision.`, 'postern request list'));
  const ca = await readFile(join(config.dataDir, 'ca.pem'), 'utf8').catch(() => undefined);
  for (const name of ['git', 'kube'] as const) {
    const { advertise } = status[name];
    if (advertise) checks.push(await guard(`${name}.advertise`, advertise, ca));
  }
  return checks;
}

async function guard(name: string, advertise: string, ca: string | undefined): Promise<Check> {
  const failure = await handshake(new URL(advertise), ca);
  return failure === undefined
    ? ok(name, `${advertise} answers with a certificate of ca.pem`)
    : fail(
        name,
        `${advertise} can't be used from here (${failure}).`,
        'See that the name leads to this server.',
      );
}

async function upstream({ url, caFile }: Config['git']['upstreams'][number], i: number): Promise<Check[]> {
  const name = `git.upstreams[${i}]`;
  const ca = caFile === undefined ? undefined : await readFile(caFile, 'utf8').catch(() => undefined);
  const failure = await handshake(new URL(url), ca);
  return [
    failure === undefined
      ? ok(name, `${url} answers`)
      : warn(
          name,
          `${url} can't be used from here (${failure}).`,
          'See the name, the network, and caFile where the forge has a CA of its own.',
        ),
  ];
}

/** What hinders a connection, or `undefined`. Nothing is sent. */
function handshake(url: URL, ca: string | undefined): Promise<string | undefined> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  return new Promise((resolve) => {
    const socket: Socket =
      url.protocol === 'https:'
        ? connectTls({
            host,
            port,
            ...(isIP(host) ? {} : { servername: host }),
            ...(ca === undefined ? {} : { ca }),
          })
        : connectPlain({ host, port });
    const end = (failure: string | undefined): void => {
      socket.destroy();
      resolve(failure);
    };
    socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => end(undefined));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? 'failed'));
    socket.setTimeout(PATIENCE, () => end('no answer'));
  });
}
