// Addresses: what a server listens on (`host:port`), what a sandbox connects to (an https origin), and the names that
// the serving certificate must carry. Pure; every other reading of an address in the configuration goes through here.

import { isIP } from 'node:net';

export interface Listen {
  /** Without brackets. */
  readonly host: string;
  /** 0: the system chooses. */
  readonly port: number;
}

const HOST =
  /^(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*$/;

/** `undefined` where the text is not `host:port`; an IPv6 address stands in brackets. */
export function readListen(text: string): Listen | undefined {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^[\]:]+)):(0|[1-9]\d{0,4})$/.exec(text);
  if (!match) return undefined;
  const [, v6, name, digits] = match;
  const port = Number(digits);
  if (port > 65535) return undefined;
  if (v6 !== undefined) return isIP(v6) === 6 ? { host: v6.toLowerCase(), port } : undefined;
  // All digits and dots must be an address: 127.1 and 256.0.0.1 would be looked up as names.
  if (name === undefined || !HOST.test(name) || (/^[\d.]+$/.test(name) && isIP(name) !== 4)) return undefined;
  return { host: name.toLowerCase(), port };
}

export function formatListen(listen: Listen): string {
  return `${listen.host.includes(':') ? `[${listen.host}]` : listen.host}:${listen.port}`;
}

export function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || /^[0:]*:[0:]*$/.test(host);
}

/** Whether nothing but this machine answers there. `host` as `URL.hostname` has it, or without brackets. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '');
  return bare === 'localhost' || bare === '::1' || (isIP(bare) === 4 && bare.startsWith('127.'));
}

/** Whether both cannot be bound at once. */
export function listenConflict(a: Listen, b: Listen): boolean {
  if (a.port !== b.port || a.port === 0) return false;
  const same =
    a.host === b.host ||
    (a.host === 'localhost' && isLoopback(b.host)) ||
    (b.host === 'localhost' && isLoopback(a.host));
  return same || isWildcard(a.host) || isWildcard(b.host);
}

/**
 * The origin that a sandbox connects to: what the configuration advertises, else the bound address (a wildcard is
 * reached by loopback). Port 0 in either is the port that was bound.
 */
export function advertisedUrl(
  guard: { readonly listen: Listen; readonly advertise: string | undefined },
  boundPort: number,
): string {
  const wild = isWildcard(guard.listen.host);
  const host = wild ? (guard.listen.host.includes(':') ? '::1' : '127.0.0.1') : guard.listen.host;
  const url = new URL(guard.advertise ?? `https://${formatListen({ host, port: boundPort })}`);
  if (url.port === '0') url.port = String(boundPort);
  return url.origin;
}

/** The host of an origin as a certificate names it: no brackets. */
export function hostOf(origin: string): string {
  return new URL(origin).hostname.replace(/^\[|\]$/g, '');
}

interface Reached {
  readonly enabled?: boolean;
  readonly listen: Listen | undefined;
  readonly advertise?: string | undefined;
}

/** The names under which these are reached: the host advertised, and the one listened on unless it is every address. */
export function servedNames(...listeners: readonly Reached[]): string[] {
  const names = listeners.flatMap(({ enabled, listen, advertise }) => {
    if (enabled === false || !listen) return [];
    return [
      ...(advertise === undefined ? [] : [hostOf(advertise)]),
      ...(isWildcard(listen.host) ? [] : [listen.host]),
    ];
  });
  return [...new Set(names)];
}
