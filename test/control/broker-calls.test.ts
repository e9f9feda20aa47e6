// The broker's nouns over the control API, with the real broker behind it: who may call what, whose is what, who is
// whom, and that no answer but the lease's own holds a credential.

import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Credential } from '../../common/credential.ts';
import type { PosternError } from '../../common/errors.ts';
import { atSocket, userName, withTokens } from '../../control/auth.ts';
import { type ControlClient, createClient } from '../../control/client.ts';
import { keyRoutes } from '../../control/key-routes.ts';
import { leaseRoutes } from '../../control/lease-routes.ts';
import { requestRoutes } from '../../control/request-routes.ts';
import { ROLES, type Role } from '../../control/roles.ts';
import { grantRoutes, secretRoutes } from '../../control/secret-routes.ts';
import { createFront, type Front } from '../../control/server.ts';
import { listenOnSocket } from '../../control/socket.ts';
import { type Bench, closeBenches, openBench, PAT } from '../broker/bench.ts';
import { type TestCertificates, testCertificates } from '../support/certificates.ts';

const folder = mkdtempSync(join(tmpdir(), 'postern-broker-calls-'));
const PEOPLE: { readonly [name: string]: Role } = {
  ...Object.fromEntries(ROLES.map((role) => [`the-${role}`, role])),
  alice: 'operator',
  bob: 'operator',
  Carol: 'requester',
  carol: 'approver',
  [userName()]: 'approver',
  dave: 'approver',
};
let certificates: TestCertificates;
let bench: Bench;
let fronts: Front[];
let url: string;
const socket = join(folder, 'run/control.sock');

