// An outbound proxy, perhaps with its login. The one kind whose allowlist is kept by others: it travels to the executor,
// whose network policy enforces it; in-process callers ask `broker.access.checkHost`. Payload: the proxy's URL.

import { Credential } from '../../common/credential.ts';
import { onlyFor, requireOne } from '../constraints/constraints.ts';
import { checkHostPattern, normaliseHost } from '../constraints/host.ts';
import { direct, type KindRules } from './kind-rules.ts';
import { malformed, textOf } from './payload.ts';

export const PROXY_VARIABLES = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'] as const;
export const EGRESS_HOSTS = 'POSTERN_EGRESS_HOSTS';

export const egressProxy: KindRules<{ readonly url: Credential; readonly hosts: readonly string[] }> = {
  kind: 'egress_proxy',
  constraints: ['hosts'],
  inspect(payload) {
    parseProxy(payload);
    return [];
  },
  credentials(payload) {
    const { username, password } = new URL(parseProxy(payload).reveal());
    return password === '' ? [] : [`${username}:${password}`, password, decoded(password)];
  },
  checkConstraints(constraints) {
    onlyFor(constraints, ['hosts'], 'proxy');
    requireOne(constraints, ['hosts'], 'proxy');
    for (const host of constraints.hosts ?? []) checkHostPattern(host, 'constraints.hosts');
  },
  minimise: (payload, { hosts = [] }) => ({ url: parseProxy(payload), hosts }),
  materialise: ({ url, hosts }) =>
    direct({
      env: {
        ...Object.fromEntries(PROXY_VARIABLES.map((name) => [name, url])),
        [EGRESS_HOSTS]: [...hosts].sort().join(','),
      },
      summary: `proxy for ${[...hosts].sort().join(', ')}; kept by the executor's network policy`,
    }),
};

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function parseProxy(payload: Buffer): Credential {
  const text = textOf(payload, 'proxy').trim();
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !['http:', 'https:', 'socks5:', 'socks5h:'].includes(url.protocol) || /[\s\\]/.test(text))
    throw malformed('proxy', 'it is not a URL such as http://user:password@proxy.example.com:3128');
  if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '')
    throw malformed('proxy', 'its URL has a path or a query');
  try {
    normaliseHost(url.hostname);
  } catch {
    throw malformed('proxy', 'its URL has no usable host');
  }
  return new Credential(text.replace(/\/$/, ''));
}
