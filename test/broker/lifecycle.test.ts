import { afterEach, describe, expect, it } from 'vitest';
import { isEmpty } from '../../broker/material.ts';
import type { Store } from '../../store/store.ts';
import {
  type Bench,
  closeBenches,
  gitToken,
  grant,
  HOUR,
  HUB,
  kubeconfigOf,
  kubeToken,
  lease,
  MINUTE,
  mint,
  OPERATOR,
  openBench,
  PAT,
  PROJECT,
  SECOND,
  session,
  spend,
  variables,
} from './bench.ts';

afterEach(closeBenches);

/** Read on acme/lib, write on acme/app, a cluster, two variables. */
async function sandbox(bench: Bench) {
  await mint(bench, 'lib-pat', 'github_pat', PAT);
  await mint(bench, 'app-pat', 'github_pat', `${PAT}2`);
  await mint(bench, 'prod', 'kubeconfig', kubeconfigOf([{ name: 'prod' }]));
  await mint(bench, 'vars', 'env', { ONE: '1', TWO: '2' });
  const lib = await grant(bench, 'lib-pat', 'any', { repos: ['acme/lib'] });
  const app = await grant(bench, 'app-pat', 'any', { repos: ['acme/app'], permissions: ['contents:write'] });
  const prod = await grant(bench, 'prod', 'any', { namespaces: ['team-a'] });
  const vars = await grant(bench, 'vars', 'any');
  return { lib, app, prod, vars };
}

const renew = (bench: Bench, leaseId: string, ttl?: number) =>
  bench.broker.leases.renew({ leaseId, ttl }, HUB);

