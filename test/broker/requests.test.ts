import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { type Caller, couldBeSamePerson } from '../../broker/caller.ts';
import { type AccessRequest, contentHash } from '../../broker/requests/request.ts';
import {
  checkJustification,
  delegatedTtl,
  MAX_JUSTIFICATION,
  mustBePending,
} from '../../broker/requests/rules.ts';
import {
  ADMIN,
  ALICE,
  type Bench,
  BOB,
  closeBenches,
  DAY,
  grant,
  HOUR,
  HUB,
  lease,
  MINUTE,
  mint,
  OPERATOR,
  openBench,
  PAT,
  PROJECT,
} from './bench.ts';

afterEach(closeBenches);

const ASK = {
  secret: 'pat',
  subject: `project:${PROJECT}`,
  constraints: { repos: ['acme/app'] },
  ttl: 2 * DAY,
  justification: 'The nightly build pushes tags, see ticket 42.',
};

async function withRequest(more: object = {}): Promise<{ bench: Bench; request: AccessRequest }> {
  const bench = await openBench();
  await mint(bench, 'pat', 'github_pat', PAT);
  const request = await bench.broker.requests.open({ ...ASK, ...more }, ALICE);
  return { bench, request };
}

const approve = (bench: Bench, request: AccessRequest, caller: Caller = BOB, more: object = {}) =>
  bench.broker.requests.approve(
    { requestId: request.id, contentHash: contentHash(request), ...more },
    caller,
  );
const deny = (bench: Bench, request: AccessRequest, note?: string, caller: Caller = BOB) =>
  bench.broker.requests.deny({ requestId: request.id, contentHash: contentHash(request), note }, caller);

describe('opening a request', () => {
  it('keeps what was asked, with two clocks', async () => {
    const { bench, request } = await withRequest();
    expect(request).toMatchObject({
      requestedBy: 'alice@corp.example',
      state: 'pending',
      secretName: 'pat',
      kind: 'github_pat',
      ttl: 2 * DAY,
      expiresAt: bench.clock.now() + 3 * DAY,
    });
    expect(bench.audit.of('secret.request')).toMatchObject([
      { decision: 'allow', actor: 'alice@corp.example', requestId: request.id, reason: ASK.justification },
    ]);
    expect(JSON.stringify(request)).not.toContain(PAT);
  });

  it.each([
    ['an unknown secret', { secret: 'nope' }, 'not_found'],
    ['constraints that gate nothing', { constraints: {} }, 'invalid_input'],
    ['constraints of another kind', { constraints: { repos: ['a/b'], hosts: ['*'] } }, 'invalid_input'],
    ['a subject with a typing mistake', { subject: 'projct:/srv/app' }, 'invalid_input'],
    ['no reason', { justification: '  \n ' }, 'invalid_input'],
    ['a book for a reason', { justification: 'é'.repeat(MAX_JUSTIFICATION / 2 + 1) }, 'invalid_input'],
    ['a credential in the reason', { justification: `please, ${PAT}` }, 'invalid_input'],
    ['a reason that is shown backwards', { justification: 'please \u202edeny' }, 'invalid_input'],
    ['an access of a year', { ttl: 365 * DAY }, 'ttl_too_long'],
    ['a wait of two months', { requestTtl: 60 * DAY }, 'ttl_too_long'],
  ])('refuses %s', async (_, more, code) => {
    await expect(withRequest(more)).rejects.toMatchObject({ code });
  });

  it('refuses somebody without a name', async () => {
    const { bench } = await withRequest();
    await expect(bench.broker.requests.open(ASK, { actor: '' })).rejects.toMatchObject({
      code: 'invalid_input',
    });
  });

  it('refuses a personal secret: of others it does not exist, of one self it is granted', async () => {
    const bench = await openBench();
    await mint(bench, 'mine', 'github_pat', PAT, { owner: ALICE.actor, caller: ALICE });
    const ask = { ...ASK, secret: 'mine' };
    await expect(bench.broker.requests.open(ask, BOB)).rejects.toMatchObject({ code: 'not_found' });
    await expect(bench.broker.requests.open(ask, ALICE)).rejects.toMatchObject({ code: 'policy_refused' });
  });

  it('keeps a reason of exactly the limit', () => {
    expect(checkJustification('x'.repeat(MAX_JUSTIFICATION))).toHaveLength(MAX_JUSTIFICATION);
  });
});

