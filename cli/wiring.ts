// The one place where the parts are put together, in the order in which each needs the one before:
//
//   lock → log → store → passphrase → keyring → audit → certificates → sessions → guards → control → ops
//
// What was opened is closed in reverse, at the end and halfway through a start that fails. Nothing listens before
// everything that it needs works, and the ops endpoint comes last: a server that answers there is whole.

import type { AuditLog } from '../audit/log.ts';
import { openAuditLog } from '../audit/open.ts';
import { openCheckpointSigner } from '../audit/signer.ts';
import { openAuthority } from '../certs/authority.ts';
import { openOwnCertificate } from '../certs/files.ts';
import type { CertificateSource } from '../certs/source.ts';
import { rfc3339, systemClock } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import { createRedactor } from '../common/redact.ts';
import { userName } from '../control/auth.ts';
import type { Status } from '../control/server-routes.ts';
import { recordSessions } from '../control/session-records.ts';
import { createGitGuard } from '../gitproxy/guard.ts';
import { openKeyring } from '../keyring/keyring.ts';
import { createHealth } from '../ops/health.ts';
import { createMetrics } from '../ops/metrics.ts';
import { startOps } from '../ops/server.ts';
import { openSessions } from '../sessions/registry.ts';
import type { GuardName } from '../sessions/session.ts';
import { openStore } from '../store/open.ts';
import { type Closers, createClosers } from './closers.ts';
import { clusterSecrets } from './cluster-secret.ts';
import type { Config, TlsFiles } from './config.ts';
import { advertisedUrl, formatListen, hostOf, type Listen, servedNames } from './config-address.ts';
import { configFileProblems } from './config-files.ts';
import { ConfigError } from './config-problems.ts';
import { startControl } from './control-fronts.ts';
import { drain } from './drain.ts';
import { lockDataFolder } from './lock.ts';
import { createLogger, type Logger } from './logger.ts';
import { openPassphrase } from './passphrase.ts';

export interface Server {
  /** What the ready line says: `host:port`, for the control socket its path. */
  readonly addresses: { readonly [name: string]: string };
  readonly log: Logger;
  /** Drains, ends and closes everything; resolves when the process may go. */
  stop(): Promise<void>;
}

/** A guard as the wiring sees it. */
interface Guard {
  listen(host: string, port: number): Promise<{ host: string; port: number }>;
  baseUrl(): string;
  close(graceMs: number): Promise<void>;
}

/** @throws PosternError, after everything that was opened is closed again */
export async function startServer(config: Config, version: string): Promise<Server> {
  const problems = await configFileProblems(config);
  if (problems.length > 0) throw new ConfigError(config.file ?? 'configuration', problems);
  const closers = createClosers();
  const redactor = createRedactor();
  const log = createLogger({ level: config.log.level, redactor, to: 'stdout' });
  try {
    return await start(config, version, closers, redactor, log);
  } catch (error) {
    await closers.closeAll((failure) => log.warn({ err: failure }, 'a part could not be closed'));
    await log.flush();
    throw error;
  }
}

