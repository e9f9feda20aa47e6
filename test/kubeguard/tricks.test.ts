// Each test is named after the attack that it stops, and is run before an upstream that takes whatever comes: what must not
// get through is shown not to, rather than to be refused by somebody else.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type LenientUpstream, lenientUpstream } from '../support/lenient-upstream.ts';
import { rawExchange } from '../support/raw-client.ts';
import { waitFor } from '../support/wait.ts';
import {
  ask,
  CANARY,
  closeAll,
  type Held,
  kubeconfigFor,
  onClose,
  type Session,
  startGuard,
} from './harness.ts';

let upstream: LenientUpstream;
let held: Held;
let session: Session;

beforeAll(async () => {
  upstream = await lenientUpstream();
  onClose(() => upstream.close());
  held = await startGuard({ maxBodyBytes: 10_000 });
  session = await held.issue({
    kubeconfig: kubeconfigFor(upstream.origin),
    namespaces: ['team-a'],
    verbs: ['*'],
    resources: ['pods', 'pods/exec', 'configmaps', 'services/proxy'],
  });
});
afterAll(closeAll);
beforeEach(() => {
  upstream.clear();
  upstream.answer(() => 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
});

const POD = '/api/v1/namespaces/team-a/pods';

/** A request as these very bytes; the head's usual lines are added. */
function raw(line: string, lines: readonly string[] = [], body = ''): ReturnType<typeof rawExchange> {
  const head = [line, `Host: 127.0.0.1:${held.port}`, `Authorization: Bearer ${session.token}`, ...lines];
  return rawExchange(held.port, held.ca, `${head.join('\r\n')}\r\n\r\n${body}`, 500);
}

async function nothingCame(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(upstream.received()).toBe('');
}

describe('the path', () => {
  test.each([
    `/c/test${POD}/../../kube-system/secrets`,
    '/c/test/api/v1/namespaces/team-a/../kube-system/secrets',
    '/c/test/api/v1/namespaces/team-a/%2e%2e/kube-system/secrets',
    '/c/test/api/v1/namespaces/team-a/%2E%2E/kube-system/secrets',
    '/c/test/api/v1/namespaces/team-a%2f..%2fkube-system/pods',
    '/c/test/api/v1/namespaces/team-a%2Fpods',
    '/c/test/api/v1/namespaces/team-a/pods/x%2Fexec',
    '/c/test/api/v1/namespaces/team-a/pods/x%5Cexec',
    '/c/test/api/v1/namespaces/team-a/pods/x%00',
    '/c/test/api/v1/namespaces/team-a\\pods',
    '/c/test//api/v1/namespaces/team-a/pods',
    '/c/test/api/v1/namespaces/team-a//pods',
    '/c/test/api/v1/namespaces/team-a/pods;x=1',
    '/c/test/api/v1/namespaces/../pods',
    '/c/test/api/v1/namespaces/TEAM-A/pods',
    '/c/test/api/v1/namespaces/team-a/pods?watch=1&watch=0',
    '/c/test/api/v1/namespaces/team-a/pods?a=%zz',
    '/c/test/../api/v1/namespaces/kube-system/pods',
    '/c/../c/test/api/v1/pods',
    '//api/v1/namespaces/team-a/pods',
  ])('%s', async (path) => {
    const answer = await raw(`GET ${path} HTTP/1.1`);
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body)).toMatchObject({
      kind: 'Status',
      status: 'Failure',
      reason: 'BadRequest',
      details: { causes: [{ reason: 'non_canonical_path' }] },
    });
    await nothingCame();
  });
  test.each([
    'http://evil.example/api/v1/pods',
    'https://127.0.0.1/c/test/api/v1/pods',
    '*',
    'evil.example:443',
  ])('in another form than a path: %s', async (target) => {
    expect((await raw(`GET ${target} HTTP/1.1`)).status).toBe(400);
    await nothingCame();
  });
  test('CONNECT', async () => {
    expect((await raw('CONNECT evil.example:443 HTTP/1.1')).status).toBe(405);
    await nothingCame();
  });
  test.each(['/c/other/api/v1/namespaces/team-a/pods', '/c/TEST/api'])(
    'of a context that the session has not: %s',
    async (path) => {
      const answer = await raw(`GET ${path} HTTP/1.1`);
      expect([answer.status, JSON.parse(answer.body).message]).toEqual([
        404,
        expect.stringMatching(/begin with \/c\/test/),
      ]);
      await nothingCame();
    },
  );
  test('without a context is for the only one of the session', async () => {
    expect((await raw(`GET ${POD} HTTP/1.1`)).status).toBe(200);
    expect(upstream.received()).toMatch(/^GET \/api\/v1\/namespaces\/team-a\/pods HTTP\/1\.1\r\n/);
  });
});

