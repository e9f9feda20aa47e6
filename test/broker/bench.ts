// A broker on a real store, keyring and session registry, with guards that take custody like the real ones and do
// nothing else, a GitHub of our own, and a clock that moves when the test says so.

import { type Broker, createBroker } from '../../broker/broker.ts';
import type { Caller } from '../../broker/caller.ts';
import type { BrokerDeps } from '../../broker/deps.ts';
import type { Grant } from '../../broker/grants/grant.ts';
import type { Lease, SessionMaterial } from '../../broker/material.ts';
import type { Secret } from '../../broker/secrets/secret.ts';
import { type Clock, manualClock } from '../../common/clock.ts';
import { Credential } from '../../common/credential.ts';
import { PosternError } from '../../common/errors.ts';
import type { Log } from '../../common/log.ts';
import { noMetrics } from '../../common/metrics.ts';
import { createRedactor, type Redactor } from '../../common/redact.ts';
import type { Keyring } from '../../keyring/keyring.ts';
import type { GitGuard, IssuedGitSession, IssuedKubeSession, KubeGuard } from '../../sessions/guards.ts';
import { openSessions, type Sessions } from '../../sessions/registry.ts';
import { openStore } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import { cheapKeyring } from '../keyring/cheap.ts';
import { type MemoryAudit, memoryAudit } from '../support/memory-audit.ts';
import { type FakeGitHub, fakeGitHub } from './fake-github.ts';

export const SECOND = 1000;
export const MINUTE = 60_000;
export const HOUR = 3_600_000;
export const DAY = 86_400_000;

export const OPERATOR: Caller = { actor: 'operator' };
export const ADMIN: Caller = { actor: 'cli:root', admin: true };
export const ALICE: Caller = { actor: 'alice@corp.example' };
export const BOB: Caller = { actor: 'bob@corp.example' };

export interface BenchOptions {
  readonly git?: 'on' | 'off' | 'down';
  readonly kube?: 'on' | 'off' | 'down';
  readonly upstreams?: readonly string[];
  readonly store?: Store;
  readonly maxTtl?: number;
  readonly limits?: BrokerDeps['limits'];
  readonly env?: { readonly [name: string]: string };
  /** The real guards, or others, in place of those here. */
  readonly make?: (parts: GuardParts) => Promise<{ git: GitGuard; kube: KubeGuard }>;
  /** Wraps what the broker sees of the store. */
  readonly through?: (store: Store) => Store;
}

export interface GuardParts {
  readonly sessions: Sessions;
  readonly audit: MemoryAudit;
  readonly clock: Clock;
  readonly log: Log;
  readonly redactor: Redactor;
}

export interface Bench {
  readonly broker: Broker;
  readonly deps: BrokerDeps;
  readonly store: Store;
  readonly keyring: Keyring;
  readonly sessions: Sessions;
  readonly audit: MemoryAudit;
  readonly clock: ReturnType<typeof manualClock>;
  readonly github: FakeGitHub;
  readonly redactor: Redactor;
  readonly logged: string[];
  readonly guards: { git: 'on' | 'off' | 'down'; kube: 'on' | 'off' | 'down' };
  /** Forges that the git guard refuses, and namespaces outside of the kube guard's ceiling. */
  readonly refuse: { upstreams: string[]; namespaces: string[]; naming: boolean };
  /** Another broker over the same store, as after a restart or in another replica. */
  again(): Broker;
  close(): Promise<void>;
}

const open = new Set<Bench>();

export async function closeBenches(): Promise<void> {
  for (const bench of open) await bench.close();
  open.clear();
}

