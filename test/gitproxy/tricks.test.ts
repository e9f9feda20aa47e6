// Attacks with raw bytes, before an upstream that takes anything: what is refused is refused by the guard, with a record,
// and the upstream has seen nothing.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Credential } from '../../common/credential.ts';
import { FLUSH_PKT, pktLine } from '../../gitproxy/pkt-line.ts';
import type { IssuedGitSession } from '../../sessions/guards.ts';
import { FORGE_TOKEN } from '../support/forge.ts';
import { basicOf, startGitGuard, type TestGuard } from '../support/git-guard.ts';
import { type LenientUpstream, lenientUpstream } from '../support/lenient-upstream.ts';
import { type RawAnswer, rawExchange } from '../support/raw-client.ts';

let upstream: LenientUpstream;
let guard: TestGuard;
let writer: IssuedGitSession;
let reader: IssuedGitSession;

beforeAll(async () => {
  upstream = await lenientUpstream();
  guard = await startGitGuard({
    upstreams: [{ url: upstream.origin }],
    token: FORGE_TOKEN,
    push: { refs: ['refs/**'], maxRefs: 4, maxPackBytes: 10_000 },
  });
  writer = await guard.issue({
    repos: ['acme/*'],
    permissions: ['contents:write'],
    pushRefs: ['refs/heads/agent/**'],
  });
  reader = await guard.issue({ repos: ['acme/tool'] });
});
afterAll(async () => {
  await guard.close();
  await upstream.close();
});

let from = 0;
beforeEach(() => {
  from = guard.audit.events.length;
  upstream.clear();
});
const events = () => guard.audit.events.slice(from);

interface Sent {
  readonly session?: IssuedGitSession;
  readonly headers?: readonly string[];
  readonly body?: string | Buffer;
  /** Instead of the session's. */
  readonly authorization?: string;
}

const pushType = 'Content-Type: application/x-git-receive-pack-request';

/** Sends exactly this head; framing is the caller's. */
function send(
  line: string,
  { session = writer, headers = [], body = '', authorization }: Sent = {},
): Promise<RawAnswer> {
  const auth = authorization ?? `Authorization: ${basicOf(session)}`;
  const lines = [
    `${line} HTTP/1.1`,
    `Host: 127.0.0.1:${guard.port}`,
    ...(auth ? [auth] : []),
    ...headers,
    '',
    '',
  ];
  return rawExchange(
    guard.port,
    guard.certs.ca,
    Buffer.concat([Buffer.from(lines.join('\r\n'), 'latin1'), Buffer.from(body)]),
  );
}

function post(line: string, body: Buffer, sent: Sent = {}): Promise<RawAnswer> {
  const headers = [pushType, `Content-Length: ${body.length}`, ...(sent.headers ?? [])];
  return send(`POST ${line}`, { ...sent, headers, body });
}

function untouched(answer: RawAnswer, status: number, code: string, action = 'git.rejected'): void {
  expect(answer.status).toBe(status);
  expect(answer.headers['postern-request-id']).toMatch(/^req_/);
  expect(upstream.received()).toBe('');
  expect(events()).toEqual([
    expect.objectContaining({
      action,
      code,
      decision: 'deny',
      exchangeId: answer.headers['postern-request-id'],
    }),
  ]);
}

const zero = '0'.repeat(40);
const one = '1'.repeat(40);
const two = '2'.repeat(40);
const commands = (...lines: string[]): Buffer =>
  Buffer.concat([...lines.map((line, i) => pktLine(i === 0 ? `${line}\0 report-status` : line)), FLUSH_PKT]);
const fine = commands(`${zero} ${one} refs/heads/agent/x`);

