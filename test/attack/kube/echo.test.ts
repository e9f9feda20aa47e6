// The credential in custody, coming back in forms and places where nobody looks for it.
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask, CANARY } from '../../kubeguard/harness.ts';
import { closeAll, type Field, openField, POD, SPDY, WEBSOCKET } from './kit.ts';

let field: Field;
beforeAll(async () => {
  field = await openField();
});
afterAll(closeAll);
beforeEach(() => field.upstream.clear());

const answering = (head: string, body: string | Buffer): void => {
  const bytes = Buffer.from(body as string);
  field.upstream.answer(() =>
    Buffer.concat([
      Buffer.from(`HTTP/1.1 ${head}\r\nContent-Length: ${bytes.length}\r\nConnection: close\r\n\r\n`),
      bytes,
    ]),
  );
};

/** As an API server writes it. */
const goJson = (value: object): string =>
  JSON.stringify(value).replaceAll('&', '\\u0026').replaceAll('<', '\\u003c').replaceAll('>', '\\u003e');

describe('an answer to an upgrade that is no 101', () => {
  test.each([
    ['SPDY', 'POST', SPDY],
    ['WebSocket', 'GET', WEBSOCKET],
  ] as const)('over %s: the credential in one of its headers stays here', async (_, method, lines) => {
    const session = await field.issue({ verbs: ['*'], resources: ['pods', 'pods/exec'] });
    answering(`403 Forbidden\r\nWarning: 299 - "the token ${CANARY} is of nobody"`, '{"kind":"Status"}');
    const { text } = await field.raw(
      session,
      `${method} ${session.prefix}${POD}/x/exec?command=id HTTP/1.1`,
      lines,
    );
    expect(text).not.toContain(CANARY);
  });

  test('the credential where the answer is cut at its limit stays here, in part too', async () => {
    const session = await field.issue({ verbs: ['*'], resources: ['pods', 'pods/exec'] });
    field.upstream.answer((_, socket) => {
      socket.write('HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n');
      setTimeout(() => socket.write('x'.repeat(60_000) + CANARY.slice(0, -2)), 50);
      setTimeout(() => socket.end(CANARY.slice(-2) + 'x'.repeat(20_000)), 200);
      return undefined;
    });
    const { text } = await field.raw(
      session,
      `POST ${session.prefix}${POD}/x/exec?command=id HTTP/1.1`,
      SPDY,
    );
    expect(text).not.toContain(CANARY.slice(0, -2));
  });
});

describe('an answer to a request', () => {
  const secrets = '/api/v1/namespaces/team-a/secrets';
  const list = JSON.stringify({
    kind: 'SecretList',
    items: [{ metadata: { name: 'ci-token' }, data: { token: Buffer.from(CANARY).toString('base64') } }],
  });

  test('plain: the Secret that holds the credential in custody is withheld', async () => {
    const session = await field.issue({ resources: ['secrets'] });
    answering('200 OK\r\nContent-Type: application/json', list);
    const got = await ask(field.held, session, 'GET', secrets);
    expect([got.status, got.body.toString()]).toEqual([502, expect.stringContaining('is withheld')]);
  });

  test('compressed because the sandbox asked for it: withheld too', async () => {
    const session = await field.issue({ resources: ['secrets'] });
    field.upstream.answer((received) => {
      const zips = /\r\naccept-encoding:[^\r]*gzip/i.test(received);
      const body = zips ? gzipSync(list) : Buffer.from(list);
      const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n${zips ? 'Content-Encoding: gzip\r\n' : ''}`;
      return Buffer.concat([Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n`), body]);
    });
    const got = await ask(field.held, session, 'GET', secrets, { headers: { 'Accept-Encoding': 'gzip' } });
    expect(got.status).toBe(502);
  });

  test('compressed although that was not asked for: withheld, whatever is in it', async () => {
    const session = await field.issue({ resources: ['secrets'] });
    answering('200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip', gzipSync(list));
    for (const path of [secrets, `${secrets}/ci-token`, `${secrets}?watch=1`]) {
      const got = await ask(field.held, session, 'GET', path, { headers: { 'Accept-Encoding': 'gzip' } });
      expect([got.status, got.json().message]).toEqual([502, expect.stringContaining('cannot be searched')]);
    }
    expect(field.upstream.received()).not.toMatch(/accept-encoding: *gzip/i);
  });

  test.each([
    ['in a Go error', (text: string) => goJson({ message: `bad password ${JSON.stringify(text)}` })],
    [
      'in an HTML page',
      (text: string) =>
        text
          .replaceAll('&', '&amp;')
          .replaceAll('<', '&lt;')
          .replaceAll('>', '&gt;')
          .replaceAll('"', '&#34;'),
    ],
    ['percent-encoded', (text: string) => encodeURIComponent(text)],
    ["inside a Secret's data, anywhere", (text: string) => Buffer.from(`ab: ${text}\n`).toString('base64')],
    ['as the Basic pair', (text: string) => Buffer.from(`ci:${text}`).toString('base64')],
  ])('the password %s: withheld', async (_, write) => {
    const password = 'p&ss"<word>-of-custody';
    const session = await field.issue({}, { username: 'ci', password });
    answering('403 Forbidden', `x ${write(password)} x`);
    expect((await ask(field.held, session, 'GET', POD)).status).toBe(502);
  });

  test('a password with characters that Go escapes in JSON: withheld too', async () => {
    const password = 'p&ss<word>-of-custody';
    const session = await field.issue({}, { username: 'ci', password });
    const go = goJson({ kind: 'Status', message: `no user has ${password}` });
    answering('403 Forbidden\r\nContent-Type: application/json', go);
    const got = await ask(field.held, session, 'GET', POD);
    expect(got.body.toString()).not.toContain('\\u003cword');
  });
});
