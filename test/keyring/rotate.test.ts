import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PosternError } from '../../common/errors.ts';
import type { Keyring } from '../../keyring/keyring.ts';
import { retireKey } from '../../keyring/retire.ts';
import { rotateKeys } from '../../keyring/rotate.ts';
import type { RotationRecord } from '../../keyring/rotations.ts';
import { keyStatus } from '../../keyring/status.ts';
import { openStore } from '../../store/open.ts';
import type { Row, Store } from '../../store/store.ts';
import { cheapKeyring } from './cheap.ts';

let folder: string;
let store: Store;
let keyring: Keyring;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postern-rotate-'));
  store = await openStore({ sqlite: join(folder, 'postern.db') });
  keyring = await cheapKeyring(store);
});
afterEach(async () => {
  keyring.close();
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

const SETS = ['secrets', 'custody', 'keys'];
const payload = (set: string, id: string) => `payload of ${set}/${id}`;

function sealedRow(set: string, id: string): Omit<Row, 'rev'> {
  const sealed = keyring.seal({ set, id }, Buffer.from(payload(set, id)));
  return { id, body: { note: 'kept' }, index: { by: ['index'] }, sealed };
}

async function fill(count: number): Promise<void> {
  const ids = Array.from({ length: count }, (_, n) => `row-${String(n).padStart(5, '0')}`);
  await Promise.all(
    ids.map((id, n) => {
      const set = SETS[n % SETS.length] ?? '';
      return store.commit([{ op: 'put', set, row: sealedRow(set, id) }]);
    }),
  );
}

/** Opens every sealed row of every set with a keyring that has just been opened. */
async function everyRowOpens(): Promise<number> {
  const fresh = await cheapKeyring(store);
  let count = 0;
  for (const set of SETS)
    for (const row of await store.list(set)) {
      if (!row.sealed) continue;
      expect(fresh.open({ set, id: row.id }, row.sealed).toString()).toBe(payload(set, row.id));
      expect(row).toMatchObject({ body: { note: 'kept' }, index: { by: ['index'] } });
      count++;
    }
  fresh.close();
  return count;
}

describe('rotation', () => {
  it('moves every row of every set onto a new key and leaves the payloads as they are', async () => {
    await fill(300);
    const before = (await store.list('secrets')).map(({ sealed }) => [sealed?.iv, sealed?.data]);
    const old = keyring.primaryId;
    const progress: RotationRecord[] = [];
    const report = await rotateKeys(
      { store, keyring },
      { actor: 'admin', newKey: true, onProgress: (record) => progress.push(record) },
    );
    expect(report).toMatchObject({
      complete: true,
      rewrapped: 300,
      failed: 0,
      errors: [],
      to: keyring.primaryId,
    });
    expect(Object.values(report.sets).map(({ rewrapped }) => rewrapped)).toEqual([100, 100, 100]);
    expect(keyring.primaryId).not.toBe(old);
    expect((await store.list('secrets')).map(({ sealed }) => [sealed?.iv, sealed?.data])).toEqual(before);
    expect(await everyRowOpens()).toBe(300);
    expect(progress.at(0)).toMatchObject({ state: 'running', rewrapped: 0, total: 300, startedBy: 'admin' });
    expect(progress.at(-1)).toMatchObject({ state: 'completed', rewrapped: 300 });
    expect(await keyStatus({ store, keyring })).toMatchObject({
      primary: keyring.primaryId,
      keys: [{ id: old, state: 'active' }, { state: 'primary' }],
      usage: [{ id: keyring.primaryId, rows: 300, sets: { secrets: 100, custody: 100, keys: 100 } }],
      unrotated: 0,
      rotations: [{ state: 'completed', to: keyring.primaryId }],
    });
    expect(await retireKey({ store, keyring }, old, 'admin')).toMatchObject({
      state: 'retired',
      retiredBy: 'admin',
    });
    expect(await everyRowOpens()).toBe(300);
  });

  it('of nothing is complete; a second run has nothing to do', async () => {
    expect(await rotateKeys({ store, keyring }, { actor: 'a', newKey: true })).toMatchObject({
      complete: true,
    });
    expect(await rotateKeys({ store, keyring }, { actor: 'a' })).toMatchObject({
      complete: true,
      rewrapped: 0,
    });
  });

  it('tried dry writes nothing, makes no key and says what would happen', async () => {
    await fill(30);
    const everything = async () =>
      JSON.stringify(await Promise.all([...SETS, 'key_rotations'].map((set) => store.list(set))));
    const before = await everything();
    const dry = await rotateKeys({ store, keyring }, { actor: 'a', newKey: true, dryRun: true });
    expect(dry).toMatchObject({ dryRun: true, complete: true, rewrapped: 30 });
    expect(await rotateKeys({ store, keyring }, { actor: 'a', dryRun: true })).toMatchObject({
      rewrapped: 0,
    });
    expect(await everything()).toBe(before);
  });

  it('counts and names a row that does not open, goes on with the rest, and says incomplete', async () => {
    await fill(40);
    const old = keyring.primaryId;
    const [damaged, moved] = await store.list('secrets');
    if (!damaged?.sealed || !moved?.sealed) throw new Error('no rows');
    // One row is damaged in its payload, another one carries a copy of a third.
    for (const [row, sealed] of [
      [damaged, { ...damaged.sealed, data: `${damaged.sealed.data.slice(0, -4)}AAAA` }],
      [moved, damaged.sealed],
    ] as const)
      await store.commit([{ op: 'put', set: 'secrets', row: { id: row.id, body: {}, index: {}, sealed } }]);
    const report = await rotateKeys({ store, keyring }, { actor: 'a', newKey: true, batch: 5 });
    expect(report).toMatchObject({ complete: false, rewrapped: 38, failed: 2 });
    expect(report.errors.map((message) => /row-\d+ of secrets/.exec(message)?.[0])).toEqual([
      `${damaged.id} of secrets`,
      `${moved.id} of secrets`,
    ]);
    expect((await keyStatus({ store, keyring })).rotations).toMatchObject([
      { state: 'incomplete', failed: 2, lastError: report.errors[1] },
    ]);
    await expect(retireKey({ store, keyring }, old, 'a')).rejects.toMatchObject({
      code: 'key_in_use',
      message: expect.stringContaining('2 in secrets'),
    });
  });

  it('never takes back what another writer wrote in between', async () => {
    await fill(60);
    let writes = 0;
    const busy: Store = {
      ...store,
      async list(set, query) {
        const rows = await store.list(set, query);
        // Somebody writes each third row after it was read.
        if (query?.sealedBy)
          for (const row of rows.filter((_, n) => n % 3 === 0)) {
            await store.commit([
              { op: 'put', set, row: { ...sealedRow(set, row.id), body: { note: 'newer' } } },
            ]);
            writes++;
          }
        return rows;
      },
    };
    const report = await rotateKeys({ store: busy, keyring }, { actor: 'a', newKey: true });
    expect(report).toMatchObject({ complete: true, skipped: 21 });
    const newer = (await Promise.all(SETS.map((set) => store.list(set))))
      .flat()
      .filter(({ body }) => body.note === 'newer');
    expect(newer).toHaveLength(writes);
  });

  it('stopped between two batches is interrupted, and goes on with the next run', async () => {
    await fill(60);
    const stop = new AbortController();
    const first = await rotateKeys(
      { store, keyring },
      {
        actor: 'a',
        newKey: true,
        batch: 5,
        signal: stop.signal,
        onProgress: ({ rewrapped }) => rewrapped >= 10 && stop.abort(),
      },
    );
    expect(first).toMatchObject({ complete: false, rewrapped: 10 });
    expect(await rotateKeys({ store, keyring }, { actor: 'a' })).toMatchObject({
      complete: true,
      rewrapped: 50,
    });
    const { rotations } = await keyStatus({ store, keyring });
    expect(rotations.map(({ state }) => state)).toEqual(['completed', 'interrupted']);
  });

  it('that fails at any one of its writes loses nothing, and the next run finishes', async () => {
    await fill(9);
    for (let failAt = 0; ; failAt++) {
      let writes = 0;
      const failing: Store = {
        ...store,
        commit: (all) =>
          writes++ === failAt
            ? Promise.reject(new PosternError('store_unavailable', 'gone'))
            : store.commit(all),
      };
      const first = await cheapKeyring(failing);
      const run = await rotateKeys(
        { store: failing, keyring: first },
        { actor: 'a', newKey: true, batch: 2 },
      ).catch((error) => error);
      first.close();
      expect(await everyRowOpens()).toBe(9);
      if (writes <= failAt) {
        expect(run).toMatchObject({ complete: true });
        expect(failAt).toBeGreaterThan(15);
        break;
      }
      expect(run).toMatchObject({ code: 'store_unavailable' });
      await keyring.reload();
      expect(await rotateKeys({ store, keyring }, { actor: 'a' })).toMatchObject({
        complete: true,
        failed: 0,
      });
      expect(await everyRowOpens()).toBe(9);
    }
  });

  it('killed at any point while others write loses nothing, and the next run finishes', async () => {
    await fill(240);
    const old = keyring.primaryId;
    await keyring.addKey('admin');
    let stopped = false;
    let written = 0;
    const writer = (async () => {
      while (!stopped) {
        const id = written % 2 ? `new-${written}` : `row-${String((written * 7) % 240).padStart(5, '0')}`;
        const set = SETS[written++ % SETS.length] ?? '';
        const row = await store.get(set, id);
        await store.commit([
          { op: 'put', set, row: sealedRow(set, id), ...(row ? { expect: row.rev } : {}) },
        ]);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    })();
    let killed = 0;
    for (let round = 0; round < 6; round++) {
      const child = spawn(
        process.execPath,
        [new URL('./rotator.ts', import.meta.url).pathname, join(folder, 'postern.db')],
        {
          stdio: ['ignore', 'pipe', 'inherit'],
        },
      );
      const lines = createInterface({ input: child.stdout });
      let seen = 0;
      const deadline = 1 + Math.floor(Math.random() * 5);
      for await (const _ of lines)
        if (++seen === deadline) setTimeout(() => child.kill('SIGKILL'), Math.random() * 10);
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      if (child.signalCode === 'SIGKILL') killed++;
      await everyRowOpens();
    }
    expect(killed).toBeGreaterThan(0);
    stopped = true;
    await writer;
    const report = await rotateKeys({ store, keyring }, { actor: 'admin' });
    expect(report).toMatchObject({ complete: true, failed: 0 });
    expect(await everyRowOpens()).toBeGreaterThanOrEqual(240);
    expect((await keyStatus({ store, keyring })).rotations.map(({ state }) => state)).not.toContain(
      'running',
    );
    await retireKey({ store, keyring }, old, 'admin');
    expect(await everyRowOpens()).toBeGreaterThanOrEqual(240);
  });
});

describe('retiring a key', () => {
  it('is refused while it is the primary one, and for one that never was', async () => {
    await expect(retireKey({ store, keyring }, keyring.primaryId, 'a')).rejects.toMatchObject({
      code: 'key_in_use',
      message: expect.stringContaining('primary'),
    });
    await expect(retireKey({ store, keyring }, 'kek_none', 'a')).rejects.toMatchObject({ code: 'not_found' });
  });

  it('destroys its salt, is remembered by name, and twice is once', async () => {
    const old = keyring.primaryId;
    const kdf = (await store.get('keys', old))?.body.kdf as { salt: string };
    const sealed = keyring.seal({ set: 'secrets', id: 'late' }, Buffer.from('x'));
    await keyring.addKey('a');
    const retired = await retireKey({ store, keyring }, old, 'admin');
    expect(retired).toMatchObject({ id: old, state: 'retired', openable: false, retiredBy: 'admin' });
    expect(await retireKey({ store, keyring }, old, 'another')).toEqual(retired);
    expect(JSON.stringify(await store.list('keys'))).not.toContain(kdf.salt);
    const open = () => keyring.open({ set: 'secrets', id: 'late' }, sealed);
    expect(open).toThrow(expect.objectContaining({ code: 'key_retired' }));
    const fresh = await cheapKeyring(store);
    expect(() => fresh.open({ set: 'secrets', id: 'late' }, sealed)).toThrow(
      expect.objectContaining({ code: 'key_retired' }),
    );
    fresh.close();
  });

  it('is refused while a row needs it, also one that is written during the retirement', async () => {
    const old = keyring.primaryId;
    const before = sealedRow('secrets', 'written-late');
    await keyring.addKey('a');
    const racing: Store = {
      ...store,
      async countSealed() {
        const counts = await store.countSealed();
        // Sealed before the new key came, stored after the retirement has counted.
        await store.commit([{ op: 'put', set: 'secrets', row: before }]);
        return counts;
      },
    };
    await expect(retireKey({ store: racing, keyring }, old, 'a')).rejects.toMatchObject({
      code: 'key_in_use',
      message: expect.stringContaining('1 in secrets'),
    });
    expect(await everyRowOpens()).toBe(1);
  });

  it('refuses the row that comes after it: nothing is stored that nobody could open', async () => {
    const old = keyring.primaryId;
    const late = sealedRow('secrets', 'too-late');
    await keyring.addKey('a');
    await retireKey({ store, keyring }, old, 'a');
    await expect(store.commit([{ op: 'put', set: 'secrets', row: late }])).rejects.toMatchObject({
      code: 'key_unknown',
    });
    expect(await store.list('secrets')).toEqual([]);
  });
});
