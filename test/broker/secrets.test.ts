import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { checkName } from '../../broker/name.ts';
import { safeRef } from '../../broker/safe-ref.ts';
import {
  ADMIN,
  closeBenches,
  DAY,
  gitToken,
  grant,
  HUB,
  lease,
  mint,
  OPERATOR,
  openBench,
  PAT,
  PROJECT,
  spend,
  variables,
} from './bench.ts';

afterEach(closeBenches);

describe('names', () => {
  it.each(['a', 'prod-deploy-pat', 'Prod.Api_1', 'FOO_BAR', `${'a'.repeat(63)}z`])('%s is one', (name) => {
    expect(checkName(name)).toBe(name);
  });

  it.each([
    '',
    '-a',
    '.a',
    'a b',
    'a/b',
    '../a',
    'a\n',
    'a:b',
    'a$b',
    'ä',
    'a'.repeat(65),
    'a-',
    'sec_0123456789abcdefghjkmnpqrs',
    PAT,
    PAT.repeat(2),
  ])('%j is none', (name) => {
    expect(() => checkName(name)).toThrow(expect.objectContaining({ code: 'invalid_input' }));
  });

  it('are the same in any case', async () => {
    const bench = await openBench();
    await mint(bench, 'Prod', 'env', 'A=1');
    await expect(mint(bench, 'prod', 'env', 'A=1')).rejects.toMatchObject({ code: 'conflict' });
    expect((await bench.broker.secrets.show('PROD', OPERATOR)).name).toBe('Prod');
  });

  it('go to one of two who want one at the same moment', async () => {
    const bench = await openBench();
    const both = await Promise.allSettled([mint(bench, 'x', 'env', 'A=1'), mint(bench, 'x', 'env', 'A=2')]);
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await bench.broker.secrets.list(OPERATOR)).toHaveLength(1);
  });
});

describe('a reference that is shown back', () => {
  it.each([
    ['prod-deploy-pat', '"prod-deploy-pat"'],
    ['sec_01kdvdna04a0w3740aarg32vzt', 'sec_01kdvdna04a0w3740aarg32vzt'],
    [PAT, `[redacted] (${PAT.length} characters)`],
    ['https://user:password@host.example/x', '[redacted] (36 characters)'],
    ['eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9.e30.c2ln', '[redacted] (41 characters)'],
    ['dXNlcjpwYXNzd29yZDEyMw==', '"dXNlcj…" (24 characters)'],
    ['0123456789abcdef0123456789abcdef', '"012345…" (32 characters)'],
    ['x\u0000\n\u001b[31m', '"x???[3…" (8 characters)'],
    ['', '""'],
  ])('%j is %s', (ref, shown) => {
    expect(safeRef(ref)).toBe(shown);
  });

  it('has at most six characters of anything that is not a name', () => {
    fc.assert(
      fc.property(fc.base64String({ minLength: 24, maxLength: 200 }), (token) => {
        const shown = safeRef(token);
        for (let at = 0; at + 8 <= token.length; at++) expect(shown).not.toContain(token.slice(at, at + 8));
      }),
    );
  });

  it('is not in the error for a pasted token, and not in the record', async () => {
    const bench = await openBench();
    const registry = 'dXNlcjpwYXNzd29yZDEyMzQ1Njc4OTA=';
    for (const token of [PAT, registry]) {
      for (const call of [
        () => bench.broker.secrets.show(token, OPERATOR),
        () => bench.broker.secrets.delete(token, OPERATOR),
        () => grant(bench, token, 'any'),
        () => bench.broker.grants.list({ secret: token }, OPERATOR),
        () => bench.broker.grants.revoke(token, OPERATOR),
        () => bench.broker.grants.create({ secret: 'x', subject: token }, OPERATOR),
        () => bench.broker.requests.show(token),
        () => bench.broker.leases.show(token),
        () => mint(bench, token.repeat(3), 'env', 'A=1'),
      ])
        await call().then(
          () => expect.unreachable(),
          (error) => expect(`${error} ${JSON.stringify(error)}`).not.toContain(token.slice(0, 12)),
        );
    }
    expect(JSON.stringify(bench.audit.events)).not.toContain(PAT);
  });
});

