// Hosts, as an egress allowlist and a registry allowlist name them. Both sides are reduced to one spelling first (lower
// case, no port, no final dot, addresses in canonical form); everything by which `evil.test` is made to look like
// `api.example.com` (user information, paths, escapes, odd spellings of an address) is refused, not cleaned up.

import { isIP, isIPv6 } from 'node:net';
import { PosternError } from '../../common/errors.ts';
import { safeRef } from '../safe-ref.ts';
import { bad } from './constraints.ts';

const LABEL = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/;

/**
 * The host of `host`, `host:port`, `[v6]:port` or `scheme://host:port`.
 * @throws PosternError `policy_refused`: what cannot be read is denied
 */
export function normaliseHost(text: string): string {
  const host = readHost(text);
  if (host !== undefined) return host;
  throw new PosternError('policy_refused', `${safeRef(text)} is not a host.`, {
    key: 'host',
    remedy: 'Write the name alone, for example api.example.com.',
  });
}

/** Off with the scheme and the port; what stays must be a host. */
function readHost(text: string): string | undefined {
  const authority = text.replace(/^[a-z][a-z0-9+.-]*:\/\//i, '');
  if (isIPv6(authority)) return bareHost(authority);
  const port = /:(\d{1,5})$/.exec(authority);
  if (port && (Number(port[1]) < 1 || Number(port[1]) > 65_535)) return undefined;
  const host = port ? authority.slice(0, port.index) : authority;
  return bareHost(
    host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host,
    host.startsWith('['),
  );
}

function bareHost(text: string, bracketed = false): string | undefined {
  const lower = text.toLowerCase();
  if (isIPv6(lower)) return new URL(`http://[${lower}]/`).hostname.slice(1, -1);
  return bracketed ? undefined : readName(lower);
}

function readName(text: string): string | undefined {
  const name = text.endsWith('.') ? text.slice(0, -1) : text;
  if (name.length === 0 || name.length > 253) return undefined;
  const labels = name.split('.');
  if (!labels.every((label) => LABEL.test(label))) return undefined;
  // A last label that is a number makes a URL parser read an IPv4 address (WHATWG URL, "ends in a number"): 127.1,
  // 0x7f.1 and 2130706433 are all 127.0.0.1. Only the one canonical spelling is a host here.
  if (/^(?:\d+|0x[0-9a-f]*)$/.test(labels[labels.length - 1] ?? ''))
    return isIP(name) === 4 ? name : undefined;
  return name;
}

/** @throws PosternError `invalid_input` naming `key` */
export function checkHostPattern(pattern: string, key: string): void {
  if (pattern === '*') return;
  const below = pattern.startsWith('*.');
  const host = bareHost(below ? pattern.slice(2) : pattern);
  if (host === undefined || (below && isIP(host) !== 0))
    throw bad(
      key,
      `${safeRef(pattern)} is not a host`,
      'Write api.example.com, *.example.com (its subdomains, not itself), one address, or * for all; no port, path or range.',
    );
}

/** Whether a normalised host is covered. `*.example.com` is every name below it and not `example.com`. */
export function coversHost(patterns: readonly string[], host: string): boolean {
  return patterns.some((pattern) => {
    if (pattern === '*') return true;
    const named = bareHost(pattern.startsWith('*.') ? pattern.slice(2) : pattern);
    if (named === undefined) return false;
    return pattern.startsWith('*.') ? host.endsWith(`.${named}`) && isIP(host) === 0 : host === named;
  });
}
