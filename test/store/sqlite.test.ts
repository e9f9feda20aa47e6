import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openStore } from '../../store/open.ts';
import { openSqliteStore } from '../../store/sqlite.ts';
import type { Store } from '../../store/store.ts';
import { storeBehaviour } from './behaviour.ts';

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postern-store-'));
  file = join(folder, 'data', 'postern.db');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

storeBehaviour('SQLite in a file', async () => {
  const store = await openStore({ sqlite: file });
  return { store, dispose: () => store.close() };
});

storeBehaviour('SQLite in memory', async () => {
  const store = await openStore({ sqlite: ':memory:' });
  return { store, dispose: () => store.close() };
});

const write = (store: Store, id: string) =>
  store.commit([{ op: 'put', set: 's', row: { id, body: {}, index: {} } }]);

describe('the file', () => {
  it('is for its owner alone, with the files beside it, in a folder made so', async () => {
    const store = await openStore({ sqlite: file });
    await write(store, 'a');
    expect((await stat(join(folder, 'data'))).mode & 0o777).toBe(0o700);
    const names = await readdir(join(folder, 'data'));
    expect(names.sort()).toEqual(['postern.db', 'postern.db-shm', 'postern.db-wal']);
    for (const name of names) expect((await stat(join(folder, 'data', name))).mode & 0o777).toBe(0o600);
    await store.close();
    expect(await readdir(join(folder, 'data'))).toEqual(['postern.db']);
  });

  it('that others could read is closed to them', async () => {
    await (await openStore({ sqlite: file })).close();
    await chmod(file, 0o644);
    await (await openStore({ sqlite: file })).close();
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });

  it('keeps its rows over a restart', async () => {
    const first = await openStore({ sqlite: file });
    await write(first, 'a');
    await first.close();
    const second = await openStore({ sqlite: file });
    expect((await second.get('s', 'a'))?.rev).toBe(1);
    await second.close();
  });

  it('holds nothing of a row that was deleted', async () => {
    const store = await openStore({ sqlite: file });
    const salt = 'salt-that-must-be-gone';
    await store.commit([{ op: 'put', set: 's', row: { id: 'a', body: { salt }, index: {} } }]);
    await store.commit([{ op: 'delete', set: 's', id: 'a' }]);
    await store.close();
    const { readFile } = await import('node:fs/promises');
    expect((await readFile(file)).includes(salt)).toBe(false);
  });

  it.each<[string, () => Promise<unknown>, RegExp]>([
    [
      'is no database',
      () => writeFile(file, 'something else, and long enough to have a header'.repeat(20)),
      /not an SQLite database/,
    ],
    ['is a folder', () => mkdir(file), /cannot be used/],
    [
      'lies behind a dangling link to a missing folder',
      () => symlink('/nonexistent/place/db', file),
      /cannot be used/,
    ],
    [
      'belongs to another program',
      async () => {
        const db = new DatabaseSync(file);
        db.exec('CREATE TABLE theirs (a)');
        db.close();
      },
      /database of another program/,
    ],
    [
      'was written by a newer version',
      async () => {
        await (await openStore({ sqlite: file })).close();
        const db = new DatabaseSync(file);
        db.exec('PRAGMA user_version = 99');
        db.close();
      },
      /newer Postern \(schema 99; this program knows \d+\)/,
    ],
  ])('that %s is refused, named and left alone', async (_, make, message) => {
    await mkdir(join(folder, 'data'));
    await make();
    await expect(openStore({ sqlite: file })).rejects.toMatchObject({
      code: 'invalid_config',
      key: 'store.sqlite',
      message: expect.stringMatching(message),
    });
  });

  it('is opened by two at once, and compare-and-swap holds between them', async () => {
    const stores = await Promise.all([openStore({ sqlite: file }), openStore({ sqlite: file })]);
    const won = await Promise.all(
      stores.map(async (store) => {
        let count = 0;
        for (let n = 0; n < 30; n++) {
          const row = { id: `${n}`, body: {}, index: {} };
          if (await store.commit([{ op: 'put', set: 's', row, expect: 0 }])) count++;
        }
        return count;
      }),
    );
    expect((won[0] ?? 0) + (won[1] ?? 0)).toBe(30);
    await Promise.all(stores.map((store) => store.close()));
  });
});

