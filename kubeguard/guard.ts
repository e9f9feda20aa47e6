// The Kubernetes guard: the API server's protocol, with a session's token in place of a credential.
//
//     request-info  what is asked for, read as the API server reads it; anything with two readings is refused
//     admission     who asks: the bearer token of a session (admission.ts)
//     policy        whether the grant and the deployment's ceiling both allow it (policy.ts)
//     forwarding    one request built from what was judged (forwarding.ts); upgrades by a tunnel (tunnel.ts); questions
//                   about the session's own rights and lists of namespaces answered in part here (answering.ts)
//     record        before it leaves, and what came of it (records.ts)
//
// It holds no credential itself: custody is the session registry's, and one is opened after the decision.

import type { AuditLog } from '../audit/log.ts';
import { type Clock, rfc3339 } from '../common/clock.ts';
import { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import { type Log, silentLog } from '../common/log.ts';
import { type Metrics, noMetrics } from '../common/metrics.ts';
import type { Redactor } from '../common/redact.ts';
import { createListener, type ListenerLimits, type TlsSource } from '../relay/listener.ts';
import { createUpstreams } from '../relay/upstreams.ts';
import type { Explanation, KubeGuard } from '../sessions/guards.ts';
import type { Session, SessionRegistry } from '../sessions/session.ts';
import { createCredentials } from './credentials.ts';
import { type ExplainInput, explain } from './explain.ts';
import { type FlowDeps, PATIENCE, type Patience } from './flow.ts';
import { createHandlers } from './handlers.ts';
import { allowedNamespaces, allowedVerbs, describeRules, prepareSession, summarize } from './issue.ts';
import { credentialFields, sessionFields } from './records.ts';
import { type Ceiling, ceilingLimits } from './rules.ts';
import type { KubePolicy } from './session-policy.ts';
import { synthesise } from './synthesise.ts';
import { isReadOnly } from './verbs.ts';

export interface KubeGuardConfig {
  readonly ceiling: Ceiling;
  /** Absolute paths of credential plugins that kubeconfigs in custody may run on this host. */
  readonly execPlugins: readonly string[];
  /** Absolute paths of token files that they may read. */
  readonly tokenFiles?: readonly string[] | undefined;
  /** Origins of the API servers that a session may lead to. Empty or absent: any. */
  readonly upstreams?: readonly string[] | undefined;
  readonly maxBodyBytes: number;
  /** What a sandbox connects to; absent: https and the address that is listened on. */
  readonly advertise?: string | undefined;
}

export interface KubeGuardDeps {
  readonly sessions: SessionRegistry;
  readonly audit: AuditLog;
  readonly clock: Clock;
  readonly tls: TlsSource;
  /** PEM of the authorities that a sandbox is to trust for this guard. */
  readonly trustBundle: () => string | Promise<string>;
  readonly metrics?: Metrics;
  readonly log?: Log;
  /** Is told what is found in the kubeconfigs in custody. */
  readonly redactor?: Pick<Redactor, 'add' | 'remove'>;
  readonly listener?: Partial<ListenerLimits>;
  readonly patience?: Partial<Patience>;
}

export interface RunningKubeGuard extends KubeGuard {
  listen(host: string, port: number): Promise<{ host: string; port: number }>;
  /** `https://host:port` as sandboxes are told. */
  baseUrl(): string;
  /** @throws PosternError `not_found` */
  explain(sessionId: string, input: ExplainInput): Promise<Explanation>;
  /** Accepts no more and gives what is under way `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/** A watch holds one as long as it lasts, and all sessions of a cluster share them; the listener's own limit comes first. */
const MAX_UPSTREAM_CONNECTIONS = 20_000;

/** @throws PosternError `invalid_config` where the ceiling cannot be read */
export function createKubeGuard(config: KubeGuardConfig, deps: KubeGuardDeps): RunningKubeGuard {
  const { sessions, audit, clock, redactor, metrics = noMetrics, log = silentLog } = deps;
  const ceiling = ceilingLimits(config.ceiling);
  const { execPlugins, tokenFiles, upstreams: listed } = config;
  const host = { execPlugins, tokenFiles, upstreams: listed };
  const upstreams = createUpstreams({ maxConnections: MAX_UPSTREAM_CONNECTIONS });
  const flow: FlowDeps = {
    audit,
    metrics,
    log,
    upstreams,
    credentials: createCredentials({ host, clock, ...(redactor ? { redactor } : {}) }),
    maxBodyBytes: config.maxBodyBytes,
    patience: { ...PATIENCE, ...deps.patience },
  };
  let address: { host: string; port: number } | undefined;

  const handlers = createHandlers(flow, sessions, ceiling);
  const listener = createListener({
    tls: deps.tls,
    advertised: config.advertise === undefined ? [] : [config.advertise],
    ...handlers.listening,
    ...(deps.listener ? { limits: deps.listener } : {}),
    log,
  });

  const baseUrl = (): string => {
    if (config.advertise !== undefined) return new URL(config.advertise).origin;
    if (!address) throw new PosternError('guard_unavailable', 'the Kubernetes guard does not listen yet');
    const name = ['0.0.0.0', '::'].includes(address.host) ? '127.0.0.1' : address.host;
    return `https://${name.includes(':') ? `[${name}]` : name}:${address.port}`;
  };

  return {
    async issue(request) {
      const { policy, credentials } = prepareSession(request.clusters, ceiling, host);
      const url = baseUrl();
      const ca = await deps.trustBundle();
      const { session, token } = await sessions.issue<KubePolicy>({
        guard: 'kube',
        leaseId: request.leaseId,
        labels: request.labels ?? {},
        policy,
        credentials,
        ...(request.ttl === undefined ? {} : { ttl: request.ttl }),
        managedBy: request.managedBy,
      });
      try {
        await recordIssue(session, request.actor);
      } catch (error) {
        await sessions.revoke(session.id, 'its record could not be written');
        throw error;
      }
      const { contexts, current } = policy;
      const namespace = contexts.find(({ name }) => name === current)?.namespace;
      const verbs = allowedVerbs(policy, ceiling);
      return {
        sessionId: session.id,
        kubeconfig: new Credential(
          synthesise({ advertise: url, ca, token: token.reveal(), contexts, current }),
        ),
        contexts: contexts.map(({ name }) => name),
        expiresAt: session.expiresAt,
        readOnly: isReadOnly(verbs),
        summary: summarize(policy, ceiling),
        ...(namespace === undefined ? {} : { namespace }),
        namespaces: allowedNamespaces(policy, ceiling),
        verbs,
      };
    },

    async listen(name, port) {
      address = await listener.listen(name, port);
      return address;
    },

    baseUrl,

    async explain(sessionId, input) {
      const found = await sessions.get(sessionId);
      if (found?.session.guard !== 'kube')
        throw new PosternError('not_found', `there is no kube session ${sessionId}`, { key: 'session' });
      return explain(found.session as Session<KubePolicy>, { now: clock.now(), ceiling }, input);
    },

    async close(graceMs) {
      const cut = setTimeout(() => void handlers.cutTunnels(), graceMs);
      await listener.close(graceMs);
      clearTimeout(cut);
      await handlers.close();
      await upstreams.close();
    },
  };

  /** A record for each kubeconfig that was taken into custody. */
  async function recordIssue(session: Session<KubePolicy>, actor: string): Promise<void> {
    await Promise.all(
      session.policy.contexts
        .filter(({ credentialId }, i, all) => all.findIndex((one) => one.credentialId === credentialId) === i)
        .map(({ credentialId, host: clusterHost, port }) => {
          const rules = session.policy.rules[credentialId];
          return audit.append(
            {
              ...sessionFields(session),
              ...credentialFields(session, credentialId),
              action: 'kube.session_minted',
              decision: 'allow',
              guard: 'kube',
              actor,
              host: clusterHost,
              port,
              constraints: rules && describeRules(rules, ceiling),
              expiresAt: rfc3339(session.expiresAt),
            },
            'durable',
          );
        }),
    );
  }
}
