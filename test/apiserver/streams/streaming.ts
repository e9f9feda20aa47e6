// exec, attach and port-forward: checks the request, chooses the transport that the client offers, and lets the stream
// run. What can't be upgraded gets a Status like any other request.

import type { Duplex } from 'node:stream';
import { containerOf, type Logs } from '../cluster/logs.ts';
import type { PodRuntime, Terminal } from '../cluster/pod-runtime.ts';
import { ApiError, badRequest, failure } from '../objects/status.ts';
import { type JsonObject, type KObject, obj, text } from '../objects/values.ts';
import type { Call } from '../request/http.ts';
import { param } from '../request/http.ts';
import { flag } from '../request/target.ts';
import { forwardChannels, forwardStreams, forwardTunnel, PORT_FORWARD, TUNNEL } from './portforward.ts';
import { attach, exec, type RemoteStreams } from './remote-command.ts';
import {
  isSpdy,
  offeredStreamProtocols,
  STREAM_PROTOCOLS,
  serveStreams,
  switchToSpdy,
} from './remote-spdy.ts';
import { CHANNEL_PROTOCOLS, serveChannels } from './remote-websocket.ts';
import { isWebSocket, offeredProtocols } from './websocket.ts';

export type StreamKind = 'exec' | 'attach' | 'portforward';

/** One stream as tests see it. */
export interface StreamRecord {
  kind: StreamKind;
  pod: string;
  container: string;
  command: readonly string[];
  transport: 'websocket' | 'spdy';
  protocol: string;
  sizes: Terminal[];
  live: boolean;
}

export interface StreamHost {
  runtime: PodRuntime;
  logs: Logs;
  opened(record: StreamRecord): void;
}

export interface Upgrade {
  socket: Duplex;
  head: Buffer;
}

/** @throws ApiError where the request is refused; nothing has been written then */
export function serveStream(
  call: Call,
  upgrade: Upgrade | undefined,
  kind: StreamKind,
  pod: KObject,
  host: StreamHost,
): void {
  const phase = text(obj(pod.status).phase);
  if (!upgrade) throw badRequest('Upgrade request required');
  if (phase !== 'Running')
    throw badRequest(
      `cannot ${kind} into a container in a pod that is not running; current phase is ${phase}`,
    );
  const record: StreamRecord = {
    kind,
    pod: `${pod.metadata.namespace}/${pod.metadata.name}`,
    container: kind === 'portforward' ? '' : containerOf(pod, param(call, 'container')),
    command: call.target.query.get('command') ?? [],
    transport: isWebSocket(call.request) ? 'websocket' : 'spdy',
    protocol: '',
    sizes: [],
    live: true,
  };
  if (record.transport === 'spdy' && !isSpdy(call.request))
    throw badRequest('unable to upgrade: missing upgrade headers in request');
  if (kind === 'portforward') servePorts(call, upgrade, pod, record, host);
  else serveCommand(call, upgrade, pod, record, host);
}

function ended(record: StreamRecord): () => void {
  return () => {
    record.live = false;
  };
}

function serveCommand(
  call: Call,
  upgrade: Upgrade,
  pod: KObject,
  record: StreamRecord,
  host: StreamHost,
): void {
  const { query } = call.target;
  const tty = flag(query, 'tty');
  const wanted = {
    stdin: flag(query, 'stdin'),
    stdout: flag(query, 'stdout'),
    stderr: flag(query, 'stderr') && !tty,
  };
  if (!wanted.stdin && !wanted.stdout && !wanted.stderr)
    throw badRequest('you must specify at least 1 of stdin, stdout, stderr');
  if (record.kind === 'exec' && record.command.length === 0)
    throw badRequest('you must specify at least one command for the container');
  const run = (streams: RemoteStreams): Promise<JsonObject> =>
    record.kind === 'exec'
      ? exec(host.runtime, pod, record.command, tty, streams, (size) => record.sizes.push(size))
      : attach(host.logs, pod, record.container, streams);

  if (record.transport === 'websocket') {
    record.protocol = pick(CHANNEL_PROTOCOLS, offeredProtocols(call.request)) ?? noProtocol();
    const { socket, head } = upgrade;
    const served = serveChannels(call.request, socket, head, record.protocol, wanted, run, ended(record));
    if (!served) throw badHandshake();
  } else {
    const offered = offeredStreamProtocols(call.request);
    record.protocol = pick(STREAM_PROTOCOLS, offered) ?? noStreamProtocol(offered, STREAM_PROTOCOLS);
    serveStreams(upgrade.socket, upgrade.head, record.protocol, wanted, tty, run, ended(record));
  }
  host.opened(record);
}

function servePorts(
  call: Call,
  { socket, head }: Upgrade,
  pod: KObject,
  record: StreamRecord,
  host: StreamHost,
): void {
  const { runtime } = host;
  if (record.transport === 'spdy') {
    const offered = offeredStreamProtocols(call.request);
    if (!offered.includes(PORT_FORWARD)) noStreamProtocol(offered, [PORT_FORWARD]);
    record.protocol = PORT_FORWARD;
    switchToSpdy(socket, PORT_FORWARD);
    if (head.length > 0) socket.unshift(head);
    forwardStreams(socket, runtime, pod, ended(record));
  } else {
    record.protocol = pick([TUNNEL, 'v4.channel.k8s.io'], offeredProtocols(call.request)) ?? noProtocol();
    const ports = (call.target.query.get('ports') ?? []).flatMap((one) => one.split(',')).map(Number);
    if (
      record.protocol !== TUNNEL &&
      (ports.length === 0 || ports.some((port) => !(port > 0 && port < 65536)))
    )
      throw badRequest('query parameter "ports" is required');
    const served =
      record.protocol === TUNNEL
        ? forwardTunnel(call.request, socket, head, runtime, pod, ended(record))
        : forwardChannels(call.request, socket, head, record.protocol, ports, runtime, pod, ended(record));
    if (!served) throw badHandshake();
  }
  host.opened(record);
}

function pick(served: readonly string[], offered: readonly string[]): string | undefined {
  return offered.find((one) => served.includes(one));
}

function badHandshake(): ApiError {
  return badRequest('websocket: the client is not using the websocket protocol');
}

function noProtocol(): never {
  throw badRequest('unable to upgrade: none of the offered websocket protocols is supported');
}

function noStreamProtocol(offered: readonly string[], served: readonly string[]): never {
  const refusal = failure(403, 'Forbidden', `unable to negotiate protocol: client supports [${offered}]`);
  throw new ApiError(refusal.status, 403, { 'X-Accepted-Stream-Protocol-Versions': served.join(', ') });
}
