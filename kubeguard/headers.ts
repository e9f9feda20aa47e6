// Which headers pass, each way: lists of what may, never of what may not. Up: what a Kubernetes client says about the
// content, itself and its cache, and nothing that names an identity, a peer or a hop; what `Connection` lists is gone
// first, and the credential is set after all of it. Down: what describes the answer and how to come again.
// Deliberately not passed: Authorization, Cookie, Impersonate-*, X-Remote-*, X-Forwarded-*, Audit-ID (ours is sent), any
// name with `_` up; Set-Cookie, WWW-Authenticate, Location, Server, the cluster's own Audit-ID and trailers down.

import type { IncomingHttpHeaders } from 'node:http';

const UP = new Map([
  ['accept', 'Accept'],
  ['accept-encoding', 'Accept-Encoding'],
  ['content-type', 'Content-Type'],
  ['user-agent', 'User-Agent'],
  ['if-none-match', 'If-None-Match'],
  ['if-modified-since', 'If-Modified-Since'],
  ['kubectl-command', 'Kubectl-Command'],
  ['kubectl-session', 'Kubectl-Session'],
]);

const DOWN = new Map(
  [
    'Content-Type',
    'Content-Encoding',
    'Content-Length',
    'Cache-Control',
    'Date',
    'ETag',
    'Last-Modified',
    'Vary',
    'Warning',
    'X-Content-Type-Options',
    'X-Varied-Accept',
    'X-Kubernetes-PF-FlowSchema-UID',
    'X-Kubernetes-PF-PriorityLevel-UID',
  ].map((name) => [name.toLowerCase(), name]),
);

/** Of a list that came with one message, lower case. */
function connectionListed(rawHeaders: readonly string[]): Set<string> {
  const listed = new Set<string>();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2)
    if ((rawHeaders[i] as string).toLowerCase() === 'connection')
      for (const name of (rawHeaders[i + 1] as string).split(',')) listed.add(name.trim().toLowerCase());
  return listed;
}

/**
 * What of the client's headers goes up, as a flat list. Said twice, a header that is a list is joined; of any other the
 * first is taken (those that may not be there twice were refused with the head).
 * @param omit lower-case names that the guard sets itself for this request
 */
export function requestHeaders(rawHeaders: readonly string[], omit: readonly string[] = []): string[] {
  const listed = connectionListed(rawHeaders);
  const passed = new Map<string, string>();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const lower = (rawHeaders[i] as string).toLowerCase();
    const name = UP.get(lower);
    if (name === undefined || listed.has(lower) || omit.includes(lower)) continue;
    const value = rawHeaders[i + 1] as string;
    const before = passed.get(name);
    if (before === undefined) passed.set(name, value);
    else if (lower === 'accept' || lower === 'accept-encoding' || lower === 'if-none-match')
      passed.set(name, `${before}, ${value}`);
  }
  return [...passed].flat();
}

/**
 * What of an upstream's headers goes down, as a flat list, with the exchange's id.
 * @param reshaped the body is changed on the way, so its length is not the upstream's
 */
export function answerHeaders(
  status: number,
  headers: IncomingHttpHeaders,
  id: string,
  reshaped = false,
): string[] {
  const listed = new Set(
    String(headers.connection ?? '')
      .toLowerCase()
      .split(/\s*,\s*/),
  );
  const passed = ['Audit-ID', id];
  for (const [lower, value] of Object.entries(headers)) {
    const name =
      DOWN.get(lower) ??
      (lower === 'retry-after' && (status === 429 || status >= 500) ? 'Retry-After' : undefined);
    if (name === undefined || value === undefined || listed.has(lower)) continue;
    if (reshaped && (lower === 'content-length' || lower === 'etag')) continue;
    for (const one of Array.isArray(value) ? value : [value]) passed.push(name, one);
  }
  return passed;
}

/** Not a redirect, and not a challenge that is meant for the guard: may be passed on as an answer. */
export function isAnswer(status: number): boolean {
  if (status === 304) return true;
  return status >= 200 && status !== 401 && status !== 407 && (status < 300 || status >= 400);
}

/** Compressed, or whatever else it is that plain bytes are not. */
export function isEncoded({ 'content-encoding': encoding }: IncomingHttpHeaders): boolean {
  return encoding !== undefined && encoding !== '' && encoding.toLowerCase() !== 'identity';
}

/** Lower case, without parameters. */
export function mediaType(header: string | undefined): string {
  return (header ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
}
