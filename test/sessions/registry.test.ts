import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Credential } from '../../common/credential.ts';
import type { NewSession } from '../../sessions/session.ts';
import type { Store } from '../../store/store.ts';
import {
  type Bench,
  closeBenches,
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

describe('issuing', () => {
  it('gives a session that authenticates at once, with everything that was asked for', async () => {
    const input = newSession({ ttl: MINUTE, labels: { projectId: '/srv/app', team: 'x' } });
    const { session, token } = await bench.sessions.issue(input);
    expect(session).toEqual({
      id: expect.stringMatching(/^ses_[0-9a-z]{26}$/),
      guard: 'git',
      leaseId: 'L1',
      labels: { projectId: '/srv/app', team: 'x' },
      credentials: [{ id: 'c1', grantId: 'g1', secretId: 's1', secretName: 'pat' }],
      policy: { rule: 'acme/*' },
      createdAt: bench.clock.now(),
      expiresAt: bench.clock.now() + MINUTE,
      hardExpiresAt: bench.clock.now() + 720 * MINUTE,
    });
    const live = await mustEnter(bench.sessions, token);
    expect(live.session).toEqual(session);
    expect((await live.credential('c1')).reveal()).toBe('ghp_one');
    expect(bench.sessions.liveCount('git')).toBe(1);
    expect(bench.sessions.liveCount('kube')).toBe(0);
  });

  it('seals each credential in a row of its own and announces it to the redactor', async () => {
    const { session } = await bench.sessions.issue(
      newSession({
        credentials: [
          { id: 'c1', secret: new Credential('ghp_one') },
          { id: 'c2', secret: new Credential('line one\nline two') },
        ],
      }),
    );
    const rows = await bench.store.list('custody');
    expect(rows.map(({ id }) => id)).toEqual([`${session.id}/c1`, `${session.id}/c2`]);
    for (const set of ['custody', 'sessions']) {
      expect(JSON.stringify(await bench.store.list(set))).not.toMatch(/ghp_one|line one/);
    }
    expect(bench.announced).toEqual(['ghp_one']);
  });

  it.each<[string, Partial<NewSession<{ rule: string }>>, string]>([
    ['a ttl over the limit', { ttl: 721 * MINUTE }, 'ttl_too_long'],
    ['no time', { ttl: 0 }, 'invalid_input'],
    ['a negative time', { ttl: -1 }, 'invalid_input'],
    ['no lease', { leaseId: '' }, 'invalid_input'],
    ['a lease with a line end', { leaseId: 'a\nb' }, 'invalid_input'],
    ['a lease that is not text', { leaseId: '\ud800' }, 'invalid_input'],
    ['a lease of any length', { leaseId: 'x'.repeat(254) }, 'invalid_input'],
    ['no credential', { credentials: [] }, 'invalid_input'],
    [
      'an empty grant',
      { credentials: [{ id: 'c', grantId: '', secret: new Credential('x') }] },
      'invalid_input',
    ],
    [
      'a secret of two lines',
      { credentials: [{ id: 'c', secretId: 'a\nb', secret: new Credential('x') }] },
      'invalid_input',
    ],
    [
      'two credentials of one id',
      { credentials: [1, 2].map(() => ({ id: 'c', secret: new Credential('x') })) },
      'invalid_input',
    ],
  ])('with %s is refused and stores nothing', async (_, more, code) => {
    await expect(bench.sessions.issue(newSession(more))).rejects.toMatchObject({ code });
    expect(await bench.store.list('sessions')).toEqual([]);
    expect(await bench.store.list('custody')).toEqual([]);
  });
});

describe('looking', () => {
  it('shows sessions by lease and guard, never a credential', async () => {
    const a = await bench.sessions.issue(newSession({ leaseId: 'L1' }));
    const b = await bench.sessions.issue(newSession({ leaseId: 'L1', guard: 'kube' }));
    const c = await bench.sessions.issue(newSession({ leaseId: 'L2' }));
    const ids = async (filter?: Parameters<typeof bench.sessions.list>[0]) =>
      (await bench.sessions.list(filter)).map(({ session }) => session.id).sort();
    expect(await ids()).toEqual([a, b, c].map(({ session }) => session.id).sort());
    expect(await ids({ leaseId: 'L1' })).toEqual([a, b].map(({ session }) => session.id).sort());
    expect(await ids({ guard: 'git' })).toEqual([a, c].map(({ session }) => session.id).sort());
    expect(await ids({ leaseId: 'L1', guard: 'kube' })).toEqual([b.session.id]);
    expect(await ids({ leaseId: 'L' })).toEqual([]);
    expect((await bench.sessions.get(a.session.id))?.session).toEqual(a.session);
    expect(await bench.sessions.get('ses_none')).toBeUndefined();
    expect(JSON.stringify(await bench.sessions.list())).not.toMatch(/ghp_one|eyJ/);
  });

  it('counts what a session did, over restarts', async () => {
    const { session, token } = await bench.sessions.issue(newSession());
    const first = await mustEnter(bench.sessions, token);
    first.done({ denied: false, bytesUp: 10, bytesDown: 2000 });
    first.done({ denied: true, bytesUp: 99, bytesDown: 99 }); // counts once
    bench.clock.advance(5);
    (await mustEnter(bench.sessions, token)).done({ denied: true, bytesUp: 1, bytesDown: 0 });
    const expected = { requests: 2, denied: 1, bytesUp: 11, bytesDown: 2000, lastUsedAt: bench.clock.now() };
    expect((await bench.sessions.get(session.id))?.counters).toEqual(expected);
    await bench.sessions.close();
    expect((await (await bench.replica()).get(session.id))?.counters).toEqual(expected);
  });
});

describe('renewing', () => {
  it('moves the rolling end and never passes the hard one; the token stays the same', async () => {
    const { session, token } = await bench.sessions.issue(newSession({ ttl: 300 * MINUTE }));
    bench.clock.advance(299 * MINUTE);
    expect((await bench.sessions.renew(session.id)).expiresAt).toBe(bench.clock.now() + 300 * MINUTE);
    bench.clock.advance(299 * MINUTE);
    expect(await verdict(bench.sessions, token)).toBe('ok');
    expect((await bench.sessions.renew(session.id, 720 * MINUTE)).expiresAt).toBe(session.hardExpiresAt);
    bench.clock.advance(122 * MINUTE);
    expect(await verdict(bench.sessions, token)).toBe('expired');
    await expect(bench.sessions.renew(session.id)).rejects.toMatchObject({ code: 'gone' });
    expect(bench.events.map(({ what }) => what)).toEqual(['renewed', 'renewed']);
  });

  it('is refused for a time over the limit, a session that is over, and one that never was', async () => {
    const { session } = await bench.sessions.issue(newSession());
    await expect(bench.sessions.renew(session.id, 721 * MINUTE)).rejects.toMatchObject({
      code: 'ttl_too_long',
    });
    await expect(bench.sessions.renew(session.id, 0)).rejects.toMatchObject({ code: 'invalid_input' });
    await expect(bench.sessions.renew('ses_none')).rejects.toMatchObject({ code: 'not_found' });
    await bench.sessions.revoke(session.id, 'x');
    await expect(bench.sessions.renew(session.id)).rejects.toMatchObject({ code: 'gone' });
  });

  it('by one replica counts at once for a late request at another, which was never told', async () => {
    const deaf: Store = { ...bench.store, watch: () => () => {} };
    const other = await openBench({ store: deaf, clock: bench.clock });
    const { session, token } = await bench.sessions.issue(newSession());
    expect(await verdict(other.sessions, token)).toBe('ok');
    bench.clock.advance(14 * MINUTE);
    expect(await verdict(other.sessions, token)).toBe('ok'); // read a moment before the renewal
    await bench.sessions.renew(session.id);
    bench.clock.advance(MINUTE);
    expect(await verdict(other.sessions, token)).toBe('ok');
  });
});

describe('authentication', () => {
  it('of a session in use waits for nothing and reads nothing', async () => {
    let reads = 0;
    const counting: Store = {
      ...bench.store,
      get: (set, id) => {
        reads++;
        return bench.store.get(set, id);
      },
    };
    const { sessions } = await openBench({ store: counting, clock: bench.clock });
    const { token } = await sessions.issue(newSession());
    await (await mustEnter(sessions, token)).credential('c1');
    reads = 0;
    let answered = false;
    const busy = sessions.authenticate('git', undefined, token.reveal(), exchange()).then(async (answer) => {
      if (answer.ok) await answer.live.credential('c1');
      answered = true;
    });
    for (let ticks = 0; ticks < 10; ticks++) await Promise.resolve();
    expect(answered).toBe(true);
    await busy;
    expect(reads).toBe(0);
  });

  it('stops at as many at once as a session may have; another session is not touched', async () => {
    bench = await openBench({ settings: { maxConcurrent: 2 } });
    const { token } = await bench.sessions.issue(newSession());
    const second = await bench.sessions.issue(newSession());
    const first = await mustEnter(bench.sessions, token);
    await mustEnter(bench.sessions, token);
    expect(await verdict(bench.sessions, token)).toBe('too_many');
    expect(await verdict(bench.sessions, second.token)).toBe('ok');
    first.done({ denied: false, bytesUp: 0, bytesDown: 0 });
    expect(await verdict(bench.sessions, token)).toBe('ok');
    expect(await verdict(bench.sessions, token)).toBe('too_many');
  });

  it('fails closed where the store does not answer and what is known is too old', async () => {
    const { token } = await bench.sessions.issue(newSession());
    expect(await verdict(bench.sessions, token)).toBe('ok');
    await bench.store.close();
    expect(await verdict(bench.sessions, token)).toBe('ok'); // read less than `recheck` ago
    bench.clock.advance(5000);
    await expect(verdict(bench.sessions, token)).rejects.toMatchObject({ code: 'store_unavailable' });
  });

  it('is over once the registry is closed', async () => {
    const { token } = await bench.sessions.issue(newSession());
    await verdict(bench.sessions, token);
    await bench.sessions.close();
    await expect(verdict(bench.sessions, token)).rejects.toMatchObject({ code: 'store_unavailable' });
  });

  it('of a session whose row was damaged refuses', async () => {
    const { session, token } = await bench.sessions.issue(newSession());
    const row = { id: session.id, body: { guard: 'git' }, index: {} };
    await bench.store.commit([{ op: 'put', set: 'sessions', row }]);
    await expect(verdict(bench.sessions, token)).rejects.toMatchObject({ code: 'internal' });
  });
});

describe('custody', () => {
  it('gives a live session the new payload of its secret from the next request on', async () => {
    const one = await bench.sessions.issue(newSession());
    const two = await bench.sessions.issue(
      newSession({
        credentials: [
          { id: 'a', secretId: 's1', secret: new Credential('ghp_one') },
          { id: 'b', secretId: 's2', secret: new Credential('ghp_other') },
        ],
      }),
    );
    const gone = await bench.sessions.issue(newSession());
    await bench.sessions.revoke(gone.session.id, 'x');
    const live = await mustEnter(bench.sessions, two.token);
    expect((await live.credential('a')).reveal()).toBe('ghp_one');
    expect(await bench.sessions.replaceSecret('s1', new Credential('ghp_two'))).toBe(2);
    expect(await bench.sessions.replaceSecret('s9', new Credential('x'))).toBe(0);
    expect((await live.credential('a')).reveal()).toBe('ghp_two');
    expect((await live.credential('b')).reveal()).toBe('ghp_other');
    expect((await (await mustEnter(bench.sessions, one.token)).credential('c1')).reveal()).toBe('ghp_two');
    expect(bench.announced).toContain('ghp_two');
  });

  it('replaces what one grant put there and leaves another grant of the same secret', async () => {
    const { token } = await bench.sessions.issue(
      newSession({
        credentials: [
          { id: 'a', secretId: 's1', grantId: 'g1', secret: new Credential('ghs_one') },
          { id: 'b', secretId: 's1', grantId: 'g2', secret: new Credential('ghs_two') },
        ],
      }),
    );
    expect(await bench.sessions.replaceGrant('g1', new Credential('ghs_new'))).toBe(1);
    const live = await mustEnter(bench.sessions, token);
    expect((await live.credential('a')).reveal()).toBe('ghs_new');
    expect((await live.credential('b')).reveal()).toBe('ghs_two');
  });

  it('does not open a row that was copied over another', async () => {
    const one = await bench.sessions.issue(newSession());
    const two = await bench.sessions.issue(newSession());
    const stolen = await bench.store.get('custody', `${one.session.id}/c1`);
    const mine = await bench.store.get('custody', `${two.session.id}/c1`);
    if (!stolen?.sealed || !mine) throw new Error('no rows');
    await bench.store.commit([
      {
        op: 'put',
        set: 'custody',
        row: { id: mine.id, body: mine.body, index: mine.index, sealed: stolen.sealed },
      },
    ]);
    const live = await mustEnter(bench.sessions, two.token);
    await expect(live.credential('c1')).rejects.toMatchObject({ code: 'sealed_data_tampered' });
  });

  it('opens what another process sealed under a key that it has just made', async () => {
    const other = await openBench({ store: { ...bench.store, watch: () => () => {} }, clock: bench.clock });
    await bench.keyring.addKey('admin');
    const { token } = await bench.sessions.issue(newSession());
    expect((await (await mustEnter(other.sessions, token)).credential('c1')).reveal()).toBe('ghp_one');
  });

  it('has no credential that the session was not given', async () => {
    const { token } = await bench.sessions.issue(newSession());
    const live = await mustEnter(bench.sessions, token);
    for (const id of ['c2', '', '../c1', 'c1/']) await expect(live.credential(id)).rejects.toThrow(TypeError);
  });
});