beforeAll(() => {
  certificates = testCertificates();
});
beforeEach(async () => {
  bench = await openBench({ env: { HOST_KEY: 'value-of-the-host' } });
  const { broker, store, keyring, sessions, audit, clock } = bench;
  const deps = {
    broker,
    sessions,
    audit,
    keys: { store, keyring, clock },
    stopping: new AbortController().signal,
    records: { as: <T>(_actor: string, what: () => Promise<T>) => what() },
    caBundle: () => certificates.ca,
    rotateCa: async () => ({ takesOverAt: 0, underWay: false }),
    now: () => clock.now(),
  };
  const routes = [
    ...secretRoutes(deps),
    ...grantRoutes(deps),
    ...leaseRoutes(deps),
    ...requestRoutes(deps),
    ...keyRoutes(deps),
  ];
  const plain = await createFront({ routes, version: '0', authenticate: atSocket(), audit });
  await listenOnSocket(plain.server, socket);
  const tokens = Object.entries(PEOPLE).map(([name, role]) => ({
    name,
    role,
    sha256: createHash('sha256').update(tokenOf(name)).digest('hex'),
  }));
  const { cert, key } = certificates;
  const secure = await createFront({
    routes,
    version: '0',
    authenticate: withTokens(tokens),
    audit,
    tls: { cert, key },
  });
  url = await secure.listen({ host: '127.0.0.1', port: 0 });
  fronts = [plain, secure];
  return async () => {
    for (const front of fronts) await front.close();
    await closeBenches();
  };
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const tokenOf = (name: string): string => `token-of-${name}-0123456789`;
const as = (name: string): ControlClient =>
  createClient({ server: url, token: new Credential(tokenOf(name)), ca: certificates.ca });
const root = (user = userName()): ControlClient => createClient({ socket, user });

/** What a call ends with: its answer, or the code of its refusal. */
async function call(
  who: ControlClient,
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  body?: object,
  // biome-ignore lint/suspicious/noExplicitAny: a test reads into whatever came
): Promise<any> {
  try {
    return await who.call(method, path, body);
  } catch (error) {
    return (error as PosternError).code;
  }
}

const mint = (who: ControlClient, name: string, more: object = {}) =>
  call(who, 'POST', '/v1/secrets', { name, kind: 'env', payload: { KEY: `value-of-${name}` }, ...more });
const grant = (who: ControlClient, secret: string, more: object = {}) =>
  call(who, 'POST', '/v1/grants', { secret, subject: 'project:/srv/app', ...more });

describe('roles', () => {
  const BODY: { readonly [call: string]: object } = {
    'POST /v1/secrets': { name: 'n', kind: 'env', payload: 'v' },
    'POST /v1/secrets/import': { payload: 'A=b' },
    'POST /v1/secrets/x/payload': { payload: 'v' },
    'POST /v1/grants': { secret: 'x', subject: 'any' },
    'POST /v1/leases': { projectId: 'p' },
    'POST /v1/leases/x/acknowledge': { grantId: 'g', scrubbed: true },
    'POST /v1/access': { projectId: 'p', repo: 'a/b' },
    'POST /v1/requests': { secret: 'x', subject: 'any', justification: 'j' },
    'POST /v1/requests/x/approve': { contentHash: 'h' },
    'POST /v1/requests/x/deny': { contentHash: 'h', note: 'n' },
  };
  test.each([
    ['GET /v1/secrets', ['operator', 'approver', 'requester', 'auditor']],
    ['GET /v1/secrets/x', ['operator', 'approver', 'requester', 'auditor']],
    ['POST /v1/secrets', ['operator']],
    ['POST /v1/secrets/import', ['operator']],
    ['POST /v1/secrets/x/payload', ['operator']],
    ['DELETE /v1/secrets/x', ['operator']],
    ['POST /v1/grants', ['operator']],
    ['GET /v1/grants', ['operator', 'approver', 'auditor']],
    ['GET /v1/grants/x', ['operator', 'approver', 'auditor']],
    ['DELETE /v1/grants/x', ['operator']],
    ['POST /v1/leases', ['hub']],
    ['GET /v1/leases', ['hub', 'operator', 'auditor']],
    ['GET /v1/leases/x', ['hub', 'operator', 'auditor']],
    ['POST /v1/leases/x/renew', ['hub']],
    ['POST /v1/leases/x/acknowledge', ['hub']],
    ['DELETE /v1/leases/x', ['hub']],
    ['POST /v1/access', ['hub']],
    ['POST /v1/requests', ['requester']],
    ['GET /v1/requests', ['requester', 'approver', 'operator', 'auditor']],
    ['POST /v1/requests/x/approve', ['approver']],
    ['POST /v1/requests/x/deny', ['approver']],
    ['POST /v1/requests/x/withdraw', ['requester']],
    ['GET /v1/keys', ['operator', 'auditor']],
    ['GET /v1/keys/status', ['operator', 'auditor']],
    ['POST /v1/keys', []],
    ['POST /v1/keys/rotate', []],
    ['POST /v1/keys/x/retire', []],
  ])('%s is for admin and %j', async (what, roles) => {
    const [method, path] = what.split(' ') as ['GET' | 'POST' | 'DELETE', string];
    const refused = await Promise.all(
      ROLES.map(async (role) => [role, await call(as(`the-${role}`), method, path, BODY[what])] as const),
    );
    const may = refused.filter(([, answer]) => answer !== 'forbidden').map(([role]) => role);
    // That a call is forbidden because of its role, and not for what it asks, is in the record.
    const forbidden = bench.audit.events.filter(({ action }) => action === 'control.refused');
    expect(may.sort()).toEqual(['admin', ...roles].sort());
    expect(forbidden.length).toBeGreaterThanOrEqual(ROLES.length - may.length);
  });

  test('a reference to the host is for admin alone, when a secret is minted and when it is replaced', async () => {
    const valueFrom = { env: 'HOST_KEY' };
    const body = { name: 'ref', kind: 'env', valueFrom };
    expect(await call(as('alice'), 'POST', '/v1/secrets', body)).toBe('forbidden');
    expect(await call(root(), 'POST', '/v1/secrets', body)).toMatchObject({
      reference: valueFrom,
      names: ['REF'],
    });
    expect(await call(as('alice'), 'POST', '/v1/secrets/ref/payload', { valueFrom })).toBe('forbidden');
    await grant(as('alice'), 'ref');
    const lease = await call(as('the-hub'), 'POST', '/v1/leases', { projectId: '/srv/app' });
    expect(lease.env).toEqual({ REF: 'value-of-the-host' });
  });
});

describe('a personal secret', () => {
  test("is its owner's: for others it does not exist, an admin sees and deletes it and spends nothing of it", async () => {
    expect(await mint(as('bob'), 'mine', { owner: 'alice' })).toBe('not_owner');
    expect(await mint(as('alice'), 'mine', { owner: 'Alice' })).toMatchObject({ owner: 'alice' });
    expect(await call(as('bob'), 'GET', '/v1/secrets/mine')).toBe('not_found');
    expect(await grant(as('bob'), 'mine')).toBe('not_found');
    expect((await call(as('bob'), 'GET', '/v1/secrets')).secrets).toEqual([]);
    expect((await call(root(), 'GET', '/v1/secrets')).secrets).toHaveLength(1);
    expect(await grant(root(), 'mine')).toBe('not_owner');
    expect(await grant(root('alice'), 'mine')).toBe('not_owner');
    expect(await grant(as('alice'), 'mine', { subject: 'any' })).toBe('personal_wildcard');
    const { grantId } = await grant(as('alice'), 'mine');
    expect(await call(as('bob'), 'GET', `/v1/grants/${grantId}`)).toBe('not_found');
    expect(await call(as('bob'), 'DELETE', `/v1/grants/${grantId}`)).toBe('not_found');
    expect(await call(root(), 'DELETE', '/v1/secrets/mine')).toMatchObject({ deleted: true });
  });
});

describe('a request', () => {
  const open = (who: ControlClient, more: object = {}) =>
    call(who, 'POST', '/v1/requests', {
      secret: 'pat',
      subject: 'project:/srv/app',
      constraints: { repos: ['acme/app'] },
      justification: 'to release',
      ...more,
    });
  const decide = (
    who: ControlClient,
    request: { requestId: string; contentHash: string },
    how: string,
    more = {},
  ) =>
    call(who, 'POST', `/v1/requests/${request.requestId}/${how}`, {
      contentHash: request.contentHash,
      ...more,
    });
  beforeEach(async () => {
    await mint(as('alice'), 'pat', { kind: 'github_pat', payload: PAT });
  });

  test('is approved by a second person, as it was read, into one grant whose use is shown', async () => {
    const request = await open(as('Carol'));
    expect(request).toMatchObject({ state: 'pending', requestedBy: 'Carol', ttl: '1d' });
    expect(await decide(as('dave'), { ...request, contentHash: '0'.repeat(64) }, 'approve')).toBe(
      'request_changed',
    );
    const { grant: made } = await decide(as('dave'), request, 'approve', { ttl: '1h' });
    expect(made).toMatchObject({
      state: 'active',
      requestId: request.requestId,
      constraints: { repos: ['acme/app'] },
    });
    expect(await decide(as('dave'), request, 'approve')).toBe('request_decided');
    await call(as('the-hub'), 'POST', '/v1/leases', { projectId: '/srv/app', runId: 'r1' });
    const shown = await call(as('Carol'), 'GET', `/v1/requests/${request.requestId}`);
    expect(shown).toMatchObject({ state: 'approved', decidedBy: 'dave', uses: [{ runId: 'r1' }] });
    expect((await call(as('alice'), 'GET', '/v1/grants')).grants).toHaveLength(1);
  });

  test.each([
    ['the same name in another case', () => as('Carol'), () => as('carol')],
    ['the socket, and a token of the same name', () => root(), () => as(userName())],
    ['two users that one person says to be at the socket', () => root('erin'), () => root('frank')],
    ['an admin who decides about their own', () => as('the-admin'), () => as('the-admin')],
  ])('by one person is refused: %s', async (_how, asks, decides) => {
    const request = await open(asks());
    expect(await decide(decides(), request, 'approve')).toBe('self_approval');
    expect((await call(root(), 'GET', '/v1/grants')).grants).toEqual([]);
  });

  test('an approver hands out a week and no wildcard; an admin may; a denial needs a note', async () => {
    const wide = await open(as('Carol'), { subject: 'any', ttl: '30d' });
    expect(await decide(as('dave'), wide, 'approve')).toBe('delegation_exceeded');
    expect((await decide(as('the-admin'), wide, 'approve')).grant.subject).toBe('any');
    const long = await open(as('Carol'), { ttl: '30d' });
    const { grant: made } = await decide(as('dave'), long, 'approve');
    expect(Date.parse(made.expiresAt) - bench.clock.now()).toBe(7 * 86_400_000);
    const third = await open(as('Carol'));
    expect(await decide(as('dave'), third, 'deny')).toBe('invalid_input');
    expect(await decide(as('dave'), third, 'deny', { note: 'no' })).toMatchObject({ state: 'denied' });
  });

  test('whoever only asks sees and withdraws their own; one that lapsed has expired', async () => {
    const request = await open(as('Carol'), { requestTtl: '1h' });
    const others = await open(as('the-requester'));
    expect((await call(as('Carol'), 'GET', '/v1/requests')).requests).toHaveLength(1);
    expect((await call(as('dave'), 'GET', '/v1/requests?state=pending')).requests).toHaveLength(2);
    expect(await call(as('Carol'), 'GET', `/v1/requests/${others.requestId}`)).toBe('not_found');
    expect(await call(as('Carol'), 'POST', `/v1/requests/${others.requestId}/withdraw`)).toBe(
      'not_requester',
    );
    bench.clock.advance(3_600_000);
    expect(await decide(as('dave'), request, 'approve')).toBe('request_expired');
    expect((await call(as('Carol'), 'GET', '/v1/requests')).requests[0].state).toBe('expired');
  });
});

describe('answers', () => {
  test('no answer but the lease holds a payload, and a lease that can not be delivered is no lease', async () => {
    await mint(as('alice'), 'pat', { kind: 'github_pat', payload: PAT });
    await mint(as('alice'), 'vars', { payload: 'KEY=value-of-vars' });
    await grant(as('alice'), 'pat', { constraints: { repos: ['acme/*'] } });
    await grant(as('alice'), 'vars');
    const lease = await call(as('the-hub'), 'POST', '/v1/leases', {
      projectId: '/srv/app/',
      executorId: 'e',
    });
    expect(lease.env.KEY).toBe('value-of-vars');
    expect(lease.dir).toBe(`/run/postern/postern-lease-${lease.leaseId}`);
    expect(lease.secondsLeft).toBe(900);
    const id = lease.leaseId;
    for (const path of [
      'secrets',
      'secrets/pat',
      'grants',
      'leases',
      `leases/${id}`,
      'requests',
      'keys',
      'keys/status',
    ]) {
      const text = JSON.stringify(await call(root(), 'GET', `/v1/${path}`));
      for (const secret of [PAT, 'value-of-vars', 'ephemeral']) expect(text, path).not.toContain(secret);
    }
    expect(await call(as('the-hub'), 'GET', `/v1/leases/${id}`)).toMatchObject({
      state: 'live',
      projectId: '/srv/app',
      sessions: [{ guard: 'git', state: 'live' }],
    });
    await call(as('alice'), 'DELETE', '/v1/secrets/pat');
    expect((await call(as('the-hub'), 'GET', `/v1/leases/${id}`)).sessions).toEqual([]);
    // A second secret that would overwrite what a session delivers.
    expect(await call(as('the-hub'), 'POST', '/v1/leases', { projectId: '/srv/app', dir: 'relative' })).toBe(
      'invalid_input',
    );
    expect((await call(as('the-hub'), 'GET', '/v1/leases')).leases).toHaveLength(1);
  });

  test('a payload in a wrong place is not quoted back', async () => {
    for (const body of [
      { name: PAT, kind: 'github_pat', payload: PAT },
      { name: 'x', kind: PAT, payload: PAT },
      { name: 'x', kind: 'github_pat', payload: PAT, token: PAT },
      { name: 'x', kind: 'kubeconfig', payload: PAT },
    ]) {
      const error = await as('alice')
        .call('POST', '/v1/secrets', body)
        .catch((failure: PosternError) => failure);
      expect(error).toMatchObject({ code: 'invalid_input' });
      expect(`${(error as PosternError).message}${(error as PosternError).key}`).not.toContain(PAT);
    }
    expect(JSON.stringify(await call(as('alice'), 'GET', `/v1/secrets/${PAT}`))).not.toContain(PAT);
  });

  test('access is asked for before acting, and a refusal is one', async () => {
    await mint(as('alice'), 'pat', { kind: 'github_pat', payload: PAT });
    await grant(as('alice'), 'pat', { constraints: { repos: ['acme/*'] } });
    const ask = (more: object) =>
      call(as('the-hub'), 'POST', '/v1/access', { projectId: '/srv/app', ...more });
    expect(await ask({ repo: 'https://github.com/Acme/Tool.git' })).toEqual({ decision: 'allow' });
    expect(await ask({ repo: 'other/tool' })).toBe('policy_refused');
    expect(await ask({ repo: 'acme/tool', permission: 'contents:write' })).toBe('policy_refused');
    expect(await ask({ host: 'api.example.com' })).toBe('policy_refused');
    expect(await ask({})).toBe('invalid_input');
  });
});

describe('keys', () => {
  test('a new key, a dry run, a rotation, a retirement; each on the record', async () => {
    await mint(as('alice'), 'one');
    const {
      keys: [old],
    } = await call(root(), 'GET', '/v1/keys');
    const added = await call(root(), 'POST', '/v1/keys');
    expect(await call(root(), 'POST', `/v1/keys/${old.id}/retire`)).toBe('key_in_use');
    expect(await call(root(), 'POST', '/v1/keys/rotate', { dryRun: true })).toMatchObject({
      dryRun: true,
      complete: true,
    });
    expect((await call(as('the-auditor'), 'GET', '/v1/keys/status')).unrotated).toBeGreaterThan(0);
    expect(await call(root(), 'POST', '/v1/keys/rotate')).toMatchObject({
      to: added.id,
      failed: 0,
      complete: true,
    });
    expect(await call(root(), 'POST', `/v1/keys/${old.id}/retire`)).toMatchObject({ state: 'retired' });
    const status = await call(root(), 'GET', '/v1/keys/status');
    expect(status).toMatchObject({ primary: added.id, unrotated: 0, rotations: [{ state: 'completed' }] });
    expect(
      bench.audit.events.map(({ action }) => action).filter((action) => action.startsWith('key.')),
    ).toEqual(['key.add', 'key.rotate', 'key.retire']);
  });
});
