// Both guards as the rest of the server sees them: made from the configuration, listening, described, closed.

import type { AuditLog } from '../audit/log.ts';
import type { Clock } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import type { Log } from '../common/log.ts';
import type { Metrics } from '../common/metrics.ts';
import type { Redactor } from '../common/redact.ts';
import type { Status } from '../control/server-routes.ts';
import type { SessionDeps } from '../control/session-routes.ts';
import { createGitGuard } from '../gitproxy/guard.ts';
import { createKubeGuard } from '../kubeguard/guard.ts';
import type { GuardName, SessionRegistry } from '../sessions/session.ts';
import type { Certificates } from './certificates.ts';
import type { Config } from './config.ts';
import { advertisedUrl, formatListen, type Listen } from './config-address.ts';

export interface Guards {
  /** What the control API issues and explains with; a guard that is off is absent. */
  readonly control: Pick<SessionDeps, 'git' | 'kube' | 'explain'>;
  /** @throws PosternError `invalid_config` naming the address that can't be had */
  listen(): Promise<void>;
  /** `host:port`, once it listens. */
  address(name: GuardName): string | undefined;
  status(name: GuardName): Status['git'];
  /** Accept no more; what is under way is cut after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

export interface GuardParts {
  readonly sessions: SessionRegistry;
  readonly audit: AuditLog;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly redactor: Redactor;
  readonly certificates: Certificates;
}

/** @throws PosternError `invalid_config` */
export function createGuards(config: Config, parts: GuardParts): Guards {
  const { certificates, redactor, ...common } = parts;
  const bound = new Map<GuardName, Listen>();
  // Read at each use: where the configuration leaves the port open, it is known once the guard listens.
  const advertised = (name: GuardName): string | undefined => {
    const at = bound.get(name);
    return at ? advertisedUrl(config[name], at.port) : config[name].advertise;
  };

  const git = config.git.enabled
    ? createGitGuard(
        {
          upstreams: config.git.upstreams,
          push: config.git.push,
          get advertise() {
            return advertised('git');
          },
        },
        { ...common, tls: certificates.git },
      )
    : undefined;
  const kube = config.kube.enabled
    ? createKubeGuard(
        {
          ceiling: config.kube.ceiling,
          execPlugins: config.kube.execPlugins,
          tokenFiles: config.kube.tokenFiles,
          upstreams: config.kube.upstreams,
          maxBodyBytes: config.kube.maxBodyBytes,
          get advertise() {
            return advertised('kube');
          },
        },
        { ...common, redactor, tls: certificates.kube, trustBundle: () => certificates.kube.caPem() },
      )
    : undefined;
  const running = { ...(git && { git }), ...(kube && { kube }) };
  const address = (name: GuardName): string | undefined => {
    const at = bound.get(name);
    return at && formatListen(at);
  };

  return {
    address,
    control: {
      ...running,
      explain: {
        ...(git && { git: (id, { path, ...rest }) => git.explain(id, { target: path, ...rest }) }),
        ...(kube && { kube: (id, { path, method = 'GET' }) => kube.explain(id, { target: path, method }) }),
      },
    },
    async listen() {
      for (const name of ['git', 'kube'] as const) {
        const { listen } = config[name];
        const at = running[name]?.listen(listen.host, listen.port);
        if (at)
          bound.set(
            name,
            await at.catch((cause) => Promise.reject(notListening(`${name}.listen`, listen, cause))),
          );
      }
    },
    status(name) {
      const guard = running[name];
      const at = address(name);
      if (!guard || at === undefined) return { enabled: false };
      return {
        enabled: true,
        listen: at,
        advertise: guard.baseUrl(),
        sessions: parts.sessions.liveCount(name),
      };
    },
    async close(graceMs) {
      await Promise.all([git?.close(graceMs), kube?.close(graceMs)]);
    },
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