describe('kill -9 of a process that writes', () => {
  it('loses no commit that resolved, and keeps every commit whole', async () => {
    for (let round = 0; round < 3; round++) {
      const child = spawn(
        process.execPath,
        [new URL('./writer.ts', import.meta.url).pathname, file, `${round}`],
        {
          stdio: ['ignore', 'pipe', 'inherit'],
        },
      );
      const done: string[] = [];
      for await (const line of createInterface({ input: child.stdout })) {
        done.push(line);
        if (done.length === 60) child.kill('SIGKILL');
      }
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      expect(child.signalCode).toBe('SIGKILL');

      const store = await openStore({ sqlite: file });
      const left = new Set((await store.list('left')).map(({ id }) => id));
      const right = new Set((await store.list('right')).map(({ id }) => id));
      expect(done.filter((id) => !left.has(id))).toEqual([]);
      expect(left).toEqual(right);
      await store.close();
    }
  });
});

describe('the worker', () => {
  it('that dies fails what is under way as store_unavailable; the store works again with a new one', async () => {
    let worker: Worker | undefined;
    const spawnWorker = () => {
      worker = new Worker(new URL('../../store/sqlite-worker.ts', import.meta.url), {
        workerData: { file },
        execArgv: [],
      });
      return worker;
    };
    const store = await openSqliteStore(file, spawnWorker);
    await write(store, 'before');
    const first = worker;
    const underWay = Array.from({ length: 5 }, (_, n) => write(store, `during-${n}`));
    const results = Promise.allSettled(underWay);
    await first?.terminate();
    // Written or refused as unavailable, never hanging and never another error.
    for (const result of await results) {
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'store_unavailable' });
    }
    await expect
      .poll(
        () =>
          store.ping().then(
            () => 'works',
            (error) => error.code,
          ),
        { timeout: 10_000 },
      )
      .toBe('works');
    expect(worker).not.toBe(first);
    await write(store, 'after');
    const ids = (await store.list('s')).map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(['before', 'after']));
    await store.close();
  });

  it('that cannot start again keeps the store failed, and says why', async () => {
    let worker: Worker | undefined;
    const store = await openSqliteStore(file, () => {
      worker = new Worker(new URL('../../store/sqlite-worker.ts', import.meta.url), {
        workerData: { file },
        execArgv: [],
      });
      return worker;
    });
    await worker?.terminate();
    await rm(join(folder, 'data'), { recursive: true });
    await mkdir(file, { recursive: true });
    await expect
      .poll(() => store.ping().catch((error) => [error.code, error.message]), { timeout: 10_000 })
      .toEqual(['store_unavailable', expect.stringContaining('cannot be used')]);
    await store.close();
  });

  it('of a store in memory is not replaced: an empty store must not pass for the old one', async () => {
    let started = 0;
    let worker: Worker | undefined;
    const store = await openSqliteStore(':memory:', () => {
      started++;
      worker = new Worker(new URL('../../store/sqlite-worker.ts', import.meta.url), {
        workerData: { file: ':memory:' },
        execArgv: [],
      });
      return worker;
    });
    await write(store, 'a');
    await worker?.terminate();
    await expect(store.get('s', 'a')).rejects.toMatchObject({ code: 'store_unavailable' });
    expect(started).toBe(1);
    await store.close();
  });

  it('does not keep a program that forgot to close from ending', async () => {
    const child = spawn(process.execPath, [new URL('./writer.ts', import.meta.url).pathname, file, 'x', '5']);
    const [code] = await once(child, 'exit');
    expect(code).toBe(0);
  });
});
