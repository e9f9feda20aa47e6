// The streams at the level of their frames: what kubectl never does wrong, and what it hides.

import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { recording } from './recordings.ts';
import { type ApiServer, startApiServer } from './server.ts';
import { DICTIONARY } from './streams/spdy-dictionary.ts';
import { decodeFrame, encodeFrame, type Frame, headerCodec } from './streams/spdy-frames.ts';
import * as websocket from './streams/websocket.ts';

let server: ApiServer;

beforeAll(async () => {
  server = await startApiServer({
    namespaces: ['a'],
    podDelay: 1,
    objects: [
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'p', namespace: 'a' },
        spec: { containers: [{ name: 'main', image: 'busybox' }] },
      },
    ],
  });
});
afterAll(async () => {
  await server.close();
});

const EXEC = '/api/v1/namespaces/a/pods/p/exec';
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';

/** A connection on which bytes are written and read as they are. */
async function dial(
  head: string[],
): Promise<{ socket: TLSSocket; read(length: number): Promise<Buffer>; rest(): Promise<Buffer> }> {
  await expect.poll(() => server.get('Pod', 'a', 'p')?.status).toMatchObject({ phase: 'Running' });
  const socket = connect({ port: server.port, host: '127.0.0.1', ca: server.ca });
  let bytes: Buffer = Buffer.alloc(0);
  let over = false;
  socket.on('data', (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk]);
    socket.emit('more');
  });
  socket.on('end', () => {
    over = true;
    socket.emit('more');
  });
  await once(socket, 'secureConnect');
  const token = server.users.tokenOf('admin');
  socket.write(`${[...head, 'Host: x', `Authorization: Bearer ${token}`].join('\r\n')}\r\n\r\n`);
  return {
    socket,
    async read(length) {
      while (bytes.length < length && !over) await once(socket, 'more');
      const part = bytes.subarray(0, length);
      bytes = bytes.subarray(length);
      return part;
    },
    async rest() {
      while (!over) await once(socket, 'more');
      return bytes;
    },
  };
}

const upgrade = (target: string, protocol?: string): string[] => [
  `GET ${target} HTTP/1.1`,
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  `Sec-WebSocket-Key: ${KEY}`,
  ...(protocol ? [`Sec-WebSocket-Protocol: ${protocol}`] : []),
];

/** A masked frame, as clients send them. */
function masked(opcode: number, payload: Buffer): Buffer {
  const mask = randomBytes(4);
  const head = payload.length < 126 ? Buffer.from([0x80 | opcode, 0x80 | payload.length]) : Buffer.alloc(4);
  if (payload.length >= 126) {
    head[0] = 0x80 | opcode;
    head[1] = 0x80 | 126;
    head.writeUInt16BE(payload.length, 2);
  }
  return Buffer.concat([head, mask, payload.map((byte, i) => byte ^ (mask[i % 4] ?? 0))]);
}

const untilBlank = async (read: (length: number) => Promise<Buffer>): Promise<string> => {
  let head = '';
  while (!head.endsWith('\r\n\r\n')) head += (await read(1)).toString('latin1');
  return head;
};