describe('the guard is not led to another service, repository or host', () => {
  const refs = 'info/refs?service=git-upload-pack';
  test.each<[string, number, string]>([
    ['GET /acme/tool/info/refs?service=git-upload-pack&service=git-receive-pack', 400, 'non_canonical_path'],
    ['GET /acme/tool/info/refs?service=git-receive-pack&service=git-upload-pack', 400, 'non_canonical_path'],
    ['GET /acme/tool/info/refs?s%65rvice=git-receive-pack', 400, 'non_canonical_path'],
    ['GET /acme/tool/info/refs?service=git%2Dreceive%2Dpack', 400, 'non_canonical_path'],
    ['GET /acme/tool/info/refs?service=git-upload-pack&x=y', 400, 'non_canonical_path'],
    [`GET /acme/%2e%2e/other/private/${refs}`, 400, 'non_canonical_path'],
    [`GET /acme/..%252F..%252Fother/private/${refs}`, 400, 'non_canonical_path'],
    [`GET /acme/../other/private/${refs}`, 400, 'non_canonical_path'],
    [`GET /acme/./tool/${refs}`, 400, 'non_canonical_path'],
    [`GET //acme/tool/${refs}`, 400, 'non_canonical_path'],
    [`GET /acme//tool/${refs}`, 400, 'non_canonical_path'],
    [`GET /acme\\tool/x/${refs}`, 400, 'non_canonical_path'],
    [`GET /acme/tool;a=b/${refs}`, 400, 'non_canonical_path'],
    [`GET /acme/tool.git.git/${refs}`, 400, 'non_canonical_path'],
    [`GET /acme/.git/${refs}`, 400, 'non_canonical_path'],
    [`GET /acme/..git/${refs}`, 400, 'non_canonical_path'],
    [`GET /acme/${'x'.repeat(101)}/${refs}`, 400, 'non_canonical_path'],
    [`GET /acme/tool@x/${refs}`, 400, 'non_canonical_path'],
    [`GET /acme/a/b/${refs}`, 404, 'not_found'],
    ['GET /acme/tool.git/info/refs', 404, 'not_found'],
    ['GET /acme/tool.git/info/refs?service=git-upload-archive', 404, 'not_found'],
    ['GET /acme/tool.git/HEAD', 404, 'not_found'],
    ['GET /acme/tool.git/objects/info/packs', 404, 'not_found'],
    ['GET /acme/tool.git/git-upload-archive', 404, 'not_found'],
    [`HEAD /acme/tool/${refs}`, 405, 'method_not_allowed'],
    [`POST /acme/tool/${refs}`, 405, 'method_not_allowed'],
    [`OPTIONS /acme/tool/${refs}`, 405, 'method_not_allowed'],
    [`PUT /acme/tool/${refs}`, 405, 'method_not_allowed'],
    ['GET /acme/tool/git-receive-pack', 405, 'method_not_allowed'],
    [`GET /other/tool/${refs}`, 403, 'repo_not_allowed'],
    [`GET https://forge.example/acme/tool/${refs}`, 400, 'malformed_request'],
  ])('%s', async (line, status, code) => {
    untouched(await send(line), status, code);
  });

  test.each(['acme/toolkit', 'acme/too', 'acmes/tool', 'acme/tool.git.x'])(
    '%s is not acme/tool',
    async (repo) => {
      untouched(await send(`GET /${repo}/${refs}`, { session: reader }), 403, 'repo_not_allowed');
    },
  );

  test('ACME/Tool is', async () => {
    await send(`GET /ACME/Tool/${refs}`, { session: reader });
    expect(upstream.received()).toContain('GET /acme/tool.git/info/refs?service=git-upload-pack HTTP/1.1');
  });

  test('the Host of another guard', async () => {
    const head = `GET /acme/tool/${refs} HTTP/1.1\r\nHost: 127.0.0.1:1\r\nAuthorization: ${basicOf(writer)}\r\n\r\n`;
    untouched(await rawExchange(guard.port, guard.certs.ca, head), 400, 'malformed_request');
  });

  test('the query decides nothing: a push is one by its path', async () => {
    const answer = await post('/acme/tool.git/git-receive-pack?service=git-upload-pack', fine, {
      session: reader,
    });
    untouched(answer, 400, 'non_canonical_path');
  });

  test.each(['git-upload-pack', 'git-receive-pack'])(
    'a %s of another repository, without asking first',
    async (service) => {
      const headers = [`Content-Type: application/x-${service}-request`, 'Content-Length: 4'];
      untouched(
        await send(`POST /other/tool.git/${service}`, { headers, body: '0000' }),
        403,
        'repo_not_allowed',
      );
    },
  );

  test('a push of a reader', async () => {
    const answer = await post('/acme/tool.git/git-receive-pack', fine, { session: reader });
    untouched(answer, 403, 'push_not_allowed', 'git.push_denied');
  });
});

