// The one place where the parts are put together, in the order in which each needs the one before:
//
//   lock → log → store → passphrase → keyring → audit → certificates → sessions → guards → broker → control → ops
//
// What was opened is closed in reverse, at the end and halfway through a start that fails. Nothing listens before
// everything that it needs works, and the ops endpoint comes last: a server that answers there is whole.

import { openAuditLog } from '../audit/open.ts';
import { openCheckpointSigner } from '../audit/signer.ts';
import { KINDS } from '../broker/kind.ts';
import { rfc3339, systemClock } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import { createRedactor, type Redactor } from '../common/redact.ts';
import { userName } from '../control/auth.ts';
import { recordSessions } from '../control/session-records.ts';
import { openKeyring } from '../keyring/keyring.ts';
import { type CheckResult, createHealth } from '../ops/health.ts';
import { createMetrics, type LiveSources } from '../ops/metrics.ts';
import { startOps } from '../ops/server.ts';
import { openSessions } from '../sessions/registry.ts';
import { openStore } from '../store/open.ts';
import { startBroker } from './broker-wiring.ts';
import { openCertificates } from './certificates.ts';
import { type Closers, createClosers } from './closers.ts';
import { clusterSecrets } from './cluster-secret.ts';
import type { Config } from './config.ts';
import { formatListen } from './config-address.ts';
import { configFileProblems } from './config-files.ts';
import { ConfigError } from './config-problems.ts';
import { startControl } from './control-fronts.ts';
import { drain } from './drain.ts';
import { createGuards } from './guards.ts';
import { lockDataFolder } from './lock.ts';
import { createLogger, type Logger } from './logger.ts';
import { openPassphrase } from './passphrase.ts';

/** For a control call to be answered, once the server stops. */
const CALL_MS = 2_000;

export interface Server {
  /** What the ready line says: `host:port`, for the control API without a TLS address the path of its socket. */
  readonly addresses: { readonly [name: string]: string };
  readonly log: Logger;
  /** Drains, ends and closes everything; resolves when the process may go, with whether a thread hangs. */
  stop(): Promise<{ readonly hangs: boolean }>;
}

/** @throws PosternError, after everything that was opened is closed again */
export async function startServer(config: Config, version: string): Promise<Server> {
  const problems = await configFileProblems(config);
  if (problems.length > 0) throw new ConfigError(config.file ?? 'configuration', problems);
  const closers = createClosers();
  const redactor = createRedactor();
  const log = createLogger({ level: config.log.level, redactor, to: 'stdout' });
  try {
    return await start(config, version, { closers, redactor, log });
  } catch (error) {
    await closers.closeAll((failure) => log.warn({ err: failure }, 'a part could not be closed'));
    await log.flush();
    throw error;
  }
}