describe('WebSocket', () => {
  test('an exec looks as recorded, byte for byte', async () => {
    const target = `${EXEC}?command=echo&command=hi&stdout=1&stderr=1`;
    const { socket, read, rest } = await dial(upgrade(target, 'v5.channel.k8s.io'));
    const head = await untilBlank(read);
    const recorded = recording('exec-websocket');
    expect(head.split('\r\n')[0]).toBe('HTTP/1.1 101 Switching Protocols');
    const names = head
      .split('\r\n')
      .slice(1, -2)
      .map((line) => line.split(':')[0]?.toLowerCase());
    expect(names.sort()).toEqual([...recorded.headers.keys()].sort());
    const body = await read(recorded.body.length);
    socket.write(masked(8, Buffer.from([0x03, 0xe8])));
    expect(body.toString('latin1')).toBe(recorded.body.toString('latin1'));
    expect((await rest()).length).toBe(0);
  });

  test.each(['v5.channel.k8s.io', 'v4.channel.k8s.io'])(
    '%s: input, and how its end is told',
    async (protocol) => {
      const target = `${EXEC}?command=sh&command=-c&command=read+x;echo+got+$x;cat;exit+3&stdin=1&stdout=1`;
      const { socket, read } = await dial(upgrade(target.replaceAll(';', '%3B'), protocol));
      await untilBlank(read);
      expect(await read(3)).toEqual(Buffer.from([0x82, 1, 1]));
      socket.write(masked(2, Buffer.from('\0line\n')));
      expect((await read(12)).subarray(3).toString()).toBe('got line\n');
      if (protocol.startsWith('v5')) {
        socket.write(masked(2, Buffer.from([255, 0])));
        const [, length = 0] = await read(2);
        const payload = await read(length === 126 ? (await read(2)).readUInt16BE(0) : length);
        expect(payload[0]).toBe(3);
        expect(JSON.parse(payload.subarray(1).toString())).toMatchObject({
          status: 'Failure',
          reason: 'NonZeroExitCode',
          details: { causes: [{ reason: 'ExitCode', message: '3' }] },
        });
      }
      socket.destroy();
      await expect.poll(() => server.open().processes).toBe(0); // the end of the connection ends its input
    },
  );

  test('a token may come as a subprotocol, beside a real one', async () => {
    const token = Buffer.from(server.users.tokenOf('admin')).toString('base64url');
    const protocols = `base64url.bearer.authorization.k8s.io.${token}, v5.channel.k8s.io`;
    const socket = connect({ port: server.port, host: '127.0.0.1', ca: server.ca });
    socket.write(
      `${[...upgrade(`${EXEC}?command=true&stdout=1`, protocols), 'Host: x'].join('\r\n')}\r\n\r\n`,
    );
    const [head] = (await once(socket, 'data')) as [Buffer];
    expect(head.toString()).toMatch(
      /^HTTP\/1\.1 101 [\s\S]*Sec-WebSocket-Protocol: v5\.channel\.k8s\.io\r\n/,
    );
    socket.destroy();
  });

  test.each([
    ['no protocol that is known', upgrade(`${EXEC}?command=true&stdout=1`, 'v9.channel.k8s.io'), 400],
    ['no command', upgrade(`${EXEC}?stdout=1`, 'v5.channel.k8s.io'), 400],
    ['no stream', upgrade(`${EXEC}?command=true`, 'v5.channel.k8s.io'), 400],
    ['another container', upgrade(`${EXEC}?command=true&stdout=1&container=x`, 'v5.channel.k8s.io'), 400],
    [
      'a pod that is not there',
      upgrade('/api/v1/namespaces/a/pods/none/exec?command=true', 'v5.channel.k8s.io'),
      404,
    ],
    ['no upgrade', [`GET ${EXEC}?command=true&stdout=1 HTTP/1.1`], 400],
    [
      'an upgrade to something else',
      [`POST ${EXEC}?command=true HTTP/1.1`, 'Connection: Upgrade', 'Upgrade: h2c', 'Content-Length: 0'],
      400,
    ],
    [
      'SPDY without a protocol',
      [
        `POST ${EXEC}?command=true&stdout=1 HTTP/1.1`,
        'Connection: Upgrade',
        'Upgrade: SPDY/3.1',
        'Content-Length: 0',
      ],
      403,
    ],
  ])('%s is refused with a Status', async (_what, head, status) => {
    const { socket, read } = await dial(head);
    expect((await untilBlank(read)).split(' ')[1]).toBe(String(status));
    socket.destroy();
  });

  test('frames of any size survive, and what is not masked is refused', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 70_000 }), fc.nat(2), (payload, opcode) => {
        const bytes = Buffer.from(payload);
        const own = websocket.encodeFrame(opcode, bytes);
        expect(() => websocket.decodeFrame(own)).toThrow(RangeError);
        if (bytes.length >= 65_536) return;
        const frame = websocket.decodeFrame(masked(opcode, bytes));
        expect(frame?.payload.equals(bytes)).toBe(true);
        expect(
          websocket.decodeFrame(masked(opcode, bytes).subarray(0, -1)) === undefined || bytes.length === 0,
        ).toBe(true);
      }),
      { numRuns: 50 },
    );
  });
});