describe('what the policy forbids does not get through', () => {
  test.each([
    ['GET', '/api/v1/pods', 403],
    ['GET', '/api/v1/namespaces/kube-system/pods', 403],
    ['GET', '/api/v1/namespaces/team-a/secrets', 403],
    ['GET', `${POD}/x/attach`, 403],
    ['GET', `${POD}/x/ephemeralcontainers`, 403],
    ['PATCH', `${POD}/x/ephemeralcontainers`, 403],
    ['GET', '/api/v1/nodes', 403],
    ['POST', '/api/v1/namespaces/team-a/serviceaccounts/default/token', 403],
    ['GET', '/metrics', 403],
    ['OPTIONS', POD, 405],
    ['TRACE', POD, 405],
    ['DELETE', '/api/v1/watch/namespaces/team-a/pods', 405],
    ['GET', '/api/v1/proxy/namespaces/team-a/pods/x', 403],
    ['POST', '/version', 405],
  ])('%s %s', async (method, path, status) => {
    const answer = await ask(held, session, method, path);
    expect(answer.status).toBe(status);
    expect(answer.json()).toMatchObject({
      kind: 'Status',
      apiVersion: 'v1',
      status: 'Failure',
      code: status,
    });
    expect(answer.headers['retry-after']).toBeUndefined();
    expect(answer.headers['audit-id']).toBe(answer.headers['postern-request-id']);
    await nothingCame();
  });
  test.each(['Upgrade: websocket', 'Upgrade: SPDY/3.1', 'Upgrade: h2c'])(
    'an Upgrade to somewhere else: %s',
    async (upgrade) => {
      for (const [path, status] of [
        [POD, 400],
        [`${POD}/x/attach`, 403],
        ['/api/v1/namespaces/team-a/services/x/proxy/', 400],
        ['/api/v1/namespaces/kube-system/pods/x/exec', 403],
      ] as const) {
        const answer = await raw(`GET /c/test${path} HTTP/1.1`, ['Connection: Upgrade', upgrade]);
        expect([path, answer.status, JSON.parse(answer.body).kind]).toEqual([path, status, 'Status']);
      }
      await nothingCame();
    },
  );
  test('an exec whose upgrade is none, or whose only subprotocol is a token', async () => {
    for (const lines of [
      ['Connection: Upgrade', 'Upgrade: h2c'],
      [
        'Connection: Upgrade',
        'Upgrade: websocket',
        'Sec-WebSocket-Version: 13',
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
        'Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.c2VjcmV0',
      ],
    ])
      expect((await raw(`GET /c/test${POD}/x/exec?command=id HTTP/1.1`, lines)).status).toBe(400);
    await nothingCame();
  });
});

describe('who asks', () => {
  test.each<[string, string[]]>([
    ['nobody', []],
    ['a token of elsewhere', ['Authorization: Bearer eyJhbGciOiJFZERTQSJ9.e30.AAAA']],
    ['the credential in custody', [`Authorization: Bearer ${CANARY}`]],
    ['a user and a password', ['Authorization: Basic YTpi']],
  ])('%s gets 401 with a Status', async (_, lines) => {
    const answer = await rawExchange(
      held.port,
      held.ca,
      [`GET /c/test${POD} HTTP/1.1`, `Host: 127.0.0.1:${held.port}`, ...lines, '', ''].join('\r\n'),
      500,
    );
    expect([answer.status, JSON.parse(answer.body)]).toMatchObject([
      401,
      { kind: 'Status', reason: 'Unauthorized', code: 401 },
    ]);
    await nothingCame();
  });
  test('a token in the query or in a subprotocol is none', async () => {
    const head = [
      `GET /c/test${POD}?access_token=${session.token} HTTP/1.1`,
      `Host: 127.0.0.1:${held.port}`,
      '',
      '',
    ];
    expect((await rawExchange(held.port, held.ca, head.join('\r\n'), 500)).status).toBe(401);
    await nothingCame();
  });
  test('said twice is refused', async () => {
    expect((await raw(`GET /c/test${POD} HTTP/1.1`, ['Authorization: Bearer other'])).status).toBe(400);
    await nothingCame();
  });
});

