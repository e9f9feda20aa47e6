import { generateKeyPairSync } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { afterEach, describe, expect, it } from 'vitest';
import { createContext } from '../../broker/context.ts';
import { githubApi } from '../../broker/github-app/api.ts';
import { appJwt, BACKDATE, LIFETIME } from '../../broker/github-app/jwt.ts';
import { forgeOf, parseApp } from '../../broker/github-app/payload.ts';
import { appPermissions, excess, selectRepos } from '../../broker/github-app/scope.ts';
import { Credential } from '../../common/credential.ts';
import { PosternError } from '../../common/errors.ts';
import type { Store } from '../../store/store.ts';
import {
  type Bench,
  closeBenches,
  gitToken,
  grant,
  HOUR,
  HUB,
  lease,
  MINUTE,
  mint,
  OPERATOR,
  openBench,
  session,
  spend,
} from './bench.ts';
import { appPayload, serveGitHub } from './fake-github.ts';

afterEach(closeBenches);

const payload = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
const renew = (bench: Bench, leaseId: string) => bench.broker.leases.renew({ leaseId }, HUB);

async function withApp(constraints: object = { repos: ['acme/app'] }, options = {}) {
  const bench = await openBench(options);
  await mint(bench, 'app', 'github_app', appPayload(bench.github));
  const made = await grant(bench, 'app', 'any', constraints);
  return { bench, made };
}

describe('the payload', () => {
  const pem = (bits: number): string =>
    generateKeyPairSync('rsa', { modulusLength: bits })
      .privateKey.export({ type: 'pkcs8', format: 'pem' })
      .toString();
  const good = { app_id: 1, installation_id: 2, private_key: pem(2048) };

  it('is three members and perhaps the address of the API', () => {
    expect(parseApp(payload(good))).toMatchObject({
      appId: 1,
      installationId: 2,
      apiUrl: 'https://api.github.com',
    });
    expect(parseApp(payload({ ...good, base_url: 'https://ghe.example.com/api/v3/' })).apiUrl).toBe(
      'https://ghe.example.com/api/v3',
    );
  });

  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
    type: 'pkcs8',
    format: 'pem',
  });
  it.each([
    ['a pasted token', 'ghp_0123456789abcdefghijABCDEFGHIJ456789'],
    ['a list', []],
    ['an id that is text', { ...good, app_id: '1' }],
    ['an id that is no whole number', { ...good, installation_id: 2.5 }],
    ['no key', { app_id: 1, installation_id: 2 }],
    ['a mangled key', { ...good, private_key: good.private_key.replace(/\n/g, ' ') }],
    ['an EC key', { ...good, private_key: ec }],
    ['a short key', { ...good, private_key: pem(1024) }],
    ['a misspelt member', { ...good, instalation_id: 3 }],
    ['a base URL in the open', { ...good, base_url: 'http://ghe.example.com/api/v3' }],
    ['a base URL with a user', { ...good, base_url: 'https://x:y@ghe.example.com' }],
    ['a base URL with a query', { ...good, base_url: 'https://ghe.example.com/?a=1' }],
  ])('refuses %s and quotes nothing of it', (_, value) => {
    let message = '';
    try {
      parseApp(payload(value));
    } catch (error) {
      message = String(error);
      expect(error).toMatchObject({ code: 'invalid_input' });
    }
    expect(message).not.toBe('');
    expect(message).not.toContain('PRIVATE KEY');
    expect(message).not.toContain('ghp_');
  });

  it('holds the key so that it cannot be read back', async () => {
    const app = parseApp(payload(good));
    const { inspect } = await import('node:util');
    expect(inspect(app, { depth: 9, showHidden: true })).not.toContain('PRIVATE');
    expect(JSON.stringify(app)).not.toContain('PRIVATE');
  });

  it('says which forge its API belongs to', () => {
    const at = (base_url?: string) => parseApp(payload({ ...good, ...(base_url && { base_url }) }));
    const github = ['https://github.com'];
    expect(forgeOf(at(), github)).toBe('https://github.com');
    expect(forgeOf(at('https://ghe.example.com/api/v3'), github)).toBe('https://ghe.example.com');
    expect(forgeOf(at('https://api.corp.ghe.com'), github)).toBe('https://corp.ghe.com');
    expect(forgeOf(at('http://127.0.0.1:9/api/v3'), ['http://127.0.0.1:8'])).toBe('http://127.0.0.1:8');
    expect(forgeOf(at('http://127.0.0.1:9/api/v3'), ['https://a.example', 'https://b.example'])).toBe(
      'http://127.0.0.1:9',
    );
  });
});