describe('approving', () => {
  it('makes exactly one grant, through the door that all grants come through', async () => {
    const { bench, request } = await withRequest({ scope: 'ci', labels: { team: 'web' } });
    const { request: decided, grant: made } = await approve(bench, request, BOB, { note: 'fine' });
    expect(decided).toMatchObject({
      state: 'approved',
      decidedBy: BOB.actor,
      decisionNote: 'fine',
      grantId: made.id,
      grantExpiresAt: made.expiresAt,
    });
    expect(made).toMatchObject({
      requestId: request.id,
      createdBy: BOB.actor,
      scope: 'ci',
      labels: { team: 'web' },
      constraints: { repos: ['acme/app'] },
      expiresAt: bench.clock.now() + 2 * DAY,
    });
    expect(await bench.broker.grants.list({}, ADMIN)).toHaveLength(1);
    expect(bench.audit.of('secret.grant')).toMatchObject([{ decision: 'allow', requestId: request.id }]);
    expect(bench.audit.of('secret.request_approve')).toMatchObject([{ decision: 'allow', grantId: made.id }]);
    await expect(approve(bench, request)).rejects.toMatchObject({ code: 'request_decided' });
    await expect(deny(bench, request, 'no')).rejects.toMatchObject({ code: 'request_decided' });
    expect(await bench.broker.grants.list({}, ADMIN)).toHaveLength(1);
  });

  it('binds to what was read: another hash, or a request that was changed since, is refused', async () => {
    const { bench, request } = await withRequest();
    await expect(
      bench.broker.requests.approve({ requestId: request.id, contentHash: '0'.repeat(64) }, BOB),
    ).rejects.toMatchObject({ code: 'request_changed' });
    const row = await bench.store.get('requests', request.id);
    if (!row) throw new Error('no row');
    const body = { ...row.body, constraints: { repos: ['*'] } };
    await bench.store.commit([{ op: 'put', set: 'requests', row: { ...row, body } }]);
    await expect(approve(bench, request)).rejects.toMatchObject({ code: 'request_changed' });
    expect(await bench.broker.grants.list({}, ADMIN)).toEqual([]);
    expect(bench.audit.of('secret.request_approve')).toMatchObject([
      { decision: 'deny' },
      { decision: 'deny' },
    ]);
  });

  it('has a hash over everything that was asked', async () => {
    const { request } = await withRequest();
    const others: Partial<AccessRequest>[] = [
      { id: 'req_x' },
      { requestedBy: 'bob' },
      { secretId: 'sec_x' },
      { subject: { type: 'any' } },
      { constraints: { repos: ['acme/app', 'acme/lib'] } },
      { scope: 'ci' },
      { labels: { team: 'web' } },
      { ttl: 1 },
      { justification: 'x' },
      { expiresAt: 1 },
    ];
    const hashes = [request, ...others.map((other) => ({ ...request, ...other }))].map(contentHash);
    expect(new Set(hashes).size).toBe(hashes.length);
    expect(contentHash({ ...request, state: 'denied', decisionNote: 'x' })).toBe(contentHash(request));
  });

  const twice: [string, Caller, Caller][] = [
    ['the same identity', { actor: 'alice' }, { actor: 'alice' }],
    ['another case', { actor: 'alice@corp.example' }, { actor: 'Alice@CORP.example' }],
    ['the socket', { actor: 'alice' }, { actor: 'cli:alice' }],
    ['a token named like the user', { actor: 'cli:alice' }, { actor: 'token:Alice' }],
    ['the local part of the address', { actor: 'alice@corp.example' }, { actor: 'alice' }],
    ['an address with a tag', { actor: 'alice@corp.example' }, { actor: 'alice+2@corp.example' }],
    ['an alias', { actor: 'sub:0f3a', aliases: ['alice@corp.example'] }, { actor: 'alice' }],
    [
      'an alias on both sides',
      { actor: 'x1', aliases: ['a@b.example'] },
      { actor: 'y2', aliases: ['A@b.example'] },
    ],
    ['blanks around it', { actor: 'alice' }, { actor: ' alice\u200b ' }],
    ['full-width letters', { actor: 'alice' }, { actor: 'ａｌｉｃｅ' }],
    ['a subject in another case', { actor: 'sub:AbC' }, { actor: 'sub:abc' }],
  ];
  it.each(twice)('is refused to the person who asked, by %s', async (_, asks, decides) => {
    const bench = await openBench();
    await mint(bench, 'pat', 'github_pat', PAT);
    const request = await bench.broker.requests.open(ASK, asks);
    await expect(approve(bench, request, decides)).rejects.toMatchObject({ code: 'self_approval' });
    expect(await bench.broker.grants.list({}, ADMIN)).toEqual([]);
    expect(bench.audit.of('secret.request_approve')).toMatchObject([{ decision: 'deny' }]);
    expect((await bench.broker.requests.show(request.id)).state).toBe('pending');
  });

  it('is refused where an identity is missing', async () => {
    const { bench, request } = await withRequest();
    for (const actor of ['', '  ', 'cli:', '\u200b'])
      await expect(approve(bench, request, { actor })).rejects.toThrow();
    expect(couldBeSamePerson({ actor: '' }, BOB)).toBe(true);
    expect(couldBeSamePerson(BOB, { actor: 'cli:' })).toBe(true);
    expect(await bench.broker.grants.list({}, ADMIN)).toEqual([]);
  });

  it('is open to somebody else', () => {
    const pairs: [string, string][] = [
      ['alice@corp.example', 'bob@corp.example'],
      ['alice@corp.example', 'alice@other.example'],
      ['cli:alice', 'cli:bob'],
      ['sub:1', 'sub:2'],
    ];
    for (const [a, b] of pairs) expect(couldBeSamePerson({ actor: a }, { actor: b })).toBe(false);
  });

  it('counts any two callers as one person whenever an identity of theirs differs in case and login only', () => {
    const word = fc.stringMatching(/^[a-z][a-z0-9._-]{0,12}(@[a-z]{2,8}\.example)?$/);
    const login = fc.constantFrom('', 'cli:', 'token:', 'oidc:');
    fc.assert(
      fc.property(
        word,
        login,
        login,
        fc.array(word, { maxLength: 2 }),
        fc.boolean(),
        (name, one, two, more, upper) => {
          const other = upper ? name.toUpperCase() : name;
          expect(
            couldBeSamePerson({ actor: one + name }, { actor: 'zz', aliases: [...more, two + other] }),
          ).toBe(true);
          expect(
            couldBeSamePerson({ actor: 'zz', aliases: [...more, two + other] }, { actor: one + name }),
          ).toBe(true);
        },
      ),
    );
  });

  it('cuts the access down and never raises it', async () => {
    const cases: [object, number][] = [
      [{}, 2 * DAY],
      [{ ttl: HOUR }, HOUR],
      [{ ttl: 5 * DAY }, 2 * DAY],
      [{ delegation: { maxTtl: HOUR } }, HOUR],
      [{ delegation: { maxTtl: HOUR }, ttl: 2 * HOUR }, HOUR],
      [{ delegation: { maxTtl: 3650 * DAY } }, 2 * DAY],
    ];
    for (const [more, expected] of cases) {
      const { bench, request } = await withRequest();
      const { grant: made } = await approve(bench, request, BOB, more);
      expect((made.expiresAt ?? 0) - bench.clock.now()).toBe(expected);
    }
    const { bench, request } = await withRequest({ ttl: 60 * DAY });
    const { grant: made } = await approve(bench, request);
    expect((made.expiresAt ?? 0) - bench.clock.now()).toBe(7 * DAY); // what is handed out where nobody said more
  });

  it('keeps every granted time within all three limits', () => {
    const time = fc.integer({ min: 1000, max: 90 * DAY });
    fc.assert(
      fc.property(
        time,
        fc.option(time),
        fc.option(fc.integer({ min: 1000, max: 900 * DAY })),
        (ttl, shorten, maxTtl) => {
          const request = { subject: { type: 'project', value: '/a' }, ttl } as AccessRequest;
          const given = delegatedTtl(request, { maxTtl: maxTtl ?? undefined }, shorten ?? undefined);
          expect(given).toBe(Math.min(ttl, shorten ?? ttl, maxTtl ?? 7 * DAY, 90 * DAY));
        },
      ),
    );
  });

  it.each(['any', 'project:*', 'executor:*'])('needs a right of its own for %s', async (subject) => {
    const { bench, request } = await withRequest({ subject });
    await expect(approve(bench, request)).rejects.toMatchObject({ code: 'delegation_exceeded' });
    const { grant: made } = await approve(bench, request, BOB, {
      delegation: { allowWildcardSubject: true },
    });
    expect(made.requestId).toBe(request.id);
  });

  it('is impossible once the secret is gone, and leaves no grant', async () => {
    const { bench, request } = await withRequest();
    await bench.broker.secrets.delete('pat', OPERATOR);
    await mint(bench, 'pat', 'github_pat', `${PAT}2`); // another secret under the same name
    await expect(approve(bench, request)).rejects.toMatchObject({ code: 'not_found' });
    expect(await bench.broker.grants.list({}, ADMIN)).toEqual([]);
  });

  it('does nothing where it cannot be recorded', async () => {
    const { bench, request } = await withRequest();
    bench.audit.fail(['secret.grant']);
    await expect(approve(bench, request)).rejects.toMatchObject({ code: 'audit_unavailable' });
    expect(await bench.broker.grants.list({}, ADMIN)).toEqual([]);
    expect((await bench.broker.requests.show(request.id)).state).toBe('pending');
  });
});