describe('what reaches the cluster', () => {
  test('is the judged path, the listed headers, our Audit-ID and the credential in custody, and nothing else', async () => {
    const answer = await raw(`GET /c/test${POD}?labelSelector=a%3Db&limit=5 HTTP/1.1`, [
      'Accept: application/json',
      'User-Agent: kubectl',
      'Impersonate-User: root',
      'Impersonate-Group: system:masters',
      'Impersonate-Extra-A: b',
      'X-Remote-User: root',
      'X-Forwarded-For: 1.2.3.4',
      'X-Forwarded-Host: evil',
      'Forwarded: for=1',
      'Cookie: a=b',
      'Audit-ID: mine',
      'Impersonate_User: root',
      'X_Remote_User: root',
      'Connection: keep-alive, User-Agent, Authorization',
      'Proxy-Authorization: Basic x',
      'X-Custom: y',
    ]);
    expect(answer.status).toBe(200);
    const [line, ...lines] = upstream.received().split('\r\n\r\n')[0]?.split('\r\n') ?? [];
    expect(line).toBe(`GET ${POD}?labelSelector=a%3Db&limit=5 HTTP/1.1`);
    const headers = Object.fromEntries(
      lines.map((one) => [one.slice(0, one.indexOf(':')).toLowerCase(), one.slice(one.indexOf(':') + 2)]),
    );
    expect(headers).toEqual({
      host: `127.0.0.1:${upstream.port}`,
      connection: 'keep-alive',
      accept: 'application/json',
      'audit-id': answer.headers['postern-request-id'],
      authorization: `Bearer ${CANARY}`,
    });
    expect(answer.headers['audit-id']).toBe(headers['audit-id']);
  });

  test('a smuggled second request stays a body: chunked DELETE and OPTIONS', async () => {
    const inner = 'GET /api/v1/namespaces/kube-system/secrets HTTP/1.1\r\nHost: x\r\n\r\n';
    const chunked = `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`;
    await raw(`DELETE /c/test${POD}/x HTTP/1.1`, ['Transfer-Encoding: chunked'], chunked);
    const got = upstream.received();
    expect(got).toMatch(/^DELETE \/api\/v1\/namespaces\/team-a\/pods\/x HTTP\/1\.1\r\n/);
    expect(got.match(/transfer-encoding: chunked|content-length: \d+/gi)).toHaveLength(1);
    upstream.clear();
    expect(
      (await raw(`OPTIONS /c/test${POD} HTTP/1.1`, ['Transfer-Encoding: chunked'], chunked)).status,
    ).toBe(405);
    await nothingCame();
  });
  test.each<[string, string[], string]>([
    ['two lengths', ['Content-Length: 3', 'Content-Length: 4'], 'abcd'],
    ['a length and chunks', ['Content-Length: 3', 'Transfer-Encoding: chunked'], '0\r\n\r\n'],
    ['another coding', ['Transfer-Encoding: gzip, chunked'], '0\r\n\r\n'],
    ['a folded header', ['X: a\r\n b'], ''],
    ['a bare line feed', ['X: a\nImpersonate-User: root'], ''],
    ['a space before the colon', ['Accept : x'], ''],
    ['a body on a GET', ['Content-Length: 3'], 'abc'],
    ['another Host', ['Host: evil.example'], ''],
  ])('not a head that two could read differently: %s', async (_, lines, body) => {
    expect((await raw(`GET /c/test${POD} HTTP/1.1`, lines, body)).status).toBe(400);
    await nothingCame();
  });

  test('a body over the limit is 413, by its length before anything is asked, by its chunks while they come', async () => {
    const long = await ask(held, session, 'POST', POD, {
      body: Buffer.alloc(10_001),
      headers: { 'Content-Type': 'application/json' },
    });
    expect([long.status, long.json().reason, long.json().details?.causes?.[0]?.reason]).toEqual([
      413,
      'RequestEntityTooLarge',
      'body_too_large',
    ]);
    await nothingCame();
    upstream.answer(() => undefined);
    const piece = 'x'.repeat(4_000);
    const chunk = `${piece.length.toString(16)}\r\n${piece}\r\n`;
    const answer = await raw(
      `POST /c/test${POD} HTTP/1.1`,
      ['Transfer-Encoding: chunked'],
      `${chunk.repeat(4)}0\r\n\r\n`,
    );
    expect([answer.status, JSON.parse(answer.body).code]).toEqual([413, 413]);
    await waitFor('the upstream to be let go of', () => upstream.open() === 0);
    expect(upstream.received().match(/x/g)?.length ?? 0).toBeLessThanOrEqual(8_100);
  });
});

