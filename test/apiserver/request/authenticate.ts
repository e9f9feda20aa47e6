// From a request to who makes it, in the order of the real server's union: client certificate, bearer token, basic
// password. A credential that is given and is wrong is a 401, even when another one would have served; impersonation
// is honoured for those who may, so that a header that got through where it should not shows.

import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { forbidden, unauthorized } from '../objects/status.ts';
import type { Identity, Users } from './users.ts';

const BEARER_PROTOCOL = 'base64url.bearer.authorization.k8s.io.';

/** @throws ApiError 401 */
export function authenticate(request: IncomingMessage, users: Users): Identity {
  const socket = request.socket as TLSSocket;
  const certificate = socket.getPeerCertificate();
  if (certificate && Object.keys(certificate).length > 0) {
    if (!socket.authorized) throw unauthorized();
    const { CN, O } = certificate.subject as { CN?: string; O?: string | string[] };
    if (CN) return users.identity(CN, O === undefined ? [] : [O].flat());
  }
  const header = request.headers.authorization;
  const [, scheme = '', rest = ''] = /^(\S+)\s+(.*)$/.exec(header ?? '') ?? [];
  if (scheme.toLowerCase() === 'bearer') return users.byToken(rest.trim()) ?? refuse();
  if (scheme.toLowerCase() === 'basic') {
    const [name = '', ...password] = Buffer.from(rest, 'base64').toString('utf8').split(':');
    return users.byPassword(name, password.join(':')) ?? refuse();
  }
  // Browsers can't set headers on a WebSocket: the token may come as a subprotocol, beside a real one.
  const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((part) => part.trim());
  const encoded = offered.find((part) => part.startsWith(BEARER_PROTOCOL));
  if (encoded && offered.length > 1)
    return (
      users.byToken(Buffer.from(encoded.slice(BEARER_PROTOCOL.length), 'base64url').toString()) ?? refuse()
    );
  return refuse();
}

function refuse(): never {
  throw unauthorized();
}

/** @throws ApiError 403 for somebody who may not impersonate */
export function impersonate(request: IncomingMessage, who: Identity, users: Users): Identity {
  const as = request.headers['impersonate-user'];
  if (typeof as !== 'string') return who;
  const groups = [request.headers['impersonate-group'] ?? []].flat();
  const wants = { verb: 'impersonate', group: '', subresource: '', namespace: '' };
  const names: [resource: string, name: string][] = [
    ['users', as],
    ...groups.map((group) => ['groups', group] as [string, string]),
  ];
  for (const [resource, name] of names)
    if (!users.allows(who, { ...wants, resource, name }))
      throw forbidden(
        { group: '', resource },
        name,
        `User "${who.username}" cannot impersonate resource "${resource}" in API group "" at the cluster scope`,
      );
  return users.identity(as, groups);
}

/** The 403 message of the real server. */
export function refusal(who: Identity, wanted: import('./users.ts').Attributes): string {
  if (wanted.path !== undefined) return `User "${who.username}" cannot ${wanted.verb} path "${wanted.path}"`;
  const resource = wanted.subresource ? `${wanted.resource}/${wanted.subresource}` : wanted.resource;
  const where = wanted.namespace ? `in the namespace "${wanted.namespace}"` : 'at the cluster scope';
  return `User "${who.username}" cannot ${wanted.verb} resource "${resource}" in API group "${wanted.group}" ${where}`;
}
