import { describe, expect, test } from 'vitest';
import { answerHeaders, isAnswer, mediaType, requestHeaders } from '../../kubeguard/headers.ts';

const names = (flat: readonly string[]): string[] => flat.filter((_, i) => i % 2 === 0);

describe('what goes up', () => {
  test('what describes the content, the client and its cache, in one spelling', () => {
    const raw = [
      'host',
      'guard',
      'ACCEPT',
      'application/json',
      'accept',
      'text/plain',
      'User-agent',
      'kubectl',
      'Content-Type',
      'a/b',
      'If-None-Match',
      '"x"',
      'kubectl-command',
      'kubectl get',
    ];
    expect(requestHeaders(raw)).toEqual([
      'Accept',
      'application/json, text/plain',
      'User-Agent',
      'kubectl',
      'Content-Type',
      'a/b',
      'If-None-Match',
      '"x"',
      'Kubectl-Command',
      'kubectl get',
    ]);
  });
  test.each([
    'Authorization',
    'Cookie',
    'Impersonate-User',
    'Impersonate-Group',
    'Impersonate-Uid',
    'Impersonate-Extra-Scopes',
    'impersonate-user',
    'X-Remote-User',
    'X-Remote-Group',
    'X-Remote-Extra-A',
    'X-Forwarded-For',
    'X-Forwarded-Host',
    'X-Forwarded-Client-Cert',
    'Forwarded',
    'Via',
    'Audit-ID',
    'Proxy-Authorization',
    'Proxy-Connection',
    'Keep-Alive',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Content-Length',
    'Upgrade',
    'Expect',
    'User_Agent',
    'Impersonate_User',
    'X_Remote_User',
    'Sec-WebSocket-Protocol',
    'X-Stream-Protocol-Version',
    'X-Original-URL',
    'X-HTTP-Method-Override',
    'SSL-Client-Cert',
    'X-Anything-Else',
    'Origin',
    'Referer',
    'Range',
    'traceparent',
    'Postern-Request-Id',
  ])('never %s', (name) => expect(requestHeaders([name, 'x', 'Accept', '*/*'])).toEqual(['Accept', '*/*']));
  test('nothing that Connection lists, whatever it is', () => {
    const raw = [
      'Connection',
      'close, Accept',
      'connection',
      'USER-AGENT',
      'Accept',
      'a',
      'User-Agent',
      'b',
      'Content-Type',
      'c',
    ];
    expect(requestHeaders(raw)).toEqual(['Content-Type', 'c']);
  });
  test('not what the guard says itself', () =>
    expect(names(requestHeaders(['Accept', 'a', 'User-Agent', 'b'], ['accept']))).toEqual(['User-Agent']));
});

describe('what comes down', () => {
  const headers = {
    'content-type': 'application/json',
    'content-length': '5',
    'content-encoding': 'gzip',
    warning: ['299 - "a"', '299 - "b"'] as unknown as string,
    'x-kubernetes-pf-flowschema-uid': 'f',
    'x-kubernetes-pf-prioritylevel-uid': 'p',
    etag: '"e"',
    'audit-id': 'theirs',
    'set-cookie': ['a=b'],
    'www-authenticate': 'Basic',
    location: 'https://elsewhere',
    server: 'x',
    connection: 'keep-alive',
    'transfer-encoding': 'chunked',
    'x-echo': 'y',
    'retry-after': '1',
    'strict-transport-security': 'z',
    trailer: 'a',
    upgrade: 'h2c',
    'alt-svc': 'h3',
  };
  test("what describes the answer, with our own Audit-ID and not the cluster's", () => {
    const flat = answerHeaders(200, headers, 'req_1');
    expect(flat.slice(0, 2)).toEqual(['Audit-ID', 'req_1']);
    expect(names(flat).sort()).toEqual(
      [
        'Audit-ID',
        'Content-Encoding',
        'Content-Length',
        'Content-Type',
        'ETag',
        'Warning',
        'Warning',
        'X-Kubernetes-PF-FlowSchema-UID',
        'X-Kubernetes-PF-PriorityLevel-UID',
      ].sort(),
    );
  });
  test("the cluster's own Retry-After, where it limits or is down", () => {
    expect(names(answerHeaders(429, headers, 'r'))).toContain('Retry-After');
    expect(names(answerHeaders(503, headers, 'r'))).toContain('Retry-After');
    expect(names(answerHeaders(409, headers, 'r'))).not.toContain('Retry-After');
  });
  test('no length of a body that is changed', () =>
    expect(names(answerHeaders(200, headers, 'r', true))).not.toContain('Content-Length'));
  test("nothing that the cluster's Connection lists", () =>
    expect(names(answerHeaders(200, { ...headers, connection: 'etag' }, 'r'))).not.toContain('ETag'));
});

test.each([
  [undefined, ''],
  ['Application/JSON; charset=utf-8', 'application/json'],
  ['a/b', 'a/b'],
  [';', ''],
])('media type of %s', (header, type) => expect(mediaType(header)).toBe(type));

describe('what may be passed on as an answer', () => {
  test.each([200, 201, 206, 304, 400, 403, 404, 409, 410, 422, 429, 500, 503])('%i', (status) =>
    expect(isAnswer(status)).toBe(true),
  );
  test.each([301, 302, 303, 307, 308])('no redirect, which could lead anywhere: %i', (status) =>
    expect(isAnswer(status)).toBe(false),
  );
  test.each([401, 407])('no challenge, which is meant for the guard: %i', (status) =>
    expect(isAnswer(status)).toBe(false),
  );
  test.each([100, 101, 103])('nothing that is not final: %i', (status) =>
    expect(isAnswer(status)).toBe(false),
  );
});
