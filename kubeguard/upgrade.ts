// A request to change protocols, read and written anew; pure. Kubernetes has two: WebSocket (the channel protocols, and
// SPDY inside it for port-forward) and SPDY/3.1. What is offered upstream is the client's list less everything that is not
// known here; a `base64url.bearer.authorization.k8s.io.…` entry is a credential in disguise and never passes. The
// upstream's 101 is checked against what was offered, and the client's 101 is ours.

import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Words } from './status.ts';

export interface Upgrade {
  readonly protocol: 'websocket' | 'spdy';
  /** Subprotocols, in the client's order. */
  readonly offered: readonly string[];
  /** Of a WebSocket handshake (RFC 6455 §4.1). */
  readonly key: string;
}

const WEBSOCKET_PROTOCOLS = new Set([
  ...['v5', 'v4', 'v3', 'v2'].map((version) => `${version}.channel.k8s.io`),
  ...['v4.base64.channel.k8s.io', 'channel.k8s.io', 'base64.channel.k8s.io'],
  ...['SPDY/3.1+portforward.k8s.io', 'portforward.k8s.io'],
]);
const SPDY_PROTOCOLS = new Set([
  ...['v5', 'v4', 'v3', 'v2'].map((version) => `${version}.channel.k8s.io`),
  ...['channel.k8s.io', 'portforward.k8s.io'],
]);

export function readUpgrade(method: string, rawHeaders: readonly string[]): Upgrade | Words {
  const values = (name: string): string[] =>
    rawHeaders
      .flatMap((value, i) =>
        i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === name ? value.split(',') : [],
      )
      .map((value) => value.trim());
  const refuse = (message: string): Words => ({ code: 'upgrade_not_allowed', message });

  const connection = values('connection').map((value) => value.toLowerCase());
  const [wanted, ...more] = values('upgrade').map((value) => value.toLowerCase());
  if (!connection.includes('upgrade') || wanted === undefined || more.length > 0)
    return refuse('the request does not say in one way what to upgrade to');
  if (values('transfer-encoding').length > 0 || values('content-length').some((length) => length !== '0'))
    return refuse('a request for an upgrade takes no body');

  if (wanted === 'websocket') {
    const [key = '', ...otherKeys] = values('sec-websocket-key');
    if (
      method !== 'GET' ||
      values('sec-websocket-version').join() !== '13' ||
      otherKeys.length > 0 ||
      !/^[A-Za-z0-9+/]{22}==$/.test(key)
    )
      return refuse('this is no WebSocket handshake (RFC 6455)');
    return (
      keep('websocket', values('sec-websocket-protocol'), WEBSOCKET_PROTOCOLS, key) ??
      refuse('none of the WebSocket subprotocols is one of Kubernetes')
    );
  }
  if (wanted === 'spdy/3.1') {
    if (method !== 'POST' && method !== 'GET') return refuse('SPDY is opened by POST');
    return (
      keep('spdy', values('x-stream-protocol-version'), SPDY_PROTOCOLS, '') ??
      refuse('none of the stream protocols is one of Kubernetes')
    );
  }
  return refuse('the protocols served are websocket and SPDY/3.1');
}

function keep(
  protocol: Upgrade['protocol'],
  asked: readonly string[],
  known: ReadonlySet<string>,
  key: string,
): Upgrade | undefined {
  const offered = [...new Set(asked.filter((one) => known.has(one)))];
  return offered.length === 0 && asked.length > 0 ? undefined : { protocol, offered, key };
}

/** For the upstream. */
export function upgradeHeaders({ protocol, offered, key }: Upgrade): { [name: string]: string | string[] } {
  if (protocol === 'spdy')
    return {
      connection: 'Upgrade', // http-proxy looks for this spelling
      Upgrade: 'SPDY/3.1',
      'Content-Length': '0',
      ...(offered.length > 0 ? { 'X-Stream-Protocol-Version': [...offered] } : {}),
    };
  return {
    connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': key,
    ...(offered.length > 0 ? { 'Sec-WebSocket-Protocol': offered.join(', ') } : {}),
  };
}

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'; // RFC 6455 §1.3

export interface Switched {
  /** What the upstream chose; empty: nothing. */
  readonly chosen: string;
  /** Of our own 101, flat. */
  readonly headers: readonly string[];
}

/** @returns undefined where the upstream's 101 is no answer to what was asked */
export function readSwitch(upgrade: Upgrade, headers: IncomingHttpHeaders): Switched | undefined {
  const { protocol, offered, key } = upgrade;
  const one = (name: string): string => String(headers[name] ?? '').trim();
  if (
    !one('connection')
      .toLowerCase()
      .split(/\s*,\s*/)
      .includes('upgrade')
  )
    return undefined;
  if (protocol === 'spdy') {
    const chosen = one('x-stream-protocol-version');
    if (one('upgrade').toLowerCase() !== 'spdy/3.1' || (chosen !== '' && !offered.includes(chosen)))
      return undefined;
    return {
      chosen,
      headers: ['Upgrade', 'SPDY/3.1', ...(chosen === '' ? [] : ['X-Stream-Protocol-Version', chosen])],
    };
  }
  const accept = createHash('sha1')
    .update(key + GUID)
    .digest('base64');
  const chosen = one('sec-websocket-protocol');
  if (one('upgrade').toLowerCase() !== 'websocket' || one('sec-websocket-accept') !== accept)
    return undefined;
  // Extensions were not offered; one that came all the same would change the frames.
  if (headers['sec-websocket-extensions'] !== undefined || (chosen !== '' && !offered.includes(chosen)))
    return undefined;
  return {
    chosen,
    headers: [
      'Upgrade',
      'websocket',
      'Sec-WebSocket-Accept',
      accept,
      ...(chosen === '' ? [] : ['Sec-WebSocket-Protocol', chosen]),
    ],
  };
}
