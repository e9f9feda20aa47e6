// Names of namespaces outside the grant, by other roads than the list of them.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask } from '../../kubeguard/harness.ts';
import { waitFor } from '../../support/wait.ts';
import { closeAll, type Field, openField } from './kit.ts';

let field: Field;
beforeAll(async () => {
  field = await openField();
});
afterAll(closeAll);
beforeEach(() => field.upstream.clear());

const LIST = '/api/v1/namespaces';
const json = (value: unknown, more = ''): string => {
  const body = JSON.stringify(value);
  return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n${more}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
};

describe('a page at a time', () => {
  // What an API server answers to ?limit=1: where the next page begins is the name that this one ended with.
  test('the token of the next page names no namespace outside the grant', async () => {
    const session = await field.issue({ namespaces: ['team-a', 'team-b'] });
    const token = Buffer.from(
      JSON.stringify({ v: 'meta.k8s.io/v1', rv: 12, start: 'secret-customer-acme\u0000' }),
    ).toString('base64url');
    field.upstream.answer((received) =>
      json({
        kind: 'NamespaceList',
        apiVersion: 'v1',
        metadata: { resourceVersion: '12', ...(/[?&]limit=1\b/.test(received) ? { continue: token } : {}) },
        items: [{ metadata: { name: 'secret-customer-acme' } }],
      }),
    );
    const got = await ask(field.held, session, 'GET', `${LIST}?limit=1`);
    expect(got.status).toBe(200);
    const { metadata } = got.json() as { metadata?: { continue?: string } };
    const start = Buffer.from(metadata?.continue ?? '', 'base64url').toString();
    expect(start).not.toContain('secret-customer');
  });

  test('is not what the cluster is asked for: everything comes at once, and narrowed', async () => {
    const session = await field.issue({ namespaces: ['team-a', 'team-b'] });
    field.upstream.answer(() =>
      json({
        kind: 'NamespaceList',
        metadata: { continue: 'abc', remainingItemCount: 3 },
        items: [{ metadata: { name: 'team-a' } }, { metadata: { name: 'kube-system' } }],
      }),
    );
    const got = await ask(field.held, session, 'GET', `${LIST}?limit=1&continue=abc&labelSelector=a`);
    expect(got.json()).toEqual({
      kind: 'NamespaceList',
      metadata: {},
      items: [{ metadata: { name: 'team-a' } }],
    });
    expect(field.upstream.received()).toContain(`GET ${LIST}?labelSelector=a HTTP/1.1`);
  });

  test('more than is held in memory is refused with what to do instead', async () => {
    const session = await field.issue({ namespaces: ['team-a', 'team-b'] });
    field.upstream.answer(() =>
      json({ kind: 'NamespaceList', items: [{ metadata: { name: 'x'.repeat(9_000_000) } }] }),
    );
    const got = await ask(field.held, session, 'GET', LIST);
    expect([got.status, got.json().details?.causes?.[0]?.reason, got.json().message]).toEqual([
      403,
      'cluster_scope',
      expect.stringMatching(/too many namespaces.*ask for one by its name/),
    ]);
  });
});

describe('a watch', () => {
  const event = (type: string, name: string, more: object = {}): string =>
    `${JSON.stringify({ type, object: { kind: 'Namespace', metadata: { name, ...more } } })}\n`;

  test('cut anywhere, in the middle of a character too, shows the allowed ones and nothing of the others', async () => {
    const session = await field.issue({ namespaces: ['team-a', 'team-b'] });
    const stream = Buffer.from(
      event('ADDED', 'kube-system') +
        event('ADDED', 'team-a', { annotations: { note: 'grüße 🎈 "}{' } }) +
        event('MODIFIED', 'other', { annotations: { note: 'team-a' } }) +
        event('DELETED', 'other') +
        event('DELETED', 'team-b'),
    );
    field.upstream.answer((_, socket) => {
      socket.setNoDelay(true);
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n');
      void (async () => {
        for (let at = 0; at < stream.length; at += 7) {
          socket.write(stream.subarray(at, at + 7));
          if (at % 70 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
        }
        socket.end();
      })();
      return undefined;
    });
    const got = await ask(field.held, session, 'GET', `${LIST}?watch=1`);
    const names = got.body
      .toString()
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
      .map(({ type, object }) => `${type} ${object.metadata.name}`);
    expect(names).toEqual(['ADDED team-a', 'DELETED team-b']);
    expect(got.body.toString()).toContain('grüße 🎈');
  });

  test.each([
    ['protobuf', 'Content-Type: application/vnd.kubernetes.protobuf;stream=watch', 'k8s\0 kube-system'],
    ['gzip', 'Content-Type: application/json\r\nContent-Encoding: gzip', '\u001f\u008b kube-system\n'],
    [
      'two objects on a line',
      'Content-Type: application/json',
      `${event('ADDED', 'team-a').trim()}${event('ADDED', 'kube-system')}`,
    ],
    [
      'a name said twice',
      'Content-Type: application/json',
      '{"type":"ADDED","object":{"metadata":{"name":"team-a","name":"kube-system"}}}\n',
    ],
    [
      'a name that is no text',
      'Content-Type: application/json',
      '{"type":"ADDED","object":{"metadata":{"name":["team-a","kube-system"]}}}\n',
    ],
  ])('that comes as %s shows nothing', async (_, type, body) => {
    const session = await field.issue({ namespaces: ['team-a', 'team-b'] });
    field.upstream.answer(() => `HTTP/1.1 200 OK\r\n${type}\r\nConnection: close\r\n\r\n${body}`);
    const before = field.held.trail.of('kube.request_result').length;
    const got = await field.raw(session, `GET ${session.prefix}${LIST}?watch=1 HTTP/1.1`);
    await waitFor('the record', () => field.held.trail.of('kube.request_result').length > before);
    expect(got.text).not.toContain('kube-system');
  });
});

test('what kubectl would ask for other encodings of the list is asked for as JSON', async () => {
  const session = await field.issue({ namespaces: ['team-a', 'team-b'] });
  field.upstream.answer(() => json({ kind: 'NamespaceList', items: [] }));
  await ask(field.held, session, 'GET', `${LIST}?includeObject=None`, {
    headers: {
      Accept: 'application/json;as=Table;v=v1;g=meta.k8s.io,application/vnd.kubernetes.protobuf,*/*',
      'Accept-Encoding': 'gzip',
    },
  });
  expect(field.upstream.received()).toMatch(
    /\r\naccept: application\/json;as=Table;v=v1;g=meta\.k8s\.io,application\/json\r\n/i,
  );
  expect(field.upstream.received()).toMatch(/\r\naccept-encoding: identity\r\n/i);
  expect(field.upstream.received()).not.toContain('includeObject');
});
