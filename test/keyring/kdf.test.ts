import { describe, expect, it } from 'vitest';
import { Credential } from '../../common/credential.ts';
import { deriveKey, isUsableCost, SCRYPT_COST } from '../../keyring/kdf.ts';

const derive = async (passphrase: string, cost = { N: 16, r: 1, p: 1 }) =>
  (await deriveKey(new Credential(passphrase), Buffer.from('salt'.repeat(4)), cost)).export().toString('hex');

describe('deriving a key', () => {
  it('costs 128 MiB by default, and runs', async () => {
    expect(128 * SCRYPT_COST.N * SCRYPT_COST.r).toBe(2 ** 27);
    expect(await derive('a passphrase', SCRYPT_COST)).toMatch(/^[0-9a-f]{64}$/);
  });

  it('agrees with RFC 7914', async () => {
    const key = await deriveKey(new Credential('password'), Buffer.from('NaCl'), { N: 1024, r: 8, p: 16 });
    expect(key.export().toString('hex')).toBe(
      'fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162',
    );
  });

  it('takes a passphrase as the same one, however its accents were typed', async () => {
    expect(await derive('caf\u00e9')).toBe(await derive('cafe\u0301'));
    expect(await derive('cafe')).not.toBe(await derive('caf\u00e9'));
  });

  it.each([
    { N: 2 ** 24, r: 8, p: 1 },
    { N: 2 ** 17, r: 1024, p: 1 },
    { N: 2 ** 10, r: 8, p: 2 ** 30 },
    { N: 1000, r: 8, p: 1 },
    { N: 0, r: 8, p: 1 },
    { N: -2, r: 8, p: 1 },
    { N: 2.5, r: 8, p: 1 },
    { N: Number.NaN, r: 8, p: 1 },
    { N: Number.POSITIVE_INFINITY, r: 8, p: 1 },
  ])('refuses a cost that a changed row could ask for: %o', async (cost) => {
    expect(isUsableCost(cost)).toBe(false);
    await expect(derive('x', cost)).rejects.toThrow(RangeError);
  });
});
