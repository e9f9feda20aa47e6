// A git guard with the real registry over a store in memory, behind real TLS, and sandboxes that have nothing but a
// session's substitute.

import { systemClock } from '../../common/clock.ts';
import { Credential } from '../../common/credential.ts';
import type { Log } from '../../common/log.ts';
import { type Metrics, noMetrics } from '../../common/metrics.ts';
import { createRedactor } from '../../common/redact.ts';
import type { Patience } from '../../gitproxy/flow.ts';
import { createGitGuard, type GitGuardConfig, type RunningGitGuard } from '../../gitproxy/guard.ts';
import { openKeyring } from '../../keyring/keyring.ts';
import type { ListenerLimits } from '../../relay/listener.ts';
import type { GitCredentialInput, IssuedGitSession } from '../../sessions/guards.ts';
import { openSessions } from '../../sessions/registry.ts';
import type { SessionRegistry } from '../../sessions/session.ts';
import { openStore } from '../../store/open.ts';
import { type TestCertificates, testCertificates, tlsOf } from './certificates.ts';
import { type Git, gitHome } from './git.ts';
import { type MemoryAudit, memoryAudit } from './memory-audit.ts';

export interface TestGuard {
  readonly guard: RunningGitGuard;
  readonly sessions: SessionRegistry;
  readonly audit: MemoryAudit;
  readonly certs: TestCertificates;
  readonly port: number;
  readonly url: string;
  /** What was counted, as `request allowed`, `denial repo_not_allowed`, `stream fetch`, in order. */
  readonly counted: string[];
  /** Every line that was logged, as JSON. */
  readonly logged: string[];
  /** Of the first upstream; `contents:read` on everything of `acme` where nothing else is said. */
  issue(
    ...credentials: Partial<Omit<GitCredentialInput, 'token'> & { token: string }>[]
  ): Promise<IssuedGitSession>;
  close(): Promise<void>;
}

export interface TestGuardOptions {
  readonly upstreams: GitGuardConfig['upstreams'];
  readonly push?: Partial<GitGuardConfig['push']>;
  readonly token: string;
  readonly patience?: Partial<Patience>;
  readonly listener?: Partial<ListenerLimits>;
  readonly maxConcurrent?: number;
}

export async function startGitGuard(options: TestGuardOptions): Promise<TestGuard> {
  const store = await openStore({ sqlite: ':memory:' });
  const clock = systemClock;
  const keyring = await openKeyring({
    store,
    passphrase: new Credential('a passphrase of tests'),
    clock,
    cost: { N: 2 ** 10, r: 8, p: 1 },
  });
  const logged: string[] = [];
  const write = (level: string) => (fields: object, message: string) => {
    const plain = Object.entries(fields).map(([key, value]) => [
      key,
      value instanceof Error ? `${value.stack} ${String(value.cause ?? '')}` : value,
    ]);
    logged.push(JSON.stringify({ level, message, ...Object.fromEntries(plain) }));
  };
  const log: Log = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  const sessions = await openSessions({
    store,
    keyring,
    clock,
    log,
    metrics: noMetrics,
    redactor: createRedactor(),
    settings: { ttl: 900_000, maxTtl: 3_600_000, recheck: 5_000, maxConcurrent: options.maxConcurrent ?? 64 },
  });
  const counted: string[] = [];
  const metrics: Metrics = {
    ...noMetrics,
    request: (_guard, result) => void counted.push(`request ${result}`),
    denial: (_guard, code) => void counted.push(`denial ${code}`),
    bytes: (_guard, direction, count) =>
      void counted.push(`bytes ${direction} ${count > 0 ? 'some' : 'none'}`),
    upstream: () => void counted.push('upstream'),
    stream(_guard, kind) {
      counted.push(`stream ${kind}`);
      return () => void counted.push(`end ${kind}`);
    },
  };
  const audit = memoryAudit();
  const certs = testCertificates();
  const guard = createGitGuard(
    {
      upstreams: options.upstreams,
      push: { refs: ['refs/**'], maxRefs: 16, maxPackBytes: 2 ** 31, ...options.push },
    },
    {
      sessions,
      audit,
      clock,
      tls: tlsOf(certs),
      log,
      metrics,
      ...(options.patience ? { patience: options.patience } : {}),
      ...(options.listener ? { listener: options.listener } : {}),
    },
  );
  const { port } = await guard.listen('127.0.0.1', 0);
  return {
    guard,
    sessions,
    audit,
    certs,
    port,
    url: `https://127.0.0.1:${port}`,
    counted,
    logged,
    issue: (...credentials) =>
      guard.issue({
        leaseId: 'lease-1',
        actor: 'test',
        managedBy: 'broker',
        labels: { projectId: 'project-1', executorId: 'executor-1' },
        credentials: (credentials.length > 0 ? credentials : [{}]).map((credential) => ({
          upstream: options.upstreams[0]?.url ?? '',
          repos: ['acme/*'],
          ...credential,
          token: new Credential(credential.token ?? options.token),
        })),
      }),
    async close() {
      await sessions.endAll();
      await guard.close(0);
      await sessions.close();
      keyring.close();
      await store.close();
    },
  };
}

/** What a delivered gitconfig says, as far as these tests need it. */
export function sandboxOf({ url, certs }: TestGuard, session: IssuedGitSession, config = ''): Git {
  const helper = `!f() { test \\"$1\\" = get && echo username=${session.username} && echo password=${session.password.reveal()}; }; f`;
  return gitHome(
    `[http "${url}/"]\n\tsslCAInfo = ${certs.caFile}\n[credential "${url}"]\n\thelper = "${helper}"\n${config}`,
  );
}

export function basicOf({ username, password }: IssuedGitSession): string {
  return `Basic ${Buffer.from(`${username}:${password.reveal()}`).toString('base64')}`;
}
