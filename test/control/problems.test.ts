import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PosternError } from '../../common/errors.ts';
import { createClient } from '../../control/client.ts';
import { toPosternError } from '../../control/problem.ts';
import { type World, world } from './fakes.ts';
import { type RawCall, rawCall } from './raw.ts';

let w: World;
beforeAll(async () => {
  w = await world();
});
afterAll(() => w.close());

const SECRET = 'ghp_0123456789abcdefghijABCDEFGHIJ012345';
const git = (body: string, more: object = {}): RawCall => ({
  method: 'POST',
  path: '/v1/sessions/git',
  body,
  ...more,
});
const credential = { token: SECRET, upstream: 'https://github.com', repos: ['*'] };
const json = (value: unknown): string => JSON.stringify(value);

const cases: [string, RawCall, number, string, string | undefined][] = [
  ['an unknown path', { path: '/v1/nothing' }, 404, 'not_found', undefined],
  ['the root', { path: '/' }, 404, 'not_found', undefined],
  [
    'another method',
    { method: 'PUT', path: '/v1/sessions/gs_1', body: '{}' },
    405,
    'method_not_allowed',
    undefined,
  ],
  [
    'another method without a body',
    { method: 'PATCH', path: '/v1/status' },
    405,
    'method_not_allowed',
    undefined,
  ],
  ['a path in other letters', { path: '/V1/sessions' }, 404, 'not_found', undefined],
  ['a path that does not decode', { path: '/v1/sessions/%zz' }, 400, 'invalid_input', undefined],
  ['text that is no JSON', git(SECRET), 400, 'invalid_input', 'body'],
  ['half a JSON', git(`{"token": "${SECRET}"`), 400, 'invalid_input', 'body'],
  ['another content type', git('a=b', { type: 'text/plain' }), 415, 'unsupported_media_type', 'Content-Type'],
  ['no body', git(''), 400, 'invalid_input', 'body'],
  ['an array', git('[]'), 400, 'invalid_input', 'body'],
  ['a string that is a secret', git(json(SECRET)), 400, 'invalid_input', 'body'],
  ['a body beyond the limit', git(json({ x: 'x'.repeat(5 * 1024 * 1024) })), 413, 'too_large', 'body'],
  [
    'an unknown member',
    git(json({ credentials: [credential], leaseId: 'L', lease: 'L' })),
    400,
    'invalid_input',
    'body',
  ],
  [
    'a secret as a member name',
    git(json({ credentials: [credential], leaseId: 'L', [`${SECRET}/+`]: 1 })),
    400,
    'invalid_input',
    'body',
  ],
  ['no lease', git(json({ credentials: [credential] })), 400, 'invalid_input', 'leaseId'],
  ['no credential', git(json({ credentials: [], leaseId: 'L' })), 400, 'invalid_input', 'credentials'],
  [
    'an entry without repos',
    git(json({ credentials: [{ token: SECRET, upstream: 'x' }], leaseId: 'L' })),
    400,
    'invalid_input',
    'credentials[0].repos',
  ],
  [
    'a token that is no text',
    git(json({ credentials: [{ ...credential, token: [SECRET] }], leaseId: 'L' })),
    400,
    'invalid_input',
    'credentials[0].token',
  ],
  [
    'neither token nor reference',
    git(json({ credentials: [{ upstream: 'x', repos: ['*'] }], leaseId: 'L' })),
    400,
    'invalid_input',
    'credentials[0]',
  ],
  [
    'a time that is no duration',
    git(json({ credentials: [credential], leaseId: 'L', ttl: 'soon' })),
    400,
    'invalid_input',
    'ttl',
  ],
  [
    'a label that is no text',
    git(json({ credentials: [credential], leaseId: 'L', labels: { a: 1 } })),
    400,
    'invalid_input',
    'labels.a',
  ],
  ['an unknown parameter', { path: '/v1/sessions?lease=L' }, 400, 'invalid_input', 'query'],
  ['a parameter twice', { path: '/v1/sessions?leaseId=a&leaseId=b' }, 400, 'invalid_input', 'query.leaseId'],
  ['an unknown session', { path: '/v1/sessions/gs_none' }, 404, 'not_found', 'id'],
];

describe('every error is a problem document', () => {
  test.each(cases)('%s', async (_name, call, status, code, key) => {
    w.calls.length = 0;
    const answer = await rawCall(w, call);
    expect(answer.json).toMatchObject({
      type: `urn:postern:error:${code}`,
      title: expect.any(String),
      status,
      detail: expect.any(String),
      code,
      ...(key === undefined ? {} : { key }),
    });
    expect(answer.status).toBe(status);
    expect(answer.headers['content-type']).toBe('application/problem+json');
    expect(answer.text).not.toContain('ghp_');
    expect(w.calls).toEqual([]);
  });

  test('a 405 says which methods there are', async () => {
    const answer = await rawCall(w, { method: 'PUT', path: '/v1/sessions/gs_1', body: '{}' });
    expect(answer.headers.allow).toBe('GET, DELETE');
  });

  test('bytes that are no request', async () => {
    const text = await new Promise<string>((resolve) => {
      const socket = connect(w.socket, () => socket.write(`${SECRET} what?\r\n\r\n`));
      let all = '';
      socket.on('data', (chunk) => {
        all += chunk;
      });
      socket.on('close', () => resolve(all));
    });
    expect(text).toMatch(/^HTTP\/1\.1 400 .*application\/problem\+json/s);
    expect(JSON.parse(text.split('\r\n\r\n')[1] ?? '')).toMatchObject({ code: 'invalid_input', status: 400 });
  });

  test('what nobody foresaw is `internal`, and its words stay inside', () => {
    const error = toPosternError(new Error(`failed with ${SECRET}`));
    expect(error).toBeInstanceOf(PosternError);
    expect(error.code).toBe('internal');
    expect(error.message).not.toContain('ghp_');
  });
});

describe('the client', () => {
  test('gives an error of the server back with its code, key and remedy', async () => {
    const client = createClient({ socket: w.socket, user: 'u' });
    await expect(client.session('gs_none')).rejects.toMatchObject({
      name: 'PosternError',
      code: 'not_found',
      key: 'id',
      remedy: expect.stringContaining('session list'),
    });
  });

  test('says that nobody answers, and where', async () => {
    const client = createClient({ socket: '/nowhere/control.sock', user: 'u' });
    await expect(client.status()).rejects.toMatchObject({ code: 'unreachable', key: 'control.socket' });
  });

  test('does not trust a server whose CA it was not given, and sends it no token', async () => {
    const client = createClient({ server: w.url, token: w.token('admin') });
    await expect(client.status()).rejects.toMatchObject({ code: 'unreachable', key: '--server' });
  });

  test.each(['http://127.0.0.1:1', 'not a url', 'https://user:pass@host', 'https://host/?q'])(
    'refuses to send a token to %s',
    async (server) => {
      const call = () => createClient({ server, token: w.token('admin') }).status();
      await expect((async () => call())()).rejects.toMatchObject({ code: 'invalid_input', key: '--server' });
    },
  );

  test('an identity can not leave its place in the path', async () => {
    const client = createClient({ socket: w.socket, user: 'u' });
    await expect(client.session('../status')).rejects.toMatchObject({ code: 'not_found' });
    await expect(client.session('a?b#c')).rejects.toMatchObject({ code: 'not_found' });
  });
});