describe('the app JWT', () => {
  it('is RS256, back-dated by a minute, and lives for nine', async () => {
    const { bench } = await withApp();
    const app = parseApp(payload(appPayload(bench.github)));
    const jwt = (await appJwt(app, 1_700_000_000_500)).reveal();
    expect(decodeProtectedHeader(jwt)).toEqual({ alg: 'RS256', typ: 'JWT' });
    expect(decodeJwt(jwt)).toEqual({
      iss: '7',
      iat: 1_700_000_000 - BACKDATE,
      exp: 1_700_000_000 - BACKDATE + LIFETIME,
    });
    expect(BACKDATE).toBe(60);
    expect(LIFETIME).toBeLessThanOrEqual(540);
  });

  it.each([-60_000, -59_000, 60_000])('works with a GitHub whose clock is %i ms off', async (skew) => {
    const { bench } = await withApp();
    bench.github.faults.skew = skew;
    expect(session(await lease(bench), 'git')).toBeDefined();
  });
});

describe('the scope', () => {
  const installed = [
    { id: 1, fullName: 'acme/app' },
    { id: 2, fullName: 'acme/lib' },
    { id: 3, fullName: 'Corp/Tool' },
  ];

  it('is the ids of what the grant covers, in any case', () => {
    expect(selectRepos(['ACME/app', 'corp/tool'], installed)).toEqual({ ids: [1, 3] });
    expect(selectRepos(['acme/*'], installed)).toEqual({ ids: [1, 2] });
  });

  it('names what the installation lacks, and makes do without only for patterns', () => {
    expect(selectRepos(['acme/app', 'acme/none', 'acme/nil'], installed)).toEqual({
      problem: 'the installation does not cover acme/none, acme/nil',
    });
    expect(selectRepos(['acme/app', 'other/*'], installed)).toEqual({ ids: [1] });
    expect(selectRepos(['other/*'], installed)).toEqual({
      problem: 'the installation covers nothing of other/*',
    });
  });

  it('asks for contents:read where the grant is silent, for what it says, and for all only at a star', () => {
    expect(appPermissions({})).toEqual({ contents: 'read' });
    expect(appPermissions({ permissions: ['contents:read', 'contents:write', 'issues:read'] })).toEqual({
      contents: 'write',
      issues: 'read',
    });
    expect(appPermissions({ permissions: ['*'] })).toBeUndefined();
  });

  it('finds everything in an answer that was not asked for', () => {
    const token = {
      token: new Credential('x'),
      expiresAt: 1,
      permissions: { contents: 'read', metadata: 'read' },
      repositorySelection: 'selected',
      repositories: [{ id: 1, fullName: 'acme/app' }],
    };
    const asked = { repositoryIds: [1], permissions: { contents: 'read' } };
    expect(excess(asked, token)).toEqual([]);
    expect(excess(asked, { ...token, permissions: { contents: 'write' } })).toEqual(['contents:write']);
    expect(excess(asked, { ...token, permissions: { ...token.permissions, issues: 'read' } })).toEqual([
      'issues:read',
    ]);
    expect(excess(asked, { ...token, permissions: { contents: 'owner' } })).toEqual(['contents:owner']);
    expect(excess(asked, { ...token, repositorySelection: 'all' })).toEqual(['all repositories']);
    expect(excess(asked, { ...token, repositories: [{ id: 9, fullName: 'acme/secret' }] })).toEqual([
      'the repository acme/secret',
    ]);
    expect(excess({}, { ...token, repositorySelection: 'all' })).toEqual([]);
  });
});

