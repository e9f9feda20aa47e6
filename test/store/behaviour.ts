// What every backend of store/store.ts must do. `open` gives a fresh, empty store each time.

import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Change, KEY_SET, type Row, type Store, type Write } from '../../store/store.ts';

const envelope = (kek: string) =>
  ({ v: 1, kek, wrapIv: 'aa', wrappedKey: 'bb', iv: 'cc', data: 'dd' }) as const;

const put = (set: string, id: string, more: Partial<Row> & { expect?: number } = {}): Write => {
  const { expect, ...row } = more;
  return {
    op: 'put',
    set,
    row: { id, body: {}, index: {}, ...row },
    ...(expect === undefined ? {} : { expect }),
  };
};

export function storeBehaviour(
  name: string,
  open: () => Promise<{ store: Store; dispose(): Promise<void> }>,
): void {
  describe(`${name} as a store`, () => {
    let store: Store;
    let dispose: () => Promise<void>;

    beforeEach(async () => {
      ({ store, dispose } = await open());
    });
    afterEach(() => dispose());

    const ids = async (set: string, query?: Parameters<Store['list']>[1]) =>
      (await store.list(set, query)).map(({ id }) => id);

    describe('rows', () => {
      it('come back as they were written', async () => {
        await store.commit([put(KEY_SET, 'k1')]);
        const row = {
          id: 'a/b é 𝄞',
          body: { text: 'x"\n', list: [1, null, { deep: true }], number: 1.5 },
          sealed: envelope('k1'),
          index: { lease: ['L1'], secret: ['s1', 's2'] },
        };
        expect(await store.commit([{ op: 'put', set: 'one', row }])).toBe(true);
        expect(await store.get('one', row.id)).toEqual({ ...row, rev: 1 });
        expect(await store.get('two', row.id)).toBeUndefined();
        expect(await store.get('one', 'a/b')).toBeUndefined();
      });

      it('hold what they held when commit was called, whatever the caller does to its objects after', async () => {
        const body = { n: 1 };
        const done = store.commit([put('s', 'a', { body })]);
        body.n = 2;
        await done;
        expect((await store.get('s', 'a'))?.body).toEqual({ n: 1 });
      });

      it('lose the payload and the index entries that a later write does not have', async () => {
        await store.commit([put(KEY_SET, 'k1')]);
        await store.commit([put('s', 'a', { sealed: envelope('k1'), index: { x: ['1', '2'] } })]);
        await store.commit([put('s', 'a', { index: { x: ['2', '3'] } })]);
        expect(await store.get('s', 'a')).toEqual({ id: 'a', rev: 2, body: {}, index: { x: ['2', '3'] } });
        expect(await ids('s', { where: { index: 'x', value: '1' } })).toEqual([]);
        expect(await ids('s', { where: { index: 'x', value: '3' } })).toEqual(['a']);
        expect(await store.countSealed()).toEqual({});
      });

      it('refuse names that another backend could not keep or that could become another name', async () => {
        for (const bad of ['', 'a\0b', '\ud800']) {
          await expect(store.commit([put('s', bad)])).rejects.toThrow(TypeError);
          await expect(store.commit([put('s', 'a', { index: { x: [bad] } })])).rejects.toThrow(TypeError);
          await expect(store.commit([{ op: 'delete', set: 's', id: bad }])).rejects.toThrow(TypeError);
        }
        expect(await ids('s')).toEqual([]);
      });
    });

    describe('commit', () => {
      it('counts rev up with every write and starts again after a delete', async () => {
        for (const rev of [1, 2, 3]) {
          await store.commit([put('s', 'a')]);
          expect((await store.get('s', 'a'))?.rev).toBe(rev);
        }
        await store.commit([{ op: 'delete', set: 's', id: 'a' }]);
        expect(await store.get('s', 'a')).toBeUndefined();
        await store.commit([put('s', 'a', { expect: 0 })]);
        expect((await store.get('s', 'a'))?.rev).toBe(1);
      });

      it('writes nothing where one expectation does not hold, whichever place it has', async () => {
        await store.commit([put('s', 'a')]);
        const failing: Write[] = [
          put('s', 'a', { expect: 0 }),
          put('s', 'a', { expect: 2 }),
          put('s', 'none', { expect: 1 }),
          { op: 'delete', set: 's', id: 'a', expect: 2 },
          { op: 'delete', set: 's', id: 'none', expect: 1 },
          { op: 'check', set: 's', id: 'a', expect: 0 },
          { op: 'check', set: 's', id: 'none', expect: 1 },
        ];
        for (const write of failing) {
          const good = [put('s', 'b', { index: { x: ['1'] } }), put('t', 'c')];
          expect(await store.commit([...good, write])).toBe(false);
          expect(await store.commit([write, ...good])).toBe(false);
        }
        expect(await ids('s')).toEqual(['a']);
        expect(await ids('t')).toEqual([]);
        expect(await ids('s', { where: { index: 'x', value: '1' } })).toEqual([]);
        expect((await store.get('s', 'a'))?.rev).toBe(1);
      });

      it('takes its writes in order, each seeing the one before', async () => {
        expect(
          await store.commit([
            put('s', 'a', { expect: 0 }),
            put('s', 'a', { expect: 1 }),
            { op: 'check', set: 's', id: 'a', expect: 2 },
            { op: 'delete', set: 's', id: 'a', expect: 2 },
            { op: 'check', set: 's', id: 'a', expect: 0 },
          ]),
        ).toBe(true);
        expect(await ids('s')).toEqual([]);
      });

      it('deletes what is not there without complaint, and an empty commit is done', async () => {
        expect(await store.commit([{ op: 'delete', set: 's', id: 'none' }])).toBe(true);
        expect(await store.commit([])).toBe(true);
      });

      it('lets exactly one of many compare-and-swaps that arrive together win, and no neighbour loses by it', async () => {
        await store.commit([put('s', 'a')]);
        const swaps = Array.from({ length: 20 }, (_, n) =>
          store.commit([put('s', 'a', { body: { n }, expect: 1 })]),
        );
        const others = Array.from({ length: 20 }, (_, n) => store.commit([put('s', `other-${n}`)]));
        expect((await Promise.all(swaps)).filter(Boolean)).toHaveLength(1);
        expect((await Promise.all(others)).every(Boolean)).toBe(true);
        expect((await store.get('s', 'a'))?.rev).toBe(2);
        expect(await ids('s')).toHaveLength(21);
      });

      it('loses no increment of many writers that retry', async () => {
        await store.commit([put('s', 'sum', { body: { n: 0 } })]);
        const increment = async (): Promise<void> => {
          for (;;) {
            const row = await store.get('s', 'sum');
            const body = { n: Number(row?.body.n) + 1 };
            if (await store.commit([put('s', 'sum', { body, expect: row?.rev ?? 0 })])) return;
          }
        };
        await Promise.all(Array.from({ length: 25 }, increment));
        expect((await store.get('s', 'sum'))?.body).toEqual({ n: 25 });
      });

      it('agrees with a map on any sequence of commits', async () => {
        const id = fc.constantFrom('a', 'b', 'c');
        const wanted = fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined });
        const anyWrite = fc.oneof(
          fc.record({
            op: fc.constant('put' as const),
            id,
            expect: wanted,
            value: fc.constantFrom('1', '2'),
          }),
          fc.record({ op: fc.constant('delete' as const), id, expect: wanted }),
          fc.record({ op: fc.constant('check' as const), id, expect: fc.integer({ min: 0, max: 3 }) }),
        );
        let run = 0;
        await fc.assert(
          fc.asyncProperty(
            fc.array(fc.array(anyWrite, { maxLength: 4 }), { maxLength: 8 }),
            async (commits) => {
              const set = `model-${run++}`;
              let model = new Map<string, { rev: number; value: string }>();
              const results = await Promise.all(
                commits.map((writes) =>
                  store.commit(
                    writes.map((write): Write => {
                      const expectation = write.expect === undefined ? {} : { expect: write.expect };
                      if (write.op === 'put') {
                        return put(set, write.id, { index: { value: [write.value] }, ...expectation });
                      }
                      if (write.op === 'delete') return { op: 'delete', set, id: write.id, ...expectation };
                      return { op: 'check', set, id: write.id, expect: write.expect };
                    }),
                  ),
                ),
              );
              const expected = commits.map((writes) => {
                const next = new Map(model);
                for (const write of writes) {
                  const rev = next.get(write.id)?.rev ?? 0;
                  if (write.expect !== undefined && write.expect !== rev) return false;
                  if (write.op === 'put') next.set(write.id, { rev: rev + 1, value: write.value });
                  if (write.op === 'delete') next.delete(write.id);
                }
                model = next;
                return true;
              });
              expect(results).toEqual(expected);
              const rows = (await store.list(set)).map((row) => [
                row.id,
                { rev: row.rev, value: row.index.value?.[0] },
              ]);
              expect(rows).toEqual([...model].sort(([a], [b]) => (a < b ? -1 : 1)));
              for (const value of ['1', '2']) {
                expect(await ids(set, { where: { index: 'value', value } })).toEqual(
                  rows.filter(([, row]) => (row as { value: string }).value === value).map(([at]) => at),
                );
              }
            },
          ),
          { numRuns: 40 },
        );
      });
    });

    describe('list', () => {
      it('comes in order of code points, not of a locale', async () => {
        const wanted = ['A', 'B', 'a', 'a-1', 'a/1', 'a0', 'b', 'é', '\uffee', '𝄞'];
        await store.commit([...wanted].reverse().map((id) => put('s', id)));
        expect(await ids('s')).toEqual(wanted);
      });

      it('pages through everything once while rows come and go', async () => {
        const all = Array.from({ length: 25 }, (_, n) => `row-${String(n).padStart(2, '0')}`);
        await store.commit(all.map((id) => put('s', id, { index: { x: ['1'] } })));
        const seen: string[] = [];
        for (let after: string | undefined; ; ) {
          const page = await store.list('s', {
            where: { index: 'x', value: '1' },
            limit: 7,
            ...(after === undefined ? {} : { after }),
          });
          if (page.length === 0) break;
          seen.push(...page.map(({ id }) => id));
          after = page.at(-1)?.id;
          await store.commit([
            put('s', 'row-00a', { index: { x: ['1'] } }),
            { op: 'delete', set: 's', id: 'row-24' },
          ]);
        }
        expect(seen).toEqual(all.slice(0, 24));
      });

      it('combines index, key and page', async () => {
        await store.commit([put(KEY_SET, 'k1'), put(KEY_SET, 'k2')]);
        await store.commit([
          put('s', 'a', { sealed: envelope('k1'), index: { x: ['1'] } }),
          put('s', 'b', { sealed: envelope('k2'), index: { x: ['1'] } }),
          put('s', 'c', { sealed: envelope('k1'), index: { x: ['1', '2'], y: ['1'] } }),
          put('s', 'd', { sealed: envelope('k1') }),
          put('s', 'e', { index: { x: ['1'] } }),
          put('t', 'f', { sealed: envelope('k1'), index: { x: ['1'] } }),
        ]);
        expect(await ids('s', { sealedBy: 'k1' })).toEqual(['a', 'c', 'd']);
        expect(await ids('s', { sealedBy: 'k1', after: 'a', limit: 1 })).toEqual(['c']);
        expect(await ids('s', { where: { index: 'x', value: '1' } })).toEqual(['a', 'b', 'c', 'e']);
        expect(await ids('s', { where: { index: 'x', value: '1' }, sealedBy: 'k1' })).toEqual(['a', 'c']);
        expect(await ids('s', { where: { index: 'x', value: '1' }, after: 'a', limit: 2 })).toEqual([
          'b',
          'c',
        ]);
        expect(await ids('s', { where: { index: 'y', value: '2' } })).toEqual([]);
        expect(await ids('s', { limit: 0 })).toEqual([]);
      });
    });

    describe('sealed rows', () => {
      beforeEach(async () => {
        await store.commit([put(KEY_SET, 'k1'), put(KEY_SET, 'k2')]);
      });

      it('are counted by set and key', async () => {
        await store.commit([
          put('s', 'a', { sealed: envelope('k1') }),
          put('s', 'b', { sealed: envelope('k2') }),
          put('t', 'a', { sealed: envelope('k1') }),
          put('t', 'b', { sealed: envelope('k1') }),
        ]);
        expect(await store.countSealed()).toEqual({ s: { k1: 1, k2: 1 }, t: { k1: 2 } });
        await store.commit([put('s', 'a', { sealed: envelope('k2') }), { op: 'delete', set: 't', id: 'a' }]);
        expect(await store.countSealed()).toEqual({ s: { k2: 2 }, t: { k1: 1 } });
      });

      it('cannot be written under a key that is not there', async () => {
        await expect(
          store.commit([put('s', 'x'), put('s', 'a', { sealed: envelope('gone') })]),
        ).rejects.toMatchObject({
          code: 'key_unknown',
        });
        expect(await ids('s')).toEqual([]);
      });

      it('keep their key from being deleted', async () => {
        await store.commit([put('s', 'a', { sealed: envelope('k1') })]);
        await expect(
          store.commit([put('s', 'x'), { op: 'delete', set: KEY_SET, id: 'k1' }]),
        ).rejects.toMatchObject({ code: 'key_in_use' });
        expect(await ids('s')).toEqual(['a']);
        expect(await store.get(KEY_SET, 'k1')).toBeDefined();
        await store.commit([{ op: 'delete', set: 's', id: 'a' }]);
        expect(await store.commit([{ op: 'delete', set: KEY_SET, id: 'k1' }])).toBe(true);
      });

      it('and the deletion of their key: one of the two happens, whichever comes first', async () => {
        for (let n = 0; n < 20; n++) {
          const kek = `race-${n}`;
          await store.commit([put(KEY_SET, kek)]);
          const write = () => store.commit([put('s', kek, { sealed: envelope(kek) })]);
          const retire = () => store.commit([{ op: 'delete', set: KEY_SET, id: kek }]);
          const [first, second] = await Promise.allSettled(n % 2 ? [write(), retire()] : [retire(), write()]);
          expect([first?.status, second?.status].sort()).toEqual(['fulfilled', 'rejected']);
          expect((await store.get('s', kek)) === undefined).toBe(
            (await store.get(KEY_SET, kek)) === undefined,
          );
        }
      });
    });

    describe('watch', () => {
      it('tells of every row that a commit wrote, before the commit resolves, and of nothing that failed', async () => {
        const heard: Change[] = [];
        const stop = store.watch((changes) => heard.push(...changes));
        await store.commit([put('s', 'a'), { op: 'check', set: 's', id: 'z', expect: 0 }, put('t', 'b')]);
        expect(heard).toEqual([
          { set: 's', id: 'a' },
          { set: 't', id: 'b' },
        ]);
        await store.commit([put('s', 'a', { expect: 7 })]);
        await store.commit([{ op: 'delete', set: 's', id: 'a' }]);
        expect(heard.slice(2)).toEqual([{ set: 's', id: 'a' }]);
        stop();
        await store.commit([put('s', 'a')]);
        expect(heard).toHaveLength(3);
      });
    });

    it('answers a ping while it can write, and nothing once it is closed', async () => {
      await Promise.all([store.ping(), store.ping()]);
      await store.close();
      await store.close();
      for (const call of [
        () => store.ping(),
        () => store.get('s', 'a'),
        () => store.commit([put('s', 'a')]),
      ]) {
        await expect(call()).rejects.toMatchObject({ code: 'store_unavailable' });
      }
    });

    it('finishes what was asked before it is closed', async () => {
      const writes = Array.from({ length: 50 }, (_, n) => store.commit([put('s', `${n}`)]));
      await store.close();
      expect((await Promise.all(writes)).every(Boolean)).toBe(true);
    });
  });
}
