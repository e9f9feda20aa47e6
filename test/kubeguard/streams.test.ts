// What follows a stream without keeping it: watches, WebSocket frames, the narrowed list and watch.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { farewell, followFrames } from '../../kubeguard/frames.ts';
import { acceptJson, narrowList, narrowValue, narrowWatch } from '../../kubeguard/namespaces.ts';
import { bytesField, readMessage, textField, unwrap } from '../../kubeguard/protobuf.ts';
import { statusObject } from '../../kubeguard/status.ts';
import { followWatch, jsonDepth, lengths } from '../../kubeguard/watch-end.ts';

/** Cuts bytes into pieces wherever the test says. */
function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length));
}
const cuts = fc.array(fc.nat({ max: 10_000 }), { maxLength: 8 });

describe('a watch in JSON', () => {
  test('is between two events exactly where all that came are whole, however it is cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.object({ maxDepth: 3 }), { minLength: 1, maxLength: 4 }),
        fc.boolean(),
        cuts,
        (objects, pretty, where) => {
          const texts = objects.map((object) => `${JSON.stringify(object, null, pretty ? 2 : 0)}\n`);
          const bytes = Buffer.from(texts.join(''));
          const follow = jsonDepth();
          let passed = 0;
          for (const piece of pieces(bytes, where)) {
            follow.push(piece);
            passed += piece.length;
            const text = bytes.subarray(0, passed).toString('latin1');
            let whole = 0;
            let begun = false;
            let end = 0;
            for (const event of texts.map((one) => Buffer.from(one).toString('latin1'))) {
              end += event.length;
              if (text.length >= end - 1) whole = end - 1;
              else {
                begun = text.length > end - event.length;
                break;
              }
            }
            expect(follow.isBetween()).toBe(!begun && (whole > 0 || text === ''));
          }
        },
      ),
      { numRuns: 300, seed: 2 },
    );
  });

  test('that is ended says so in an ERROR event, but never inside another', () => {
    const watch = followWatch({ 'content-type': 'application/json;stream=watch' });
    const event = Buffer.from('{"type":"ADDED","object":{"a":"}\\"{"}}\n');
    expect(watch?.transform.push(event)).toBe(event);
    const words = JSON.parse(String(watch?.lastWords('expired', 'req_1')));
    expect(words).toMatchObject({
      type: 'ERROR',
      object: { kind: 'Status', status: 'Failure', reason: 'Unauthorized', code: 401 },
    });
    expect(words.object.message).toMatch(/past its time \(session_expired, request req_1\)/);
    expect(watch?.lastWords('shutdown', 'r')).toEqual(Buffer.alloc(0));
    watch?.transform.push(event.subarray(0, 12));
    expect(watch?.lastWords('revoked', 'r')).toBeUndefined();
  });
  test.each([
    { 'content-type': 'application/cbor-seq' },
    { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    {},
  ])('in an encoding that is not followed is cut: %j', (headers) =>
    expect(followWatch(headers)).toBeUndefined(),
  );
});

describe('a watch in protobuf', () => {
  test('is between two frames exactly where all are whole', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 5 }), cuts, (payloads, where) => {
        const frames = payloads.map((payload) => {
          const length = Buffer.alloc(4);
          length.writeUInt32BE(payload.length);
          return Buffer.concat([length, payload]);
        });
        const ends = new Set([0]);
        let end = 0;
        for (const frame of frames) {
          end += frame.length;
          ends.add(end);
        }
        const follow = lengths();
        let passed = 0;
        for (const piece of pieces(Buffer.concat(frames), where)) {
          follow.push(piece);
          passed += piece.length;
          expect(follow.isBetween()).toBe(ends.has(passed));
        }
      }),
      { numRuns: 300, seed: 4 },
    );
  });
  test('that is ended gets a frame with a WatchEvent that holds a Status', () => {
    const words =
      followWatch({ 'content-type': 'application/vnd.kubernetes.protobuf;stream=watch' })?.lastWords(
        'revoked',
        'req_1',
      ) ?? Buffer.alloc(0);
    expect(words.readUInt32BE(0)).toBe(words.length - 4);
    const event = readMessage(words.subarray(4)) ?? [];
    expect(textField(event, 1)).toBe('ERROR');
    const object = unwrap(
      bytesField(readMessage(bytesField(event, 2) ?? Buffer.alloc(0)) ?? [], 1) ?? Buffer.alloc(0),
    );
    expect(object).toMatchObject({ apiVersion: 'v1', kind: 'Status' });
    const status = readMessage(object?.raw ?? Buffer.alloc(0)) ?? [];
    expect([textField(status, 2), textField(status, 4)]).toEqual(['Failure', 'Unauthorized']);
    expect(status.find(({ number }) => number === 6)?.value).toBe(401n);
  });
});

function wsFrame(opcode: number, payload: Uint8Array, fin = true): Buffer {
  const { length } = payload;
  const first = (fin ? 0x80 : 0) | opcode;
  if (length < 126) return Buffer.concat([Buffer.from([first, length]), payload]);
  if (length < 65536) return Buffer.concat([Buffer.from([first, 126, length >> 8, length & 255]), payload]);
  const head = Buffer.alloc(10);
  head[0] = first;
  head[1] = 127;
  head.writeUInt32BE(length, 6);
  return Buffer.concat([head, payload]);
}