describe('a request that two parsers could read differently', () => {
  const line = 'POST /acme/tool.git/git-receive-pack';
  test.each<[string, Sent]>([
    [
      'both framings',
      { headers: [pushType, 'Content-Length: 4', 'Transfer-Encoding: chunked'], body: '0000' },
    ],
    ['two lengths', { headers: [pushType, 'Content-Length: 4', 'Content-Length: 5'], body: '0000x' }],
    ['two content types', { headers: [pushType, pushType, 'Content-Length: 4'], body: '0000' }],
    [
      'two credentials',
      { headers: [pushType, 'Authorization: Basic eDp5', 'Content-Length: 4'], body: '0000' },
    ],
    ['two hosts', { headers: [pushType, 'Host: other', 'Content-Length: 4'], body: '0000' }],
    [
      'another transfer encoding',
      { headers: [pushType, 'Transfer-Encoding: gzip, chunked'], body: '0\r\n\r\n' },
    ],
    [
      'an upgrade',
      { headers: [pushType, 'Connection: upgrade', 'Upgrade: h2c', 'Content-Length: 4'], body: '0000' },
    ],
    ['a space before a colon', { headers: [pushType, 'Content-Length : 4'], body: '0000' }],
  ])('%s', async (_what, sent) => {
    const answer = await send(line, sent);
    expect(answer.status).toBe(400);
    expect(upstream.received()).toBe('');
    expect(events()).toEqual([expect.objectContaining({ action: 'git.rejected', decision: 'deny' })]);
  });

  test('a second request smuggled behind a refused one is no request', async () => {
    const inner = `GET /acme/tool/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: 127.0.0.1:${guard.port}\r\nAuthorization: ${basicOf(writer)}\r\n\r\n`;
    await send(line, {
      headers: [pushType, 'Content-Length: 4', 'Transfer-Encoding: chunked'],
      body: `0\r\n\r\n${inner}`,
    });
    expect(upstream.received()).toBe('');
  });
});

describe('a push that is not what it seems', () => {
  const target = '/acme/tool.git/git-receive-pack';

  test.each<[string, string]>([
    ['the wrong content type', 'Content-Type: application/x-git-upload-pack-request'],
    ['a content type with a parameter', `${pushType}; charset=utf-8`],
    ['no content type', 'X-Nothing: x'],
  ])('%s', async (_what, header) => {
    const answer = await send(`POST ${target}`, {
      headers: [header, `Content-Length: ${fine.length}`],
      body: fine,
    });
    untouched(answer, 415, 'malformed_request');
  });

  test('a compressed one', async () => {
    untouched(
      await post(target, gzipSync(fine), { headers: ['Content-Encoding: gzip'] }),
      415,
      'malformed_request',
    );
  });

  test.each<[string, Buffer]>([
    ['no pkt-lines', Buffer.from('PACK\0\0\0\x02\0\0\0\0')],
    ['an empty body', Buffer.alloc(0)],
    ['a list that is cut short', fine.subarray(0, fine.length - 4)],
    ['a delimiter for a flush', Buffer.concat([fine.subarray(0, fine.length - 4), Buffer.from('0001')])],
    ['capabilities twice', Buffer.concat([fine.subarray(0, fine.length - 4), fine])],
  ])('%s', async (_what, body) => {
    untouched(await post(target, body), 400, 'malformed_request');
  });

  test.each<[string, string[], string]>([
    ['climbing out of refs', [`${zero} ${one} refs/heads/agent/../../main`], 'ref_not_allowed'],
    ['with a space', [`${zero} ${one} refs/heads/agent/a b`], 'ref_not_allowed'],
    ['with a control character', [`${zero} ${one} refs/heads/agent/a\x01`], 'ref_not_allowed'],
    ['with a newline', [`${zero} ${one} refs/heads/agent/a\nrefs/heads/main`], 'ref_not_allowed'],
    ['of a lock file', [`${zero} ${one} refs/heads/agent/a.lock`], 'ref_not_allowed'],
    ['of one part', [`${zero} ${one} HEAD`], 'ref_not_allowed'],
    ['from zero to zero', [`${zero} ${zero} refs/heads/agent/a`], 'malformed_request'],
    ['twice', [`${zero} ${one} refs/heads/agent/a`, `${one} ${two} refs/heads/agent/a`], 'malformed_request'],
    ['too many', [1, 2, 3, 4, 5].map((n) => `${zero} ${one} refs/heads/agent/${n}`), 'too_many_refs'],
    ['outside of the rule', [`${one} ${two} refs/heads/main`], 'ref_not_allowed'],
    [
      'hidden behind an allowed one',
      [`${zero} ${one} refs/heads/agent/a`, `${one} ${two} refs/heads/main`],
      'ref_not_allowed',
    ],
    ['deleted', [`${one} ${zero} refs/heads/agent/a`], 'delete_not_allowed'],
  ])('a ref %s', async (_what, lines, code) => {
    const answer = await post(target, commands(...lines));
    untouched(answer, 200, code, 'git.push_denied');
    expect(answer.headers['content-type']).toBe('application/x-git-receive-pack-result');
    expect(answer.body).toContain('unpack ok\n');
    expect(answer.body.match(/[0-9a-f]{4}ng /g)?.length).toBe(lines.length);
  });

  test('a signed one', async () => {
    const body = Buffer.concat([
      pktLine('push-cert\0 report-status side-band-64k'),
      pktLine('certificate version 0.1\n'),
      FLUSH_PKT,
    ]);
    const answer = await post(target, body);
    untouched(answer, 200, 'push_cert_not_supported', 'git.push_denied');
    expect(answer.body).toContain('unpack push_cert_not_supported: ');
  });

  test('one that asks for no report at all', async () => {
    const body = Buffer.concat([pktLine(`${one} ${two} refs/heads/main`), FLUSH_PKT]);
    untouched(await post(target, body), 403, 'ref_not_allowed', 'git.push_denied');
  });

  test('one larger than the limit by its own word', async () => {
    const answer = await send(`POST ${target}`, { headers: [pushType, 'Content-Length: 10001'], body: fine });
    untouched(answer, 200, 'pack_too_large', 'git.push_denied');
  });

  test('the empty ones that git sends first are answered here', async () => {
    const probe = { headers: [pushType, 'Content-Length: 4'], body: '0000' };
    const answer = await send(`POST ${target}`, probe);
    expect([answer.status, answer.headers['content-type'], answer.body]).toEqual([
      200,
      'application/x-git-receive-pack-result',
      '',
    ]);
    const type = 'Content-Type: application/x-git-upload-pack-request';
    const fetching = await send('POST /acme/tool.git/git-upload-pack', {
      headers: [type, 'Content-Length: 4'],
      body: '0000',
    });
    expect([fetching.status, fetching.headers['content-type']]).toEqual([
      200,
      'application/x-git-upload-pack-result',
    ]);
    const refused = await send(`POST ${target}`, { ...probe, session: reader });
    expect(refused.status).toBe(403);
    expect(upstream.received()).toBe('');
  });
});