describe('minting', () => {
  it('seals the payload, zeroes the buffer, and keeps nothing of it anywhere else', async () => {
    const bench = await openBench();
    const payload = Buffer.from('API_KEY=canary-value-1234567890');
    const secret = await bench.broker.secrets.mint({ name: 'k', kind: 'env', payload }, OPERATOR);
    expect(payload.every((byte) => byte === 0)).toBe(true);
    expect(secret).toMatchObject({ name: 'k', kind: 'env', names: ['API_KEY'], createdBy: 'operator' });
    const row = await bench.store.get('secrets', secret.id);
    expect(row?.sealed?.kek).toBe(bench.keyring.primaryId);
    expect(JSON.stringify(row)).not.toContain('canary');
    expect(JSON.stringify([bench.audit.events, bench.logged])).not.toContain('canary');
    expect(bench.audit.of('secret.mint')).toMatchObject([
      {
        decision: 'allow',
        secretId: secret.id,
        secretName: 'k',
        kind: 'env',
        actor: 'operator',
        durability: 'durable',
      },
    ]);
  });

  it('zeroes the buffer also where it fails', async () => {
    const bench = await openBench();
    for (const input of [
      { name: 'bad name', kind: 'env' },
      { name: 'a', kind: 'nonsense' },
      { name: 'a', kind: 'kubeconfig' },
    ]) {
      const payload = Buffer.from('API_KEY=canary');
      await expect(bench.broker.secrets.mint({ ...input, payload }, OPERATOR)).rejects.toMatchObject({
        code: 'invalid_input',
      });
      expect(payload.every((byte) => byte === 0)).toBe(true);
    }
  });

  it('needs one payload of a sensible size, and an actor', async () => {
    const bench = await openBench();
    const input = { name: 'a', kind: 'env' };
    const tries = [
      {},
      { payload: Buffer.alloc(0) },
      { payload: Buffer.alloc(1024 * 1024 + 1, 'a') },
      { payload: Buffer.from('A=1'), reference: { env: 'X' } },
    ];
    for (const more of tries)
      await expect(bench.broker.secrets.mint({ ...input, ...more }, OPERATOR)).rejects.toMatchObject({
        code: 'invalid_input',
      });
    await expect(
      bench.broker.secrets.mint({ ...input, payload: Buffer.from('A=1') }, { actor: '' }),
    ).rejects.toMatchObject({ code: 'invalid_input' });
  });

  it('keeps no credential in the metadata, which goes to people', async () => {
    const bench = await openBench();
    const input = () => ({ name: 'a', kind: 'env', payload: Buffer.from('A=1') });
    for (const metadata of [
      { note: PAT },
      { password: 'hunter2hunter2' },
      { 'a b': 'x' },
      { a: 'x\ny' },
      { a: 'x'.repeat(300) },
    ])
      await expect(bench.broker.secrets.mint({ ...input(), metadata }, OPERATOR)).rejects.toMatchObject({
        code: 'invalid_input',
      });
    const made = await bench.broker.secrets.mint({ ...input(), metadata: { ticket: 'OPS-42' } }, OPERATOR);
    expect(made.metadata).toEqual({ ticket: 'OPS-42' });
  });

  it('does nothing where it cannot be recorded', async () => {
    const bench = await openBench();
    bench.audit.fail(true);
    await expect(mint(bench, 'a', 'env', 'A=1')).rejects.toMatchObject({ code: 'audit_unavailable' });
    bench.audit.fail(false);
    expect(await bench.broker.secrets.list(ADMIN)).toEqual([]);
  });
});

describe('what is in use', () => {
  it('is known to whoever keeps credentials out of logs, and a path or a flag is not', async () => {
    const bench = await openBench();
    await mint(bench, 'pat', 'github_pat', PAT);
    await mint(bench, 'vars', 'env', { KEY: 'odd-looking+value', DEBUG: 'true' });
    await mint(bench, 'proxy', 'egress_proxy', 'http://user:proxy-pass-1@proxy.corp.example:3128');
    await mint(bench, 'devices', 'host_device', [{ name: 'gpu0', source: '/dev/nvidia0' }]);
    const clean = 'DEBUG=true on proxy.corp.example:3128 with /dev/nvidia0';
    expect(bench.redactor.text(clean)).toBe(clean);
    for (const secret of [PAT, 'odd-looking+value', 'proxy-pass-1'])
      expect(bench.redactor.text(`he said ${secret} twice`)).not.toContain(secret);
    await bench.broker.secrets.replace(
      { secret: 'vars', payload: Buffer.from('KEY=another+value') },
      OPERATOR,
    );
    expect(bench.redactor.text('he said another+value twice')).not.toContain('another+value');
  });
});

