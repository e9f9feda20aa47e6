import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Credential } from '../../common/credential.ts';
import { PosternError } from '../../common/errors.ts';
import { RETENTION_MS } from '../../sessions/sweep.ts';
import { openStore } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import {
  type Bench,
  closeBenches,
  enter,
  exchange,
  MINUTE,
  mustEnter,
  newSession,
  openBench,
  verdict,
} from './setup.ts';

let bench: Bench;
beforeEach(async () => {
  bench = await openBench();
});
afterEach(closeBenches);

/** An exchange whose end takes until the test says so. */
function slowExchange() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { ...exchange(() => promise), finish: resolve };
}

const two = () =>
  newSession({
    credentials: [
      { id: 'c1', grantId: 'g1', secret: new Credential('ghp_one') },
      { id: 'c2', grantId: 'g2', secret: new Credential('ghp_two') },
    ],
  });

describe('revoking a session', () => {
  it('refuses it from that step on, ends what is under way, and answers when nothing is left', async () => {
    const { session, token } = await bench.sessions.issue(newSession());
    const under = Array.from({ length: 5 }, () => slowExchange());
    for (const one of under) await mustEnter(bench.sessions, token, { exchange: one });
    let answered = false;
    const revoked = bench.sessions.revoke(session.id, 'by hand').then((done) => {
      answered = true;
      return done;
    });
    expect(under.map(({ ended }) => ended)).toEqual(Array(5).fill(['revoked'])); // already, in this step
    expect(await verdict(bench.sessions, token)).toBe('revoked');
    for (const one of under.slice(1)) one.finish();
    await bench.store.ping();
    await wait(20);
    expect(answered).toBe(false);
    under[0]?.finish();
    expect(await revoked).toMatchObject({
      id: session.id,
      revokedBecause: 'by hand',
      revokedAt: bench.clock.now(),
    });
    expect(await bench.store.list('custody')).toEqual([]);
    expect(await verdict(bench.sessions, token)).toBe('revoked');
    expect(await verdict(await bench.replica(), token)).toBe('revoked');
    expect(bench.events).toMatchObject([{ what: 'revoked', because: 'by hand' }]);
    expect(bench.sessions.liveCount('git')).toBe(0);
  });

  it('twice is once, also at the same time; one that never was is told so', async () => {
    const { session } = await bench.sessions.issue(newSession());
    const all = await Promise.all(
      Array.from({ length: 5 }, (_, n) => bench.sessions.revoke(session.id, `r${n}`)),
    );
    all.push(await bench.sessions.revoke(session.id, 'late'));
    expect(new Set(all.map((one) => one?.revokedBecause)).size).toBe(1);
    expect(bench.events).toHaveLength(1);
    expect(await bench.sessions.revoke('ses_none', 'x')).toBeUndefined();
  });

  it('waits for an exchange that an earlier call is still ending', async () => {
    const { session, token } = await bench.sessions.issue(newSession());
    const slow = slowExchange();
    await mustEnter(bench.sessions, token, { exchange: slow });
    const first = bench.sessions.revoke(session.id, 'x');
    let answered = false;
    const again = bench.sessions.revokeLease('L1', 'x').then(() => {
      answered = true;
    });
    await bench.store.ping();
    await wait(20);
    expect(answered).toBe(false);
    slow.finish();
    await Promise.all([first, again]);
    expect(slow.ended).toEqual(['revoked']);
  });

  it('is not held up by an exchange that fails to end', async () => {
    const { session, token } = await bench.sessions.issue(newSession());
    await mustEnter(bench.sessions, token, {
      exchange: {
        end: () => {
          throw new Error('broken');
        },
      },
    });
    await mustEnter(bench.sessions, token, { exchange: { end: () => Promise.reject(new Error('broken')) } });
    expect(await bench.sessions.revoke(session.id, 'x')).toBeDefined();
  });

  it('takes the credential from an exchange that has not opened it yet', async () => {
    const { session, token } = await bench.sessions.issue(newSession());
    const live = await mustEnter(bench.sessions, token);
    const opening = live.credential('c1'); // under way while the session is revoked
    const revoked = bench.sessions.revoke(session.id, 'x');
    await expect(opening).rejects.toMatchObject({ code: 'gone' });
    await revoked;
    await expect(live.credential('c1')).rejects.toMatchObject({ code: 'gone' });
  });

  it('by another replica ends what is under way here within the re-check, though nobody told', async () => {
    const deaf: Store = { ...bench.store, watch: () => () => {} };
    const other = await openBench({ store: deaf, clock: bench.clock, settings: { recheck: 30 } });
    const { session, token } = await bench.sessions.issue(newSession());
    const here = exchange();
    await mustEnter(other.sessions, token, { exchange: here });
    await bench.sessions.revoke(session.id, 'x');
    await expect.poll(() => here.ended).toEqual(['revoked']);
    expect(await verdict(other.sessions, token)).toBe('revoked');
  });

  it('by another replica is known at once where the store tells', async () => {
    const other = await bench.replica();
    const { session, token } = await bench.sessions.issue(newSession());
    const here = exchange();
    await mustEnter(other, token, { exchange: here });
    await bench.sessions.revoke(session.id, 'x');
    await expect.poll(() => here.ended).toEqual(['revoked']);
    expect(await verdict(other, token)).toBe('revoked');
  });

  it('past its time closes it as expired, and a late token is still told so', async () => {
    const { session, token } = await bench.sessions.issue(newSession());
    bench.clock.advance(16 * MINUTE);
    expect((await bench.sessions.revoke(session.id, 'released'))?.revokedAt).toBeUndefined();
    expect(await verdict(bench.sessions, token)).toBe('expired');
    expect(await bench.store.list('custody')).toEqual([]);
    expect(bench.events.map(({ what }) => what)).toEqual(['expired']);
  });
});

