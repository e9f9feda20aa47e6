// Connections to upstreams: one undici Pool for each origin and its TLS settings, HTTP/1.1, kept alive between requests.
// No interceptor, no redirect, no proxy from the environment: where a request goes is decided by the session alone, and
// the pool sends `path` as it is given. Waiting is limited in forward.ts, which knows both sides, so undici's own clocks
// are off; connecting is limited here.

import { createHash } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import { LRUCache } from 'lru-cache';
import { type Dispatcher, Pool } from 'undici';
import { resettingConnector } from './reset.ts';

/** Where to connect and whom to trust; two equal ones share connections. */
export interface UpstreamTarget {
  /** `https://host[:port]`, no path. */
  readonly origin: string;
  /** PEM; replaces the public authorities. */
  readonly ca?: string | undefined;
  /** PEM client certificate and key, for upstreams that know their clients by certificate. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** The name that the certificate must have, where it is not the origin's. */
  readonly servername?: string | undefined;
}

export interface UpstreamLimits {
  readonly connectMs: number;
  /** How long an unused connection is kept. */
  readonly keepAliveMs: number;
  /** To one target; a watch holds one as long as it lasts. Requests beyond it wait their turn. */
  readonly maxConnections: number;
  readonly maxHeadBytes: number;
  /** How many targets are kept at a time; the least used is closed once its requests are done. */
  readonly maxTargets: number;
}

export const UPSTREAM_LIMITS: UpstreamLimits = {
  connectMs: 10_000,
  keepAliveMs: 15_000,
  maxConnections: 1_024,
  maxHeadBytes: 64 * 1024,
  maxTargets: 512,
};

export interface Upstreams {
  to(target: UpstreamTarget): Dispatcher;
  /** Drops kept connections of a target, for example when its trust changed. Requests under way finish. */
  forget(target: UpstreamTarget): void;
  close(): Promise<void>;
}

export function createUpstreams(options: Partial<UpstreamLimits> = {}): Upstreams {
  const limits = { ...UPSTREAM_LIMITS, ...options };
  const closing = new Set<Promise<void>>();
  const pools = new LRUCache<string, Pool>({
    max: limits.maxTargets,
    dispose: (pool) => {
      const closed = pool.close().catch(() => {});
      closing.add(closed);
      void closed.then(() => closing.delete(closed));
    },
  });

  return {
    to(target) {
      const name = nameOf(target);
      const known = pools.get(name);
      if (known) return known;
      const pool = new Pool(target.origin, {
        connections: limits.maxConnections,
        pipelining: 1,
        allowH2: false,
        headersTimeout: 0,
        bodyTimeout: 0,
        keepAliveTimeout: limits.keepAliveMs,
        maxHeaderSize: limits.maxHeadBytes,
        strictContentLength: true,
        connect: resettingConnector({
          timeout: limits.connectMs,
          allowH2: false,
          rejectUnauthorized: true,
          // One for all connections: each would otherwise have its own copy of the authorities, some tens of KiB.
          ...(target.origin.startsWith('https:') ? { secureContext: contextOf(target) } : {}),
          ...(target.servername === undefined ? {} : { servername: target.servername }),
        }),
      });
      pools.set(name, pool);
      return pool;
    },
    forget(target) {
      pools.delete(nameOf(target));
    },
    async close() {
      const open = [...pools.values()];
      pools.clear();
      await Promise.all(open.map((pool) => pool.destroy().catch(() => {})));
      await Promise.all(closing);
    },
  };
}

/** Hashing what can be a long list of authorities for each request costs more than the rest. */
const names = new WeakMap<UpstreamTarget, string>();

function contextOf({ ca, cert, key }: UpstreamTarget): SecureContext {
  return createSecureContext({
    minVersion: 'TLSv1.2',
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  });
}

/** A name without the key in it. */
function nameOf(target: UpstreamTarget): string {
  const known = names.get(target);
  if (known !== undefined) return known;
  const { origin, ca, cert, key, servername } = target;
  const hash = createHash('sha256');
  for (const part of [origin, ca, cert, key, servername]) hash.update(`${part?.length ?? -1}:${part ?? ''}`);
  const name = `${origin} ${hash.digest('base64url')}`;
  names.set(target, name);
  return name;
}