describe('an opened payload', () => {
  it('is zeroed when it was used, also where it could not be', async () => {
    const bench = await openBench();
    await mint(bench, 'vars', 'env', 'A=1');
    await mint(bench, 'registry', 'registry', { auths: { 'ghcr.io': { auth: 'YTpi' } } });
    await grant(bench, 'vars', 'any');
    await grant(bench, 'registry', 'any', { registries: ['quay.io'] });
    const opened = vi.spyOn(bench.keyring, 'open');
    await lease(bench);
    expect(opened.mock.results).toHaveLength(2);
    for (const { value } of opened.mock.results)
      expect((value as Buffer).every((byte) => byte === 0)).toBe(true);
  });
});

describe('a sealed payload', () => {
  it('copied over another row of the set does not open', async () => {
    const bench = await openBench();
    const one = await mint(bench, 'one', 'env', 'A=1');
    const two = await mint(bench, 'two', 'env', 'B=2');
    await grant(bench, 'two', 'any');
    const from = await bench.store.get('secrets', one.id);
    const to = await bench.store.get('secrets', two.id);
    if (!from?.sealed || !to) throw new Error('no rows');
    await bench.store.commit([{ op: 'put', set: 'secrets', row: { ...to, sealed: from.sealed } }]);
    const made = await lease(bench);
    expect(variables(made)).toEqual({});
    expect(made.denied).toHaveLength(1);
  });

  it('opens again after its key was rotated', async () => {
    const bench = await openBench();
    const { id } = await mint(bench, 'one', 'env', 'A=1');
    await grant(bench, 'one', 'any');
    await bench.keyring.addKey('operator');
    const row = await bench.store.get('secrets', id);
    if (!row?.sealed) throw new Error('no row');
    const sealed = bench.keyring.rewrap({ set: 'secrets', id }, row.sealed);
    await bench.store.commit([{ op: 'put', set: 'secrets', row: { ...row, sealed } }]);
    expect(variables(await lease(bench))).toEqual({ A: '1' });
  });
});

describe('a reference in place of a payload', () => {
  it('is read at each lease and never stored', async () => {
    const env = { CI_VARS: 'A=first' };
    const bench = await openBench({ env });
    const made = await bench.broker.secrets.mint(
      { name: 'r', kind: 'env', reference: { env: 'CI_VARS' } },
      OPERATOR,
    );
    expect(made.reference).toEqual({ env: 'CI_VARS' });
    expect((await bench.store.get('secrets', made.id))?.sealed).toBeUndefined();
    await grant(bench, 'r', 'any');
    expect(variables(await lease(bench))).toEqual({ A: 'first' });
    env.CI_VARS = 'A=second';
    expect(variables(await lease(bench))).toEqual({ A: 'second' });
  });

  it('that changed is what live sessions spend from the next renewal on', async () => {
    const env = { CI_PAT: 'ghp_first' };
    const bench = await openBench({ env });
    await bench.broker.secrets.mint(
      { name: 'r', kind: 'github_pat', reference: { env: 'CI_PAT' } },
      OPERATOR,
    );
    await grant(bench, 'r', 'any', { repos: ['*'] });
    const made = await lease(bench);
    const renew = () => bench.broker.leases.renew({ leaseId: made.id }, HUB);
    await renew();
    expect(await spend(bench, gitToken(made), 'c1')).toBe('ghp_first');
    env.CI_PAT = 'ghp_second';
    await renew();
    expect(await spend(bench, gitToken(made), 'c1')).toBe('ghp_second');
    env.CI_PAT = '';
    expect((await renew()).denied).toMatchObject([{ secretName: 'r' }]);
    await expect(spend(bench, gitToken(made), 'c1')).rejects.toThrow();
  });

  it('that is not there is an error when it is stored, and a denial later', async () => {
    const env: { [name: string]: string } = {};
    const bench = await openBench({ env });
    const input = { name: 'r', kind: 'env', reference: { env: 'CI_VARS' } };
    await expect(bench.broker.secrets.mint(input, OPERATOR)).rejects.toMatchObject({ code: 'invalid_input' });
    env.CI_VARS = 'A=1';
    await bench.broker.secrets.mint(input, OPERATOR);
    await grant(bench, 'r', 'any');
    delete env.CI_VARS;
    const made = await lease(bench);
    expect(made.denied).toMatchObject([{ secretName: 'r' }]);
  });
});