describe('denying and withdrawing', () => {
  it('a denial says why', async () => {
    const { bench, request } = await withRequest();
    await expect(deny(bench, request)).rejects.toMatchObject({ code: 'invalid_input', key: 'note' });
    await expect(deny(bench, request, ' ')).rejects.toMatchObject({ code: 'invalid_input' });
    const denied = await deny(bench, request, 'Use the bot account.');
    expect(denied).toMatchObject({
      state: 'denied',
      decisionNote: 'Use the bot account.',
      decidedBy: BOB.actor,
    });
    expect(bench.audit.of('secret.request_deny')).toMatchObject([
      { decision: 'deny', reason: 'Use the bot account.' },
    ]);
    await expect(approve(bench, request)).rejects.toMatchObject({ code: 'request_decided' });
    expect(await bench.broker.grants.list({}, ADMIN)).toEqual([]);
  });

  it('only the requester withdraws, under any of their own names', async () => {
    const { bench, request } = await withRequest();
    for (const other of [BOB, ADMIN, { actor: '' }, { actor: 'alice' }])
      await expect(bench.broker.requests.withdraw(request.id, other)).rejects.toThrow();
    const withdrawn = await bench.broker.requests.withdraw(request.id, { actor: 'Alice@corp.example' });
    expect(withdrawn.state).toBe('withdrawn');
    await expect(approve(bench, request)).rejects.toMatchObject({ code: 'request_decided' });
    expect(await bench.broker.grants.list({}, ADMIN)).toEqual([]);
    expect(bench.audit.of('secret.request_withdraw')).toHaveLength(1);
  });
});

