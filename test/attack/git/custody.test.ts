// A hub that names somebody else's grant or secret in a session of its own, with a junk token: what the broker puts into
// custody for that grant later (a GitHub App token is renewed every hour) must not become the hub's to spend.

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { Credential } from '../../../common/credential.ts';
import { createFront, type Front } from '../../../control/server.ts';
import { sessionRoutes } from '../../../control/session-routes.ts';
import { startGitGuard, type TestGuard } from '../../support/git-guard.ts';
import { type LenientUpstream, lenientUpstream } from '../../support/lenient-upstream.ts';
import { memoryAudit } from '../../support/memory-audit.ts';
import { rawExchange } from '../../support/raw-client.ts';
import { commands, head, ONE, PUSH_TYPE, ZERO } from './kit.ts';

const FRESH = 'ghs_theTokenThatTheBrokerRenewed0123456789';

let upstream: LenientUpstream;
let guard: TestGuard;
let hub: Front;

beforeAll(async () => {
  upstream = await lenientUpstream();
  guard = await startGitGuard({
    upstreams: [{ url: upstream.origin }],
    token: 'ghs_firstTokenOfTheBroker0123456789',
  });
  const routes = sessionRoutes({
    sessions: guard.sessions,
    git: guard.guard,
    host: {},
    records: { as: (_actor: string, what: () => unknown) => what() } as never,
    explain: {},
    now: Date.now,
  });
  hub = await createFront({
    routes,
    version: '0',
    authenticate: () => ({ actor: 'hub-2', role: 'hub' }),
    audit: memoryAudit(),
  });
});
afterAll(async () => {
  await hub.close();
  await guard.close();
  await upstream.close();
});
beforeEach(() => {
  upstream.clear();
  upstream.answer(() => 'HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
});

const spent = (): string =>
  Buffer.from(/Authorization: Basic (\S+)/.exec(upstream.received())?.[1] ?? '', 'base64').toString();

test.each(['grantId', 'secretId'] as const)(
  "by %s: the hub's own session goes on with what the hub gave it",
  async (member) => {
    const id = `${member}-of-the-broker`;
    // What the broker issues for a grant that reads one repository.
    await guard.issue({ repos: ['acme/tool'], permissions: ['contents:read'], [member]: id });
    const answer = await hub.inject({
      method: 'POST',
      url: '/v1/sessions/git',
      payload: {
        leaseId: 'lease-of-the-hub',
        credentials: [
          {
            token: 'junk-token-of-the-hub',
            upstream: upstream.origin,
            repos: ['*'],
            permissions: ['*'],
            [member]: id,
          },
        ],
      },
    });
    // Refusing to take such an id from a hub is as good.
    if (answer.statusCode >= 400) return;
    const { username, password } = answer.json() as { username: string; password: string };
    const session = { username, password: new Credential(password) } as Parameters<typeof head>[1];

    if (member === 'grantId') await guard.sessions.replaceGrant(id, new Credential(FRESH));
    else await guard.sessions.replaceSecret(id, new Credential(FRESH));

    const body = commands([[ZERO, ONE, 'refs/heads/main']]);
    const line = 'POST /acme/everything.git/git-receive-pack';
    await rawExchange(guard.port, guard.certs.ca, [
      head(guard, session, line, PUSH_TYPE, `Content-Length: ${body.length}`),
      body,
    ]);
    expect(spent()).not.toContain(FRESH);
  },
);