describe('WebSocket frames', () => {
  const payload = fc.oneof(fc.uint8Array({ maxLength: 130 }), fc.constant(new Uint8Array(70_000)));
  const message = fc.oneof(
    payload.map((bytes) => [wsFrame(2, bytes)]),
    payload.map((bytes) => [wsFrame(9, bytes.subarray(0, 100))]),
    fc
      .tuple(payload, payload, fc.boolean())
      .map(([a, b, ping]) => [
        wsFrame(2, a, false),
        ...(ping ? [wsFrame(9, new Uint8Array(3))] : []),
        wsFrame(0, b),
      ]),
  );
  test('are between two messages exactly where all are whole, and stop there when asked', () => {
    fc.assert(
      fc.property(fc.array(message, { minLength: 1, maxLength: 5 }), cuts, (messages, where) => {
        const bytes = Buffer.concat(messages.flat());
        const ends = new Set([0]);
        let end = 0;
        for (const frames of messages) {
          end += Buffer.concat(frames).length;
          ends.add(end);
        }
        const follow = followFrames();
        let passed = 0;
        for (const piece of pieces(bytes, where)) {
          expect(follow.push(piece)).toBe(piece.length);
          passed += piece.length;
          expect(follow.isBetween()).toBe(ends.has(passed));
        }
        const begun = followFrames();
        const start = Math.min(bytes.length, 1 + ((where[0] ?? 0) % bytes.length));
        begun.push(bytes.subarray(0, start));
        const took = begun.push(bytes.subarray(start), true);
        expect(ends.has(start + took)).toBe(true);
        expect([...ends].filter((one) => one >= start && one < start + took)).toEqual([]);
      }),
      { numRuns: 200, seed: 6 },
    );
  });
  test('the last words are a Status on the error channel and a close', () => {
    const status = statusObject({ code: 'unauthenticated', message: 'the session has ended' }, 'r');
    for (const protocol of ['v4.channel.k8s.io', 'v5.channel.k8s.io']) {
      const words = farewell(protocol, status);
      const length = words.readUInt16BE(2);
      expect([words[0], words[1], words[4]]).toEqual([0x82, 126, 3]);
      expect(JSON.parse(words.subarray(5, 4 + length).toString())).toMatchObject({
        status: 'Failure',
        code: 401,
      });
      expect([...words.subarray(4 + length)]).toEqual([0x88, 2, 3, 0xe8]);
    }
    expect(farewell('v4.base64.channel.k8s.io', status)[4]).toBe(0x33);
    expect([...farewell('channel.k8s.io', status)]).toEqual([0x88, 2, 3, 0xe8]);
  });
});

describe('namespaces, narrowed', () => {
  const admits = (name: string): boolean => name.startsWith('team-');
  const item = (name: string) => ({ metadata: { name } });
  const through = (
    transform: { push(chunk: Buffer): Buffer; end(): Buffer },
    text: string,
    where: number[] = [],
  ): string =>
    Buffer.concat([
      ...pieces(Buffer.from(text), where).map((piece) => transform.push(piece)),
      transform.end(),
    ]).toString();

  test('a list, a Table, a list of metadata', () => {
    const list = {
      kind: 'NamespaceList',
      metadata: { resourceVersion: '5', continue: 'c', remainingItemCount: 9 },
      items: [item('team-a'), item('kube-system')],
    };
    expect(JSON.parse(through(narrowList(admits), JSON.stringify(list), [3, 40]))).toEqual({
      ...list,
      metadata: { resourceVersion: '5' },
      items: [item('team-a')],
    });
    const table = {
      kind: 'Table',
      columnDefinitions: [],
      rows: [
        { cells: ['team-a'], object: item('team-a') },
        { cells: ['x'], object: item('x') },
        { cells: ['y'] },
      ],
    };
    expect(JSON.parse(through(narrowList(admits), JSON.stringify(table))).rows).toEqual([table.rows[0]]);
  });
  test('anything else does not pass', () => {
    for (const value of [[], 1, null, {}, { kind: 'Namespace', metadata: { name: 'x' } }])
      expect(() => narrowValue(value, admits)).toThrow();
    expect(() => through(narrowList(admits), 'no json')).toThrow();
  });
  test('a watch, line by line, with the bookmarks and the columns', () => {
    const events = [
      {
        type: 'ADDED',
        object: {
          kind: 'Table',
          columnDefinitions: [{ name: 'Name' }],
          rows: [{ object: item('kube-system') }],
        },
      },
      {
        type: 'ADDED',
        object: { kind: 'Table', columnDefinitions: null, rows: [{ object: item('team-a') }] },
      },
      { type: 'MODIFIED', object: item('kube-system') },
      { type: 'DELETED', object: item('team-b') },
      { type: 'BOOKMARK', object: { kind: 'Namespace', metadata: { resourceVersion: '9' } } },
      { type: 'ERROR', object: { kind: 'Status', code: 410 } },
    ];
    const text = events.map((event) => `${JSON.stringify(event)}\n`).join('');
    for (const where of [[], [1, 2, 3, 50, 99, 150, 200, 250, 300, 350]]) {
      const out = through(narrowWatch(admits), text, where)
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      expect(out.map(({ type }) => type)).toEqual(['ADDED', 'DELETED', 'BOOKMARK', 'ERROR']);
      expect(out[0].object.columnDefinitions).toEqual([{ name: 'Name' }]);
      expect(JSON.stringify(out)).not.toContain('kube-system');
    }
    expect(() => through(narrowWatch(admits), 'x\n')).toThrow();
  });
  test.each([
    [undefined, 'application/json'],
    ['application/vnd.kubernetes.protobuf', 'application/json'],
    [
      'application/json;as=Table;v=v1;g=meta.k8s.io,application/json',
      'application/json;as=Table;v=v1;g=meta.k8s.io,application/json',
    ],
    [
      'application/cbor, application/json;as=Table;v=v1;g=meta.k8s.io',
      'application/json;as=Table;v=v1;g=meta.k8s.io,application/json',
    ],
  ])('Accept %s is asked of the cluster as %s', (accept, asked) => expect(acceptJson(accept)).toBe(asked));
});
