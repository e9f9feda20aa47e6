// The records of renewing and ending, with the real registry: who asked, what happened, and that the call waits.

import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AuditEvent } from '../../audit/event.ts';
import { manualClock } from '../../common/clock.ts';
import { Credential } from '../../common/credential.ts';
import { PosternError } from '../../common/errors.ts';
import { silentLog } from '../../common/log.ts';
import { noMetrics } from '../../common/metrics.ts';
import { createRedactor } from '../../common/redact.ts';
import { recordSessions, type SessionRecords } from '../../control/session-records.ts';
import { openKeyring } from '../../keyring/keyring.ts';
import { openSessions } from '../../sessions/registry.ts';
import type { SessionRegistry } from '../../sessions/session.ts';
import { openStore } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';

let store: Store;
let sessions: SessionRegistry;
let records: SessionRecords;
let events: AuditEvent[];
let gate: Promise<void>;
const clock = manualClock();

beforeEach(async () => {
  store = await openStore({ sqlite: ':memory:' });
  const keyring = await openKeyring({ store, passphrase: new Credential('a passphrase of tests'), clock });
  const settings = { ttl: 900_000, maxTtl: 3_600_000, recheck: 5_000, maxConcurrent: 8 };
  const redactor = createRedactor();
  sessions = await openSessions({
    store,
    keyring,
    clock,
    log: silentLog,
    metrics: noMetrics,
    redactor,
    settings,
  });
  events = [];
  gate = Promise.resolve();
  records = recordSessions(
    sessions,
    {
      async append(event, durability) {
        expect(durability).toBe('durable');
        await gate;
        events.push(event);
      },
    },
    silentLog,
  );
});
afterEach(async () => {
  records.stop();
  await sessions.close();
  await store.close();
});

const issue = async (leaseId = 'L1') =>
  (
    await sessions.issue({
      guard: 'git',
      leaseId,
      labels: { projectId: 'p', executorId: 'e', runId: 'r', taskId: 't', colour: 'red' },
      policy: {},
      credentials: [
        { id: 'c1', grantId: 'g1', secret: new Credential('one') },
        { id: 'c2', grantId: 'g2', secret: new Credential('two') },
      ],
    })
  ).session;

test('each change is recorded once, under the name of who asked', async () => {
  const { id } = await issue();
  await records.as('hub-1', () => sessions.renew(id));
  await records.as('hub-2', () => sessions.removeGrant(id, 'g1', 'grant removed by hub-2'));
  await records.as('hub-3', () => sessions.revoke(id, 'revoked by hub-3'));
  await records.as('hub-4', () => sessions.revoke(id, 'revoked by hub-4'));
  expect(events).toMatchObject([
    { action: 'git.session_renewed', actor: 'hub-1', expiresAt: expect.stringMatching(/Z$/) },
    { action: 'git.grant_removed', actor: 'hub-2', grantId: 'g1' },
    { action: 'git.session_closed', actor: 'hub-3', reason: 'revoked by hub-3' },
  ]);
  for (const event of events)
    expect(event).toMatchObject({
      sessionId: id,
      leaseId: 'L1',
      projectId: 'p',
      executorId: 'e',
      runId: 'r',
      taskId: 't',
    });
});

test('callers at the same time keep their own names', async () => {
  const ids = await Promise.all(Array.from({ length: 10 }, async () => (await issue()).id));
  await Promise.all(ids.map((id, i) => records.as(`hub-${i}`, () => sessions.revoke(id, 'over'))));
  expect(events).toHaveLength(10);
  for (const event of events) expect(event.actor).toBe(`hub-${ids.indexOf(event.sessionId ?? '')}`);
});

test('the call waits for its record, and fails where it can not be kept', async () => {
  const { id } = await issue();
  let open = (): void => {};
  gate = new Promise((resolve) => {
    open = resolve;
  });
  let answered = false;
  const call = records
    .as('hub', () => sessions.revoke(id, 'over'))
    .then(() => {
      answered = true;
    });
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect([answered, events.length]).toEqual([false, 0]);
  open();
  await call;
  expect(events).toHaveLength(1);
  gate = Promise.reject(new PosternError('audit_unavailable', 'disk full'));
  gate.catch(() => {});
  const other = await issue();
  await expect(records.as('hub', () => sessions.revoke(other.id, 'over'))).rejects.toMatchObject({
    code: 'audit_unavailable',
  });
  expect((await sessions.get(other.id))?.session.revokedAt).toBeDefined();
});

test('what nobody asked for is recorded as our own doing', async () => {
  const { id } = await issue();
  clock.advance(901_000);
  await sessions.revoke(id, 'too late');
  await records.settled();
  expect(events).toMatchObject([{ action: 'git.session_closed', actor: 'postern', reason: 'expired' }]);
});