describe('what comes back', () => {
  const answering = (head: string, body = '') =>
    upstream.answer(() => `HTTP/1.1 ${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  test.each(['301 Moved Permanently', '302 Found', '307 Temporary Redirect', '308 Permanent Redirect'])(
    'a redirect is neither followed nor passed on: %s',
    async (status) => {
      answering(`${status}\r\nLocation: https://evil.example/`);
      const answer = await ask(held, session, 'GET', POD);
      expect([answer.status, answer.headers.location, answer.json().details?.causes?.[0]?.reason]).toEqual([
        502,
        undefined,
        'upstream_redirect',
      ]);
    },
  );
  test("a 401 is the guard's own 502, and says nothing that the cluster said", async () => {
    answering('401 Unauthorized\r\nWWW-Authenticate: Bearer', `token ${CANARY} is bad`);
    const answer = await ask(held, session, 'GET', POD);
    expect([
      answer.status,
      answer.headers['www-authenticate'],
      answer.json().details?.causes?.[0]?.reason,
    ]).toEqual([502, undefined, 'upstream_refused']);
    expect(answer.body.toString()).not.toContain(CANARY);
  });
  test('no cookie, no challenge, no server name; warnings, flow control and the limit are passed on', async () => {
    answering(
      '429 Too Many Requests\r\nSet-Cookie: a=b\r\nServer: x\r\nRetry-After: 1\r\nWarning: 299 - "old"\r\nX-Kubernetes-PF-FlowSchema-UID: f\r\nAudit-ID: theirs',
      '{}',
    );
    const { status, headers } = await ask(held, session, 'GET', POD);
    expect([
      status,
      headers['set-cookie'],
      headers.server,
      headers['retry-after'],
      headers.warning,
      headers['x-kubernetes-pf-flowschema-uid'],
    ]).toEqual([429, undefined, undefined, '1', '299 - "old"', 'f']);
    expect(headers['audit-id']).toMatch(/^req_/);
  });
  test.each([
    ['as it is', CANARY],
    ["as a Secret's data", Buffer.from(CANARY).toString('base64')],
  ])('an answer that holds the credential is withheld, %s', async (_, text) => {
    answering('200 OK\r\nContent-Type: application/json', JSON.stringify({ a: text }));
    const answer = await ask(held, session, 'GET', POD).catch((error: Error) => error);
    if (answer instanceof Error) return;
    expect(answer.body.toString()).not.toContain(text);
  });
  test('an upstream that is gone is 502 with a Status', async () => {
    upstream.answer((_, socket) => {
      socket.destroy();
      return undefined;
    });
    expect((await ask(held, session, 'PUT', `${POD}/x`, { body: '{}' })).json()).toMatchObject({
      code: 502,
      reason: 'InternalError',
    });
  });
  test('an upgrade that was not asked for is no answer', async () => {
    answering('101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket');
    expect((await ask(held, session, 'GET', POD)).status).toBe(502);
  });
  test("bytes of a tunnel flow only after the cluster's own 101", async () => {
    const handshake = [
      'Connection: Upgrade',
      'Upgrade: SPDY/3.1',
      'X-Stream-Protocol-Version: v4.channel.k8s.io',
    ];
    upstream.answer(
      () =>
        'HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 35\r\nSet-Cookie: a=b\r\n\r\n{"kind":"Status","reason":"theirs"}',
    );
    const answer = await raw(`POST /c/test${POD}/x/exec?command=id HTTP/1.1`, handshake, 'EARLY BYTES');
    expect([answer.status, answer.body, answer.headers['set-cookie']]).toEqual([
      403,
      '{"kind":"Status","reason":"theirs"}',
      undefined,
    ]);
    expect(upstream.received()).not.toContain('EARLY');
    expect(upstream.received()).toMatch(
      /^POST \/api\/v1\/namespaces\/team-a\/pods\/x\/exec\?command=id HTTP\/1\.1\r\n/,
    );
    expect(upstream.received().toLowerCase()).not.toMatch(/x-forwarded|cookie/);
    for (const [head, status] of [
      ['HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n', 502],
      ['HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n', 502],
      ['HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n', 502],
    ] as const) {
      upstream.answer(() => head);
      expect(
        (await raw(`POST /c/test${POD}/x/exec?command=id HTTP/1.1`, handshake, 'EARLY BYTES')).status,
      ).toBe(status);
    }
  });
});
