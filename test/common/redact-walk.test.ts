import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Credential } from '../../common/credential.ts';
import { createRedactor } from '../../common/redact.ts';

const SECRET = 'kx7Qp2-vault.Entry/88+tail';

function secretive() {
  const redactor = createRedactor();
  redactor.add(SECRET);
  return redactor;
}

/** Wraps a value in one more layer of some structure. */
const layer = fc.constantFrom<(inner: unknown) => unknown>(
  (inner) => ({ a: 1, b: inner }),
  (inner) => [0, inner, 'x'],
  (inner) => new Map<unknown, unknown>([['k', inner]]),
  (inner) => new Map<unknown, unknown>([[inner, 'v']]),
  (inner) => new Set([inner]),
  (inner) => new Error('outer', { cause: inner }),
  (inner) => new AggregateError([new Error('x'), inner], 'many'),
  (inner) => Object.assign(new Error('with a field'), { detail: inner }),
  (inner) => ({ toJSON: () => inner }),
  (inner) => ({
    get late() {
      return inner;
    },
  }),
  (inner) => Object.assign(Object.create(null), { inner }),
);
const leaf = fc.constantFrom<(text: string) => unknown>(
  (text) => text,
  (text) => new Error(`failed: ${text}`),
  (text) => ({ [text]: 1 }),
  (text) => Object(text),
  (text) => Symbol(text),
  (text) => new Headers({ 'x-note': text }),
  (text) => new URLSearchParams({ q: text }),
  (text) => new URL(`https://u:${encodeURIComponent(text)}@example.com/`),
  (text) => ({ headers: ['Authorization', text] }),
  (text) => JSON.stringify({ text }),
  (text) => JSON.stringify(JSON.stringify({ text })),
);

test('a credential embedded anywhere is in no piece of the JSON of the result', () => {
  const redactor = secretive();
  fc.assert(
    fc.property(
      fc.array(layer, { maxLength: 6 }),
      leaf,
      fc.string(),
      fc.string(),
      (layers, make, before, after) => {
        const clean = before.replace(/[\n\r\0]/g, '');
        const text = `${clean.replace(/[^ -~]/g, '')}${SECRET}${after.replace(/[^ -~]/g, '')}`;
        let value = make(text);
        for (const wrap of layers) value = wrap(value);
        const out = JSON.stringify(redactor.value(value)) ?? '';
        for (let at = 0; at + 12 <= SECRET.length; at++) expect(out).not.toContain(SECRET.slice(at, at + 12));
      },
    ),
    { numRuns: 400 },
  );
});

test('an error keeps its name, message, stack, fields and the whole chain of causes', () => {
  const redactor = secretive();
  const root = Object.assign(new TypeError(`socket said ${SECRET}`), { code: 'ECONNRESET' });
  const out = redactor.value(
    new Error('upstream failed', { cause: new Error('fetch failed', { cause: root }) }),
  );
  expect(out).toMatchObject({
    name: 'Error',
    message: 'upstream failed',
    cause: {
      message: 'fetch failed',
      cause: { name: 'TypeError', message: 'socket said [redacted]', code: 'ECONNRESET' },
    },
  });
  expect(JSON.stringify(out)).toContain('redact-walk.test.ts');
});

test('cycles, throwing getters, hostile proxies and binary become short markers', () => {
  const redactor = secretive();
  const circle: { [key: string]: unknown } = { name: 'loop' };
  circle.self = circle;
  circle.token = [circle];
  const hostile = new Proxy(
    {},
    {
      ownKeys: () => {
        throw new Error('no');
      },
    },
  );
  const value = {
    circle,
    hostile,
    get broken(): string {
      throw new Error('no');
    },
    bytes: Buffer.from(SECRET),
    view: new Uint16Array(4),
    credential: new Credential(SECRET),
    when: new Date(0),
    big: 10n,
    fn: () => SECRET,
    none: undefined,
    nan: Number.NaN,
  };
  expect(redactor.value(value)).toEqual({
    circle: { name: 'loop', self: '[circular]', token: ['[circular]'] },
    hostile: '[unreadable]',
    broken: '[unreadable]',
    bytes: '[binary]',
    view: '[binary]',
    credential: '[redacted]',
    when: '1970-01-01T00:00:00.000Z',
    big: '10',
    fn: '[function]',
    none: undefined,
    nan: 'NaN',
  });
});

test('what stands under a telling name goes whatever it looks like', () => {
  const redactor = createRedactor();
  expect(
    redactor.value({
      headers: { Authorization: 'x', 'set-cookie': ['a=1', 'b=2'], accept: '*/*' },
      password: 12345678,
      auth: { user: 'u', pass: 'p' },
      secretName: 'deploy-key',
      argv: ['curl', '--password', 'abc', 'https://example.com'],
      raw: ['Host', 'h', 'Cookie', 'a=1'],
    }),
  ).toEqual({
    headers: { Authorization: '[redacted]', 'set-cookie': ['[redacted]', '[redacted]'], accept: '*/*' },
    password: '[redacted]',
    auth: { user: 'u', pass: '[redacted]' },
    secretName: 'deploy-key',
    argv: ['curl', '--password', '[redacted]', 'https://example.com'],
    raw: ['Host', 'h', 'Cookie', '[redacted]'],
  });
});

test('a credential that is a number is found as a number', () => {
  const redactor = createRedactor();
  redactor.add('9081726354');
  expect(redactor.value({ n: 9081726354, m: 9081726355 })).toEqual({ n: '[redacted]', m: 9081726355 });
});

test('a structure without end, very deep or very wide, is cut and not followed', () => {
  const redactor = createRedactor();
  let deep: unknown = 'end';
  for (let i = 0; i < 100_000; i++) deep = [deep];
  expect(JSON.stringify(redactor.value(deep))).toContain('[too deep]');
  const wide = redactor.value(new Array(100_000).fill('x')) as unknown[];
  expect(wide.length).toBeLessThan(30_000);
  expect(wide.at(-1)).toBe('[too much]');
});

test('an own __proto__ key stays data', () => {
  const out = createRedactor().value(JSON.parse('{"__proto__":{"admin":true},"a":1}')) as object;
  expect(Object.getPrototypeOf(out)).toBe(Object.prototype);
  expect(JSON.stringify(out)).toBe('{"__proto__":{"admin":true},"a":1}');
});
