// A lease that is revoked while something is being issued for it: whatever the order, a session that was asked for before
// does not outlive the revocation, and one that is asked for afterwards is as good as any.
import { afterEach, describe, expect, test } from 'vitest';
import { openStore } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import { closeBenches, newSession, openBench, verdict } from './setup.ts';

afterEach(closeBenches);

/** A store whose commits and lists can be held up, each at its beginning or before its answer. */
async function slowStore() {
  const store = await openStore({ sqlite: ':memory:' });
  const holds: { what: 'commit' | 'list'; at: 'start' | 'end'; gate: Promise<void>; met: () => void }[] = [];
  const held = async (what: 'commit' | 'list', at: 'start' | 'end'): Promise<void> => {
    const i = holds.findIndex((hold) => hold.what === what && hold.at === at);
    const [hold] = i < 0 ? [] : holds.splice(i, 1);
    hold?.met();
    await hold?.gate;
  };
  const slow = new Proxy(store, {
    get(target, name: keyof Store) {
      const method = target[name];
      if (name !== 'commit' && name !== 'list') return method;
      return async (...args: unknown[]) => {
        await held(name, 'start');
        const answer = await Reflect.apply(method, target, args);
        await held(name, 'end');
        return answer;
      };
    },
  });
  return {
    store: slow,
    /** The next such call waits; resolves when it does. */
    hold(what: 'commit' | 'list', at: 'start' | 'end') {
      const gate = Promise.withResolvers<void>();
      const met = Promise.withResolvers<void>();
      holds.push({ what, at, gate: gate.promise, met: met.resolve });
      return { met: met.promise, go: gate.resolve, fail: () => gate.reject(new Error('no store')) };
    },
  };
}

describe('a session that is being issued when its lease is revoked', () => {
  test.each(['start', 'end'] as const)('does not outlive it: at the %s of its commit', async (at) => {
    const { store, hold } = await slowStore();
    const { sessions, events } = await openBench({ store });
    const commit = hold('commit', at);
    const issued = sessions.issue(newSession());
    issued.catch(() => {});
    await commit.met;
    const revoked = sessions.revokeLease('L1', 'released');
    commit.go();
    const gone = await revoked;
    expect(gone).toHaveLength(1);
    await expect(issued).rejects.toMatchObject({ code: 'conflict', key: 'leaseId' });
    const all = await sessions.list({ leaseId: 'L1' });
    expect(all.map(({ session }) => session.revokedBecause)).toEqual(['released']);
    expect(events.map(({ what }) => what)).toEqual(['revoked']);
  });

  test('is not even stored where it was not yet at that', async () => {
    const { sessions } = await openBench();
    const issued = sessions.issue(newSession());
    const revoked = sessions.revokeLease('L1', 'released');
    await expect(issued).rejects.toMatchObject({ code: 'conflict' });
    expect(await revoked).toEqual([]);
    expect(await sessions.list({ leaseId: 'L1' })).toEqual([]);
  });

  test('of another lease is not concerned', async () => {
    const { sessions } = await openBench();
    const issued = sessions.issue(newSession({ leaseId: 'L2' }));
    await sessions.revokeLease('L1', 'released');
    expect(await verdict(sessions, (await issued).token)).toBe('ok');
  });
});

test('a session that is asked for while the lease is being revoked waits, and is a new one', async () => {
  const { store, hold } = await slowStore();
  const { sessions } = await openBench({ store });
  const before = await sessions.issue(newSession());
  const list = hold('list', 'end');
  const revoked = sessions.revokeLease('L1', 'released');
  await list.met;
  const after = sessions.issue(newSession());
  list.go();
  expect((await revoked).map(({ id }) => id)).toEqual([before.session.id]);
  expect(await verdict(sessions, (await after).token)).toBe('ok');
  expect(await verdict(sessions, before.token)).toBe('revoked');
});

test('a revocation that the store fails holds nobody up', async () => {
  const { store, hold } = await slowStore();
  const { sessions } = await openBench({ store });
  const list = hold('list', 'start');
  const revoked = sessions.revokeLease('L1', 'released');
  await list.met;
  const issued = sessions.issue(newSession());
  list.fail();
  await expect(revoked).rejects.toThrow('no store');
  expect(await verdict(sessions, (await issued).token)).toBe('ok');
});