describe('a lease of an App grant', () => {
  it('has a token of GitHub that is as narrow as the grant, and never the key', async () => {
    const { bench } = await withApp({ repos: ['acme/app'], permissions: ['contents:write'] });
    const made = await lease(bench);
    const [token, ...others] = bench.github.alive();
    expect(others).toEqual([]); // the lookup token is gone
    expect(token).toMatchObject({ repositoryIds: [1], permissions: { contents: 'write', metadata: 'read' } });
    expect(await spend(bench, gitToken(made), 'c1')).toBe(token?.token);
    expect(JSON.stringify([bench.audit.events, bench.logged, made])).not.toContain('ghs_');
  });

  it('asks for the whole installation only where the grant says *', async () => {
    const { bench } = await withApp({ repos: ['*'], permissions: ['*'] });
    await lease(bench);
    expect(bench.github.minted).toHaveLength(1);
    expect(bench.github.minted[0]).toMatchObject({ repositoryIds: undefined });
  });

  it('is denied, and names it, where the installation lacks a repository of the grant', async () => {
    const { bench } = await withApp({ repos: ['acme/app', 'acme/elsewhere'] });
    const made = await lease(bench);
    expect(made.denied[0]?.reason).toContain('acme/elsewhere');
    expect(bench.github.alive()).toEqual([]);
  });

  it.each([
    ['more permissions', { permissions: { contents: 'write' } }],
    ['another repository', { repositories: [{ id: 3, fullName: 'acme/secret' }] }],
    ['all repositories', { all: true }],
  ])('refuses an answer with %s, destroys that token, and delivers nothing', async (_, widen) => {
    const { bench } = await withApp();
    bench.github.faults.widen = widen;
    const made = await lease(bench);
    expect(made.materials).toEqual([]);
    expect(made.denied[0]?.reason).toContain('wider');
    expect(bench.github.alive()).toEqual([]);
  });

  it('is denied where GitHub is away, and the rest is delivered', async () => {
    const { bench } = await withApp();
    await mint(bench, 'vars', 'env', 'ONE=1');
    await grant(bench, 'vars', 'any');
    bench.github.faults.down = true;
    const made = await lease(bench);
    expect(made.materials).toHaveLength(1);
    expect(made.denied).toMatchObject([{ kind: 'github_app' }]);
    expect(bench.logged.join()).not.toContain('PRIVATE');
  });

  it('stops the lease where the store fails: what concerns every grant is no denial of one', async () => {
    let failing = false;
    const { bench } = await withApp(
      { repos: ['acme/app'] },
      {
        through: (store: Store): Store => ({
          ...store,
          get: (set, id) =>
            failing && set === 'app_tokens'
              ? Promise.reject(new PosternError('store_unavailable', 'the disk is full'))
              : store.get(set, id),
          list: (set, query) => store.list(set, query),
        }),
      },
    );
    await mint(bench, 'vars', 'env', 'ONE=1');
    await grant(bench, 'vars', 'any');
    failing = true;
    await expect(lease(bench)).rejects.toMatchObject({ code: 'store_unavailable' });
  });

  it('mints once for twenty leases at the same time', async () => {
    const { bench } = await withApp({ repos: ['*'] });
    let go = (): void => {};
    bench.github.faults.hold = new Promise((resolve) => {
      go = resolve;
    });
    const all = Promise.all(Array.from({ length: 20 }, () => lease(bench)));
    setTimeout(go, 50);
    const leases = await all;
    expect(bench.github.minted).toHaveLength(1);
    for (const made of leases)
      expect(await spend(bench, gitToken(made), 'c1')).toBe(bench.github.minted[0]?.token);
  });
});

