import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseRoute, type RequestLine, upstreamPath } from '../../gitproxy/route.ts';

const advert = (target: string, rest: Partial<RequestLine> = {}) =>
  parseRoute({ method: 'GET', target, hasBody: false, ...rest });
const post = (target: string, rest: Partial<RequestLine> = {}) =>
  parseRoute({
    method: 'POST',
    target,
    hasBody: true,
    contentType: `application/x-${/git-[a-z]+-pack/.exec(target)?.[0]}-request`,
    ...rest,
  });
const codeOf = (parsed: ReturnType<typeof parseRoute>): string => (parsed.ok ? 'ok' : parsed.refusal.code);

const upload = 'service=git-upload-pack';
const receive = 'service=git-receive-pack';

describe('what git sends', () => {
  test.each([
    [`/acme/tool/info/refs?${upload}`, '/acme/tool.git/info/refs?service=git-upload-pack'],
    [`/acme/tool.git/info/refs?${receive}`, '/acme/tool.git/info/refs?service=git-receive-pack'],
    [`/ACME/Tool.git/info/refs?${upload}`, '/acme/tool.git/info/refs?service=git-upload-pack'],
    [`/a/.github/info/refs?${upload}`, '/a/.github.git/info/refs?service=git-upload-pack'],
    [`/a-b_c.d/0/info/refs?${upload}`, '/a-b_c.d/0.git/info/refs?service=git-upload-pack'],
    [
      `/info/refs/info/refs?${upload}`,
      '/info/refs.git/info/refs?service=git-upload-pack', // a repository may be called so
    ],
  ])('%s', (target, built) => {
    const parsed = advert(target);
    expect(parsed.ok && parsed.route.kind === 'advertise' && upstreamPath(parsed.route)).toBe(built);
  });

  test.each(['git-upload-pack', 'git-receive-pack'])('POST %s', (service) => {
    const parsed = post(`/acme/tool.git/${service}`);
    expect(parsed).toEqual({
      ok: true,
      route: { kind: 'exchange', service, repo: { owner: 'acme', name: 'tool' }, gzip: false },
    });
  });

  test('a compressed negotiation, and the protocol that was asked for', () => {
    const parsed = post('/acme/tool/git-upload-pack', { contentEncoding: 'gzip', gitProtocol: 'version=2' });
    expect(parsed).toMatchObject({ ok: true, route: { gzip: true, protocol: 2 } });
    expect(advert(`/a/b/info/refs?${upload}`, { gitProtocol: 'version=1' })).toMatchObject({
      route: { protocol: 1 },
    });
  });

  test('a protocol asked for on a push is left out: it would change the shape of the answer', () => {
    expect(advert(`/a/b/info/refs?${receive}`, { gitProtocol: 'version=1' })).toEqual({
      ok: true,
      route: { kind: 'advertise', service: 'git-receive-pack', repo: { owner: 'a', name: 'b' } },
    });
  });

  test.each(['objects/batch', 'locks', 'locks/verify', ''])(
    'LFS (%s), known in order to be refused',
    (rest) => {
      const target = `/acme/tool.git/info/lfs${rest && `/${rest}`}`;
      expect(post(target, { contentType: 'application/vnd.git-lfs+json' })).toEqual({
        ok: true,
        route: { kind: 'lfs', repo: { owner: 'acme', name: 'tool' } },
      });
    },
  );
});

describe('a second spelling is refused', () => {
  const refs = `info/refs?${upload}`;
  test.each([
    `/acme/tool/info/refs?${upload}&${receive}`,
    `/acme/tool/info/refs?${receive}&${upload}`,
    `/acme/tool/info/refs?${upload}&${upload}`,
    '/acme/tool/info/refs?s%65rvice=git-receive-pack',
    '/acme/tool/info/refs?service=git%2Dreceive%2Dpack',
    `/acme/tool/info/refs?${upload}&x=1`,
    `/acme/tool/info/refs?x=1&${upload}`,
    `/acme/tool/info/refs?${upload}&`,
    `/acme/tool/info/refs?&${upload}`,
    `/acme/tool/info/refs?${upload}#x`,
    `/acme/tool/info/refs??${upload}`,
    '/acme/tool/info/refs?SERVICE=git-upload-pack',
    '/acme/tool/info/refs?service=GIT-UPLOAD-PACK',
    '/acme/tool/info/refs?',
    `/acme/%74ool/${refs}`,
    `/acme/..%252F..%252Fother/private/${refs}`,
    `/acme/tool%2f..%2fother/${refs}`,
    `/acme/../other/private/${refs}`,
    `/acme/./tool/${refs}`,
    `/acme/..git/${refs}`,
    `/acme/...git/${refs}`,
    `/../acme/tool/${refs}`,
    `//acme/tool/${refs}`,
    `/acme//tool/${refs}`,
    `/acme/tool//${refs}`,
    `/acme\\tool/x/${refs}`,
    `/acme/tool;x/${refs}`,
    `/acme/tool.git.git/${refs}`,
    `/acme/tool.GIT/${refs}`,
    `/acme/.git/${refs}`,
    `/acme.git/tool/${refs}`,
    `/acme/${'x'.repeat(101)}/${refs}`,
    `/${'x'.repeat(101)}/tool/${refs}`,
    `/acme/tööl/${refs}`,
    `/acme/to ol/${refs}`,
    `/acme/to~ol/${refs}`,
    `/acme/tool/${refs.replace('refs', 'refs/')}`,
  ])('%s', (target) => {
    expect(codeOf(advert(target))).toBe('non_canonical_path');
  });

  test.each([
    '/acme/tool.git/git-receive-pack?service=git-upload-pack',
    '/acme/tool.git/git-receive-pack?',
    '/acme/tool.git/git-upload-pack?x',
  ])('POST %s', (target) => {
    expect(codeOf(post(target))).toBe('non_canonical_path');
  });
});

