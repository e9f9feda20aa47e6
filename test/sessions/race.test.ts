// A revocation against authentications, renewals and readings in every order that a store with delays can make of them.
// The store here is a map whose calls take effect, and answer, when the scheduler says.

import fc from 'fast-check';
import { afterEach, expect, it } from 'vitest';
import { Credential } from '../../common/credential.ts';
import type { Change, Row, Store, Write } from '../../store/store.ts';
import { closeBenches, exchange, newSession, openBench } from './setup.ts';

afterEach(closeBenches);

function delayedStore(delay: () => Promise<void>): Store {
  const rows = new Map<string, Row>();
  const watchers = new Set<(changes: readonly Change[]) => void>();
  const nameOf = (set: string, id: string): string => `${set}\n${id}`;

  function apply(writes: readonly Write[]): boolean {
    const next = new Map<string, Row | undefined>();
    for (const write of writes) {
      const id = write.op === 'put' ? write.row.id : write.id;
      const before = rows.get(nameOf(write.set, id));
      if (write.expect !== undefined && write.expect !== (before?.rev ?? 0)) return false;
      if (write.op === 'put') next.set(nameOf(write.set, id), { ...write.row, rev: (before?.rev ?? 0) + 1 });
      if (write.op === 'delete') next.set(nameOf(write.set, id), undefined);
    }
    for (const [name, row] of next) {
      if (row) rows.set(name, row);
      else rows.delete(name);
    }
    const changes = [...next.keys()].map((name) => {
      const [set = '', id = ''] = name.split('\n');
      return { set, id };
    });
    for (const tell of watchers) tell(changes);
    return true;
  }

  const act = async <T>(effect: () => T): Promise<T> => {
    await delay();
    const answer = effect();
    await delay();
    return answer;
  };

  return {
    get: (set, id) => act(() => rows.get(nameOf(set, id))),
    list: (set, { where } = {}) =>
      act(() =>
        [...rows]
          .filter(([name]) => name.startsWith(`${set}\n`))
          .map(([, row]) => row)
          .filter(({ index }) => !where || index[where.index]?.includes(where.value)),
      ),
    countSealed: () => act(() => ({})),
    commit: (writes) => act(() => apply(writes)),
    watch: (onChange) => {
      watchers.add(onChange);
      return () => watchers.delete(onChange);
    },
    ping: () => act(() => undefined),
    close: async () => {},
  };
}

/** Lets one waiting call go on at a time, in an order that `picks` decides. */
function pacer(picks: readonly number[]) {
  const waiting: (() => void)[] = [];
  let turn = 0;
  const letOneGo = async (): Promise<void> => {
    const at = (picks[turn++ % picks.length] ?? 0) % Math.max(1, waiting.length);
    waiting.splice(at, 1)[0]?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return {
    pause: () => new Promise<void>((resolve) => waiting.push(resolve)),
    letOneGo,
    async untilDone(work: Promise<unknown>): Promise<void> {
      let done = false;
      const settled = work.finally(() => {
        done = true;
      });
      while (!done) await letOneGo();
      await settled;
    },
  };
}

const step = fc.constantFrom('authenticate', 'authenticate', 'renew', 'get', 'replace', 'pause', 'pause');

it('no exchange outlives a revocation that was answered, and none begins after it', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(7), { minLength: 1, maxLength: 30 }),
      fc.array(step, { minLength: 1, maxLength: 8 }),
      fc.nat(7),
      fc.constantFrom('revoke', 'revokeLease', 'removeGrant'),
      fc.boolean(),
      async (picks, steps, at, how, warm) => {
        const { pause, letOneGo, untilDone } = pacer(picks);
        let delayed = false;
        const store = delayedStore(() => (delayed ? pause() : Promise.resolve()));
        const bench = await openBench({ store });
        const { session, token } = await bench.sessions.issue(newSession());
        // Cold: a replica that knows nothing of the session yet.
        const sessions = warm ? bench.sessions : await bench.replica();
        if (warm) {
          const first = await sessions.authenticate('git', undefined, token.reveal(), exchange());
          if (first.ok) first.live.done({ denied: false, bytesUp: 0, bytesDown: 0 });
        }
        delayed = true;

        let revoked = false;
        const begun: ReturnType<typeof exchange>[] = [];
        const authenticate = async (): Promise<void> => {
          const mine = exchange();
          const late = revoked;
          const answer = await sessions.authenticate('git', session.id, token.reveal(), mine);
          if (!answer.ok) return;
          if (how !== 'removeGrant') {
            expect(late).toBe(false);
            if (revoked) expect(mine.ended).not.toEqual([]);
          }
          begun.push(mine);
          const before = revoked;
          const credential = await answer.live.credential('c1').catch(() => undefined);
          if (!credential) return;
          expect(before).toBe(false);
          expect(mine.ended).toEqual([]);
        };
        const end = async (): Promise<void> => {
          if (how === 'revoke') await sessions.revoke(session.id, 'x');
          if (how === 'revokeLease') await sessions.revokeLease('L1', 'x');
          if (how === 'removeGrant') await sessions.removeGrant(session.id, 'g1', 'x');
          revoked = true;
          for (const { ended } of begun) expect(ended).not.toEqual([]);
        };
        const act = {
          authenticate,
          renew: () => sessions.renew(session.id).catch(() => undefined),
          get: () => sessions.get(session.id),
          replace: () => sessions.replaceSecret('s1', new Credential('ghp_new')),
          pause: letOneGo,
        };
        const all: Promise<unknown>[] = [];
        for (const [n, one] of steps.entries()) {
          if (n === at % steps.length) all.push(end());
          const started = act[one]();
          if (one === 'pause') await started;
          else all.push(started);
        }
        await untilDone(Promise.all(all));

        // Not only for those who were there: nobody gets in any more, here or anywhere, now or after the sweep.
        delayed = false;
        await sessions.sweep();
        for (const registry of [sessions, await bench.replica()]) {
          const answer = await registry.authenticate('git', session.id, token.reveal(), exchange());
          expect(answer).toMatchObject({ ok: false, failure: 'revoked' });
        }
        expect(await store.list('custody')).toEqual([]);
        await closeBenches();
      },
    ),
    { numRuns: 120 },
  );
}, 240_000);