describe('a session that outlives the hour', () => {
  it('works for four hours: minted anew in custody at the same scope, one at a time, the old ones destroyed', async () => {
    const { bench } = await withApp({ repos: ['acme/*'], permissions: ['contents:write'] });
    const first = await lease(bench);
    const second = await lease(bench);
    const token = gitToken(first);
    bench.github.repos.push({ id: 4, fullName: 'acme/new' }); // the scope does not grow with the installation
    for (let minutes = 0; minutes < 240; minutes += 10) {
      bench.clock.advance(10 * MINUTE);
      await Promise.all([renew(bench, first.id), renew(bench, second.id)]);
      await bench.broker.sweep();
      const spent = await spend(bench, token, 'c1');
      expect(bench.github.alive().map((one) => one.token)).toContain(spent);
      expect(await spend(bench, gitToken(second), 'c1')).toBe(spent);
      expect(session(first, 'git')?.sessionId).toBe(token.sessionId);
    }
    const minted = bench.github.minted.filter(({ repositoryIds }) => repositoryIds !== undefined);
    expect(minted.length).toBeGreaterThanOrEqual(4);
    expect(minted.length).toBeLessThanOrEqual(6);
    for (const one of minted) expect(one.repositoryIds).toEqual([1, 2, 3]);
    expect(bench.github.alive().length).toBeLessThanOrEqual(2);
  });

  it('goes on with the token of now while GitHub is away, and ends with it', async () => {
    const { bench } = await withApp();
    const made = await lease(bench);
    bench.clock.advance(14 * MINUTE);
    await renew(bench, made.id);
    bench.clock.advance(14 * MINUTE);
    await renew(bench, made.id);
    bench.clock.advance(14 * MINUTE);
    await renew(bench, made.id);
    bench.github.faults.down = true;
    bench.clock.advance(8 * MINUTE); // at 50 minutes: ten are left
    const last = await renew(bench, made.id);
    expect(last.expiresAt).toBe(bench.github.minted.at(-1)?.expiresAt);
    bench.clock.advance(9 * MINUTE + 30_000);
    const over = await renew(bench, made.id);
    expect(over.materials).toEqual([]);
    await expect(spend(bench, gitToken(made), 'c1')).rejects.toThrow();
    bench.github.faults.down = false;
    expect(session(await renew(bench, made.id), 'git')?.issued).toBeDefined();
  });

  it('finishes a change of tokens that a crash interrupted', async () => {
    const { bench, made: granted } = await withApp();
    const made = await lease(bench);
    const before = await spend(bench, gitToken(made), 'c1');
    bench.clock.advance(14 * MINUTE);
    await renew(bench, made.id);
    // As left by a process that had stored the next token and was killed before custody had it.
    const row = await bench.store.get('app_tokens', granted.id);
    if (!row) throw new Error('no row');
    const name = { set: 'app_tokens', id: granted.id };
    const next = await bench.github.api.createToken({
      apiUrl: '',
      jwt: await appJwt(parseApp(payload(appPayload(bench.github))), bench.clock.now()),
      installationId: 42,
      repositoryIds: [1],
      permissions: { contents: 'read' },
    });
    await bench.store.commit([
      {
        op: 'put',
        set: name.set,
        row: {
          ...row,
          body: { ...row.body, tokenId: 'ght_x', applied: false, expiresAt: next.expiresAt },
          sealed: bench.keyring.seal(name, Buffer.from(next.token.reveal())),
        },
      },
    ]);
    expect(await spend(bench, gitToken(made), 'c1')).toBe(before);
    await bench.again().leases.renew({ leaseId: made.id }, HUB);
    expect(await spend(bench, gitToken(made), 'c1')).toBe(next.token.reveal());
  });
});

