import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Credential } from '../../common/credential.ts';
import { type ControlClient, createClient } from '../../control/client.ts';
import { ROLES } from '../../control/roles.ts';
import { PASSWORD, tokenOf, type World, world } from './fakes.ts';
import { rawCall } from './raw.ts';

let w: World;
let client: ControlClient;
const as = (role: string): ControlClient =>
  createClient({ server: w.url, token: w.token(role), ca: w.certificates.ca });
const TOKEN = 'forge-credential-value';
const credential = {
  token: new Credential(TOKEN),
  upstream: 'https://github.com',
  repos: ['acme/*'],
};

beforeAll(async () => {
  w = await world();
  client = createClient({ socket: w.socket, user: 'alice' });
});
afterAll(() => w.close());
beforeEach(() => {
  w.calls.length = 0;
  w.events.length = 0;
});

describe('a session', () => {
  test('is issued with what was asked, on the record as the caller, and its password is answered once', async () => {
    const answer = await client.issueGit({
      credentials: [{ ...credential, permissions: ['contents:write'], pushRefs: ['refs/heads/x'] }],
      leaseId: 'L1',
      ttl: '1h',
      labels: { projectId: 'p' },
    });
    expect(answer).toEqual({
      sessionId: 'gs_1',
      baseUrl: 'https://127.0.0.1:8443',
      username: 'gs_1',
      password: PASSWORD,
      expiresAt: '2026-01-01T00:15:00.000Z',
      readOnly: true,
      summary: 'read-only, acme/*',
      upstreams: ['https://github.com'],
      repos: ['acme/*'],
      pushRefs: [],
    });
    const asked = w.calls[0]?.with as { credentials: { token: Credential }[]; ttl: number; actor: string };
    expect(asked).toMatchObject({
      ttl: 3_600_000,
      actor: 'cli:alice',
      leaseId: 'L1',
      labels: { projectId: 'p' },
    });
    expect(asked.credentials[0]?.token.reveal()).toBe(TOKEN);
    for (const path of ['/v1/sessions', '/v1/sessions/gs_1', '/v1/sessions?leaseId=L1']) {
      const { text } = await rawCall(w, { path });
      expect(text).toContain('gs_1');
      expect(text).not.toContain(PASSWORD);
      expect(text).not.toContain(TOKEN);
    }
  });

  test('is shown with its state and counters', async () => {
    const view = await client.session('gs_1');
    expect(view).toMatchObject({ state: 'live', leaseId: 'L1', counters: { requests: 3, denied: 1 } });
    expect(view.hardExpiresAt).toMatch(/Z$/);
    await expect(client.session('gs_none')).rejects.toMatchObject({ code: 'not_found' });
    expect((await client.sessions({ leaseId: 'other' })).sessions).toEqual([]);
  });

  test('is renewed with and without a time of its own', async () => {
    expect(await client.renew('gs_1', '20m')).toMatchObject({ sessionId: 'gs_1' });
    await rawCall(w, { method: 'POST', path: '/v1/sessions/gs_1/renew' });
    expect(w.calls).toEqual([
      { what: 'renew', with: { id: 'gs_1', ttl: 1_200_000 } },
      { what: 'renew', with: { id: 'gs_1', ttl: undefined } },
    ]);
  });

  test('is revoked, again and again, with the actor in the reason', async () => {
    for (let i = 0; i < 2; i++)
      expect(await client.revoke('gs_1')).toEqual({ sessionId: 'gs_1', revoked: true });
    expect(w.calls[0]?.with).toMatchObject({ id: 'gs_1', because: 'revoked by cli:alice' });
    expect(await client.revokeLease('L1')).toEqual({ leaseId: 'L1', revoked: ['gs_1'] });
    expect(await client.revokeLease('nobody')).toEqual({ leaseId: 'nobody', revoked: [] });
    expect(await client.removeGrant('gs_1', 'g1')).toMatchObject({ removed: true });
    await expect(client.revoke('gs_none')).rejects.toMatchObject({ code: 'not_found' });
  });

  test('explains what the guard would decide, in the words of that guard only', async () => {
    const answer = await client.explain('gs_1', { guard: 'git', path: '/acme/tool.git/git-receive-pack' });
    expect(answer).toEqual({
      decision: 'deny',
      code: 'push_not_allowed',
      rule: 'permissions',
      reason: 'gs_1 may read only',
      request: { method: 'GET', repo: 'acme/tool' },
    });
    await expect(client.explain('gs_1', { guard: 'kube', path: '/api' })).rejects.toMatchObject({
      code: 'invalid_input',
      key: 'guard',
    });
    await expect(client.explain('gs_none', { guard: 'git', path: '/a' })).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  test('at a guard that is off is an error with a remedy', async () => {
    await expect(
      client.issueKube({ clusters: [{ kubeconfig: new Credential('x') }], leaseId: 'L1' }),
    ).rejects.toMatchObject({ code: 'guard_unavailable', key: 'kube.enabled' });
  });
});

describe('roles', () => {
  const may: { [call: string]: readonly string[] } = {
    'GET /v1/sessions': ['admin', 'hub', 'operator', 'auditor'],
    'GET /v1/sessions/gs_1': ['admin', 'hub', 'operator', 'auditor'],
    'POST /v1/sessions/gs_1/renew': ['admin', 'hub'],
    'DELETE /v1/sessions/gs_1': ['admin', 'hub'],
    'DELETE /v1/leases/L1/sessions': ['admin', 'hub'],
    'DELETE /v1/sessions/gs_1/grants/g': ['admin', 'hub'],
    'GET /v1/status': ROLES,
    'GET /v1/ca': ROLES,
    'POST /v1/ca/rotate': ['admin'],
    'GET /v1/openapi.json': ROLES,
  };
  test.each(Object.entries(may))('%s', async (call, allowed) => {
    const [method = '', path = ''] = call.split(' ');
    for (const role of ROLES) {
      w.calls.length = 0;
      const answer = await rawCall(w, {
        method,
        path,
        over: 'tls',
        authorization: `Bearer ${tokenOf(role)}`,
      });
      expect([role, answer.status]).toEqual([role, allowed.includes(role) ? 200 : 403]);
      if (answer.status === 403) {
        expect(answer.json).toMatchObject({ code: 'forbidden' });
        expect(w.calls).toEqual([]);
        expect(w.events.at(-1)).toMatchObject({
          action: 'control.refused',
          decision: 'deny',
          actor: `the-${role}`,
        });
      }
    }
  });

  test('the name of the token is the actor', async () => {
    await as('hub').issueGit({ credentials: [credential], leaseId: 'L1' });
    expect(w.calls[0]?.with).toMatchObject({ actor: 'the-hub' });
    await as('hub').revoke('gs_1');
    expect(w.calls[1]?.with).toMatchObject({ because: 'revoked by the-hub' });
  });

  test.each([
    ['no token', undefined, 0],
    ['a wrong token', 'Bearer nope', 1],
    ['the token in the wrong scheme', `Basic ${tokenOf('admin')}`, 1],
    ['a token that is cut', `Bearer ${tokenOf('admin').slice(0, -1)}`, 1],
    ['a token with more behind it', `Bearer ${tokenOf('admin')}x`, 1],
  ])('%s is refused before anything is looked at', async (_name, authorization, recorded) => {
    for (const path of ['/v1/sessions', '/nowhere', '/v1/openapi.json']) {
      const call = { method: 'GET', path, over: 'tls' as const };
      const answer = await rawCall(w, authorization === undefined ? call : { ...call, authorization });
      expect(answer.status).toBe(401);
      expect(answer.json).toMatchObject({ code: 'unauthorized', key: 'Authorization' });
      expect(answer.headers['www-authenticate']).toMatch(/^Bearer/);
      if (authorization) expect(answer.text).not.toContain(authorization.split(' ')[1] ?? 'x');
    }
    expect(w.events.length).toBe(recorded * 3);
    expect(JSON.stringify(w.events)).not.toContain('token-of-admin');
  });

  test("the socket's user is the client's word only where it is a plain name", async () => {
    for (const [user, actor] of [
      ['bob', 'cli:bob'],
      ['x'.repeat(65), /^cli:[^x]/],
      ['a b', /^cli:(?!a b)/],
    ] as const) {
      await createClient({ socket: w.socket, user }).issueGit({ credentials: [credential], leaseId: 'L1' });
      const asked = w.calls.at(-1)?.with as { actor: string };
      expect(asked.actor).toMatch(actor);
    }
  });
});

describe('valueFrom', () => {
  const body = (valueFrom: object, more: object = {}) =>
    JSON.stringify({
      credentials: [{ valueFrom, upstream: 'https://github.com', repos: ['*'], ...more }],
      leaseId: 'L1',
    });
  const file = join(mkdtempSync(join(tmpdir(), 'postern-value-')), 'pat');
  writeFileSync(file, 'from-the-file\n');
  const post = (text: string, role?: string) =>
    rawCall(w, {
      method: 'POST',
      path: '/v1/sessions/git',
      body: text,
      ...(role ? { over: 'tls' as const, authorization: `Bearer ${tokenOf(role)}` } : {}),
    });

  test('is read on the host for an admin', async () => {
    expect((await post(body({ file }))).status).toBe(201);
    expect((await post(body({ env: 'CONTROL_TEST_TOKEN' }), 'admin')).status).toBe(201);
    const tokens = w.calls.map(
      (call) => (call.with as { credentials: { token: Credential }[] }).credentials[0]?.token,
    );
    expect(tokens.map((token) => token?.reveal())).toEqual(['from-the-file', 'from-the-environment']);
  });

  test('of a hub would let it read the host: refused, whether the file exists or not', async () => {
    for (const from of [{ file }, { file: '/etc/shadow' }, { file: '/nowhere' }, { env: 'PATH' }]) {
      const answer = await post(body(from), 'hub');
      expect(answer.status).toBe(403);
      expect(answer.json.code).toBe('forbidden');
      expect(w.events.at(-1)).toMatchObject({ action: 'control.refused', actor: 'the-hub', status: 403 });
    }
    expect(w.events).toHaveLength(4);
    expect(w.calls).toEqual([]);
  });

  test.each([
    ['both', { token: 'x' }, { file }],
    ['a file that is not there', {}, { file: '/nowhere/at/all' }],
    ['a variable that is not set', {}, { env: 'CONTROL_TEST_UNSET' }],
    ['a Secret without a cluster', {}, { secretKeyRef: { name: 'a', key: 'b' } }],
    ['two sources', {}, { file, env: 'PATH' }],
  ])('%s is an error that names the place', async (_name, more, from) => {
    const answer = await post(body(from, more));
    expect(answer.status).toBe(400);
    expect(answer.json.key).toMatch(/^credentials\[0\]/);
    expect(w.calls).toEqual([]);
  });
});
