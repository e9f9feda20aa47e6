import { afterEach, expect, it } from 'vitest';
import { isExpired, timeLeft } from '../../broker/material.ts';
import { isTerminal, REQUEST_STATES } from '../../broker/requests/request.ts';
import { grantView, leaseView, requestView, secretView, useView } from '../../broker/views.ts';
import {
  ALICE,
  BOB,
  closeBenches,
  grant,
  HOUR,
  lease,
  mint,
  OPERATOR,
  openBench,
  PAT,
  PROJECT,
} from './bench.ts';

afterEach(closeBenches);

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

it('every noun has a plain view: times in RFC 3339, subjects as they are typed, no credential', async () => {
  const bench = await openBench();
  const secret = await mint(bench, 'pat', 'github_pat', PAT);
  const made = await grant(bench, 'pat', 'project:/srv/app/', { repos: ['acme/app'] });
  const request = await bench.broker.requests.open(
    {
      secret: 'pat',
      subject: 'executor:e',
      constraints: { repos: ['*'] },
      justification: 'because',
      requestTtl: HOUR,
    },
    ALICE,
  );
  const { id } = await lease(bench);
  const now = () => bench.clock.now();

  expect(secretView(secret)).toMatchObject({
    id: secret.id,
    secretId: secret.id,
    createdAt: expect.stringMatching(TIME),
  });
  const view = grantView(made, now());
  expect(view).toMatchObject({
    grantId: made.id,
    subject: `project:${PROJECT}`,
    state: 'active',
    summary: 'repos=acme/app',
  });
  expect(view.expiresAt).toMatch(TIME);
  const held = leaseView(await bench.broker.leases.show(id), now());
  expect(held).toMatchObject({ leaseId: id, state: 'live', sessions: [{ guard: 'git', grants: [made.id] }] });
  const asked = requestView(request, now());
  expect(asked).toMatchObject({ requestId: request.id, state: 'pending', ttl: '1d', subject: 'executor:e' });
  const approved = await bench.broker.requests.approve(
    { requestId: request.id, contentHash: asked.contentHash },
    BOB,
  );
  await lease(bench, { executorId: 'e' });
  const [use] = await bench.broker.requests.uses(request.id);
  expect(use && useView(use)).toMatchObject({
    grantId: approved.grant.id,
    firstSeen: expect.stringMatching(TIME),
  });

  bench.clock.advance(HOUR);
  expect(requestView(request, now()).state).toBe('expired');
  expect(leaseView(await bench.broker.leases.show(id), now()).state).toBe('expired');
  await bench.broker.grants.revoke(made.id, OPERATOR);
  expect(grantView(await bench.broker.grants.show(made.id, OPERATOR), now()).state).toBe('revoked');
  expect(grantView(approved.grant, now() + 25 * HOUR).state).toBe('expired');
  expect(JSON.stringify([secretView(secret), view, held, asked])).not.toContain(PAT);
});

it('a lease and a request say how far they are', () => {
  const lease = { expiresAt: 1000 };
  expect([isExpired(lease, 999), isExpired(lease, 1000), isExpired(lease, 1001)]).toEqual([
    false,
    true,
    true,
  ]);
  expect([timeLeft(lease, 400), timeLeft(lease, 1000), timeLeft(lease, 5000)]).toEqual([600, 0, 0]);
  expect(REQUEST_STATES.map(isTerminal)).toEqual([false, true, true, true, true]);
});
