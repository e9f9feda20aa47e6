// The broker in a running server: what it stands on, what looks after it. Expired leases and requests are swept every few
// seconds; lease folders of `postern run` processes that were killed on this host are wiped at the start.

import type { AuditLog } from '../audit/log.ts';
import { type Broker, createBroker } from '../broker/broker.ts';
import { privileged } from '../broker/caller.ts';
import { githubApi } from '../broker/github-app/api.ts';
import type { Clock } from '../common/clock.ts';
import type { Log } from '../common/log.ts';
import type { Metrics } from '../common/metrics.ts';
import type { Redactor } from '../common/redact.ts';
import { resolveValueFrom } from '../common/value-from.ts';
import type { HostSources } from '../control/custody.ts';
import type { KeyDeps } from '../control/key-routes.ts';
import type { Status } from '../control/server-routes.ts';
import { defaultRecords } from '../delivery/lease-records.ts';
import { sweepLeaseFolders } from '../delivery/lease-sweep.ts';
import type { Keyring } from '../keyring/keyring.ts';
import type { GitGuard, KubeGuard } from '../sessions/guards.ts';
import type { Sessions } from '../sessions/registry.ts';
import type { Store } from '../store/store.ts';
import type { Config } from './config.ts';

const SWEEP_MS = 5_000;

export interface BrokerParts {
  readonly store: Store;
  readonly keyring: Keyring;
  readonly audit: AuditLog;
  readonly sessions: Sessions;
  /** A guard that is off is absent. */
  readonly guards: { readonly git?: GitGuard; readonly kube?: KubeGuard };
  readonly host: HostSources;
  readonly redactor: Redactor;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

export interface BrokerPart {
  readonly control: { readonly broker: Broker } & KeyDeps;
  status(): Promise<NonNullable<Status['broker']>>;
  /** Stops sweeping and rotating; resolves when neither is under way. */
  close(): Promise<void>;
}

export function startBroker(config: Config, parts: BrokerParts): BrokerPart {
  const { store, keyring, audit, guards, host, clock, log } = parts;
  const github = githubApi();
  const broker = createBroker({
    ...parts,
    // A start fails where a guard that is enabled can't listen, so what is absent here is off on purpose.
    gitGuard: guards.git ?? (config.git.enabled ? 'down' : 'off'),
    kubeGuard: guards.kube ?? (config.kube.enabled ? 'down' : 'off'),
    upstreams: config.git.upstreams.map(({ url }) => new URL(url).origin),
    github,
    readReference: (reference) => resolveValueFrom(reference, { ...host, key: 'valueFrom' }),
  });
  const stopping = new AbortController();
  let sweeping: Promise<void> | undefined;
  const sweep = (): void => {
    sweeping ??= broker
      .sweep()
      .then(() => {})
      .catch((error: unknown) => log.error({ err: error }, 'leases and requests could not be swept'))
      .finally(() => {
        sweeping = undefined;
      });
  };
  sweep();
  const timer = setInterval(sweep, SWEEP_MS).unref();
  void sweepLeaseFolders(defaultRecords())
    .then((wiped) => {
      if (wiped.length > 0) log.warn({ folders: wiped }, 'folders of leases that a kill left were wiped');
    })
    .catch((error: unknown) => log.warn({ err: error }, 'folders of leases could not be looked for'));

  return {
    control: { broker, keys: { store, keyring, clock }, audit, stopping: stopping.signal },
    async status() {
      const [leases, waiting, sealed] = await Promise.all([
        broker.leases.live(),
        broker.requests.list({ pendingOnly: true }, privileged('postern')),
        store.countSealed(),
      ]);
      const rows = Object.values(sealed).flatMap((keks) => Object.entries(keks));
      return {
        leases: { ...leases },
        requestsWaiting: waiting.length,
        rowsToRotate: rows.reduce((sum, [kek, n]) => sum + (kek === keyring.primaryId ? 0 : n), 0),
      };
    },
    async close() {
      stopping.abort();
      clearInterval(timer);
      await sweeping;
      await github.close();
    },
  };
}