describe('revoking while the store fails', () => {
  it('reports it, and the session is over here all the same; it is written down when the store is back', async () => {
    const inner = await openStore({ sqlite: ':memory:' });
    let broken = false;
    const store: Store = {
      ...inner,
      commit: (writes) =>
        broken ? Promise.reject(new PosternError('store_unavailable', 'disk full')) : inner.commit(writes),
    };
    const flaky = await openBench({ store });
    const { session, token } = await flaky.sessions.issue(two());
    const second = await flaky.sessions.issue(two());
    const under = exchange();
    await mustEnter(flaky.sessions, token, { exchange: under });
    const live = await mustEnter(flaky.sessions, second.token);
    broken = true;
    await expect(flaky.sessions.revoke(session.id, 'now')).rejects.toMatchObject({
      code: 'store_unavailable',
    });
    await expect(flaky.sessions.removeGrant(second.session.id, 'g1', 'now')).rejects.toMatchObject({
      code: 'store_unavailable',
    });
    expect(under.ended).toEqual(['revoked']);
    flaky.clock.advance(10 * MINUTE); // what was read before is too old now
    expect(await verdict(flaky.sessions, token)).toBe('revoked');
    expect((await flaky.sessions.get(session.id))?.session.revokedBecause).toBe('now');
    await expect(flaky.sessions.renew(session.id)).rejects.toMatchObject({ code: 'gone' });
    await expect(live.credential('c1')).rejects.toMatchObject({ code: 'gone' });
    expect((await live.credential('c2')).reveal()).toBe('ghp_two');
    broken = false;
    await flaky.sessions.sweep();
    expect((await store.get('sessions', session.id))?.body.revokedBecause).toBe('now');
    expect((await store.list('custody')).map(({ id }) => id)).toEqual([`${second.session.id}/c2`]);
  });
});

describe('revoking a lease', () => {
  it('ends every session of it at both guards, and no other', async () => {
    const mine = [
      await bench.sessions.issue(newSession()),
      await bench.sessions.issue(newSession({ guard: 'kube' })),
      await (await bench.replica()).issue(newSession()),
    ];
    const other = await bench.sessions.issue(newSession({ leaseId: 'L11' }));
    await bench.sessions.revoke(mine[0]?.session.id ?? '', 'earlier');
    const ended = await bench.sessions.revokeLease('L1', 'released');
    expect(ended.map(({ id }) => id).sort()).toEqual(
      mine
        .slice(1)
        .map(({ session }) => session.id)
        .sort(),
    );
    for (const { session, token } of mine)
      expect(await verdict(bench.sessions, token, { guard: session.guard })).toBe('revoked');
    expect(await verdict(bench.sessions, other.token)).toBe('ok');
    expect(await bench.sessions.revokeLease('L1', 'again')).toEqual([]);
    expect(await bench.sessions.revokeLease('none', 'x')).toEqual([]);
  });

  it('ends what is known here also when the store can tell nothing', async () => {
    const { token } = await bench.sessions.issue(newSession());
    const under = exchange();
    await mustEnter(bench.sessions, token, { exchange: under });
    await bench.store.close();
    await expect(bench.sessions.revokeLease('L1', 'x')).rejects.toMatchObject({ code: 'store_unavailable' });
    expect(under.ended).toEqual(['revoked']);
    expect(await verdict(bench.sessions, token)).toBe('revoked');
  });
});