async function start(
  config: Config,
  version: string,
  { closers, redactor, log }: { closers: Closers; redactor: Redactor; log: Logger },
): Promise<Server> {
  const clock = systemClock;
  const startedAt = rfc3339(clock.now());
  const actor = `cli:${userName()}`;
  for (const { key, message } of config.warnings) log.warn({ key }, message);

  closers.keep(lockDataFolder(config.dataDir), (lock) => lock.release());
  const { metrics, live, registry } = metering();
  const store = closers.keep(await openStore(sqliteOnly(config.store)), (one) => one.close());
  const readSecret = clusterSecrets(process.env);
  const { passphrase, from } = await openPassphrase(config, store, process.env, readSecret);
  redactor.add(passphrase.reveal());
  const keyring = closers.keep(await openKeyring({ store, passphrase, clock, metrics }), (one) =>
    one.close(),
  );
  const signer = await openCheckpointSigner({ store, keyring });
  const audit = closers.keep(
    await openAuditLog({ ...config.audit, signer, redactor, metrics, log, clock }),
    (one) => one.close(),
  );
  const certificates = await openCertificates(config, closers, { store, keyring, clock, log, audit });
  const sessions = closers.keep(
    await openSessions({ store, keyring, clock, log, metrics, redactor, settings: config.sessions }),
    (one) => one.close(),
  );
  live.sessions = (guard) => sessions.liveCount(guard);
  const records = closers.keep(recordSessions(sessions, audit, log), async (one) => {
    await one.settled();
    one.stop();
  });
  const guards = closers.keep(
    createGuards(config, { sessions, audit, clock, metrics, log, redactor, certificates }),
    (one) => one.close(0),
  );
  await guards.listen();
  const host = { env: process.env, ...(readSecret && { readSecret }) };
  const broker = closers.keep(
    startBroker(config, {
      ...{ store, keyring, audit, sessions, host, redactor, clock, log, metrics },
      guards: guards.control,
    }),
    (one) => one.close(),
  );
  live.leases = () => broker.control.broker.leases.live();

  let stopping = false;
  const health = createHealth(
    {
      store: () => store.ping().then(() => ({ ok: true })),
      audit: () => auditCheck(audit.health(), config.audit.onFailure),
      certificates: () => certificates.health(),
      listeners: () => ({ ok: !stopping }),
    },
    log,
  );
  let controlAddress: string | undefined;
  let opsAddress = '';
  const control = closers.keep(
    await startControl({
      config,
      version,
      audit,
      log,
      tls: certificates.control,
      deps: {
        ...guards.control,
        ...broker.control,
        sessions,
        records,
        host,
        now: () => clock.now(),
        auditDir: config.audit.dir,
        caBundle: () => certificates.bundle(),
        rotateCa: (by, now) => certificates.rotate(by, now),
        status: async () => {
          const report = await health.ready();
          return {
            version,
            startedAt,
            ready: report.ok,
            checks: Object.entries(report.checks).map(([name, check]) => ({ name, ...check })),
            git: guards.status('git'),
            kube: guards.status('kube'),
            control: { socket: config.control.socket, ...present({ listen: controlAddress }) },
            ops: { listen: opsAddress },
            store: 'sqlite',
            key: { primary: keyring.primaryId, source: from },
            audit: { dir: config.audit.dir, onFailure: config.audit.onFailure },
            broker: await broker.status(),
          };
        },
      },
    }),
    (one) => one.close(0),
  );
  controlAddress = control.listen;
  const ops = await startOps({ listen: config.ops.listen, health, metrics: registry, log });
  closers.keep(ops, (one) => one.close());
  opsAddress = formatListen(ops);
  await audit.append(
    { action: 'server.started', decision: 'allow', actor, reason: `version ${version}` },
    'durable',
  );

  return {
    log,
    addresses: {
      ...present({ git: guards.address('git'), kube: guards.address('kube') }),
      control: control.listen ?? config.control.socket,
      socket: config.control.socket,
      ops: opsAddress,
    },
    async stop() {
      stopping = true;
      health.drain();
      await drain({
        fronts: [(ms) => guards.close(ms), () => control.close(CALL_MS)],
        endAll: () => sessions.endAll(),
      });
      await records.settled();
      await audit
        .append({ action: 'server.stopped', decision: 'allow', actor }, 'durable')
        .catch((error: unknown) => log.error({ err: error }, 'the end of the server could not be recorded'));
      await closers.closeAll((error) => log.warn({ err: error }, 'a part could not be closed'));
      log.info({}, 'stopped');
      await log.flush();
      return { hangs: audit.hangs() };
    },
  };
}

/** Where the guards serve without a trail that works, the process is ready, and says what is lost. */
function auditCheck(health: CheckResult, onFailure: Config['audit']['onFailure']): CheckResult {
  if (health.ok || onFailure === 'refuse') return health;
  return { ok: true, degraded: true, reason: `events are counted and not recorded: ${health.reason}` };
}

/** Sessions and leases are there later than the metrics that ask them. */
function metering() {
  const live: { -readonly [source in 'sessions' | 'leases']: NonNullable<LiveSources[source]> } = {
    sessions: () => 0,
    leases: () => ({}),
  };
  const registry = createMetrics({
    sessions: (guard) => live.sessions(guard),
    leases: () => live.leases(),
    leaseKinds: KINDS,
  });
  return { live, registry, metrics: registry.metrics };
}

function sqliteOnly(store: Config['store']): { sqlite: string } {
  if ('sqlite' in store) return store;
  throw new PosternError('invalid_config', 'store.postgres: this version keeps its state in SQLite only.', {
    key: 'store.postgres',
    remedy: 'Set store.sqlite in its place.',
  });
}

function present(values: { readonly [name: string]: string | undefined }): { [name: string]: string } {
  return Object.fromEntries(
    Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}
