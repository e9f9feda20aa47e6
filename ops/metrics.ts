// The counters behind common/metrics.ts, in a prom-client registry of their own. Every series exists from the start, so
// that a rate has a beginning and an alert on a refusal that never happened is not an alert on nothing. The children
// are looked up once: what a request costs here is an addition.

import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Metrics } from '../common/metrics.ts';
import type { GuardName } from '../sessions/session.ts';
import {
  ACTIONS,
  CATALOGUE,
  CODES,
  DIRECTIONS,
  GUARDS,
  type MetricName,
  OPEN_FAILURES,
  RESULTS,
  STREAM_KINDS,
} from './catalogue.ts';

/** Asked at each scrape. One that throws leaves its gauge without a value: better none than yesterday's. */
export interface LiveSources {
  readonly sessions?: (guard: GuardName) => number | Promise<number>;
  readonly leases?: () => { readonly [kind: string]: number } | Promise<{ readonly [kind: string]: number }>;
  /** The closed set of kinds; others are not shown. */
  readonly leaseKinds?: readonly string[];
}

export interface MetricsRegistry {
  readonly metrics: Metrics;
  /** The text exposition format. */
  scrape(): Promise<{ contentType: string; body: string }>;
}

// Small requests in milliseconds, clones in minutes, watches in hours.
const REQUEST_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200];
const UPSTREAM_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const REVOCATION_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export function createMetrics(live: LiveSources = {}): MetricsRegistry {
  const registry = new Registry();
  const base = (name: MetricName) => ({
    name,
    help: CATALOGUE[name].help,
    labelNames: [...CATALOGUE[name].labels],
    registers: [registry],
  });
  const counter = (name: MetricName) => new Counter(base(name));
  const gauge = (name: MetricName, collect?: (this: Gauge) => Promise<void>) =>
    new Gauge({ ...base(name), ...(collect ? { collect } : {}) });
  const histogram = (name: MetricName, buckets: number[]) => new Histogram({ ...base(name), buckets });

  const requests = counter('postern_requests_total');
  const denials = counter('postern_denials_total');
  const bytes = counter('postern_bytes_total');
  const durations = histogram('postern_request_duration_seconds', REQUEST_SECONDS);
  const upstreams = histogram('postern_upstream_duration_seconds', UPSTREAM_SECONDS);
  gauge('postern_sessions_live', async function () {
    const { sessions } = live;
    await collect(this, async () => {
      for (const guard of GUARDS) this.set({ guard }, sessions ? await sessions(guard) : 0);
    });
  });
  const streams = gauge('postern_streams_live');
  gauge('postern_leases_live', async function () {
    await collect(this, async () => {
      const counts = (await live.leases?.()) ?? {};
      for (const kind of live.leaseKinds ?? []) this.set({ kind }, counts[kind] ?? 0);
    });
  });
  const auditEvents = counter('postern_audit_events_total');
  const auditFailures = counter('postern_audit_failures_total');
  const auditWritten = gauge('postern_audit_last_write_timestamp_seconds');
  const openFailures = counter('postern_custody_open_failures_total');
  const revocations = histogram('postern_revocation_seconds', REVOCATION_SECONDS);

  const byGuard = table(GUARDS, (guard) => {
    durations.zero({ guard });
    upstreams.zero({ guard });
    return {
      results: table(RESULTS, (result) => started(requests, { guard, result })),
      denials: table(CODES, (code) => started(denials, { guard, code })),
      bytes: table(DIRECTIONS, (direction) => started(bytes, { guard, direction })),
      duration: durations.labels({ guard }),
      upstream: upstreams.labels({ guard }),
      streams: table(STREAM_KINDS, (kind) => {
        streams.set({ guard, kind }, 0);
        return streams.labels({ guard, kind });
      }),
    };
  });
  const byAction = table(ACTIONS, (action) => started(auditEvents, { action }));
  const byFailure = table(OPEN_FAILURES, (reason) => started(openFailures, { reason }));

  const metrics: Metrics = {
    request(guard, result, seconds) {
      byGuard[guard].results[result].inc();
      byGuard[guard].duration.observe(seconds);
    },
    denial: (guard, code) => byGuard[guard].denials[code].inc(),
    bytes(guard, direction, count) {
      if (count > 0) byGuard[guard].bytes[direction].inc(count);
    },
    upstream: (guard, seconds) => byGuard[guard].upstream.observe(seconds),
    stream(guard, kind) {
      const child = byGuard[guard].streams[kind];
      child.inc();
      let open = true;
      return () => {
        if (open) child.dec();
        open = false;
      };
    },
    auditEvent: (action) => byAction[action].inc(),
    auditFailure: () => auditFailures.inc(),
    auditWritten: (atMs) => auditWritten.set(atMs / 1000),
    custodyOpenFailure: (reason) => byFailure[reason].inc(),
    revocation: (seconds) => revocations.observe(seconds),
  };
  return {
    metrics,
    scrape: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
  };
}

function table<K extends string, T>(keys: readonly K[], make: (key: K) => T): { readonly [key in K]: T } {
  return Object.fromEntries(keys.map((key) => [key, make(key)])) as { [key in K]: T };
}

function started(counter: Counter, labels: { [name: string]: string }): Counter.Internal {
  counter.inc(labels, 0);
  return counter.labels(labels);
}

async function collect(gauge: Gauge, fill: () => Promise<void>): Promise<void> {
  try {
    await fill();
  } catch {
    gauge.reset();
  }
}