describe('taking a grant out of a live session', () => {
  it('ends what spends it, leaves the rest, and takes the credential out of custody', async () => {
    const { session, token } = await bench.sessions.issue(two());
    const [spends1, spends2, undecided] = [exchange(), exchange(), exchange()];
    await (await mustEnter(bench.sessions, token, { exchange: spends1 })).credential('c1');
    await (await mustEnter(bench.sessions, token, { exchange: spends2 })).credential('c2');
    const late = await mustEnter(bench.sessions, token, { exchange: undecided });
    const left = await bench.sessions.removeGrant(session.id, 'g1', 'withdrawn');
    expect(left?.credentials.map(({ id }) => id)).toEqual(['c2']);
    expect([spends1.ended, spends2.ended, undecided.ended]).toEqual([['grant_removed'], [], []]);
    await expect(late.credential('c1')).rejects.toMatchObject({ code: 'gone' });
    expect((await late.credential('c2')).reveal()).toBe('ghp_two');
    const next = await mustEnter(bench.sessions, token);
    expect(next.session.credentials.map(({ id }) => id)).toEqual(['c2']);
    expect((await bench.store.list('custody')).map(({ id }) => id)).toEqual([`${session.id}/c2`]);
    expect(bench.events).toMatchObject([{ what: 'grant_removed', grantId: 'g1', because: 'withdrawn' }]);
  });

  it('twice is once; the last one revokes the session', async () => {
    const { session, token } = await bench.sessions.issue(two());
    await bench.sessions.removeGrant(session.id, 'g1', 'x');
    expect((await bench.sessions.removeGrant(session.id, 'g1', 'x'))?.credentials).toHaveLength(1);
    expect((await bench.sessions.removeGrant(session.id, 'g9', 'x'))?.credentials).toHaveLength(1);
    expect(await verdict(bench.sessions, token)).toBe('ok');
    expect((await bench.sessions.removeGrant(session.id, 'g2', 'last'))?.revokedBecause).toBe('last');
    expect(await verdict(bench.sessions, token)).toBe('revoked');
    expect(await bench.sessions.removeGrant('ses_none', 'g1', 'x')).toBeUndefined();
    expect(bench.events.map(({ what }) => what)).toEqual(['grant_removed', 'grant_removed', 'revoked']);
  });

  it('at another replica ends what spends it here', async () => {
    const other = await bench.replica();
    const { session, token } = await bench.sessions.issue(two());
    const [spends1, spends2] = [exchange(), exchange()];
    const live = await mustEnter(other, token, { exchange: spends1 });
    await live.credential('c1');
    await (await mustEnter(other, token, { exchange: spends2 })).credential('c2');
    await bench.sessions.removeGrant(session.id, 'g1', 'x');
    await expect.poll(() => spends1.ended).toEqual(['grant_removed']);
    expect(spends2.ended).toEqual([]);
  });
});

describe('expiry', () => {
  it('cuts what is under way at the rolling end; a renewal moves it', async () => {
    const real = await openBench({
      clock: { now: () => Date.now() },
      settings: { ttl: 300, maxTtl: 60_000 },
    });
    const a = await real.sessions.issue(newSession());
    const b = await real.sessions.issue(newSession());
    const [cut, kept] = [exchange(), exchange()];
    await mustEnter(real.sessions, a.token, { exchange: cut });
    await mustEnter(real.sessions, b.token, { exchange: kept });
    await real.sessions.renew(b.session.id, 30_000);
    await expect.poll(() => cut.ended).toEqual(['expired']);
    expect(Date.now()).toBeGreaterThanOrEqual(a.session.expiresAt);
    await expect.poll(() => real.events.map(({ what }) => what)).toEqual(['renewed', 'expired']);
    expect(kept.ended).toEqual([]);
    expect(await verdict(real.sessions, a.token)).toBe('expired');
    expect(await verdict(real.sessions, b.token)).toBe('ok');
    expect((await real.store.list('custody')).map(({ id }) => id)).toEqual([`${b.session.id}/c1`]);
  });

  it('does not come at once for a session of 30 days', async () => {
    const day = 24 * 60 * MINUTE;
    const real = await openBench({
      clock: { now: () => Date.now() },
      settings: { maxTtl: 40 * day, recheck: 20 },
    });
    const { token } = await real.sessions.issue(newSession({ ttl: 30 * day }));
    const long = exchange();
    await mustEnter(real.sessions, token, { exchange: long });
    await wait(100);
    expect(long.ended).toEqual([]);
    expect(await verdict(real.sessions, token)).toBe('ok');
  });

  it('is noticed within the re-check when the clock jumps', async () => {
    const jumping = await openBench({ settings: { recheck: 20 } });
    const { token } = await jumping.sessions.issue(newSession());
    const under = exchange();
    await mustEnter(jumping.sessions, token, { exchange: under });
    await wait(60);
    expect(under.ended).toEqual([]);
    jumping.clock.advance(15 * MINUTE);
    await expect.poll(() => under.ended).toEqual(['expired']);
  });

  it('leaves what was renewed at another replica that could not tell', async () => {
    const deaf: Store = { ...bench.store, watch: () => () => {} };
    const other = await openBench({ store: deaf, clock: bench.clock, settings: { recheck: 20 } });
    const { session, token } = await bench.sessions.issue(newSession());
    const under = exchange();
    await mustEnter(other.sessions, token, { exchange: under });
    bench.clock.advance(14 * MINUTE);
    await bench.sessions.renew(session.id);
    bench.clock.advance(2 * MINUTE);
    await wait(80);
    expect(under.ended).toEqual([]);
    bench.clock.advance(13 * MINUTE);
    await expect.poll(() => under.ended).toEqual(['expired']);
  });

  it('comes also when the store does not answer', async () => {
    const real = await openBench({ clock: { now: () => Date.now() }, settings: { ttl: 200 } });
    const { token } = await real.sessions.issue(newSession());
    const under = exchange();
    await mustEnter(real.sessions, token, { exchange: under });
    await real.store.close();
    await expect.poll(() => under.ended, { timeout: 5000 }).toEqual(['expired']);
    await real.sessions.close();
  });
});