describe('the deadline of a request', () => {
  it('passes without a decision: expired, not denied, on the record, whoever looks first', async () => {
    const { bench, request } = await withRequest({ requestTtl: HOUR });
    bench.clock.advance(HOUR);
    await expect(approve(bench, request)).rejects.toMatchObject({ code: 'request_expired' });
    expect((await bench.broker.requests.show(request.id)).state).toBe('expired');
    await expect(deny(bench, request, 'late')).rejects.toMatchObject({ code: 'request_expired' });
    await expect(bench.broker.requests.withdraw(request.id, ALICE)).rejects.toMatchObject({
      code: 'request_expired',
    });
    expect(bench.audit.of('secret.request_expire')).toMatchObject([
      { requestId: request.id, actor: 'postern' },
    ]);
    expect(await bench.broker.grants.list({}, ADMIN)).toEqual([]);
  });

  it('counts by the clock and not by what is written', () => {
    const request = { id: 'req_1', state: 'pending', expiresAt: 1000 } as AccessRequest;
    expect(() => mustBePending(request, 999)).not.toThrow();
    expect(() => mustBePending(request, 1000)).toThrow(expect.objectContaining({ code: 'request_expired' }));
  });

  it('is swept, one record each, and does not touch the access time of a grant', async () => {
    const { bench, request } = await withRequest({ requestTtl: HOUR });
    const other = await bench.broker.requests.open({ ...ASK, ttl: 3 * DAY }, ALICE);
    const { grant: made } = await approve(bench, request);
    bench.clock.advance(2 * DAY - MINUTE);
    const { requests } = await bench.broker.sweep();
    expect(requests).toEqual([]);
    expect((await lease(bench)).materials).toHaveLength(1);
    bench.clock.advance(DAY + MINUTE);
    expect((await bench.broker.sweep()).requests.map(({ id }) => id)).toEqual([other.id]);
    expect((await bench.broker.sweep()).requests).toEqual([]);
    expect(made.expiresAt).toBeLessThan(bench.clock.now());
  });

  it('counts in a list before any sweep has moved it', async () => {
    const { bench } = await withRequest({ requestTtl: HOUR });
    const { requests } = bench.broker;
    expect(await requests.list({ pendingOnly: true }, BOB)).toHaveLength(1);
    bench.clock.advance(HOUR);
    expect(await requests.list({ pendingOnly: true }, BOB)).toHaveLength(0);
    expect(await requests.list({ requestedBy: ALICE.actor }, BOB)).toHaveLength(1);
    expect(await requests.list({ state: 'pending', secret: 'pat' }, BOB)).toHaveLength(1);
    expect(await requests.list({ state: 'denied' }, BOB)).toHaveLength(0);
  });
});