describe('a fetch that is not what it seems', () => {
  const line = 'POST /acme/tool.git/git-upload-pack';
  const type = 'Content-Type: application/x-git-upload-pack-request';

  test.each([
    [
      'packfile-uris',
      Buffer.concat([pktLine('packfile-uris\n'), pktLine(`${one} https://cdn.example/a.pack\n`)]),
    ],
    [
      'bundle-uri',
      Buffer.concat([pktLine('bundle.version=1\n'), pktLine('bundle.a.uri=https://cdn.example/a\n')]),
    ],
  ])(
    'asks for %s, compressed so that nobody reads it: the answer does not lead to another host',
    async (_what, body) => {
      upstream.answer(
        () =>
          `HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body.toString('latin1')}`,
      );
      const asked = gzipSync(Buffer.from('0014command=bundle-uri00010000'));
      const headers = [
        type,
        'Content-Encoding: gzip',
        'Git-Protocol: version=2',
        `Content-Length: ${asked.length}`,
      ];
      const answer = await send(line, { headers, body: asked });
      upstream.answer(() => 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      expect(answer.status).toBe(502);
      expect(answer.body).toContain('would send you to another host');
      expect(answer.text).not.toContain('cdn.example');
      expect(events().at(-1)).toMatchObject({ action: 'git.fetch_result', code: 'upstream_redirect' });
    },
  );

  test('compressed, and larger than any negotiation', async () => {
    const forge = createServer((req) => void req.resume()).listen(0, '127.0.0.1');
    await once(forge, 'listening');
    const { port } = forge.address() as AddressInfo;
    const other = await startGitGuard({
      upstreams: [{ url: `http://127.0.0.1:${port}` }],
      token: FORGE_TOKEN,
    });
    const session = await other.issue();
    const size = 16 * 1024 * 1024 + 1;
    const auth = `Authorization: ${basicOf(session)}`;
    const head = [`${line} HTTP/1.1`, `Host: 127.0.0.1:${other.port}`, auth, type, 'Content-Encoding: gzip'];
    const answer = await rawExchange(
      other.port,
      other.certs.ca,
      [[...head, `Content-Length: ${size}`, '', ''].join('\r\n'), Buffer.alloc(size)],
      20_000,
    );
    expect(answer.body).toContain('(body_too_large)');
    expect(other.audit.of('git.fetch_result').at(-1)).toMatchObject({ code: 'body_too_large' });
    await other.close();
    forge.close();
  });
});

test('an empty push that comes in chunks changes nothing, and is not asked of the upstream', async () => {
  const headers = [pushType, 'Transfer-Encoding: chunked'];
  const answer = await send('POST /acme/tool.git/git-receive-pack', {
    headers,
    body: '4\r\n0000\r\n0\r\n\r\n',
  });
  expect([answer.status, answer.body, upstream.received()]).toEqual([200, '', '']);
  expect(events()).toEqual([]);
});

describe('a client that asks before it sends its body', () => {
  const head = ['Transfer-Encoding: chunked', 'Expect: 100-continue', pushType];

  test('is told no, and never to go on', async () => {
    const answer = await send('POST /acme/tool.git/git-receive-pack', { headers: head, session: reader });
    untouched(answer, 403, 'push_not_allowed', 'git.push_denied');
    expect(answer.text).not.toContain('100 Continue');
  });

  test('is told to go on once its session may push, and its refs are judged all the same', async () => {
    const refused = commands(`${zero} ${one} refs/heads/main`);
    const body = `${refused.length.toString(16)}\r\n${refused.toString('latin1')}\r\n0\r\n\r\n`;
    const answer = await send('POST /acme/tool.git/git-receive-pack', {
      headers: head,
      body: Buffer.from(body, 'latin1'),
    });
    expect(answer.text).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /);
    expect(answer.text).toContain('ref_not_allowed');
    expect(upstream.received()).toBe('');
  });
});