describe('what is not served', () => {
  test.each([
    '/',
    '/acme/tool',
    '/acme/tool.git/info/refs',
    '/acme/tool.git/info/refs?service=git-upload-archive',
    '/acme/tool.git/HEAD',
    '/acme/tool.git/objects/info/packs',
    '/acme/tool.git/objects/pack/pack-0.pack',
    '/acme/tool/extra/info/refs?service=git-upload-pack',
    '/acme/a/b.git/info/refs?service=git-upload-pack',
    '/acme/tool.git/git-upload-archive',
    '/acme/tool.git/info/lfsx/objects',
    '/info/refs?service=git-upload-pack',
  ])('%s', (target) => {
    expect(codeOf(advert(target))).toBe('not_found');
  });

  test('POST git-upload-archive', () => {
    expect(codeOf(post('/acme/tool.git/git-upload-archive'))).toBe('not_found');
  });

  test.each(['HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PROPFIND', 'TRACE'])('%s info/refs', (method) => {
    expect(advert(`/acme/tool/info/refs?${upload}`, { method })).toMatchObject({
      refusal: { code: 'method_not_allowed', allow: 'GET' },
    });
  });

  test.each(['GET', 'HEAD', 'PUT'])('%s git-receive-pack', (method) => {
    expect(post('/acme/tool/git-receive-pack', { method })).toMatchObject({
      refusal: { code: 'method_not_allowed', allow: 'POST' },
    });
  });

  test.each([
    undefined,
    'application/x-git-upload-pack-request',
    'application/x-git-receive-pack-request; charset=utf-8',
    'Application/x-git-receive-pack-request',
    'application/x-git-receive-pack-result',
    'text/plain',
  ])('a push of the content type %s', (contentType) => {
    expect(post('/acme/tool/git-receive-pack', { contentType })).toMatchObject({
      refusal: { code: 'malformed_request', status: 415 },
    });
  });

  test.each([
    ['/acme/tool/git-receive-pack', 'gzip'],
    ['/acme/tool/git-receive-pack', 'identity'],
    ['/acme/tool/git-upload-pack', 'deflate'],
    ['/acme/tool/git-upload-pack', 'gzip, gzip'],
    ['/acme/tool/git-upload-pack', 'x-gzip'],
  ])('%s with Content-Encoding %s', (target, contentEncoding) => {
    expect(post(target, { contentEncoding })).toMatchObject({ refusal: { status: 415 } });
  });

  test.each(['version=3', 'version=2:x=y', 'version=02', '', 'version=2 '])(
    'Git-Protocol %j',
    (gitProtocol) => {
      expect(codeOf(advert(`/a/b/info/refs?${upload}`, { gitProtocol }))).toBe('malformed_request');
    },
  );

  test('a GET with a body', () => {
    expect(codeOf(advert(`/a/b/info/refs?${upload}`, { hasBody: true }))).toBe('malformed_request');
  });
});

describe('whatever is admitted', () => {
  const segment = fc.oneof(
    fc.stringMatching(/^[A-Za-z0-9._-]{1,12}$/),
    fc.constantFrom(
      'acme',
      'tool.git',
      '.git',
      '..',
      '.',
      'info',
      'refs',
      'git-upload-pack',
      'git-receive-pack',
      'lfs',
    ),
    fc.string({ maxLength: 6 }),
  );
  const query = fc.constantFrom('', '?', `?${upload}`, `?${receive}`, `?${upload}&${receive}`, '?service=x');
  const target = fc.oneof(
    fc.tuple(fc.array(segment, { maxLength: 6 }), query).map(([parts, end]) => `/${parts.join('/')}${end}`),
    fc.tuple(segment, segment, query).map(([a, b, end]) => `/${a}/${b}/info/refs${end}`),
    fc.tuple(segment, segment).map(([a, b]) => `/${a}/${b}/git-receive-pack`),
  );

  test('is canonical: built and read again it is the same value', () => {
    fc.assert(
      fc.property(target, fc.constantFrom('GET', 'POST'), (text, method) => {
        const line = (raw: string): RequestLine => ({
          method,
          target: raw,
          hasBody: method === 'POST',
          contentType: `application/x-${/git-[a-z]+-pack/.exec(raw)?.[0]}-request`,
        });
        const parsed = parseRoute(line(text));
        if (!parsed.ok || parsed.route.kind === 'lfs') return;
        const built = upstreamPath(parsed.route);
        expect(parseRoute(line(built))).toEqual(parsed);
        expect(built).toMatch(
          /^\/[a-z0-9._-]+\/[a-z0-9._-]+\.git\/[a-z/-]+(\?service=git-(upload|receive)-pack)?$/,
        );
        expect(built).not.toMatch(/\/\.\.?(\/|$)/);
        expect(
          new URL(built, 'https://forge.example').pathname + new URL(built, 'https://forge.example').search,
        ).toBe(built);
      }),
      { numRuns: 2_000 },
    );
  });
});