async function start(
  config: Config,
  version: string,
  closers: Closers,
  redactor: ReturnType<typeof createRedactor>,
  log: Logger,
): Promise<Server> {
  const clock = systemClock;
  const startedAt = rfc3339(clock.now());
  const actor = `cli:${userName()}`;
  for (const { key, message } of config.warnings) log.warn({ key }, message);

  closers.keep(lockDataFolder(config.dataDir), (lock) => lock.release());
  const live: { [guard in GuardName]: () => number } = { git: () => 0, kube: () => 0 };
  const registry = createMetrics({ sessions: (guard) => live[guard]() });
  const { metrics } = registry;

  if (!('sqlite' in config.store))
    throw new PosternError('invalid_config', 'store.postgres: this version keeps its state in SQLite only.', {
      key: 'store.postgres',
      remedy: 'Set store.sqlite in its place.',
    });
  const store = closers.keep(await openStore(config.store), (one) => one.close());
  const readSecret = clusterSecrets(process.env);
  const { passphrase, from } = await openPassphrase(config, store, process.env, readSecret);
  redactor.add(passphrase.reveal());
  const keyring = closers.keep(await openKeyring({ store, passphrase, clock, metrics }), (one) =>
    one.close(),
  );

  const signer = await openCheckpointSigner({ store, keyring });
  const audit: AuditLog = closers.keep(
    await openAuditLog({ ...config.audit, signer, redactor, metrics, log, clock }),
    (one) => one.close(),
  );

  const certificates = await openCertificates(config, closers, { store, keyring, clock, log, audit });
  const sessions = closers.keep(
    await openSessions({ store, keyring, clock, log, metrics, redactor, settings: config.sessions }),
    (one) => one.close(),
  );
  live.git = () => sessions.liveCount('git');
  live.kube = () => sessions.liveCount('kube');
  const records = closers.keep(recordSessions(sessions, audit, log), async (one) => {
    await one.settled();
    one.stop();
  });

  const bound = new Map<GuardName, Listen>();
  const fronts: ((ms: number) => Promise<void>)[] = [];
  const listen = async (name: GuardName, guard: Guard): Promise<void> => {
    fronts.push((ms) => guard.close(ms));
    closers.keep(guard, (one) => one.close(0));
    const { host, port } = config[name].listen;
    bound.set(
      name,
      await guard
        .listen(host, port)
        .catch((cause) => Promise.reject(notListening(`${name}.listen`, config[name].listen, cause))),
    );
  };

  // Read at each use: where the configuration leaves the port open, it is known once the guard listens.
  const advertisedAt = (name: GuardName): string | undefined => {
    const at = bound.get(name);
    return at ? advertisedUrl(config[name], at.port) : config[name].advertise;
  };

  const git = config.git.enabled
    ? createGitGuard(
        {
          upstreams: config.git.upstreams,
          push: config.git.push,
          get advertise() {
            return advertisedAt('git');
          },
        },
        { sessions, audit, clock, metrics, log, tls: certificates.git },
      )
    : undefined;
  if (git) await listen('git', git);

  let stopping = false;
  const health = createHealth(
    {
      store: async () => {
        await store.ping();
        return { ok: true };
      },
      audit: () => audit.health(),
      certificates: () =>
        [...certificates.all].map((one) => one.health()).find((one) => !one.ok) ?? { ok: true },
      listeners: () => ({ ok: !stopping }),
    },
    log,
  );

  const address = (name: GuardName): string | undefined => {
    const at = bound.get(name);
    return at && formatListen(at);
  };
  const guardStatus = (name: GuardName, guard: Guard | undefined): Status['git'] => ({
    enabled: guard !== undefined,
    ...(guard && { listen: address(name), advertise: guard.baseUrl(), sessions: sessions.liveCount(name) }),
  });
  const control = await startControl({
    config,
    version,
    audit,
    log,
    tls: certificates.control,
    deps: {
      sessions,
      records,
      host: { env: process.env, ...(readSecret && { readSecret }) },
      now: () => clock.now(),
      ...(git && { git }),
      explain: { ...(git && { git: (id, { path, ...rest }) => git.explain(id, { target: path, ...rest }) }) },
      auditDir: config.audit.dir,
      caBundle: () => unique([...certificates.all].map((one) => one.caPem())).join(''),
      status: async () => {
        const report = await health.ready();
        return {
          version,
          startedAt,
          ready: report.ok,
          checks: Object.entries(report.checks).map(([name, check]) => ({ name, ...check })),
          git: guardStatus('git', git),
          kube: guardStatus('kube', undefined),
          control: { socket: config.control.socket, ...(control.listen && { listen: control.listen }) },
          ops: { listen: opsAddress },
          store: 'sqlite',
          key: { primary: keyring.primaryId, source: from },
          audit: { dir: config.audit.dir, onFailure: config.audit.onFailure },
        };
      },
    },
  });
  closers.keep(control, (one) => one.close());

  const ops = closers.keep(
    await startOps({ listen: config.ops.listen, health, metrics: registry, log }),
    (one) => one.close(),
  );
  const opsAddress = formatListen(ops);
  await audit.append(
    { action: 'server.started', decision: 'allow', actor, reason: `version ${version}` },
    'durable',
  );

  return {
    log,
    addresses: {
      ...present({ git: address('git'), kube: address('kube') }),
      control: control.listen ?? config.control.socket,
      socket: config.control.socket,
      ops: opsAddress,
    },
    async stop() {
      stopping = true;
      health.drain();
      await drain({ fronts: [...fronts, () => control.close()], endAll: () => sessions.endAll() });
      await records.settled();
      await audit
        .append({ action: 'server.stopped', decision: 'allow', actor }, 'durable')
        .catch((error: unknown) => log.error({ err: error }, 'the end of the server could not be recorded'));
      await closers.closeAll((error) => log.warn({ err: error }, 'a part could not be closed'));
      log.info({}, 'stopped');
      await log.flush();
    },
  };
}

interface Certificates {
  readonly git: CertificateSource;
  readonly kube: CertificateSource;
  readonly control: CertificateSource | undefined;
  /** Those that sandboxes meet, each once. */
  readonly all: ReadonlySet<CertificateSource>;
}

/** Our own authority for whoever has no certificate of the operator's. */
async function openCertificates(
  config: Config,
  closers: Closers,
  parts: Omit<Parameters<typeof openAuthority>[0], 'names' | 'dataDir'>,
): Promise<Certificates> {
  const { git, kube, control } = config;
  const authority = closers.keep(
    await openAuthority({ ...parts, names: servedNames(git, kube, control), dataDir: config.dataDir }),
    (one) => one.close(),
  );
  const source = async (
    section: { tls: TlsFiles | undefined; advertise?: string | undefined },
    key: string,
  ) => {
    if (!section.tls) return authority;
    const own = await openOwnCertificate({
      files: section.tls,
      key,
      names: section.advertise ? [hostOf(section.advertise)] : [],
      tickets: authority.tickets,
      clock: parts.clock,
      log: parts.log,
    });
    return closers.keep(own, (one) => one.close());
  };
  const forGit = await source(git, 'git.tls');
  const forKube = await source(kube, 'kube.tls');
  const guards = [...(git.enabled ? [forGit] : []), ...(kube.enabled ? [forKube] : [])];
  return {
    git: forGit,
    kube: forKube,
    control: control.listen && (await source(control, 'control.tls')),
    all: new Set(guards),
  };
}

function notListening(key: string, listen: Listen, cause: unknown): PosternError {
  if (cause instanceof PosternError) return cause;
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error';
  const what = code === 'EADDRINUSE' ? 'is taken by another process' : `can't be listened on (${code})`;
  return new PosternError('invalid_config', `${key}: ${formatListen(listen)} ${what}.`, {
    key,
    remedy: 'Choose another address, or port 0.',
    cause,
  });
}

function unique<T>(values: readonly T[]): T[] {
  return [...new Set(values)];
}

function present(values: { readonly [name: string]: string | undefined }): { [name: string]: string } {
  return Object.fromEntries(
    Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}