export async function openBench(options: BenchOptions = {}): Promise<Bench> {
  const store = options.store ?? (await openStore({ sqlite: ':memory:' }));
  const keyring = await cheapKeyring(store);
  const clock = manualClock();
  const redactor = createRedactor();
  const logged: string[] = [];
  const write = (fields: object, message: string): void =>
    void logged.push(`${message} ${JSON.stringify(fields)}`);
  const log: Log = { debug: write, info: write, warn: write, error: write };
  const sessions = await openSessions({
    store,
    keyring,
    clock,
    log,
    metrics: noMetrics,
    redactor,
    settings: { ttl: 15 * MINUTE, maxTtl: options.maxTtl ?? 12 * HOUR, recheck: 5000, maxConcurrent: 64 },
  });
  const audit = memoryAudit();
  const github = fakeGitHub(clock);
  const guards: Bench['guards'] = { git: options.git ?? 'on', kube: options.kube ?? 'on' };
  const refuse: Bench['refuse'] = { upstreams: [], namespaces: [], naming: true };
  const made = await options.make?.({ sessions, audit, clock, log, redactor });
  const gitGuard = made?.git ?? gitGuardOver(sessions, refuse);
  const kubeGuard = made?.kube ?? kubeGuardOver(sessions, refuse);
  const deps: BrokerDeps = {
    store: options.through?.(store) ?? store,
    keyring,
    audit,
    get gitGuard() {
      return guards.git === 'on' ? gitGuard : guards.git;
    },
    get kubeGuard() {
      return guards.kube === 'on' ? kubeGuard : guards.kube;
    },
    upstreams: options.upstreams ?? ['https://github.com'],
    sessions,
    github: github.api,
    redactor,
    async readReference(ref) {
      const value = 'env' in ref ? options.env?.[ref.env] : undefined;
      if (value === undefined) throw new PosternError('invalid_input', 'the reference is not set');
      return new Credential(value);
    },
    clock,
    log,
    ...(options.limits && { limits: options.limits }),
  };
  const bench: Bench = {
    broker: createBroker(deps),
    deps,
    store,
    keyring,
    sessions,
    audit,
    clock,
    github,
    redactor,
    logged,
    guards,
    refuse,
    again: () => createBroker(deps),
    async close() {
      await sessions.close();
      keyring.close();
      if (!options.store) await store.close();
    },
  };
  open.add(bench);
  return bench;
}

function gitGuardOver(sessions: Sessions, refuse: Bench['refuse']): GitGuard {
  return {
    async issue({ credentials, leaseId, ttl, managedBy, labels = {} }): Promise<IssuedGitSession> {
      credentials.forEach(({ upstream }, i) => {
        if (refuse.upstreams.includes(upstream))
          throw new PosternError('upstream_not_listed', 'that forge is not configured', {
            ...(refuse.naming && { key: `credentials[${i}].upstream` }),
          });
      });
      const { session, token } = await sessions.issue({
        guard: 'git',
        managedBy,
        leaseId,
        labels,
        policy: {
          grants: credentials.map(({ token: _, ...rest }, i) => ({ credentialId: `c${i + 1}`, ...rest })),
        },
        credentials: credentials.map(({ token: secret, secretId, secretName, grantId }, i) => ({
          id: `c${i + 1}`,
          secret,
          ...(secretId === undefined ? {} : { secretId }),
          ...(secretName === undefined ? {} : { secretName }),
          ...(grantId === undefined ? {} : { grantId }),
        })),
        ...(ttl === undefined ? {} : { ttl }),
      });
      const writes = credentials.some(({ permissions }) => permissions?.includes('contents:write'));
      return {
        sessionId: session.id,
        baseUrl: 'https://127.0.0.1:8443',
        username: session.id,
        password: token,
        expiresAt: session.expiresAt,
        readOnly: !writes,
        summary: credentials.map(({ repos }) => repos.join('|')).join(', '),
        upstreams: [...new Set(credentials.map(({ upstream }) => upstream))],
        repos: credentials.flatMap(({ repos }) => repos),
        pushRefs: credentials.flatMap(({ pushRefs = [] }) => pushRefs),
      };
    },
  };
}

function kubeGuardOver(sessions: Sessions, refuse: Bench['refuse']): KubeGuard {
  return {
    async issue({ clusters, leaseId, ttl, managedBy, labels = {} }): Promise<IssuedKubeSession> {
      clusters.forEach(({ namespaces = [] }, i) => {
        if (namespaces.some((namespace) => refuse.namespaces.includes(namespace)))
          throw new PosternError('policy_refused', 'outside of the ceiling', {
            ...(refuse.naming && { key: `clusters[${i}].namespaces` }),
          });
      });
      const { session, token } = await sessions.issue({
        guard: 'kube',
        managedBy,
        leaseId,
        labels,
        policy: { clusters: clusters.map(({ kubeconfig: _, ...rest }) => rest) },
        credentials: clusters.map(({ kubeconfig: secret, secretId, secretName, grantId }, i) => ({
          id: `k${i + 1}`,
          secret,
          ...(secretId === undefined ? {} : { secretId }),
          ...(secretName === undefined ? {} : { secretName }),
          ...(grantId === undefined ? {} : { grantId }),
        })),
        ...(ttl === undefined ? {} : { ttl }),
      });
      return {
        sessionId: session.id,
        kubeconfig: new Credential(guardKubeconfig(token.reveal())),
        contexts: clusters.flatMap(({ contexts = [] }) => contexts),
        expiresAt: session.expiresAt,
        readOnly: true,
        summary: clusters.flatMap(({ contexts = [] }) => contexts).join(', '),
        namespaces: clusters.flatMap(({ namespaces = [] }) => namespaces),
        verbs: ['get', 'list', 'watch'],
      };
    },
  };
}

