// The first reading of a request, before any guard sees it: is this a head that can be understood in one way only, and
// is it meant for this guard? Pure, on the raw header list, because node's parsed headers hide what was said twice.
// Whatever two parsers could read differently is refused here, not repaired (RFC 9112 §3, §6).

import type { Refusal } from '../common/reason.ts';

/** Said twice, they mean two things: the second reading is the attack. */
const ONCE = new Set([
  'host',
  'authorization',
  'content-length',
  'transfer-encoding',
  'content-type',
  'content-encoding',
  'git-protocol',
]);

/** Strings only, so that tests can build one; node's IncomingMessage fits. */
export interface RawHead {
  readonly httpVersion: string;
  readonly url?: string | undefined;
  readonly rawHeaders: readonly string[];
}

export interface HeadRules {
  /** `host` or `host:port`, lower case, as a client of this guard may spell it. */
  readonly isOwnHost: (host: string) => boolean;
  /** Whether this guard serves upgrades at all; which of them is its own decision. */
  readonly mayUpgrade: boolean;
}

/** @returns why the head is refused, or undefined */
export function inspectHead(head: RawHead, rules: HeadRules): Refusal | undefined {
  if (head.httpVersion !== '1.1') return malformed('http-version', `HTTP/${head.httpVersion} is not served`);
  if (head.url?.[0] !== '/') return malformed('request-target', 'the request target must be a path');
  const seen = new Set<string>();
  let host: string | undefined;
  let encoding: string | undefined;
  let upgrade = false;
  for (let i = 0; i + 1 < head.rawHeaders.length; i += 2) {
    const name = (head.rawHeaders[i] as string).toLowerCase();
    if (ONCE.has(name)) {
      if (seen.has(name)) return malformed('duplicate-header', `the header ${name} is there twice`);
      seen.add(name);
    }
    if (name === 'host') host = head.rawHeaders[i + 1];
    else if (name === 'transfer-encoding') encoding = head.rawHeaders[i + 1];
    else if (name === 'upgrade') upgrade = true;
  }
  if (host === undefined) return malformed('host', 'there is no Host header');
  if (!rules.isOwnHost(host.toLowerCase())) return malformed('host', 'the Host is not a name of this guard');
  if (encoding !== undefined) {
    if (seen.has('content-length'))
      return malformed('framing', 'Content-Length together with Transfer-Encoding');
    if (encoding.toLowerCase() !== 'chunked')
      return malformed('framing', 'the only Transfer-Encoding served is chunked');
  }
  if (upgrade && !rules.mayUpgrade)
    return { code: 'upgrade_not_allowed', rule: 'upgrade', message: 'this guard serves no Upgrade' };
  return undefined;
}

function malformed(rule: string, message: string): Refusal {
  return { code: 'malformed_request', rule, message };
}

/**
 * The names that a client may put into Host: those of the advertised URLs with their ports (the scheme's own port may
 * be left out; 0 is the real one), the address that is listened on, and loopback with the real port.
 */
export function ownHosts(
  advertised: readonly string[],
  address: string,
  port: number,
): (host: string) => boolean {
  const own = new Set<string>();
  const add = (name: string, at: string): void => {
    own.add(`${name}:${at}`);
    if (at === '443') own.add(name);
  };
  for (const text of advertised) {
    const url = new URL(text);
    const at = url.port === '0' ? String(port) : url.port;
    add(url.hostname.toLowerCase(), at || (url.protocol === 'http:' ? '80' : '443'));
  }
  for (const name of ['localhost', '127.0.0.1', '[::1]']) add(name, String(port));
  if (address !== '0.0.0.0' && address !== '::')
    add(address.includes(':') ? `[${address}]` : address.toLowerCase(), String(port));
  return (host) => own.has(host);
}
