import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { noMetrics } from '../../common/metrics.ts';
import type { Envelope, Keyring } from '../../keyring/keyring.ts';
import { hasKeys } from '../../keyring/keyring.ts';
import { openStore } from '../../store/open.ts';
import { KEY_SET, type Store } from '../../store/store.ts';
import { cheapKeyring } from './cheap.ts';

let store: Store;
let opened: Keyring[];
const open = async (
  ...args: Parameters<typeof cheapKeyring> extends [unknown, (infer More)?] ? [More?] : never
) => {
  const keyring = await cheapKeyring(store, ...args);
  opened.push(keyring);
  return keyring;
};

beforeEach(async () => {
  store = await openStore({ sqlite: ':memory:' });
  opened = [];
});
afterEach(async () => {
  for (const keyring of opened) keyring.close();
  await store.close();
});

const name = { set: 'secrets', id: 'sec_1' };
const secret = Buffer.from('a credential');
const codeOf = (act: () => unknown): string => {
  try {
    act();
    return 'opened';
  } catch (error) {
    return (error as { code: string }).code;
  }
};

describe('opening the keyring', () => {
  it('makes one key in an empty store, and the same one opens again', async () => {
    expect(await hasKeys(store)).toBe(false);
    const first = await open();
    const sealed = first.seal(name, secret);
    const second = await open();
    expect(second.primaryId).toBe(first.primaryId);
    expect(second.open(name, sealed).equals(secret)).toBe(true);
    expect(await second.list()).toMatchObject([{ id: first.primaryId, state: 'primary', openable: true }]);
    expect(await hasKeys(store)).toBe(true);
  });

  it('by many at once makes one key', async () => {
    const all = await Promise.all(Array.from({ length: 5 }, () => open()));
    expect(new Set(all.map(({ primaryId }) => primaryId)).size).toBe(1);
    expect(await all[0]?.list()).toHaveLength(1);
  });

  it('with a wrong passphrase is key_wrong, names the setting and changes nothing', async () => {
    await open();
    const before = await store.list(KEY_SET);
    await expect(open({ passphrase: 'another one' })).rejects.toMatchObject({
      code: 'key_wrong',
      key: 'secretKey',
    });
    expect(await store.list(KEY_SET)).toEqual(before);
  });

  it('only to look makes nothing', async () => {
    await expect(open({ create: false })).rejects.toMatchObject({ code: 'key_missing' });
    expect(await store.list(KEY_SET)).toEqual([]);
  });

  it('makes no key where rows are sealed already: it could open none of them', async () => {
    const restored: Store = { ...store, countSealed: async () => ({ secrets: { kek_lost: 3 } }) };
    await expect(cheapKeyring(restored)).rejects.toMatchObject({ code: 'key_unknown', key: 'store' });
    expect(await store.list(KEY_SET)).toEqual([]);
  });

  it('keeps neither the key nor the passphrase in the store', async () => {
    await open();
    expect(JSON.stringify(await store.list(KEY_SET))).not.toMatch(/horse/);
  });

  it('refuses a store whose primary key was taken out or changed', async () => {
    const { primaryId } = await open();
    const row = await store.get(KEY_SET, primaryId);
    if (!row) throw new Error('no row');
    const { rev: _, ...kept } = row;
    const kdf = row.body.kdf as { [field: string]: string };
    for (const [body, code] of [
      [{ ...row.body, kdf: { ...kdf, salt: 'AAAA' } }, 'key_wrong'],
      [{ ...row.body, kdf: { ...kdf, N: 2 ** 40 } }, 'sealed_data_tampered'],
      [{ ...row.body, check: {} }, 'sealed_data_tampered'],
    ] as const) {
      await store.commit([{ op: 'put', set: KEY_SET, row: { ...kept, body } }]);
      await expect(open()).rejects.toMatchObject({ code });
    }
    await store.commit([{ op: 'delete', set: KEY_SET, id: primaryId }]);
    await expect(open()).rejects.toMatchObject({ code: 'sealed_data_tampered' });
  });
});

describe('a row that does not open', () => {
  it('has one of four errors, each with its remedy and its count', async () => {
    const failures: string[] = [];
    const metrics = { ...noMetrics, custodyOpenFailure: (reason: string) => failures.push(reason) };
    const keyring = await open({ metrics });
    const sealed = keyring.seal(name, secret);
    const errors = [
      () => keyring.open({ set: 'custody', id: 'sec_1' }, sealed),
      () => keyring.open({ set: 'secrets', id: 'sec_2' }, sealed),
      () => keyring.open(name, { ...sealed, data: sealed.iv }),
      () => keyring.open(name, { ...sealed, extra: 1 } as Envelope),
      () => keyring.open(name, { ...sealed, kek: 'kek_unheardof' }),
      () => keyring.rewrap(name, { ...sealed, kek: 'kek_unheardof' }),
    ].map(codeOf);
    expect(errors).toEqual([...Array(4).fill('sealed_data_tampered'), 'key_unknown', 'key_unknown']);
    expect(failures).toEqual([...Array(4).fill('tampered'), 'unknown_key', 'unknown_key']);
  });

  it('because its key came with another passphrase is key_wrong, while the rest opens', async () => {
    const first = await open();
    const sealed = first.seal(name, secret);
    await first.addKey('admin');
    // The old key's check value no longer fits: as if this process had another passphrase than that key had.
    const rows = await store.list(KEY_SET);
    const old = rows.find(({ id }) => id === sealed.kek);
    const fresh = rows.find(({ id }) => id === first.primaryId);
    if (!old || !fresh) throw new Error('no rows');
    const row = { id: old.id, index: old.index, body: { ...old.body, check: fresh.body.check ?? null } };
    await store.commit([{ op: 'put', set: KEY_SET, row }]);
    const keyring = await open();
    expect(codeOf(() => keyring.open(name, sealed))).toBe('key_wrong');
    expect(keyring.open(name, first.seal(name, secret)).equals(secret)).toBe(true);
    expect(await keyring.list()).toMatchObject([
      { id: sealed.kek, state: 'active', openable: false },
      { id: first.primaryId, state: 'primary', openable: true },
    ]);
  });
});

describe('adding a key', () => {
  it('seals under the new one and opens under both', async () => {
    const keyring = await open();
    const sealed = keyring.seal(name, secret);
    const added = await keyring.addKey('admin');
    expect(added).toMatchObject({ state: 'primary', createdBy: 'admin', openable: true });
    expect(keyring.seal(name, secret).kek).toBe(added.id);
    expect(keyring.open(name, sealed).equals(secret)).toBe(true);
    expect((await keyring.list()).map(({ state }) => state)).toEqual(['active', 'primary']);
  });

  it('by two at once leaves one primary, and both know it', async () => {
    const [a, b] = [await open(), await open()];
    await Promise.all([a.addKey('a'), b.addKey('b')]);
    await Promise.all([a.reload(), b.reload()]);
    expect(a.primaryId).toBe(b.primaryId);
    expect((await a.list()).map(({ state }) => state).sort()).toEqual(['active', 'active', 'primary']);
  });

  it('is heard of by another keyring over the same store', async () => {
    const [a, b] = [await open(), await open()];
    const { id } = await a.addKey('a');
    await expect.poll(() => b.primaryId).toBe(id);
    expect(b.open(name, a.seal(name, secret)).equals(secret)).toBe(true);
  });
});
