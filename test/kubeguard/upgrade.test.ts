import { describe, expect, test } from 'vitest';
import { readSwitch, readUpgrade, type Upgrade, upgradeHeaders } from '../../kubeguard/upgrade.ts';

const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const ACCEPT = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=';

function websocket(...more: string[]): string[] {
  return [
    'Connection',
    'Upgrade',
    'Upgrade',
    'websocket',
    'Sec-WebSocket-Version',
    '13',
    'Sec-WebSocket-Key',
    KEY,
    ...more,
  ];
}
function ok(method: string, raw: string[]): Upgrade {
  const read = readUpgrade(method, raw);
  if ('code' in read) throw new Error(read.message);
  return read;
}

describe('what is offered to the cluster', () => {
  test('WebSocket: the subprotocols of Kubernetes and no other, never a token in disguise, no extension, no origin', () => {
    const read = ok(
      'GET',
      websocket(
        'Sec-WebSocket-Protocol',
        'base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io',
        'sec-websocket-protocol',
        'v4.channel.k8s.io,evil',
        'Sec-WebSocket-Extensions',
        'permessage-deflate',
        'Origin',
        'https://x',
      ),
    );
    expect(upgradeHeaders(read)).toEqual({
      connection: 'Upgrade',
      Upgrade: 'websocket',
      'Sec-WebSocket-Version': '13',
      'Sec-WebSocket-Key': KEY,
      'Sec-WebSocket-Protocol': 'v5.channel.k8s.io, v4.channel.k8s.io',
    });
  });
  test('port-forward by SPDY inside WebSocket', () =>
    expect(ok('GET', websocket('Sec-WebSocket-Protocol', 'SPDY/3.1+portforward.k8s.io')).offered).toEqual([
      'SPDY/3.1+portforward.k8s.io',
    ]));
  test('SPDY: its versions', () => {
    const read = ok('POST', [
      'connection',
      'keep-alive, upgrade',
      'upgrade',
      'SPDY/3.1',
      'X-Stream-Protocol-Version',
      'v4.channel.k8s.io',
      'X-Stream-Protocol-Version',
      'x',
      'Content-Length',
      '0',
    ]);
    expect(upgradeHeaders(read)).toEqual({
      connection: 'Upgrade',
      Upgrade: 'SPDY/3.1',
      'Content-Length': '0',
      'X-Stream-Protocol-Version': ['v4.channel.k8s.io'],
    });
  });
  test.each<[string, string, string[]]>([
    ['no upgrade in Connection', 'GET', ['Upgrade', 'websocket']],
    ['another protocol', 'GET', ['Connection', 'upgrade', 'Upgrade', 'h2c']],
    ['two protocols', 'GET', ['Connection', 'upgrade', 'Upgrade', 'websocket, SPDY/3.1']],
    ['two headers', 'GET', ['Connection', 'upgrade', 'Upgrade', 'websocket', 'Upgrade', 'SPDY/3.1']],
    ['a POST of a WebSocket', 'POST', websocket()],
    ['another version', 'GET', websocket('Sec-WebSocket-Version', '8')],
    ['a second key', 'GET', websocket('Sec-WebSocket-Key', KEY)],
    ['a body', 'GET', websocket('Content-Length', '5')],
    ['a chunked body', 'GET', websocket('Transfer-Encoding', 'chunked')],
    [
      'a token as the only subprotocol',
      'GET',
      websocket('Sec-WebSocket-Protocol', 'base64url.bearer.authorization.k8s.io.c2VjcmV0'),
    ],
    ['a PUT of SPDY', 'PUT', ['Connection', 'Upgrade', 'Upgrade', 'SPDY/3.1']],
    ['another SPDY', 'POST', ['Connection', 'Upgrade', 'Upgrade', 'SPDY/2']],
  ])('%s is refused', (_, method, raw) =>
    expect(readUpgrade(method, raw)).toMatchObject({ code: 'upgrade_not_allowed' }),
  );
});

describe("the cluster's 101", () => {
  const asked = ok('GET', websocket('Sec-WebSocket-Protocol', 'v5.channel.k8s.io, v4.channel.k8s.io'));
  const answer = {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-accept': ACCEPT,
    'sec-websocket-protocol': 'v5.channel.k8s.io',
    'set-cookie': ['a=b'],
  };
  test('is written anew', () =>
    expect(readSwitch(asked, answer)).toEqual({
      chosen: 'v5.channel.k8s.io',
      headers: [
        'Upgrade',
        'websocket',
        'Sec-WebSocket-Accept',
        ACCEPT,
        'Sec-WebSocket-Protocol',
        'v5.channel.k8s.io',
      ],
    }));
  test.each<[string, object]>([
    ['another accept', { 'sec-websocket-accept': 'x' }],
    ['a subprotocol that was not offered', { 'sec-websocket-protocol': 'v1' }],
    ['an extension', { 'sec-websocket-extensions': 'permessage-deflate' }],
    ['another protocol', { upgrade: 'SPDY/3.1' }],
    ['no Connection', { connection: 'close' }],
  ])('with %s is none', (_, change) => expect(readSwitch(asked, { ...answer, ...change })).toBeUndefined());
  test('of SPDY', () => {
    const spdy = ok('POST', [
      'Connection',
      'Upgrade',
      'Upgrade',
      'SPDY/3.1',
      'X-Stream-Protocol-Version',
      'v4.channel.k8s.io',
    ]);
    const chosen = {
      connection: 'Upgrade',
      upgrade: 'SPDY/3.1',
      'x-stream-protocol-version': 'v4.channel.k8s.io',
    };
    expect(readSwitch(spdy, chosen)?.chosen).toBe('v4.channel.k8s.io');
    expect(readSwitch(spdy, { ...chosen, 'x-stream-protocol-version': 'v5.channel.k8s.io' })).toBeUndefined();
  });
});
