import { createSecretKey, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Envelope, NotAuthentic, open, parseEnvelope, rewrap, seal } from '../../keyring/envelope.ts';

const key = createSecretKey(randomBytes(32));
const other = createSecretKey(randomBytes(32));
const name = { set: 'custody', id: 'ses_1/c1' };
const secret = Buffer.from('ghp_a-credential');
const FIELDS = ['wrapIv', 'wrappedKey', 'iv', 'data'] as const;

const flipBit = (text: string, bit: number): string => {
  const bytes = Buffer.from(text, 'base64url');
  const at = bit % (bytes.length * 8);
  bytes[at >> 3] = (bytes[at >> 3] ?? 0) ^ (1 << (at & 7));
  return bytes.toString('base64url');
};

describe('an envelope', () => {
  it('opens to what was sealed, whatever that is and wherever it lies', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 5000 }), fc.string({ minLength: 1 }), (bytes, id) => {
        const sealed = seal(key, 'k', { set: 's', id }, bytes);
        expect(parseEnvelope(JSON.parse(JSON.stringify(sealed)))).toEqual(sealed);
        expect(open(key, { set: 's', id }, sealed).equals(bytes)).toBe(true);
      }),
    );
  });

  it('never repeats itself: every seal has a data key and nonces of its own', () => {
    const seen = new Set<string>();
    for (let n = 0; n < 200; n++) for (const field of FIELDS) seen.add(seal(key, 'k', name, secret)[field]);
    expect(seen.size).toBe(800);
  });

  it('holds nothing of the payload in the clear', () => {
    const text = JSON.stringify(seal(key, 'k', name, secret));
    expect(text).not.toContain(secret.toString());
    expect(text).not.toContain(secret.toString('base64url').slice(0, 12));
  });

  it('does not open after any one bit of it is changed', () => {
    const sealed = seal(key, 'k', name, secret);
    fc.assert(
      fc.property(fc.constantFrom(...FIELDS), fc.nat(10_000), (field, bit) => {
        const changed = { ...sealed, [field]: flipBit(sealed[field], bit) };
        expect(() => open(key, name, changed)).toThrow(NotAuthentic);
        expect(() => rewrap(key, other, 'o', name, changed)).toThrow(NotAuthentic);
      }),
    );
  });

  it('copied over another row, of the same set or another one, does not open', () => {
    const sealed = seal(key, 'k', name, secret);
    for (const place of [
      { set: 'custody', id: 'ses_1/c2' },
      { set: 'secrets', id: 'ses_1/c1' },
      { set: 'custody', id: 'ses_1/c1 ' },
    ])
      expect(() => open(key, place, sealed)).toThrow(NotAuthentic);
  });

  it('of which one seal is taken from another row does not open either', () => {
    const [mine, theirs] = [
      seal(key, 'k', name, secret),
      seal(key, 'k', { set: 'custody', id: 'x' }, secret),
    ];
    const mixed: Envelope = { ...mine, wrapIv: theirs.wrapIv, wrappedKey: theirs.wrappedKey };
    expect(() => open(key, name, mixed)).toThrow(NotAuthentic);
    expect(() => open(key, name, { ...mine, iv: theirs.iv, data: theirs.data })).toThrow(NotAuthentic);
  });

  it('has one place only: a slash cannot move from the row id into the name of the set', () => {
    expect(() => seal(key, 'k', { set: 'custody/ses_1', id: 'c1' }, secret)).toThrow(TypeError);
    expect(() => open(key, { set: 'a/b', id: 'c' }, seal(key, 'k', name, secret))).toThrow(TypeError);
  });

  it('rewrapped opens under the new key alone and keeps its payload byte for byte', () => {
    const sealed = seal(key, 'k', name, secret);
    const moved = rewrap(key, other, 'o', name, sealed);
    expect(moved).toMatchObject({ kek: 'o', iv: sealed.iv, data: sealed.data });
    expect(open(other, name, moved).equals(secret)).toBe(true);
    expect(() => open(key, name, moved)).toThrow(NotAuthentic);
  });
});

describe('reading an envelope', () => {
  const good = seal(key, 'k', name, secret);
  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['a list', [good]],
    ['text', JSON.stringify(good)],
    ['a version of the future', { ...good, v: 2 }],
    ['a field too many', { ...good, alg: 'none' }],
    ['a field too few', { ...good, iv: undefined }],
    ['no key', { ...good, kek: '' }],
    ['padding', { ...good, data: `${good.data}=` }],
    ['another alphabet', { ...good, wrapIv: '++++++++++++++++' }],
    ['a second spelling of the same bytes', { ...good, data: secondSpelling() }],
    ['a short nonce', { ...good, iv: good.iv.slice(0, 8) }],
    ['a short data key', { ...good, wrappedKey: good.wrappedKey.slice(0, 32) }],
    ['no room for a tag', { ...good, data: 'AAAA' }],
  ])('refuses %s', (_, value) => expect(parseEnvelope(value)).toBeUndefined());

  // 16 bytes leave four bits of the last character unused.
  function secondSpelling(): string {
    const data = seal(key, 'k', name, Buffer.alloc(0)).data;
    const last = data.at(-1) ?? 'A';
    return data.slice(0, -1) + String.fromCharCode(last.charCodeAt(0) + 1);
  }
});