function guardKubeconfig(token: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'guard', cluster: { server: 'https://127.0.0.2:8444/c/prod' } }],
    users: [{ name: 'session', user: { token } }],
    contexts: [{ name: 'prod', context: { cluster: 'guard', user: 'session' } }],
  });
}

export async function mint(
  bench: Bench,
  name: string,
  kind: string,
  payload: string | object,
  more: { owner?: string; caller?: Caller } = {},
): Promise<Secret> {
  const bytes = Buffer.from(typeof payload === 'string' ? payload : JSON.stringify(payload));
  const { owner, caller = OPERATOR } = more;
  return bench.broker.secrets.mint({ name, kind, payload: bytes, owner }, caller);
}

export function grant(
  bench: Bench,
  secret: string,
  subject: string,
  constraints: object = {},
  more: { ttl?: number; caller?: Caller } = {},
): Promise<Grant> {
  bench.clock.advance(1); // ids sort by age
  return bench.broker.grants.create({ secret, subject, constraints, ttl: more.ttl }, more.caller ?? OPERATOR);
}

export const PROJECT = '/srv/app';
export const HUB: Caller = { actor: 'hub' };

export function lease(bench: Bench, more: object = {}): Promise<Lease> {
  return bench.broker.leases.create({ projectId: PROJECT, executorId: 'edge-01', ...more }, HUB);
}

export function session<G extends 'git' | 'kube'>(
  of: Lease,
  guard: G,
): Extract<SessionMaterial, { guard: G }> | undefined {
  return of.materials.find(
    (material): material is Extract<SessionMaterial, { guard: G }> =>
      material.type === 'session' && material.guard === guard,
  );
}

/** What a guard would spend now for a credential of a session that was issued; throws where it can't any more. */
export async function spend(
  bench: Bench,
  issued: { sessionId: string; token: Credential },
  credentialId: string,
) {
  const { guard } = (await bench.sessions.get(issued.sessionId))?.session ?? { guard: 'git' as const };
  const answer = await bench.sessions.authenticate(guard, issued.sessionId, issued.token.reveal(), {
    end() {},
  });
  if (!answer.ok) throw new Error(answer.failure);
  try {
    // As a guard does: a credential that the session no longer lists counts for nothing.
    if (!answer.live.session.credentials.some(({ id }) => id === credentialId))
      throw new PosternError('gone', 'taken out of the session');
    return (await answer.live.credential(credentialId)).reveal();
  } finally {
    answer.live.done({ denied: false, bytesUp: 0, bytesDown: 0 });
  }
}

/** Of the git session of a lease: its token, as the sandbox has it. */
export function gitToken(of: Lease): { sessionId: string; token: Credential } {
  const material = session(of, 'git');
  if (!material?.issued) throw new Error('the lease has no new git session');
  return { sessionId: material.sessionId, token: material.issued.password };
}

export function kubeToken(of: Lease): { sessionId: string; token: Credential } {
  const material = session(of, 'kube');
  if (!material?.issued) throw new Error('the lease has no new kube session');
  const { users } = JSON.parse(material.issued.kubeconfig.reveal());
  return { sessionId: material.sessionId, token: new Credential(users[0].user.token) };
}

/** The variables of everything that is delivered directly, revealed. */
export function variables(of: Lease): { [name: string]: string } {
  const env: { [name: string]: string } = {};
  for (const material of of.materials)
    if (material.type === 'direct')
      for (const [name, value] of Object.entries(material.env))
        env[name] = value instanceof Credential ? value.reveal() : value;
  return env;
}

export function files(of: Lease): { [name: string]: string } {
  const found: { [name: string]: string } = {};
  for (const material of of.materials)
    if (material.type === 'direct')
      for (const file of material.files) found[file.name] = file.content.reveal();
  return found;
}

export const PAT = 'ghp_0123456789abcdefghijABCDEFGHIJ456789';

export function kubeconfigOf(
  contexts: readonly { name: string; cluster?: string; user?: string; namespace?: string }[],
): string {
  const names = (key: 'cluster' | 'user'): string[] => [
    ...new Set(contexts.map((context) => context[key] ?? context.name)),
  ];
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': contexts[0]?.name,
    contexts: contexts.map(({ name, cluster = name, user = name, namespace }) => ({
      name,
      context: { cluster, user, ...(namespace === undefined ? {} : { namespace }) },
    })),
    clusters: names('cluster').map((name) => ({
      name,
      cluster: { server: `https://${name}.cluster.test:6443` },
    })),
    users: names('user').map((name) => ({ name, user: { token: `cluster-token-of-${name}-0123456789` } })),
  });
}