describe('grants', () => {
  it('last a day where nothing is said, and 90 at most', async () => {
    const bench = await openBench();
    await mint(bench, 'a', 'env', 'A=1');
    expect((await grant(bench, 'a', 'any')).expiresAt).toBe(bench.clock.now() + DAY);
    expect((await grant(bench, 'a', 'any', {}, { ttl: 90 * DAY })).expiresAt).toBe(
      bench.clock.now() + 90 * DAY,
    );
    await expect(grant(bench, 'a', 'any', {}, { ttl: 91 * DAY })).rejects.toMatchObject({
      code: 'ttl_too_long',
    });
    for (const ttl of [0, -1, 0.5, Number.NaN])
      await expect(grant(bench, 'a', 'any', {}, { ttl })).rejects.toMatchObject({ code: 'invalid_input' });
  });

  it('have a scope that is a label and decides nothing', async () => {
    const bench = await openBench();
    await mint(bench, 'a', 'env', 'A=1');
    const create = (scope: string) =>
      bench.broker.grants.create({ secret: 'a', subject: `project:${PROJECT}`, scope }, OPERATOR);
    expect((await create('ci')).scope).toBe('ci');
    await expect(create('x\ny')).rejects.toMatchObject({ code: 'invalid_input' });
    await expect(create(PAT)).rejects.toMatchObject({ code: 'invalid_input' });
  });

  it('have labels for people, and none of them makes an executor', async () => {
    const bench = await openBench();
    await mint(bench, 'a', 'env', 'A=1');
    const create = (labels: { [key: string]: string }) =>
      bench.broker.grants.create({ secret: 'a', subject: 'label:team=web', labels }, OPERATOR);
    const made = await create({ team: 'ops', ticket: 'OPS-12' });
    expect(made.labels).toEqual({ team: 'ops', ticket: 'OPS-12' });
    expect((await bench.broker.grants.list({}, OPERATOR))[0]?.labels).toEqual(made.labels);
    expect(await lease(bench, { labels: { team: 'ops' } })).toMatchObject({ materials: [] });
    for (const labels of [{ 'a b': 'x' }, { a: 'x\ny' }, { a: PAT }, { a: '' }])
      await expect(create(labels)).rejects.toMatchObject({ code: 'invalid_input', key: 'labels' });
  });

  it('are listed newest first, by subject, by secret, and without the ended', async () => {
    const bench = await openBench();
    await mint(bench, 'a', 'env', 'A=1');
    await mint(bench, 'b', 'env', 'B=1');
    const one = await grant(bench, 'a', 'project:/srv/app/');
    const two = await grant(bench, 'b', 'any', {}, { ttl: 1000 });
    const three = await grant(bench, 'a', 'label:x=1,a=2');
    const ids = async (filter: object) =>
      (await bench.broker.grants.list(filter, OPERATOR)).map(({ id }) => id);
    expect(await ids({})).toEqual([three.id, two.id, one.id]);
    expect(await ids({ subject: 'project:/srv//app' })).toEqual([one.id]);
    expect(await ids({ subject: 'label:a=2,x=1' })).toEqual([three.id]);
    expect(await ids({ secret: 'b' })).toEqual([two.id]);
    await bench.broker.grants.revoke(one.id, OPERATOR);
    bench.clock.advance(2000);
    expect(await ids({ activeOnly: true })).toEqual([three.id]);
    expect((await bench.broker.grants.show(one.id, OPERATOR)).revokedBy).toBe('operator');
  });

  it('need constraints of their kind, and a secret that is there', async () => {
    const bench = await openBench();
    await mint(bench, 'pat', 'github_pat', PAT);
    await expect(grant(bench, 'pat', 'any', {})).rejects.toMatchObject({ code: 'invalid_input' });
    await expect(grant(bench, 'pat', 'any', { repos: [] })).rejects.toMatchObject({ code: 'invalid_input' });
    await expect(grant(bench, 'nope', 'any', { repos: ['*'] })).rejects.toMatchObject({ code: 'not_found' });
    expect(await bench.broker.grants.list({}, ADMIN)).toEqual([]);
  });

  it('never outlive a secret that is deleted at the same moment', async () => {
    for (let round = 0; round < 8; round++) {
      const bench = await openBench();
      await mint(bench, 'a', 'env', 'A=1');
      const calls = [grant(bench, 'a', 'any'), bench.broker.secrets.delete('a', OPERATOR)];
      await Promise.allSettled(round % 2 === 0 ? calls : calls.reverse());
      for (const left of await bench.broker.grants.list({}, ADMIN)) expect(left.revokedAt).toBeDefined();
      expect(variables(await lease(bench))).toEqual({});
      await closeBenches();
    }
  });
});