describe('renewing', () => {
  it('moves the end, keeps the token, and says nothing secret again', async () => {
    const bench = await openBench();
    await sandbox(bench);
    const made = await lease(bench);
    const token = gitToken(made);
    bench.clock.advance(10 * MINUTE);
    const again = await renew(bench, made.id);
    expect(again.expiresAt).toBe(bench.clock.now() + 15 * MINUTE);
    expect(session(again, 'git')?.sessionId).toBe(token.sessionId);
    expect(session(again, 'git')?.issued).toBeUndefined();
    expect(session(again, 'kube')?.issued).toBeUndefined();
    bench.clock.advance(14 * MINUTE);
    expect(await spend(bench, token, 'c1')).toBe(PAT);
    expect(bench.audit.of('secret.renew')).toMatchObject([{ decision: 'allow', leaseId: made.id }]);
  });

  it('reads every grant anew: one that ended a minute ago is gone, and its session is cut', async () => {
    const bench = await openBench();
    const { prod } = await sandbox(bench);
    await mint(bench, 'brief', 'github_pat', `${PAT}3`);
    const brief = await grant(bench, 'brief', 'any', { repos: ['acme/brief'] }, { ttl: 6 * MINUTE });
    const made = await lease(bench);
    const token = gitToken(made);
    bench.clock.advance(6 * MINUTE - 1);
    expect(await spend(bench, token, 'c3')).toBe(`${PAT}3`);
    bench.clock.advance(-1000); // a hub renews before the end
    const again = await renew(bench, made.id);
    expect(again.expiresAt).toBeLessThanOrEqual(brief.expiresAt ?? 0);
    bench.clock.advance(500);
    const last = await renew(bench, made.id);
    expect(session(last, 'git')?.grants.map(({ grantId }) => grantId)).not.toContain(brief.id);
    await expect(spend(bench, token, 'c3')).rejects.toMatchObject({ code: 'gone' });
    expect(await spend(bench, token, 'c1')).toBe(PAT);
    expect(last.expiresAt).toBe(bench.clock.now() + 15 * MINUTE);
    expect(
      bench.audit.of('secret.renew').some((event) => event.decision === 'deny' && event.grantId === brief.id),
    ).toBe(true);
    expect(prod.revokedAt).toBeUndefined();
  });

  it('takes up what was granted meanwhile, in one new session, and keeps the old one alive', async () => {
    const bench = await openBench();
    await sandbox(bench);
    const made = await lease(bench);
    const old = gitToken(made);
    await mint(bench, 'new-pat', 'github_pat', `${PAT}9`);
    await grant(bench, 'new-pat', 'any', { repos: ['acme/new'] });
    await mint(bench, 'more', 'env', 'THREE=3');
    await grant(bench, 'more', 'any');
    const again = await renew(bench, made.id);
    const fresh = gitToken(again);
    expect(fresh.sessionId).not.toBe(old.sessionId);
    expect(await spend(bench, fresh, 'c1')).toBe(PAT);
    expect(await spend(bench, fresh, 'c3')).toBe(`${PAT}9`);
    expect(variables(again)).toEqual({ ONE: '1', TWO: '2', THREE: '3' });
    bench.clock.advance(14 * MINUTE);
    await renew(bench, made.id);
    bench.clock.advance(14 * MINUTE);
    expect(await spend(bench, old, 'c1')).toBe(PAT);
    expect(await spend(bench, fresh, 'c1')).toBe(PAT);
    await bench.broker.leases.release(made.id, HUB);
    await expect(spend(bench, old, 'c1')).rejects.toThrow('revoked');
    await expect(spend(bench, fresh, 'c1')).rejects.toThrow('revoked');
  });

  it('changes over to a new session before the hard end of the old one', async () => {
    const bench = await openBench({ maxTtl: HOUR });
    await sandbox(bench);
    const made = await lease(bench);
    let token = gitToken(made);
    for (let i = 0; i < 20; i++) {
      bench.clock.advance(10 * MINUTE);
      const again = await renew(bench, made.id);
      if (session(again, 'git')?.issued) token = gitToken(again);
      expect(await spend(bench, token, 'c1')).toBe(PAT);
      expect(again.expiresAt).toBe(bench.clock.now() + 15 * MINUTE);
    }
  });

  it('does not bring back a session that somebody revoked by hand', async () => {
    const bench = await openBench();
    await sandbox(bench);
    const made = await lease(bench);
    await bench.sessions.revoke(gitToken(made).sessionId, 'by hand');
    for (let i = 0; i < 2; i++) {
      const again = await renew(bench, made.id);
      expect(session(again, 'git')).toBeUndefined();
      expect(session(again, 'kube')).toBeDefined();
    }
  });

  it('of a lease that is over, or gone, or never was, says which', async () => {
    const bench = await openBench();
    await sandbox(bench);
    const made = await lease(bench);
    bench.clock.advance(15 * MINUTE);
    await expect(renew(bench, made.id)).rejects.toMatchObject({ code: 'lease_expired' });
    await expect(renew(bench, made.id)).rejects.toMatchObject({ code: 'not_found' });
    await expect(renew(bench, 'lease_x')).rejects.toMatchObject({ code: 'not_found' });
    const other = await lease(bench);
    await expect(renew(bench, other.id, HOUR)).rejects.toMatchObject({ code: 'ttl_too_long' });
  });

  it('fails where a guard is down, and the lease goes on as it was', async () => {
    const bench = await openBench();
    await sandbox(bench);
    const made = await lease(bench);
    bench.guards.git = 'down';
    await expect(renew(bench, made.id)).rejects.toMatchObject({ code: 'guard_unavailable' });
    expect(await spend(bench, gitToken(made), 'c1')).toBe(PAT);
    bench.guards.git = 'on';
    await renew(bench, made.id);
  });

  it('is the same for two who renew at once', async () => {
    const bench = await openBench();
    await sandbox(bench);
    const made = await lease(bench);
    await mint(bench, 'new-pat', 'github_pat', `${PAT}9`);
    await grant(bench, 'new-pat', 'any', { repos: ['acme/new'] });
    const both = await Promise.all([renew(bench, made.id), renew(bench, made.id)]);
    expect(both.map((one) => session(one, 'git')?.grants.length)).toEqual([3, 3]);
    const live = (await bench.sessions.list({ leaseId: made.id })).filter((one) => !one.session.revokedAt);
    expect(live.length).toBeLessThanOrEqual(3); // git old, git new, kube
  });
});

