import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createRedactor } from '../../common/redact.ts';

const word = fc.string({
  unit: fc.constantFrom(...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.+/='),
  minLength: 8,
  maxLength: 120,
});
const password = fc.string({
  unit: fc.constantFrom(...'abcXYZ019 !"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~é€'),
  minLength: 8,
  maxLength: 60,
});
const credential = fc.oneof(word, password).filter((value) => !value.includes('[redacted]'.slice(0, 6)));
const around = fc.string({ maxLength: 40 });

/** Every 12-character piece of a value, or the whole of a shorter one. */
function pieces(value: string): string[] {
  const size = Math.min(12, value.length);
  return Array.from({ length: value.length - size + 1 }, (_, at) => value.slice(at, at + size));
}

test('a value in custody leaves no 12-character piece, wherever it stands in the text', () => {
  fc.assert(
    fc.property(
      fc.array(credential, { minLength: 1, maxLength: 5 }),
      around,
      around,
      fc.nat(),
      (values, before, after, pick) => {
        const redactor = createRedactor();
        for (const value of values) redactor.add(value);
        const value = values[pick % values.length] ?? '';
        const out = redactor.text(before + value + after);
        for (const piece of pieces(value)) expect(out).not.toContain(piece);
      },
    ),
  );
});

test('any piece of 12 characters of a value is found, cut anywhere', () => {
  fc.assert(
    fc.property(
      word.filter((value) => value.length >= 12),
      fc.nat(),
      fc.integer({ min: 12, max: 40 }),
      (value, at, size) => {
        const redactor = createRedactor();
        redactor.add(value);
        const start = at % (value.length - 11);
        const piece = value.slice(start, start + size);
        expect(redactor.text(`<<${piece}>>`)).not.toContain(piece.slice(0, 12));
      },
    ),
  );
});

const ENCODINGS: { [name: string]: (value: string) => string } = {
  base64: (value) => Buffer.from(value).toString('base64'),
  base64url: (value) => Buffer.from(value).toString('base64url'),
  'Basic with x-access-token': (value) => Buffer.from(`x-access-token:${value}`).toString('base64'),
  'Basic with any user': (value) => Buffer.from(`u:${value}`).toString('base64'),
  'base64 inside more': (value) => Buffer.from(`{"auth":"${value}","x":1}`).toString('base64'),
  'URL encoding': encodeURIComponent,
  'form encoding': (value) => new URLSearchParams([['v', value]]).toString(),
  'JSON escapes': (value) => JSON.stringify(value),
  'user information': (value) => `https://x-access-token:${encodeURIComponent(value)}@example.com/`,
};

test.each(Object.entries(ENCODINGS))('found in its encoded form: %s', (_name, encode) => {
  fc.assert(
    fc.property(
      credential.filter((value) => value.length >= 12 && value.isWellFormed()),
      (value) => {
        const redactor = createRedactor();
        redactor.add(value);
        const encoded = encode(value);
        const out = redactor.text(`head ${encoded} tail`);
        // The first and last characters of base64 also hold bits of what stands around the value.
        const core = encoded.slice(4, -4);
        const size = Math.min(36, Math.max(8, Math.floor(core.length * 0.75)));
        for (let at = 0; at + size <= core.length; at++) expect(out).not.toContain(core.slice(at, at + size));
      },
    ),
    { numRuns: 60 },
  );
});

test('clean text comes back as the same string', () => {
  const redactor = createRedactor();
  redactor.add('ghp_0123456789abcdefghijABCDEFGHIJ456789');
  const text =
    'git/2.39.2 fetched acme/tool refs/heads/main with lease L1, 3 tokens left; authentication is basic';
  expect(redactor.text(text)).toBe(text);
});

test('a value added twice is held until it is removed twice', () => {
  const redactor = createRedactor();
  redactor.add('correct-horse-battery');
  redactor.add('correct-horse-battery');
  redactor.remove('correct-horse-battery');
  expect(redactor.text('a correct-horse-battery b')).toBe('a [redacted] b');
  redactor.remove('correct-horse-battery');
  redactor.remove('correct-horse-battery');
  expect(redactor.text('a correct-horse-battery b')).toBe('a correct-horse-battery b');
});

test('removing one of two values that share most of their text keeps the other', () => {
  const redactor = createRedactor();
  redactor.add('shared-prefix-of-both-values-1');
  redactor.add('shared-prefix-of-both-values-2');
  redactor.remove('shared-prefix-of-both-values-1');
  expect(redactor.text('shared-prefix-of-both-values-2')).toBe('[redacted]');
});

test.each([
  ['', 'nothing to see'],
  ['abc', 'abc stays: three letters would redact half of every log'],
])('a value too short to tell apart is left alone: %j', (value, text) => {
  const redactor = createRedactor();
  redactor.add(value);
  expect(redactor.text(text)).toBe(text);
});

test('a value under eight characters goes as a whole word only', () => {
  const redactor = createRedactor();
  redactor.add('hunter2');
  expect(redactor.text('the hunter2, "hunter2" and hunter23')).toBe(
    'the [redacted], "[redacted]" and hunter23',
  );
});

test('five thousand values: each is found, and adding and removing leaves nothing behind', () => {
  const redactor = createRedactor();
  const values = Array.from(
    { length: 5000 },
    (_, i) => `value-${(i * 7919 + 12345).toString(36)}-${((i * 104729 + 7) % 1e9).toString(36)}-end`,
  );
  for (const value of values) redactor.add(value);
  for (const value of values) expect(redactor.text(`x ${value} y`)).toBe('x [redacted] y');
  for (const value of values) redactor.remove(value);
  for (const value of values.slice(0, 50)) expect(redactor.text(`x ${value} y`)).toBe(`x ${value} y`);
});

test('the shared head of a JWT in custody does not hide the rest of another JWT', () => {
  const encode = (text: string) => Buffer.from(text).toString('base64url');
  const head = encode('{"alg":"RS256","kid":"the-same-key"}');
  const redactor = createRedactor();
  redactor.add(`${head}.${encode('{"sub":"one","n":1}')}.c2lnbmF0dXJlLW9uZQ`);
  const other = `${head}.${encode('{"sub":"two","n":2}')}.c2lnbmF0dXJlLXR3bw`;
  expect(redactor.text(`got ${other} here`)).toBe('got [redacted] here');
});

test('a kubeconfig gives its token, password and key, also line by line and decoded, and not its server', () => {
  const line = 'MHcCAQEEIBuJ1v5r7Vw2aQxYz0123456789abcdefghijklmnopqrstuvwx0123';
  const key = `-----BEGIN EC PRIVATE KEY-----\n${line}\nAoGCCqGSM49AwEHoUQDQgAE\n-----END EC PRIVATE KEY-----\n`;
  const document = `apiVersion: v1
kind: Config
clusters:
- name: prod
  cluster: { server: https://prod.example.com:6443, certificate-authority-data: Q0FDQUNBQ0FDQUNBQ0E= }
users:
- name: deploy
  user:
    token: plain-static-token-1
    password: >-
      folded secret
    client-key-data: ${Buffer.from(key).toString('base64')}
- name: plugin
  user:
    exec:
      command: /bin/x
      env: [ { name: AWS_SECRET_ACCESS_KEY, value: wJalrXUtnFEMIbPxRfi }, { name: REGION, value: north-one } ]
`;
  const redactor = createRedactor();
  redactor.add(document);
  expect(redactor.text('saw plain-static-token-1.')).toBe('saw [redacted].');
  expect(redactor.text('saw folded secret.')).toBe('saw [redacted].');
  expect(redactor.text('saw MHcCAQEEIBuJ1v5r7Vw2aQxYz0123456789 here')).toBe('saw [redacted] here');
  expect(redactor.text('saw wJalrXUtnFEMIbPxRfi.')).toBe('saw [redacted].');
  expect(redactor.text(document)).toBe('[redacted]\n');
  const clean = 'https://prod.example.com:6443 north-one apiVersion: v1 kind: Config deploy';
  expect(redactor.text(clean)).toBe(clean);
  redactor.remove(document);
  expect(redactor.text('saw folded secret.')).toBe('saw folded secret.');
});

test.each([
  [
    'a GitHub App payload',
    '{"app_id": 1, "private_key": "-----BEGIN RSA PRIVATE KEY-----\\nMIIEowIBAAKCAQEAabcdefghijklmnop\\n-----END RSA PRIVATE KEY-----"}',
    'MIIEowIBAAKCAQEAabcdefghijklmnop',
  ],
  [
    'a registry auth file',
    JSON.stringify({
      auths: { 'ghcr.io': { auth: Buffer.from('robot:pull-secret-77').toString('base64') } },
    }),
    'pull-secret-77',
  ],
  [
    'YAML that does not parse',
    'users:\n  - {token: [unclosed\n   password: last-line-secret\n',
    'last-line-secret',
  ],
])('the credential inside a document is known by itself: %s', (_name, document, inside) => {
  const redactor = createRedactor();
  redactor.add(document);
  expect(redactor.text(`saw ${inside} there`)).toBe('saw [redacted] there');
});

test('a null token in a kubeconfig does not redact the word null', () => {
  const redactor = createRedactor();
  redactor.add('users:\n- user:\n    token: null\n');
  expect(redactor.text('null and void')).toBe('null and void');
});