describe('importing a flat file', () => {
  const FILE = '# old secrets\nAPI_KEY=canary-1\nexport DB_URL="postgres://x"\n';

  it('keeps the reach that every entry had: everybody, without an end, on the record', async () => {
    const bench = await openBench();
    const file = Buffer.from(FILE);
    expect(await bench.broker.secrets.importFlat(file, OPERATOR)).toEqual({
      imported: ['API_KEY', 'DB_URL'],
      skipped: [],
    });
    expect(file.every((byte) => byte === 0)).toBe(true);
    const grants = await bench.broker.grants.list({ subject: 'any' }, OPERATOR);
    expect(grants).toHaveLength(2);
    for (const made of grants) expect(made.expiresAt).toBeUndefined();
    bench.clock.advance(3650 * DAY);
    expect(variables(await lease(bench))).toEqual({ API_KEY: 'canary-1', DB_URL: 'postgres://x' });
    expect(bench.audit.of('secret.mint')).toHaveLength(2);
    expect(bench.audit.of('secret.grant')).toMatchObject([{ subject: 'any' }, { subject: 'any' }]);
    expect(JSON.stringify(bench.audit.events)).not.toContain('canary');
  });

  it('is idempotent, and does not bring back what was tightened since', async () => {
    const bench = await openBench();
    await bench.broker.secrets.importFlat(Buffer.from(FILE), OPERATOR);
    const [first] = await bench.broker.grants.list({ secret: 'API_KEY' }, OPERATOR);
    await bench.broker.grants.revoke(first?.id ?? '', OPERATOR);
    const again = await bench.broker.secrets.importFlat(
      Buffer.from(JSON.stringify({ API_KEY: 'x', NEW: 'y' })),
      OPERATOR,
    );
    expect(again).toEqual({ imported: ['NEW'], skipped: ['API_KEY'] });
    expect(variables(await lease(bench))).toEqual({ DB_URL: 'postgres://x', NEW: 'y' });
  });

  it.each(['A', 'A=1\nb c=2', '{"A":1}', '{"A":{"B":"c"}}', '[]x', '{"A":""}', 'A=1\na=2', '{'])(
    'refuses %j before anything is imported',
    async (text) => {
      const bench = await openBench();
      await expect(bench.broker.secrets.importFlat(Buffer.from(text), OPERATOR)).rejects.toMatchObject({
        code: 'invalid_input',
      });
      expect(await bench.broker.secrets.list(ADMIN)).toEqual([]);
    },
  );
});

describe('asking before acting', () => {
  it('a repository is what a GitHub grant of the requester covers', async () => {
    const bench = await openBench();
    await mint(bench, 'pat', 'github_pat', PAT);
    await grant(bench, 'pat', `project:${PROJECT}`, { repos: ['acme/*'], permissions: ['contents:write'] });
    const check = (repo: string, permission?: string, projectId = PROJECT) =>
      bench.broker.access.checkRepo({ projectId }, repo, HUB, permission);
    await check('https://github.com/Acme/Tool.git');
    await check('acme/tool', 'contents:write');
    for (const call of [
      () => check('other/tool'),
      () => check('acme/tool', 'issues:write'),
      () => check('acme/tool', 'contents:read', '/srv/other'),
      () => check('https://evil.test/acme/tool'),
    ])
      await expect(call()).rejects.toMatchObject({ code: 'policy_refused' });
    const events = bench.audit.of('secret.access_check');
    expect(events.map(({ decision }) => decision)).toEqual([
      'allow',
      'allow',
      'deny',
      'deny',
      'deny',
      'deny',
    ]);
    expect(events[0]).toMatchObject({ repo: 'acme/tool', secretName: 'pat', projectId: PROJECT });
  });

  it('a host is what a proxy grant of the requester covers', async () => {
    const bench = await openBench();
    await mint(bench, 'proxy', 'egress_proxy', 'http://proxy.example:3128');
    await grant(bench, 'proxy', `project:${PROJECT}`, { hosts: ['*.example.com'] });
    const check = (host: string) => bench.broker.access.checkHost({ projectId: PROJECT }, host, HUB);
    await check('api.example.com:443');
    for (const host of ['example.com', 'api.example.com@evil.test', 'evil.test'])
      await expect(check(host)).rejects.toMatchObject({ code: 'policy_refused' });
    expect(bench.audit.of('secret.access_check')).toHaveLength(4);
  });
});