describe('revoking a grant', () => {
  it('takes its credential out of live sessions at once and leaves the others', async () => {
    const bench = await openBench();
    const { lib, app } = await sandbox(bench);
    const made = await lease(bench);
    const token = gitToken(made);
    const revoked = await bench.broker.grants.revoke(lib.id, OPERATOR);
    expect(revoked.revokedBy).toBe('operator');
    await expect(spend(bench, token, 'c1')).rejects.toMatchObject({ code: 'gone' });
    expect(await spend(bench, token, 'c2')).toBe(`${PAT}2`);
    expect(await spend(bench, kubeToken(made), 'k1')).toContain('prod');
    const again = await renew(bench, made.id);
    expect(session(again, 'git')?.grants.map(({ grantId }) => grantId)).toEqual([app.id]);
    expect(bench.audit.of('lease.revoke_sent')).toMatchObject([{ grantId: lib.id, leaseId: made.id }]);
    expect(bench.audit.of('lease.revoke_acked')).toMatchObject([{ grantId: lib.id, leaseId: made.id }]);
    expect(bench.audit.of('secret.revoke')).toMatchObject([{ grantId: lib.id, decision: 'allow' }]);
  });

  it('ends the session that it leaves empty', async () => {
    const bench = await openBench();
    const { lib, app } = await sandbox(bench);
    const made = await lease(bench);
    await bench.broker.grants.revoke(lib.id, OPERATOR);
    await bench.broker.grants.revoke(app.id, OPERATOR);
    await expect(spend(bench, gitToken(made), 'c2')).rejects.toThrow('revoked');
    expect(session(await renew(bench, made.id), 'git')).toBeUndefined();
  });

  it('is idempotent, and finishes what an earlier call began', async () => {
    const bench = await openBench();
    const { lib } = await sandbox(bench);
    const made = await lease(bench);
    const row = await bench.store.get('grants', lib.id);
    if (!row) throw new Error('no row');
    // Killed after the grant was marked and before any session was cut.
    const body = { ...row.body, revokedAt: bench.clock.now(), revokedBy: 'somebody' };
    await bench.store.commit([{ op: 'put', set: 'grants', row: { ...row, body } }]);
    expect(await spend(bench, gitToken(made), 'c1')).toBe(PAT);
    await bench.broker.grants.revoke(lib.id, OPERATOR);
    await expect(spend(bench, gitToken(made), 'c1')).rejects.toMatchObject({ code: 'gone' });
    const twice = await bench.broker.grants.revoke(lib.id, OPERATOR);
    expect(twice.revokedBy).toBe('somebody');
    expect(bench.audit.of('secret.revoke')).toHaveLength(0);
  });

  it('of what was delivered directly is sent, outstanding, and landed when the executor says so', async () => {
    const bench = await openBench();
    const { vars } = await sandbox(bench);
    const made = await lease(bench);
    await bench.broker.grants.revoke(vars.id, OPERATOR);
    expect(bench.audit.of('lease.revoke_sent')).toHaveLength(1);
    expect(bench.audit.of('lease.revoke_acked')).toHaveLength(0);
    const again = await renew(bench, made.id);
    expect(again.revoked).toEqual([vars.id]);
    expect(variables(again)).toEqual({});
    const acknowledge = (scrubbed: boolean) =>
      bench.broker.leases.acknowledge(
        { leaseId: made.id, grantId: vars.id, scrubbed, reason: 'device offline' },
        HUB,
      );
    await acknowledge(false);
    expect(bench.audit.of('lease.revoke_failed')).toMatchObject([
      { grantId: vars.id, reason: 'device offline' },
    ]);
    expect((await renew(bench, made.id)).revoked).toEqual([vars.id]);
    await acknowledge(true);
    expect(bench.audit.of('lease.revoke_acked')).toMatchObject([{ grantId: vars.id }]);
    expect((await renew(bench, made.id)).revoked).toEqual([]);
    await expect(acknowledge(true)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('is done where the audit trail is away, and says that it could not be recorded', async () => {
    const bench = await openBench();
    const { lib } = await sandbox(bench);
    const made = await lease(bench);
    bench.audit.fail(true);
    await expect(bench.broker.grants.revoke(lib.id, OPERATOR)).rejects.toMatchObject({
      code: 'audit_unavailable',
    });
    await expect(spend(bench, gitToken(made), 'c1')).rejects.toMatchObject({ code: 'gone' });
  });

  it('wins against a lease that is being made at the same moment', async () => {
    let pause: (() => Promise<void>) | undefined;
    const through = (store: Store): Store => ({
      ...store,
      async commit(writes) {
        if (writes.some((write) => write.set === 'leases')) {
          const wait = pause;
          pause = undefined;
          await wait?.();
        }
        return store.commit(writes);
      },
      get: (set, id) => store.get(set, id),
      list: (set, query) => store.list(set, query),
    });
    const bench = await openBench({ through });
    const { lib } = await sandbox(bench);
    pause = async () => void (await bench.broker.grants.revoke(lib.id, OPERATOR));
    const made = await lease(bench);
    const kept = await bench.sessions.get(session(made, 'git')?.sessionId ?? '');
    expect(kept?.session.credentials.map(({ grantId }) => grantId)).not.toContain(lib.id);
    for (const { session: one } of await bench.sessions.list())
      if (one.revokedAt === undefined)
        expect(one.credentials.map(({ grantId }) => grantId)).not.toContain(lib.id);
  });
});

describe('a new payload', () => {
  it('is spent by live sessions from the next request on', async () => {
    const bench = await openBench();
    await sandbox(bench);
    const made = await lease(bench);
    await bench.broker.secrets.replace({ secret: 'lib-pat', payload: Buffer.from('ghp_new') }, OPERATOR);
    expect(await spend(bench, gitToken(made), 'c1')).toBe('ghp_new');
    expect(await spend(bench, gitToken(made), 'c2')).toBe(`${PAT}2`);
    const next = kubeconfigOf([{ name: 'prod', user: 'rotated' }, { name: 'other' }]);
    await bench.broker.secrets.replace({ secret: 'prod', payload: Buffer.from(next) }, OPERATOR);
    const custody = await spend(bench, kubeToken(made), 'k1');
    expect(custody).toContain('cluster-token-of-rotated');
    expect(bench.audit.of('secret.replace')).toHaveLength(2);
  });

  it('that leaves nothing for a grant takes the credential out of its sessions', async () => {
    const bench = await openBench();
    await mint(bench, 'prod', 'kubeconfig', kubeconfigOf([{ name: 'prod' }]));
    await grant(bench, 'prod', 'any', { contexts: ['prod'] });
    const made = await lease(bench);
    const next = kubeconfigOf([{ name: 'staging' }]);
    await bench.broker.secrets.replace({ secret: 'prod', payload: Buffer.from(next) }, OPERATOR);
    await expect(spend(bench, kubeToken(made), 'k1')).rejects.toThrow();
  });

  it('of the wrong shape changes nothing', async () => {
    const bench = await openBench();
    await sandbox(bench);
    const bytes = Buffer.from('kind: Nonsense');
    await expect(
      bench.broker.secrets.replace({ secret: 'prod', payload: bytes }, OPERATOR),
    ).rejects.toMatchObject({
      code: 'invalid_input',
    });
    expect(bytes.every((byte) => byte === 0)).toBe(true);
    expect(isEmpty(await lease(bench))).toBe(false);
  });

  it('for another forge is refused: a session would take it to the old one', async () => {
    const bench = await openBench();
    await sandbox(bench);
    const made = await lease(bench);
    const payload = Buffer.from(JSON.stringify({ token: 'ghe-token', upstream: 'https://ghe.example' }));
    await expect(
      bench.broker.secrets.replace({ secret: 'lib-pat', payload }, OPERATOR),
    ).rejects.toMatchObject({
      code: 'invalid_input',
    });
    expect(await spend(bench, gitToken(made), 'c1')).toBe(PAT);
  });

  it('saved while a lease is made is what the lease has', async () => {
    let pause: (() => Promise<void>) | undefined;
    const through = (store: Store): Store => ({
      ...store,
      get: (set, id) => store.get(set, id),
      list: (set, query) => store.list(set, query),
      async commit(writes) {
        if (writes.some((write) => write.set === 'leases')) {
          const wait = pause;
          pause = undefined;
          await wait?.();
        }
        return store.commit(writes);
      },
    });
    const bench = await openBench({ through });
    await sandbox(bench);
    pause = async () =>
      void (await bench.broker.secrets.replace(
        { secret: 'lib-pat', payload: Buffer.from('ghp_new') },
        OPERATOR,
      ));
    const made = await lease(bench);
    expect(await spend(bench, gitToken(made), 'c1')).toBe('ghp_new');
  });
});

describe('the end of a lease', () => {
  it('released: its sessions are over, it is gone, and a second release is no error', async () => {
    const bench = await openBench();
    await sandbox(bench);
    const made = await lease(bench);
    const other = await lease(bench);
    expect(await bench.broker.leases.release(made.id, HUB)).toBe(true);
    expect(await bench.broker.leases.release(made.id, HUB)).toBe(false);
    await expect(spend(bench, gitToken(made), 'c1')).rejects.toThrow('revoked');
    await expect(spend(bench, kubeToken(made), 'k1')).rejects.toThrow('revoked');
    expect(await spend(bench, gitToken(other), 'c1')).toBe(PAT);
    await expect(bench.broker.leases.show(made.id)).rejects.toMatchObject({ code: 'not_found' });
    expect(bench.audit.of('secret.release')).toMatchObject([{ leaseId: made.id, actor: 'hub' }]);
  });

  it('released and killed on the way: the sessions are over before the lease is forgotten', async () => {
    const bench = await openBench({
      through: (store) => ({
        ...store,
        get: (set, id) => store.get(set, id),
        list: (set, query) => store.list(set, query),
        commit: (writes) =>
          writes.some((write) => write.op === 'delete' && write.set === 'leases')
            ? new Promise(() => {})
            : store.commit(writes),
      }),
    });
    await sandbox(bench);
    const made = await lease(bench);
    void bench.broker.leases.release(made.id, HUB);
    await expect.poll(() => bench.sessions.liveCount('git') + bench.sessions.liveCount('kube')).toBe(0);
    expect(await bench.broker.leases.list()).toHaveLength(1); // the next release, or the sweep, finds it
  });

  it('not renewed: it ends at its time, and the sweep collects it', async () => {
    const bench = await openBench();
    await sandbox(bench);
    const gone = await lease(bench);
    bench.clock.advance(10 * MINUTE);
    const kept = await lease(bench);
    expect(await bench.broker.leases.live()).toEqual({ github_pat: 2, kubeconfig: 2, env: 2 });
    bench.clock.advance(5 * MINUTE + SECOND);
    expect(await bench.broker.leases.list()).toHaveLength(1);
    const swept = await bench.broker.sweep();
    expect(swept.expired).toEqual({ github_pat: 1, kubeconfig: 1, env: 1 });
    expect(swept.live).toEqual({ github_pat: 1, kubeconfig: 1, env: 1 });
    expect(await bench.store.get('leases', gone.id)).toBeUndefined();
    expect(bench.audit.of('secret.lease_expire')).toMatchObject([{ leaseId: gone.id }]);
    expect(await spend(bench, gitToken(kept), 'c1')).toBe(PAT);
  });

  it('one row that cannot be read keeps nothing else from its end', async () => {
    const bench = await openBench();
    const { lib } = await sandbox(bench);
    const damaged = await lease(bench);
    const made = await lease(bench);
    const row = await bench.store.get('leases', damaged.id);
    if (!row) throw new Error('no row');
    await bench.store.commit([{ op: 'put', set: 'leases', row: { ...row, body: { nonsense: true } } }]);
    await bench.store.commit([{ op: 'put', set: 'secrets', row: { id: 'sec_x', body: {}, index: {} } }]);
    expect(await bench.broker.secrets.list(OPERATOR)).toHaveLength(4);
    // What it holds nobody can say: revoking a grant of it ends it as a whole.
    await bench.broker.grants.revoke(lib.id, OPERATOR);
    await expect(spend(bench, gitToken(damaged), 'c2')).rejects.toThrow('revoked');
    expect(await spend(bench, gitToken(made), 'c2')).toBe(`${PAT}2`);
    bench.clock.advance(15 * MINUTE);
    expect((await bench.broker.sweep()).expired).toMatchObject({ env: 1 });
    expect(bench.logged.join('\n')).toContain('cannot be read');
  });

  it('deleting a secret revokes its grants and cuts its sessions', async () => {
    const bench = await openBench();
    const { lib } = await sandbox(bench);
    const made = await lease(bench);
    await bench.broker.secrets.delete('lib-pat', OPERATOR);
    await expect(spend(bench, gitToken(made), 'c1')).rejects.toMatchObject({ code: 'gone' });
    const [left] = (await bench.broker.grants.list({}, OPERATOR)).filter(({ id }) => id === lib.id);
    expect(left).toMatchObject({ secretName: 'lib-pat', revokedBy: 'operator' });
    await expect(bench.broker.secrets.show('lib-pat', OPERATOR)).rejects.toMatchObject({ code: 'not_found' });
    await mint(bench, 'lib-pat', 'github_pat', PAT); // the name is free again
    expect(session(await lease(bench), 'git')?.grants.map(({ secretName }) => secretName)).toEqual([
      'app-pat',
    ]);
  });

  it('a deletion that was cut off is finished by the next one, and nothing can be granted meanwhile', async () => {
    const bench = await openBench();
    await sandbox(bench);
    const { id } = await bench.broker.secrets.show('vars', OPERATOR);
    const row = await bench.store.get('secrets', id);
    if (!row) throw new Error('no row');
    await bench.store.commit([
      { op: 'put', set: 'secrets', row: { ...row, body: { ...row.body, deleting: true } } },
    ]);
    await expect(grant(bench, 'vars', 'any')).rejects.toMatchObject({ code: 'conflict' });
    expect(variables(await lease(bench))).toEqual({});
    await bench.broker.secrets.delete('vars', OPERATOR);
    await expect(bench.broker.secrets.show('vars', OPERATOR)).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('a restart', () => {
  it('loses no lease: it is renewed, revoked and released as before', async () => {
    const bench = await openBench();
    const { lib } = await sandbox(bench);
    const made = await lease(bench);
    const after = bench.again();
    const again = await after.leases.renew({ leaseId: made.id }, HUB);
    expect(session(again, 'git')?.sessionId).toBe(gitToken(made).sessionId);
    await after.grants.revoke(lib.id, OPERATOR);
    await expect(spend(bench, gitToken(made), 'c1')).rejects.toMatchObject({ code: 'gone' });
    expect(await after.leases.release(made.id, HUB)).toBe(true);
    expect(PROJECT).toBe(made.projectId);
  });

  it('after a kill between custody and the lease leaves a session that ends by itself, and no lease', async () => {
    const bench = await openBench({
      through: (store) => ({
        ...store,
        get: (set, id) => store.get(set, id),
        list: (set, query) => store.list(set, query),
        commit: (writes) =>
          writes.some((write) => write.set === 'leases') ? new Promise(() => {}) : store.commit(writes),
      }),
    });
    await sandbox(bench);
    void lease(bench);
    await expect.poll(() => bench.sessions.liveCount('kube')).toBe(1);
    expect(await bench.broker.leases.list()).toEqual([]);
    bench.clock.advance(15 * MINUTE);
    expect(bench.sessions.liveCount('git') + bench.sessions.liveCount('kube')).toBe(0);
  });
});
