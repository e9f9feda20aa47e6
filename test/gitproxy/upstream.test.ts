import { describe, expect, test } from 'vitest';
import { Credential } from '../../common/credential.ts';
import {
  buildUpstreamRequest,
  type GitRoute,
  judgeAnswer,
  upstreamFailure,
} from '../../gitproxy/upstream.ts';
import type { Outcome } from '../../relay/forward.ts';

const repo = { owner: 'acme', name: 'tool' };
const advertise: GitRoute = { kind: 'advertise', service: 'git-upload-pack', repo, protocol: 2 };
const exchange: GitRoute = { kind: 'exchange', service: 'git-upload-pack', repo, gzip: true };
const push: GitRoute = { kind: 'exchange', service: 'git-receive-pack', repo, gzip: false };
const token = 'ghp_0123456789/+abc';
const credential = new Credential(token);
const basic = Buffer.from(`x-access-token:${token}`).toString('base64');

describe('the request to the upstream', () => {
  test('is built from the route, with one Authorization', () => {
    const client = { userAgent: 'git/2.39.5 evil\r\nx: y', contentLength: '9' };
    expect(buildUpstreamRequest(advertise, credential, 'x-access-token', {}).headers).toEqual([
      ...[
        'Authorization',
        `Basic ${basic}`,
        'User-Agent',
        'git/2',
        'Git-Protocol',
        'version=2',
        'Accept',
        '*/*',
      ],
    ]);
    expect(buildUpstreamRequest(exchange, credential, 'x-access-token', client)).toMatchObject({
      method: 'POST',
      path: '/acme/tool.git/git-upload-pack',
      headers: [
        ...['Authorization', `Basic ${basic}`, 'User-Agent', 'git/2.39.5'],
        ...['Accept', 'application/x-git-upload-pack-result'],
        ...['Content-Type', 'application/x-git-upload-pack-request'],
        ...['Content-Encoding', 'gzip', 'Content-Length', '9'],
      ],
    });
    expect(buildUpstreamRequest(push, credential, 'x-access-token', {}).headers).not.toContain(
      'Git-Protocol',
    );
  });

  test('knows every form in which the credential could come back', () => {
    const forms = buildUpstreamRequest(push, credential, 'x-access-token', {}).needles.texts;
    expect(forms).toContain(token);
    expect(forms).toContain(encodeURIComponent(token));
    // In base64 at any offset, so behind any user name too.
    for (const before of ['', 'x', 'xx', 'x-access-token:', 'oauth2:']) {
      const encoded = Buffer.from(`${before}${token}`).toString('base64');
      expect(forms.some((form) => encoded.includes(form) && form.length > encoded.length / 2)).toBe(true);
    }
  });

  test('spends each credential under its own user name', () => {
    const of = (name: string) => buildUpstreamRequest(push, credential, name, {}).headers[1];
    expect([of('a'), of('b'), of('a')]).toEqual(
      ['a', 'b', 'a'].map((name) => `Basic ${Buffer.from(`${name}:${token}`).toString('base64')}`),
    );
  });
});

describe('what of an answer passes', () => {
  const type = 'application/x-git-upload-pack-result';
  const extra = {
    'set-cookie': ['a=b'],
    'www-authenticate': 'Basic',
    location: 'https://evil.example',
    server: 'x',
    'alt-svc': 'h3',
    'proxy-authenticate': 'x',
    'x-github-request-id': '1',
  };

  test("is git's own content type, without the length: what follows is framed anew", () => {
    const passed = judgeAnswer(exchange, {
      status: 200,
      headers: { 'content-type': type, 'content-length': '3', ...extra },
    });
    expect(passed?.headers).toEqual([
      ...['Content-Type', type, 'Cache-Control', 'no-cache, max-age=0, must-revalidate'],
    ]);
  });

  test.each([
    [200, 'text/html', undefined],
    [200, `${type}; charset=utf-8`, undefined],
    [200, 'application/x-git-receive-pack-result', undefined],
    [200, undefined, undefined],
    [200, type, 'gzip'],
    [201, type, undefined],
    [206, type, undefined],
    [301, type, undefined],
    [401, type, undefined],
    [500, type, undefined],
  ])('nothing of %s %s %s', (status, contentType, encoding) => {
    const headers = {
      ...(contentType ? { 'content-type': contentType } : {}),
      ...(encoding ? { 'content-encoding': encoding } : {}),
    };
    expect(judgeAnswer(exchange, { status, headers })).toBeUndefined();
  });
});

describe('what went wrong upstream, in words of ours', () => {
  const outcome = (rest: Partial<Outcome>): Outcome => ({
    how: 'declined',
    sent: 'nothing',
    bytesUp: 0,
    bytesDown: 0,
    upstreamMs: 1,
    ...rest,
  });
  test.each<[Partial<Outcome>, number, string]>([
    [{ status: 301 }, 502, 'upstream_redirect'],
    [{ status: 302 }, 502, 'upstream_redirect'],
    [{ status: 307 }, 502, 'upstream_redirect'],
    [{ status: 308 }, 502, 'upstream_redirect'],
    [{ status: 401 }, 502, 'upstream_refused'],
    [{ status: 403 }, 403, 'upstream_refused'],
    [{ status: 404 }, 404, 'upstream_refused'],
    [{ status: 429 }, 429, 'rate_limited'],
    [{ status: 500 }, 502, 'upstream_unreachable'],
    [{ status: 200 }, 502, 'upstream_unreachable'],
    [{ how: 'upstream_failed' }, 502, 'upstream_unreachable'],
    [{ how: 'idle' }, 502, 'upstream_unreachable'],
    [{ how: 'echoed', status: 200 }, 502, 'upstream_refused'],
  ])('%j: %s %s', (rest, status, code) => {
    const failure = upstreamFailure(push, 'https://github.com', outcome(rest));
    expect([failure.status, failure.code]).toEqual([status, code]);
    expect(failure.message).toContain('https://github.com');
  });
});