describe('the end of a token', () => {
  it('comes with the release of the last lease that shares it', async () => {
    const { bench, made: granted } = await withApp();
    const first = await lease(bench);
    const second = await lease(bench);
    const token = await spend(bench, gitToken(second), 'c1');
    await bench.broker.leases.release(first.id, HUB);
    expect(bench.github.alive().map((one) => one.token)).toEqual([token]);
    expect(await spend(bench, gitToken(second), 'c1')).toBe(token);
    await bench.broker.leases.release(second.id, HUB);
    expect(bench.github.alive()).toEqual([]);
    const destroyed = bench.audit.of('github_app.token_destroy');
    expect(destroyed).toMatchObject([{ decision: 'allow', grantId: granted.id, actor: 'hub' }]);
    expect(bench.audit.of('secret.revoke')).toEqual([]);
  });

  it('comes with the revocation of the grant, whoever holds it', async () => {
    const { bench, made: granted } = await withApp();
    const made = await lease(bench);
    await bench.broker.grants.revoke(granted.id, OPERATOR);
    expect(bench.github.alive()).toEqual([]);
    await expect(spend(bench, gitToken(made), 'c1')).rejects.toThrow();
    expect(bench.audit.of('github_app.token_destroy')).toHaveLength(1);
    expect(bench.audit.of('secret.revoke')).toHaveLength(1);
  });

  it('comes with the expiry of the lease', async () => {
    const { bench } = await withApp();
    await lease(bench);
    bench.clock.advance(15 * MINUTE);
    await bench.broker.sweep();
    expect(bench.github.alive()).toEqual([]);
  });

  it('is tried again where GitHub fails, also after a restart, and is on the record as failed and then done', async () => {
    const { bench } = await withApp();
    const made = await lease(bench);
    bench.github.faults.destroyFails = true;
    await bench.broker.leases.release(made.id, HUB);
    await bench.broker.sweep();
    expect(bench.audit.of('github_app.token_destroy')).toMatchObject([{ decision: 'error' }]);
    expect(bench.github.alive()).toHaveLength(1);
    bench.github.faults.destroyFails = false;
    await bench.again().sweep();
    expect(bench.github.alive()).toEqual([]);
    expect(bench.audit.of('github_app.token_destroy')).toMatchObject([
      { decision: 'error' },
      { decision: 'allow' },
    ]);
    expect(await bench.store.list('app_tokens_ending')).toEqual([]);
  });

  it('is forgotten once its hour is over anyway', async () => {
    const { bench } = await withApp();
    const made = await lease(bench);
    bench.github.faults.down = true;
    await bench.broker.leases.release(made.id, HUB);
    bench.clock.advance(HOUR);
    await bench.broker.sweep();
    expect(await bench.store.list('app_tokens_ending')).toEqual([]);
  });

  it('never comes while a lease is being made', async () => {
    const { bench } = await withApp({ repos: ['*'] });
    for (let round = 0; round < 10; round++) {
      const first = await lease(bench);
      const [second] = await Promise.all([lease(bench), bench.broker.leases.release(first.id, HUB)]);
      const spent = await spend(bench, gitToken(second), 'c1');
      expect(bench.github.alive().map((one) => one.token)).toContain(spent);
      await bench.broker.leases.release(second.id, HUB);
      expect(bench.github.alive()).toEqual([]);
    }
  });

  it('does not keep another lease waiting where GitHub hangs', async () => {
    const { bench } = await withApp({ repos: ['*'] });
    const stuck = await lease(bench);
    const [first] = bench.github.alive();
    await mint(bench, 'other-app', 'github_app', appPayload(bench.github));
    await grant(bench, 'other-app', 'project:/srv/other', { repos: ['*'] });
    const other = await lease(bench, { projectId: '/srv/other' });
    bench.github.faults.holdDestroy = (token) => (token === first?.token ? new Promise(() => {}) : undefined);
    void bench.broker.grants
      .list({}, OPERATOR)
      .then(async ([, mine]) => bench.broker.grants.revoke(mine?.id ?? '', OPERATOR));
    await expect.poll(() => bench.store.list('app_tokens_ending')).toHaveLength(1);
    expect(await bench.broker.leases.release(other.id, HUB)).toBe(true);
    expect(bench.github.alive().map(({ token }) => token)).toEqual([first?.token]);
    await expect(spend(bench, gitToken(stuck), 'c1')).rejects.toThrow();
  });

  it('is one where two replicas mint at the same moment', async () => {
    for (let round = 0; round < 5; round++) {
      const { bench } = await withApp({ repos: ['*'] });
      const ask = { projectId: '/srv/app', executorId: 'edge-01' };
      const leases = await Promise.all(
        [bench.broker, bench.again()].map((one) => one.leases.create(ask, HUB)),
      );
      const [alive, ...more] = bench.github.alive();
      expect(more).toEqual([]);
      for (const made of leases) expect(await spend(bench, gitToken(made), 'c1')).toBe(alive?.token);
    }
  });

  it('is held only by who was given the token of now', async () => {
    const { bench, made: granted } = await withApp();
    await lease(bench);
    const { appTokens } = createContext(bench.deps);
    const row = await bench.store.get('app_tokens', granted.id);
    expect(await appTokens.hold(new Map([[granted.id, String(row?.body.tokenId)]]))).toHaveLength(1);
    expect(await appTokens.hold(new Map([[granted.id, 'ght_of_before']]))).toBeUndefined();
    expect(await appTokens.hold(new Map([['grant_x', 'ght_x']]))).toBeUndefined();
  });

  it('comes for a token that was minted for a lease that never came to be', async () => {
    const { bench } = await withApp({ repos: ['*'] });
    bench.audit.fail(['secret.lease']);
    await expect(lease(bench)).rejects.toMatchObject({ code: 'audit_unavailable' });
    expect(bench.github.alive()).toEqual([]);
  });
});

