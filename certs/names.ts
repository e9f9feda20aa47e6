// The names that a serving certificate carries. Pure.

import { isIP } from 'node:net';
import { PosternError } from '../common/errors.ts';

/** Whoever runs beside the guard reaches it by these, whatever is advertised. */
const ALWAYS = ['localhost', '127.0.0.1', '::1'];

const DNS_NAME =
  /^(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Host names and addresses in one spelling each, sorted, with loopback.
 * @throws PosternError `invalid_config` naming one that no certificate can carry
 */
export function servingNames(names: readonly string[]): readonly string[] {
  return [...new Set([...ALWAYS, ...names.map(normalize)])].sort();
}

function normalize(name: string): string {
  const bare = name.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  if (isIP(bare) === 4) return bare;
  // URL spells every IPv6 address in one way (RFC 5952); a zone is of this machine only.
  if (isIP(bare) === 6 && !bare.includes('%')) return new URL(`http://[${bare}]`).hostname.slice(1, -1);
  const host = bare.replace(/\.$/, '');
  if (DNS_NAME.test(host) && !/^[\d.]+$/.test(host)) return host;
  const remedy = 'advertise a host name or an address without a wildcard';
  throw new PosternError(
    'invalid_config',
    `${JSON.stringify(name)} cannot be a name in a certificate; ${remedy}`,
    {
      remedy,
    },
  );
}