describe('SPDY', () => {
  test('the dictionary is the one of the draft', () => {
    let [a, b] = [1, 0];
    for (const byte of DICTIONARY) {
      a = (a + byte) % 65521;
      b = (b + a) % 65521;
    }
    expect(((b * 65536 + a) >>> 0).toString(16)).toBe('e3c6a7c2');
  });

  test('frames survive the wire', () => {
    const stream = fc.integer({ min: 1, max: 0x7fffffff });
    const block = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));
    const word = fc.integer({ min: 0, max: 0x7fffffff });
    const frame = fc.oneof(
      fc.record({ type: fc.constant('data' as const), stream, fin: fc.boolean(), data: block }),
      fc.record({
        type: fc.constantFrom('syn' as const, 'reply' as const, 'headers' as const),
        stream,
        fin: fc.boolean(),
        block,
      }),
      fc.record({ type: fc.constant('reset' as const), stream, code: word }),
      fc.record({ type: fc.constant('ping' as const), id: word }),
      fc.record({ type: fc.constant('goaway' as const), lastStream: stream, code: word }),
      fc.record({ type: fc.constant('window' as const), stream, delta: word }),
    );
    fc.assert(
      fc.property(frame, (one) => {
        const bytes = encodeFrame(one as Exclude<Frame, { type: 'settings' }>);
        expect(decodeFrame(bytes)).toEqual({ frame: one, size: bytes.length });
        expect(decodeFrame(bytes.subarray(0, -1))).toBeUndefined();
      }),
    );
  });

  test('header blocks share one state, however large', async () => {
    const [here, there] = [headerCodec(), headerCodec()];
    for (const headers of [
      { streamtype: 'data', port: '80' },
      { big: 'x'.repeat(100_000) },
      { streamtype: 'error' },
    ]) {
      const map = new Map(Object.entries(headers));
      expect(await there.decode(await here.encode(map))).toEqual(map);
    }
    here.close();
    there.close();
  });

  test('a peer that keeps windows is never sent more than it allows', async () => {
    const target = `${EXEC}?command=seq&command=1&command=20000&stdout=1`;
    const { socket, read } = await dial([
      `POST ${target} HTTP/1.1`,
      'Connection: Upgrade',
      'Upgrade: SPDY/3.1',
      'X-Stream-Protocol-Version: v4.channel.k8s.io',
      'Content-Length: 0',
    ]);
    await untilBlank(read);
    const codec = headerCodec();
    // SETTINGS with an initial window of 1000 bytes: it keeps windows, small ones.
    const settings = Buffer.alloc(20);
    settings.writeUInt32BE(0x80030004, 0);
    settings.writeUInt32BE(12, 4);
    settings.writeUInt32BE(1, 8);
    settings.writeUInt32BE(7, 12);
    settings.writeUInt32BE(1000, 16);
    socket.write(settings);
    const open = async (stream: number, type: string): Promise<void> => {
      const block = await codec.encode(new Map([['streamtype', type]]));
      socket.write(encodeFrame({ type: 'syn', stream, fin: false, block }));
    };
    await open(1, 'error');
    await open(3, 'stdout');
    let window = 1000;
    let total = '';
    let finished = false;
    while (!finished) {
      const head = await read(8);
      const size = 8 + head.readUIntBE(5, 3);
      const decoded = decodeFrame(Buffer.concat([head, await read(size - 8)]));
      const frame = decoded?.frame;
      if (frame?.type !== 'data' || frame.stream !== 3) continue;
      window -= frame.data.length;
      expect(window).toBeGreaterThanOrEqual(0);
      total += frame.data;
      finished = frame.fin;
      if (window === 0 && !finished) {
        window = 5000;
        for (const stream of [0, 3]) socket.write(encodeFrame({ type: 'window', stream, delta: 5000 }));
      }
    }
    expect(total.length).toBe(108_894);
    expect(total.endsWith('\n20000\n')).toBe(true);
    socket.destroy();
    codec.close();
  });

  test('a ping is answered, what is no SPDY ends the connection', async () => {
    const { socket, read, rest } = await dial([
      `POST ${EXEC}?command=true&stdout=1 HTTP/1.1`,
      'Connection: Upgrade',
      'Upgrade: SPDY/3.1',
      'X-Stream-Protocol-Version: v4.channel.k8s.io',
      'Content-Length: 0',
    ]);
    await untilBlank(read);
    socket.write(encodeFrame({ type: 'ping', id: 7 }));
    expect(decodeFrame(await read(12))?.frame).toEqual({ type: 'ping', id: 7 });
    socket.write(Buffer.from('8002000600000004', 'hex'));
    socket.write(Buffer.alloc(4));
    expect(decodeFrame(await rest())?.frame).toMatchObject({ type: 'goaway', code: 1 });
  });
});

test('what was opened is on record', () => {
  expect(server.streams.some((one) => one.transport === 'spdy' && one.command[0] === 'seq')).toBe(true);
  expect(server.streams.every((one) => one.pod === 'a/p')).toBe(true);
});
