import { afterEach, describe, expect, it } from 'vitest';
import { isEmpty, leaseKinds, leaseSecretNames, sensitiveEnv } from '../../broker/material.ts';
import {
  closeBenches,
  DAY,
  files,
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

describe('a lease', () => {
  it('is empty, and no error, where nothing matches', async () => {
    const bench = await openBench();
    await mint(bench, 'other', 'env', 'A=1');
    await grant(bench, 'other', 'project:/srv/other');
    const made = await lease(bench);
    expect(isEmpty(made)).toBe(true);
    expect(bench.audit.of('secret.lease')).toMatchObject([{ decision: 'allow', reason: 'no grant matches' }]);
  });

  it('has what matches project, executor, labels and everybody, and nothing else', async () => {
    const bench = await openBench();
    const subjects = {
      A: 'project:/srv/app/',
      B: 'project:*',
      C: 'executor:edge-01',
      D: 'label:region=eu',
      E: 'any',
      X1: 'project:/srv/app-staging',
      X2: 'executor:edge-02',
      X3: 'label:region=eu,gpu=true',
      X4: 'label:region=eu,zone=1',
    };
    for (const [name, subject] of Object.entries(subjects)) {
      await mint(bench, name, 'env', `${name}=value-of-${name}`);
      await grant(bench, name, subject);
    }
    const made = await lease(bench, { labels: { region: 'eu' } });
    expect(Object.keys(variables(made)).sort()).toEqual(['A', 'B', 'C', 'D', 'E']);
    expect(leaseSecretNames(made)).toEqual(['A', 'B', 'C', 'D', 'E']);
    expect(leaseKinds(made)).toEqual(['env']);
  });

  it('cuts each material down to its constraints', async () => {
    const bench = await openBench();
    await mint(bench, 'vars', 'env', { ONE: '1', TWO: '2', THREE: '3' });
    await grant(bench, 'vars', `project:${PROJECT}`, { envKeys: ['ONE', 'THREE'] });
    expect(variables(await lease(bench))).toEqual({ ONE: '1', THREE: '3' });
  });

  it('lives for 15 minutes at most, and a longer one is an error', async () => {
    const bench = await openBench();
    const made = await lease(bench);
    expect(made.expiresAt - made.issuedAt).toBe(15 * MINUTE);
    await expect(lease(bench, { ttl: 16 * MINUTE })).rejects.toMatchObject({ code: 'ttl_too_long' });
    expect((await lease(bench, { ttl: 5 * MINUTE })).expiresAt).toBe(bench.clock.now() + 5 * MINUTE);
  });

  it('ends with the first of its grants, session included', async () => {
    const bench = await openBench();
    await mint(bench, 'pat', 'github_pat', PAT);
    await grant(bench, 'pat', `project:${PROJECT}`, { repos: ['acme/app'] }, { ttl: 4 * MINUTE });
    const made = await lease(bench);
    expect(made.expiresAt).toBe(bench.clock.now() + 4 * MINUTE);
    bench.clock.advance(4 * MINUTE + SECOND);
    await expect(spend(bench, gitToken(made), 'c1')).rejects.toThrow('expired');
  });

  it('prints and serialises without a credential', async () => {
    const bench = await openBench({ git: 'off' });
    await mint(bench, 'vars', 'env', { TOKEN: 'very-secret-value' });
    await mint(bench, 'pat', 'github_pat', PAT);
    await grant(bench, 'vars', 'any');
    await grant(bench, 'pat', 'any', { repos: ['*'] });
    const made = await lease(bench);
    const { inspect } = await import('node:util');
    for (const text of [JSON.stringify(made), inspect(made, { depth: 9 }), String(made)]) {
      expect(text).not.toContain('very-secret-value');
      expect(text).not.toContain(PAT);
    }
    expect(made.materials.flatMap(sensitiveEnv).sort()).toEqual(['GITHUB_TOKEN', 'TOKEN']);
  });

  it('denies what cannot be built, on the record, and goes on with the rest', async () => {
    const bench = await openBench();
    await mint(bench, 'vars', 'env', { ONE: '1' });
    await mint(bench, 'registry', 'registry', { auths: { 'ghcr.io': { auth: 'dTpwYXNzd29yZA==' } } });
    await mint(bench, 'damaged', 'env', 'OTHER=x');
    const good = await grant(bench, 'vars', 'any');
    const nothing = await grant(bench, 'registry', 'any', { registries: ['quay.io'] });
    const damaged = await grant(bench, 'damaged', 'any');
    const row = await bench.store.get('secrets', damaged.secretId);
    const from = await bench.store.get('secrets', good.secretId);
    if (!row || !from?.sealed) throw new Error('no row');
    await bench.store.commit([{ op: 'put', set: 'secrets', row: { ...row, sealed: from.sealed } }]);
    const made = await lease(bench);
    expect(variables(made)).toEqual({ ONE: '1' });
    expect(made.denied.map(({ grantId }) => grantId).sort()).toEqual([nothing.id, damaged.id].sort());
    const denials = bench.audit.of('secret.lease').filter(({ decision }) => decision === 'deny');
    expect(denials.map(({ grantId }) => grantId).sort()).toEqual([nothing.id, damaged.id].sort());
  });

  it('denies a grant row that cannot be read', async () => {
    const bench = await openBench();
    await mint(bench, 'vars', 'env', { ONE: '1' });
    const { id } = await grant(bench, 'vars', 'any');
    const row = await bench.store.get('grants', id);
    if (!row) throw new Error('no row');
    await bench.store.commit([
      { op: 'put', set: 'grants', row: { ...row, body: { ...row.body, constraints: { everything: true } } } },
    ]);
    const made = await lease(bench);
    expect(isEmpty(made)).toBe(true);
    expect(made.denied).toMatchObject([{ grantId: id }]);
  });

  it('holds each grant against the rules of today, whatever they were when it was made', async () => {
    const bench = await openBench();
    await mint(bench, 'vars', 'env', { ONE: '1' });
    const { id } = await grant(bench, 'vars', 'any');
    const row = await bench.store.get('grants', id);
    if (!row) throw new Error('no row');
    const body = { ...row.body, constraints: { envKeys: ['ONE'], hosts: ['*'] } };
    await bench.store.commit([{ op: 'put', set: 'grants', row: { ...row, body } }]);
    const made = await lease(bench);
    expect(isEmpty(made)).toBe(true);
    expect(made.denied).toMatchObject([{ grantId: id }]);
  });

  it('meets an ended grant once, with a record, and does not look at it again', async () => {
    const bench = await openBench();
    await mint(bench, 'vars', 'env', { ONE: '1' });
    const ended = await grant(bench, 'vars', 'any', {}, { ttl: MINUTE });
    bench.clock.advance(2 * MINUTE);
    for (let i = 0; i < 3; i++) expect(isEmpty(await lease(bench))).toBe(true);
    const denials = bench.audit.of('secret.lease').filter(({ decision }) => decision === 'deny');
    expect(denials).toMatchObject([{ grantId: ended.id }]);
    expect(await bench.broker.grants.list({}, OPERATOR)).toHaveLength(1);
  });

  it('gives a variable to the narrower grant and denies the other as a whole', async () => {
    const bench = await openBench();
    await mint(bench, 'wide', 'env', { API: 'wide', MORE: 'm' });
    await mint(bench, 'narrow', 'env', { API: 'narrow' });
    const wide = await grant(bench, 'wide', 'any');
    await grant(bench, 'narrow', `project:${PROJECT}`);
    const made = await lease(bench);
    expect(variables(made)).toEqual({ API: 'narrow' });
    expect(made.denied).toMatchObject([
      { grantId: wide.id, reason: expect.stringContaining('the variable API') },
    ]);
  });

  it('logs in to several registries with one document', async () => {
    const bench = await openBench();
    await mint(bench, 'ghcr', 'registry', {
      auths: { 'ghcr.io': { auth: 'YTpi' }, 'quay.io': { auth: 'Yzpk' } },
    });
    await mint(bench, 'own', 'registry', 'robot:pass');
    await grant(bench, 'ghcr', 'any', { registries: ['ghcr.io'] });
    await grant(bench, 'own', 'any', { registries: ['registry.corp.example'] });
    const made = await lease(bench);
    expect(JSON.parse(files(made)['config.json'] ?? '')).toEqual({
      auths: {
        'ghcr.io': { auth: 'YTpi' },
        'registry.corp.example': { auth: Buffer.from('robot:pass').toString('base64') },
      },
    });
  });

  it('names the guards in NO_PROXY beside a proxy', async () => {
    const bench = await openBench();
    await mint(bench, 'proxy', 'egress_proxy', 'http://user:pass@proxy.corp.example:3128');
    await mint(bench, 'pat', 'github_pat', PAT);
    await mint(bench, 'prod', 'kubeconfig', kubeconfigOf([{ name: 'prod' }]));
    await grant(bench, 'proxy', 'any', { hosts: ['api.example.com'] });
    await grant(bench, 'pat', 'any', { repos: ['*'] });
    await grant(bench, 'prod', 'any', { namespaces: ['team-a'] });
    const env = variables(await lease(bench));
    expect(env.HTTPS_PROXY).toBe('http://user:pass@proxy.corp.example:3128');
    expect(env.NO_PROXY).toBe('127.0.0.1,127.0.0.2');
    expect(env.POSTERN_EGRESS_HOSTS).toBe('api.example.com');
  });

  it('is not made for nobody', async () => {
    const bench = await openBench();
    await expect(bench.broker.leases.create({}, HUB)).rejects.toMatchObject({ code: 'invalid_input' });
    await expect(bench.broker.leases.create({ projectId: '*' }, HUB)).rejects.toMatchObject({
      code: 'invalid_input',
    });
    await expect(bench.broker.leases.create({ projectId: PROJECT }, { actor: ' ' })).rejects.toMatchObject({
      code: 'invalid_input',
    });
  });
});

describe('the sessions of a lease', () => {
  it('are one for all GitHub grants, with one credential each', async () => {
    const bench = await openBench();
    await mint(bench, 'lib-pat', 'github_pat', PAT);
    await mint(bench, 'app-pat', 'github_pat', `${PAT}2`);
    await grant(bench, 'lib-pat', `project:${PROJECT}`, { repos: ['acme/lib'] });
    await grant(bench, 'app-pat', `project:${PROJECT}`, {
      repos: ['acme/app'],
      permissions: ['contents:write'],
      pushRefs: ['refs/heads/agent/**'],
    });
    const made = await lease(bench, { runId: 'run-1', taskId: 't-1' });
    const { sessionId } = session(made, 'git') ?? {};
    const kept = await bench.sessions.get(sessionId ?? '');
    expect(kept?.session.credentials.map(({ secretName }) => secretName)).toEqual(['lib-pat', 'app-pat']);
    expect(kept?.session.labels).toMatchObject({
      projectId: PROJECT,
      executorId: 'edge-01',
      runId: 'run-1',
      taskId: 't-1',
      actor: 'hub',
    });
    expect(await spend(bench, gitToken(made), 'c1')).toBe(PAT);
    expect(await spend(bench, gitToken(made), 'c2')).toBe(`${PAT}2`);
    expect(kept?.session.policy).toMatchObject({
      grants: [
        { repos: ['acme/lib'], permissions: ['contents:read'] },
        { repos: ['acme/app'], permissions: ['contents:write'], pushRefs: ['refs/heads/agent/**'] },
      ],
    });
    expect(JSON.stringify(made)).not.toContain(PAT);
  });

  it('are one for all kubeconfig grants, each document reduced before it goes into custody', async () => {
    const bench = await openBench();
    await mint(bench, 'prod', 'kubeconfig', kubeconfigOf([{ name: 'prod' }, { name: 'admin' }]));
    await mint(bench, 'stage', 'kubeconfig', kubeconfigOf([{ name: 'stage', namespace: 'team-b' }]));
    await grant(bench, 'prod', 'any', { contexts: ['prod'], namespaces: ['team-a'] });
    await grant(bench, 'stage', 'any', { namespaces: ['team-*'], verbs: ['get', 'patch'] });
    const made = await lease(bench);
    const custody = await spend(bench, kubeToken(made), 'k1');
    expect(custody).toContain('prod');
    expect(custody).not.toContain('cluster-token-of-admin');
    const kept = await bench.sessions.get(session(made, 'kube')?.sessionId ?? '');
    expect(kept?.session.policy).toMatchObject({
      clusters: [
        { contexts: ['prod'], namespaces: ['team-a'], verbs: ['get', 'list', 'watch'] },
        { contexts: ['stage'], namespaces: ['team-*'], verbs: ['get', 'patch'] },
      ],
    });
  });

  it('fail the whole lease where a guard is configured and down', async () => {
    for (const guard of ['git', 'kube'] as const) {
      const bench = await openBench({ [guard]: 'down' });
      await mint(bench, 'vars', 'env', { ONE: '1' });
      await mint(bench, 'pat', 'github_pat', PAT);
      await mint(bench, 'prod', 'kubeconfig', kubeconfigOf([{ name: 'prod' }]));
      await grant(bench, 'vars', 'any');
      await grant(bench, 'pat', 'any', { repos: ['*'] });
      await grant(bench, 'prod', 'any', { namespaces: ['*'] });
      await expect(lease(bench)).rejects.toMatchObject({ code: 'guard_unavailable' });
      expect(await bench.broker.leases.list()).toEqual([]);
      expect(await bench.sessions.list()).toEqual([]);
      expect(bench.audit.of('secret.lease')).toMatchObject([{ decision: 'deny' }]);
      bench.guards[guard] = 'on';
      expect((await lease(bench)).materials).toHaveLength(3);
    }
  });

  it('fail the lease also where the guard goes down while it is made', async () => {
    const bench = await openBench();
    await mint(bench, 'pat', 'github_pat', PAT);
    await grant(bench, 'pat', 'any', { repos: ['*'] });
    const { gitGuard } = bench.deps;
    let reads = 0;
    Object.defineProperty(bench.deps, 'gitGuard', { get: () => (reads++ === 0 ? gitGuard : 'down') });
    await expect(lease(bench)).rejects.toMatchObject({ code: 'guard_unavailable' });
    expect(reads).toBeGreaterThan(1);
    expect(await bench.broker.leases.list()).toEqual([]);
  });

  it('fail the lease where the guard breaks while it issues, and leave nothing behind', async () => {
    const bench = await openBench();
    await mint(bench, 'pat', 'github_pat', PAT);
    await mint(bench, 'prod', 'kubeconfig', kubeconfigOf([{ name: 'prod' }]));
    await grant(bench, 'pat', 'any', { repos: ['*'] });
    await grant(bench, 'prod', 'any', { namespaces: ['*'] });
    const { kubeGuard } = bench.deps;
    Object.defineProperty(bench.deps, 'kubeGuard', {
      get: () => ({ issue: () => Promise.reject(new Error('no memory')) }),
    });
    await expect(lease(bench)).rejects.toThrow('no memory');
    expect(await bench.broker.leases.list()).toEqual([]);
    for (const { session: left } of await bench.sessions.list()) expect(left.revokedAt).toBeDefined();
    Object.defineProperty(bench.deps, 'kubeGuard', { get: () => kubeGuard });
  });

  it.each([true, false])('leave out the one credential that a guard refuses (named: %s)', async (naming) => {
    const bench = await openBench();
    bench.refuse.upstreams.push('https://ghe.corp.example');
    bench.refuse.namespaces.push('kube-system');
    bench.refuse.naming = naming;
    await mint(bench, 'pat', 'github_pat', PAT);
    await mint(bench, 'ghe', 'github_pat', { token: 'ghe-token-1', upstream: 'https://ghe.corp.example' });
    await mint(bench, 'prod', 'kubeconfig', kubeconfigOf([{ name: 'prod' }]));
    await mint(bench, 'sys', 'kubeconfig', kubeconfigOf([{ name: 'sys', namespace: 'kube-system' }]));
    await grant(bench, 'pat', 'any', { repos: ['acme/app'] });
    const ghe = await grant(bench, 'ghe', 'any', { repos: ['acme/*'] });
    await grant(bench, 'prod', 'any', { namespaces: ['team-a'] });
    const sys = await grant(bench, 'sys', 'any', { namespaces: ['kube-system'] });
    const made = await lease(bench);
    expect(made.denied.map(({ grantId }) => grantId).sort()).toEqual([ghe.id, sys.id].sort());
    expect(session(made, 'git')?.grants.map(({ secretName }) => secretName)).toEqual(['pat']);
    expect(session(made, 'kube')?.grants.map(({ secretName }) => secretName)).toEqual(['prod']);
    const live = (await bench.sessions.list()).filter((one) => one.session.revokedAt === undefined);
    expect(live).toHaveLength(2);
  });

  it('go to the forge that the token names, else to github.com, else to the only one', async () => {
    const upstreamOf = async (upstreams: string[], payload: string | object): Promise<unknown> => {
      const bench = await openBench({ upstreams });
      await mint(bench, 'pat', 'github_pat', payload);
      await grant(bench, 'pat', 'any', { repos: ['*'] });
      const made = await lease(bench);
      return session(made, 'git')?.issued?.upstreams[0] ?? made.denied[0]?.reason;
    };
    const ghe = 'https://ghe.corp.example';
    expect(await upstreamOf(['https://github.com', ghe], PAT)).toBe('https://github.com');
    expect(await upstreamOf(['https://github.com', ghe], { token: PAT, upstream: ghe })).toBe(ghe);
    expect(await upstreamOf([ghe], PAT)).toBe(ghe);
    expect(await upstreamOf([ghe, 'https://other.example'], PAT)).toContain('does not say which');
  });

  it('give a grant without contents nothing', async () => {
    const bench = await openBench();
    await mint(bench, 'pat', 'github_pat', PAT);
    await grant(bench, 'pat', 'any', { repos: ['acme/app'], permissions: ['pull_requests:write'] });
    const made = await lease(bench);
    expect(isEmpty(made)).toBe(true);
    expect(made.denied[0]?.reason).toContain('contents');
  });
});

describe('audit of a lease', () => {
  it('has a record for each grant, with run and constraints and no credential', async () => {
    const bench = await openBench();
    await mint(bench, 'pat', 'github_pat', PAT);
    const { id } = await grant(bench, 'pat', `project:${PROJECT}`, { repos: ['acme/app'] });
    const made = await lease(bench, { runId: 'run-9' });
    expect(bench.audit.of('secret.lease')).toMatchObject([
      {
        decision: 'allow',
        actor: 'hub',
        grantId: id,
        secretName: 'pat',
        kind: 'github_pat',
        leaseId: made.id,
        projectId: PROJECT,
        executorId: 'edge-01',
        runId: 'run-9',
        constraints: 'repos=acme/app',
        durability: 'durable',
      },
    ]);
    expect(JSON.stringify(bench.audit.events)).not.toContain(PAT);
    expect(bench.logged.join('\n')).not.toContain(PAT);
  });

  it('that cannot be kept means no lease', async () => {
    const bench = await openBench();
    await mint(bench, 'pat', 'github_pat', PAT);
    await grant(bench, 'pat', 'any', { repos: ['*'] });
    bench.audit.fail(['secret.lease']);
    await expect(lease(bench)).rejects.toMatchObject({ code: 'audit_unavailable' });
    expect(await bench.broker.leases.list()).toEqual([]);
    for (const { session: left } of await bench.sessions.list()) expect(left.revokedAt).toBeDefined();
  });
});

describe('time', () => {
  it('lets a 30-day grant stand for 30 days', async () => {
    const bench = await openBench();
    await mint(bench, 'vars', 'env', { ONE: '1' });
    await grant(bench, 'vars', 'any', {}, { ttl: 30 * DAY });
    expect(isEmpty(await lease(bench))).toBe(false);
    bench.clock.advance(30 * DAY - HOUR);
    expect(isEmpty(await lease(bench))).toBe(false);
    bench.clock.advance(HOUR);
    expect(isEmpty(await lease(bench))).toBe(true);
  });
});