describe('a new key of the App', () => {
  it('mints new tokens for live sessions', async () => {
    const { bench } = await withApp();
    const made = await lease(bench);
    const before = await spend(bench, gitToken(made), 'c1');
    await bench.broker.secrets.replace(
      { secret: 'app', payload: payload(appPayload(bench.github)) },
      OPERATOR,
    );
    const after = await spend(bench, gitToken(made), 'c1');
    expect(after).not.toBe(before);
    bench.clock.advance(3 * MINUTE);
    await bench.broker.sweep();
    expect(bench.github.alive().map((one) => one.token)).toEqual([after]);
  });

  it('that mints nothing takes the credential out of them', async () => {
    const { bench } = await withApp();
    const made = await lease(bench);
    const stranger = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
    const private_key = stranger.export({ type: 'pkcs8', format: 'pem' }).toString();
    await bench.broker.secrets.replace(
      { secret: 'app', payload: payload(appPayload(bench.github, { private_key })) },
      OPERATOR,
    );
    await expect(spend(bench, gitToken(made), 'c1')).rejects.toThrow();
  });
});

describe('over HTTP', () => {
  it('mints, lists, destroys, follows no redirect and quotes nothing', async () => {
    const { bench } = await withApp();
    bench.github.repos = Array.from({ length: 230 }, (_, i) => ({ id: i + 1, fullName: `acme/r${i + 1}` }));
    const server = await serveGitHub(bench.github);
    const api = githubApi();
    try {
      const { apiUrl } = server;
      const app = parseApp(payload(appPayload(bench.github, { base_url: apiUrl })));
      const jwt = await appJwt(app, bench.clock.now());
      const whole = await api.createToken({
        apiUrl,
        jwt,
        installationId: 42,
        permissions: { metadata: 'read' },
      });
      const repos = await api.listRepos(apiUrl, whole.token);
      expect(repos).toHaveLength(230);
      expect(repos.at(-1)).toEqual({ id: 230, fullName: 'acme/r230' });
      const narrow = await api.createToken({
        apiUrl,
        jwt,
        installationId: 42,
        repositoryIds: [7],
        permissions: { contents: 'read' },
      });
      expect(narrow).toMatchObject({
        repositorySelection: 'selected',
        repositories: [{ id: 7, fullName: 'acme/r7' }],
      });
      await api.destroyToken(apiUrl, narrow.token);
      await api.destroyToken(apiUrl, narrow.token); // dead already: no error
      await expect(api.listRepos(apiUrl, narrow.token)).rejects.toMatchObject({ code: 'github_app_failed' });
      const failing = api.createToken({ apiUrl, jwt: new Credential('not-a-jwt'), installationId: 42 });
      await expect(failing).rejects.toThrow('status 401');
      await expect(failing).rejects.not.toThrow('not-a-jwt');
      await server.close();
      await expect(api.createToken({ apiUrl, jwt, installationId: 42 })).rejects.toThrow('does not answer');
    } finally {
      await api.close();
      await server.close();
    }
  });
});