test('a push whose commands do not come is let go', async () => {
  const hasty = await startGitGuard({
    upstreams: [{ url: upstream.origin }],
    token: FORGE_TOKEN,
    patience: { commandsMs: 100 },
  });
  const session = await hasty.issue({ permissions: ['contents:write'] });
  const lines = [
    'POST /acme/tool.git/git-receive-pack HTTP/1.1',
    `Host: 127.0.0.1:${hasty.port}`,
    `Authorization: ${basicOf(session)}`,
    pushType,
    'Transfer-Encoding: chunked',
  ];
  const answer = await rawExchange(
    hasty.port,
    hasty.certs.ca,
    `${lines.join('\r\n')}\r\n\r\n4\r\n00ab\r\n`,
    10_000,
  );
  expect(answer.text).toBe('');
  expect(upstream.received()).toBe('');
  expect((await hasty.sessions.get(session.sessionId))?.counters.requests).toBe(1);
  await hasty.close();
});

describe('what the sandbox sends along', () => {
  test('its own credentials, cookies, forwarding headers and Connection-listed names are dropped', async () => {
    const hostile = [
      'Cookie: session=1',
      'X-Forwarded-For: 1.2.3.4',
      'X-Forwarded-Host: evil.example',
      'Forwarded: for=1.2.3.4',
      'Via: 1.1 x',
      'Connection: keep-alive, Authorization, X-Secret',
      'X-Secret: 1',
      'Proxy-Authorization: Basic eDp5',
      'Accept-Encoding: gzip',
      'Accept-Language: x',
      'Referer: https://evil.example',
      'Range: bytes=0-1',
      'TE: trailers',
      'X-HTTP-Method-Override: POST',
      'Pragma: no-cache',
      'Git-Protocol: version=2',
      'User-Agent: git/2.39.5 (evil)',
    ];
    await send('GET /acme/tool/info/refs?service=git-upload-pack', { headers: hostile });
    const basic = Buffer.from(`x-access-token:${FORGE_TOKEN}`).toString('base64');
    expect(upstream.received().split('\r\n')).toEqual([
      'GET /acme/tool.git/info/refs?service=git-upload-pack HTTP/1.1',
      `host: 127.0.0.1:${upstream.port}`,
      'connection: keep-alive',
      `Authorization: Basic ${basic}`,
      'User-Agent: git/2.39.5',
      'Git-Protocol: version=2',
      'Accept: */*',
      '',
      '',
    ]);
  });

  test('an odd Git-Protocol', async () => {
    const sent = { headers: ['Git-Protocol: version=2:x'] };
    untouched(await send('GET /acme/tool/info/refs?service=git-upload-pack', sent), 400, 'malformed_request');
  });

  test('a Git-Protocol on a push is not passed on', async () => {
    await send('GET /acme/tool/info/refs?service=git-receive-pack', { headers: ['Git-Protocol: version=2'] });
    expect(upstream.received()).not.toContain('Git-Protocol');
  });
});

