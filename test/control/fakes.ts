// Rooms behind the control API that keep what they were asked, so that a test can say what reached them.

import { createHash } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AuditEvent } from '../../audit/event.ts';
import { Credential } from '../../common/credential.ts';
import { PosternError } from '../../common/errors.ts';
import { atSocket, withTokens } from '../../control/auth.ts';
import { ROLES } from '../../control/roles.ts';
import { createFront, type Front } from '../../control/server.ts';
import { type Status, serverRoutes } from '../../control/server-routes.ts';
import { sessionRoutes } from '../../control/session-routes.ts';
import { listenOnSocket } from '../../control/socket.ts';
import type { Session, SessionRegistry } from '../../sessions/session.ts';
import { type TestCertificates, testCertificates } from '../support/certificates.ts';

export const NOW = Date.UTC(2026, 0, 1);
export const PASSWORD = 'the-session-token';

export interface World {
  readonly socket: string;
  readonly url: string;
  readonly certificates: TestCertificates;
  readonly calls: { readonly what: string; readonly with: unknown }[];
  readonly events: AuditEvent[];
  readonly sessions: Map<string, Session>;
  token(role: string): Credential;
  close(): Promise<void>;
}

export const tokenOf = (role: string): string => `token-of-${role}-0123456789`;

const status: Status = {
  version: '0.0.0',
  startedAt: new Date(NOW).toISOString(),
  ready: true,
  checks: [{ name: 'store', ok: true }],
  git: { enabled: true, listen: '127.0.0.1:1', advertise: 'https://127.0.0.1:1', sessions: 0 },
  kube: { enabled: false },
  control: { socket: '/x' },
  ops: { listen: '127.0.0.1:2' },
  store: 'sqlite',
  key: { primary: 'k1', source: 'env' },
  audit: { dir: '/audit', onFailure: 'refuse' },
};

export async function world(): Promise<World> {
  const calls: { what: string; with: unknown }[] = [];
  const events: AuditEvent[] = [];
  const sessions = new Map<string, Session>();
  const certificates = testCertificates();
  const known = (id: string): Session => {
    const session = sessions.get(id);
    if (!session) throw new PosternError('not_found', 'There is no such session.');
    return session;
  };
  const registry: Pick<SessionRegistry, 'get' | 'list' | 'renew' | 'revoke' | 'revokeLease' | 'removeGrant'> =
    {
      get: async (id) => {
        const session = sessions.get(id);
        return session && { session, counters: { requests: 3, denied: 1, bytesUp: 10, bytesDown: 20 } };
      },
      list: async (filter = {}) =>
        [...sessions.values()]
          .filter((session) => filter.leaseId === undefined || session.leaseId === filter.leaseId)
          .map((session) => ({ session, counters: { requests: 0, denied: 0, bytesUp: 0, bytesDown: 0 } })),
      renew: async (id, ttl) => {
        calls.push({ what: 'renew', with: { id, ttl } });
        return known(id);
      },
      revoke: async (id, because) => {
        calls.push({ what: 'revoke', with: { id, because } });
        return sessions.get(id);
      },
      revokeLease: async (leaseId, because) => {
        calls.push({ what: 'revokeLease', with: { leaseId, because } });
        return [...sessions.values()].filter((session) => session.leaseId === leaseId);
      },
      removeGrant: async (id, grantId, because) => {
        calls.push({ what: 'removeGrant', with: { id, grantId, because } });
        return sessions.get(id);
      },
    };
  const routes = [
    ...sessionRoutes({
      sessions: registry,
      host: { env: { CONTROL_TEST_TOKEN: 'from-the-environment' } },
      now: () => NOW,
      records: { as: (_actor, what) => what() },
      explain: {
        git: async (id, request) => ({
          decision: 'deny',
          code: 'push_not_allowed',
          rule: 'permissions',
          reason: `${id} may read only`,
          request: { method: request.method ?? 'GET', repo: 'acme/tool' },
        }),
      },
      git: {
        async issue(request) {
          calls.push({ what: 'issueGit', with: request });
          const session: Session = {
            id: 'gs_1',
            guard: 'git',
            leaseId: request.leaseId,
            labels: request.labels ?? {},
            credentials: [{ id: 'c1', secretName: 'pat' }],
            policy: { repos: ['acme/*'] },
            createdAt: NOW,
            expiresAt: NOW + 900_000,
            hardExpiresAt: NOW + 9_000_000,
          };
          sessions.set(session.id, session);
          return {
            sessionId: 'gs_1',
            baseUrl: 'https://127.0.0.1:8443',
            username: 'gs_1',
            password: new Credential(PASSWORD),
            expiresAt: session.expiresAt,
            readOnly: true,
            summary: 'read-only, acme/*',
            upstreams: ['https://github.com'],
            repos: ['acme/*'],
            pushRefs: [],
          };
        },
      },
    }),
    ...serverRoutes({
      status: async () => status,
      caBundle: () => certificates.ca,
      rotateCa: async () => ({ takesOverAt: 0, underWay: false }),
    }),
  ];
  const audit = {
    async append(event: AuditEvent) {
      events.push(event);
    },
  };
  const socket = join(mkdtempSync(join(tmpdir(), 'postern-control-')), 'run/control.sock');
  const plain = await createFront({ routes, version: '0.0.0', authenticate: atSocket(), audit });
  await listenOnSocket(plain.server, socket);
  const tokens = ROLES.map((role) => ({
    name: `the-${role}`,
    role,
    sha256: createHash('sha256').update(tokenOf(role)).digest('hex'),
  }));
  const secure: Front = await createFront({
    routes,
    version: '0.0.0',
    authenticate: withTokens(tokens),
    audit,
    tls: { cert: certificates.cert, key: certificates.key },
  });
  const url = await secure.listen({ host: '127.0.0.1', port: 0 });
  return {
    socket,
    url,
    certificates,
    calls,
    events,
    sessions,
    token: (role) => new Credential(tokenOf(role)),
    async close() {
      await plain.close();
      await secure.close();
    },
  };
}