describe('two decisions at the same moment', () => {
  it('end in one: at most one grant, and everybody else is told', async () => {
    const approvers = ['bob', 'carol', 'dan', 'erin'].map((actor): Caller => ({ actor }));
    for (let round = 0; round < 6; round++) {
      const { bench, request } = await withRequest();
      const calls = [
        ...approvers.map((caller) => approve(bench, request, caller)),
        deny(bench, request, 'no', { actor: 'frank' }),
        bench.broker.requests.withdraw(request.id, ALICE),
      ];
      const outcomes = await Promise.allSettled(calls.sort(() => (round % 2 === 0 ? 1 : -1)));
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      const { state } = await bench.broker.requests.show(request.id);
      const grants = await bench.broker.grants.list({}, ADMIN);
      expect(grants).toHaveLength(state === 'approved' ? 1 : 0);
      for (const outcome of outcomes)
        if (outcome.status === 'rejected')
          expect(outcome.reason.code).toMatch(/^(request_decided|conflict)$/);
    }
  });
});

describe('what an approval was used for', () => {
  it('is each lease that had its grant, with the run and the times', async () => {
    const { bench, request } = await withRequest();
    const { grant: made } = await approve(bench, request);
    await grant(bench, 'pat', 'executor:edge-01', { repos: ['acme/lib'] }); // not by a request
    expect(await bench.broker.requests.uses(request.id)).toEqual([]);
    const used = await lease(bench, { runId: 'run-7', taskId: 'task-3' });
    const first = bench.clock.now();
    bench.clock.advance(10 * MINUTE);
    await bench.broker.leases.renew({ leaseId: used.id }, HUB);
    await bench.broker.leases.release(used.id, HUB);
    expect(await bench.broker.requests.uses(request.id)).toEqual([
      {
        requestId: request.id,
        leaseId: used.id,
        grantId: made.id,
        executorId: 'edge-01',
        projectId: PROJECT,
        runId: 'run-7',
        taskId: 'task-3',
        firstSeen: first,
        lastSeen: first + 10 * MINUTE,
      },
    ]);
    await expect(bench.broker.requests.uses('req_x')).rejects.toMatchObject({ code: 'not_found' });
  });
});