describe('a token that is not one for here', () => {
  const refs = 'GET /acme/tool/info/refs?service=git-upload-pack';
  const basic = (id: string, token: string) =>
    `Authorization: Basic ${Buffer.from(`${id}:${token}`).toString('base64')}`;
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

  async function tokens(): Promise<Record<string, string>> {
    const token = writer.password.reveal();
    const [head = '', claims = '', signature = ''] = token.split('.');
    const other = await startGitGuard({ upstreams: [{ url: upstream.origin }], token: FORGE_TOKEN });
    const foreign = await other.issue();
    await other.close();
    const kube = await guard.sessions.issue({
      guard: 'kube',
      leaseId: 'lease-1',
      labels: {},
      policy: {},
      credentials: [{ id: 'c1', secret: new Credential('x') }],
    });
    const revoked = await guard.issue();
    await guard.sessions.revoke(revoked.sessionId, 'test');
    const payload = JSON.parse(Buffer.from(claims, 'base64url').toString());
    return {
      'a token of the other guard': basic(kube.session.id, kube.token.reveal()),
      'a token of another deployment': basic(foreign.username, foreign.password.reveal()),
      'a token that is signed by nobody': basic(writer.username, `${part({ alg: 'none' })}.${claims}.`),
      'a token whose signature was cut': basic(writer.username, `${head}.${claims}.`),
      'a token whose claims were changed': basic(
        writer.username,
        `${head}.${part({ ...payload, exp: payload.exp + 9_999 })}.${signature}`,
      ),
      'a token whose session is not the user name': basic(reader.username, token),
      'a token without a user name': basic('', token),
      'a revoked one': basic(revoked.username, revoked.password.reveal()),
      'the credential of the forge': basic('x-access-token', FORGE_TOKEN),
      'a Bearer': `Authorization: Bearer ${token}`,
      'no token': basic(writer.username, ''),
      'anything else': 'Authorization: Digest username=x',
    };
  }

  test('is answered alike, whatever it is, and recorded for what it is', async () => {
    const answers = new Map<string, { answer: RawAnswer; took: number }>();
    const sent = await tokens();
    from = guard.audit.events.length;
    for (const [name, authorization] of Object.entries(sent)) {
      const startedAt = performance.now();
      const answer = await send(refs, { authorization });
      answers.set(name, { answer, took: performance.now() - startedAt });
    }
    const shapes = [...answers.values()].map(({ answer }) =>
      answer.text
        .replaceAll(answer.headers['postern-request-id'] ?? '?', 'ID')
        .replace(/\r\nDate: [^\r]*/, ''),
    );
    expect(new Set(shapes).size).toBe(1);
    expect(shapes[0]).toMatch(/^HTTP\/1\.1 401 /);
    expect(shapes[0]).toContain('WWW-Authenticate: Basic realm="postern"');
    for (const { took } of answers.values()) expect(took).toBeGreaterThan(20);
    expect(upstream.received()).toBe('');
    expect(events().map(({ action, decision, status }) => [action, decision, status])).toEqual(
      Object.keys(sent).map(() => ['git.rejected', 'deny', 401]),
    );
    expect(events().filter(({ code }) => code === 'session_revoked')).toHaveLength(1);
    expect(JSON.stringify(events())).not.toContain(FORGE_TOKEN);
  });

  test('and a bad token gets 401 also where the path is bad', async () => {
    const answer = await send('GET /acme/../x', { authorization: basic(writer.username, 'x') });
    untouched(answer, 401, 'unauthenticated');
  });

  test('none at all is counted and not recorded', async () => {
    const answer = await send(refs, { authorization: '' });
    expect(answer.status).toBe(401);
    expect((await send('GET /acme/../x', { authorization: '' })).status).toBe(400);
    expect(events()).toEqual([]);
  });
});