describe('the sweep', () => {
  it('closes what expired, takes its custody, tells once, and forgets it a day after its hard end', async () => {
    const expired = await bench.sessions.issue(newSession());
    const revoked = await bench.sessions.issue(newSession());
    const alive = await bench.sessions.issue(newSession({ ttl: 720 * MINUTE }));
    (await mustEnter(bench.sessions, expired.token)).done({ denied: false, bytesUp: 1, bytesDown: 1 });
    await bench.sessions.revoke(revoked.session.id, 'x');
    bench.clock.advance(20 * MINUTE);
    await bench.sessions.sweep();
    await bench.sessions.sweep();
    expect(bench.events.map(({ what, session }) => [what, session.id])).toEqual([
      ['revoked', revoked.session.id],
      ['expired', expired.session.id],
    ]);
    expect((await bench.store.list('custody')).map(({ id }) => id)).toEqual([`${alive.session.id}/c1`]);
    expect(bench.sessions.liveCount('git')).toBe(1);
    bench.clock.advance(720 * MINUTE + RETENTION_MS - 20 * MINUTE - 1);
    await bench.sessions.sweep();
    expect(await bench.sessions.get(expired.session.id)).toBeDefined();
    expect(await verdict(bench.sessions, expired.token)).toBe('expired');
    bench.clock.advance(1);
    await bench.sessions.sweep();
    expect(await bench.sessions.get(expired.session.id)).toBeUndefined();
    expect(await bench.sessions.get(revoked.session.id)).toBeUndefined();
    expect(await bench.store.list('session_counters')).toEqual([]);
    expect(await verdict(bench.sessions, expired.token)).toBe('expired');
  });

  it('does not close what another replica renewed after it had read it', async () => {
    let between: (() => Promise<void>) | undefined;
    const inner = await openStore({ sqlite: ':memory:' });
    const store: Store = {
      ...inner,
      async list(set, query) {
        const rows = await inner.list(set, query);
        const first = set === 'sessions' ? between : undefined;
        if (first) between = undefined;
        await first?.();
        return rows;
      },
    };
    const raced = await openBench({ store });
    const { session } = await raced.sessions.issue(newSession());
    const other = await raced.replica();
    raced.clock.advance(14 * MINUTE);
    between = async () => {
      await other.renew(session.id, 15 * MINUTE);
      raced.clock.advance(2 * MINUTE);
    };
    await raced.sessions.sweep();
    expect(between).toBeUndefined();
    expect(raced.events.map(({ what }) => what)).not.toContain('expired');
    expect((await raced.store.list('custody')).map(({ id }) => id)).toEqual([`${session.id}/c1`]);
  });

  it('goes on past a row that cannot be read', async () => {
    await bench.store.commit([
      { op: 'put', set: 'sessions', row: { id: 'ses_0', body: {}, index: { state: ['open'] } } },
    ]);
    const { session } = await bench.sessions.issue(newSession());
    bench.clock.advance(20 * MINUTE);
    await bench.sessions.sweep();
    expect(bench.events.map(({ session: { id } }) => id)).toEqual([session.id]);
    expect(await bench.sessions.list()).toHaveLength(1);
  });
});

describe('shutting down', () => {
  it('ends everything under way with that reason', async () => {
    const { token } = await bench.sessions.issue(newSession());
    const { token: kube } = await bench.sessions.issue(newSession({ guard: 'kube' }));
    const [a, b] = [exchange(), exchange()];
    await mustEnter(bench.sessions, token, { exchange: a });
    await enter(bench.sessions, kube, { guard: 'kube', exchange: b });
    await bench.sessions.endAll();
    expect([a.ended, b.ended]).toEqual([['shutdown'], ['shutdown']]);
    expect(await verdict(bench.sessions, token)).toBe('ok'); // the session itself lives on
  });
});
