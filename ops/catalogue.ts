// Every metric, once: its name, its type, its labels and what it says. metrics.ts makes them, the reference page lists
// them, a test compares. A label's values come from closed sets, so that no sandbox can make series.

import { ACTIONS } from '../audit/event.ts';
import type { OpenFailure, RequestResult, StreamKind } from '../common/metrics.ts';
import { REASONS, type Reason } from '../common/reason.ts';
import type { GuardName } from '../sessions/session.ts';

export const GUARDS = ['git', 'kube'] as const satisfies readonly GuardName[];
export const RESULTS = ['allowed', 'denied', 'upstream_failed'] as const satisfies readonly RequestResult[];
export const DIRECTIONS = ['up', 'down'] as const;
export const STREAM_KINDS = [
  'fetch',
  'push',
  'watch',
  'log',
  'exec',
  'attach',
  'portforward',
  'request',
] as const satisfies readonly StreamKind[];
export const OPEN_FAILURES = [
  'wrong_key',
  'unknown_key',
  'retired_key',
  'tampered',
  'missing',
] as const satisfies readonly OpenFailure[];
export const CODES = Object.keys(REASONS) as Reason[];
export { ACTIONS };

export interface MetricEntry {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly help: string;
}

export const CATALOGUE = {
  postern_requests_total: {
    type: 'counter',
    labels: ['guard', 'result'],
    help: 'Requests by how they ended: allowed, denied by policy, or allowed and failed upstream.',
  },
  postern_denials_total: {
    type: 'counter',
    labels: ['guard', 'code'],
    help: 'Refusals by reason code.',
  },
  postern_bytes_total: {
    type: 'counter',
    labels: ['guard', 'direction'],
    help: 'Bytes of bodies and tunnels, up and down from the point of view of the sandbox.',
  },
  postern_request_duration_seconds: {
    type: 'histogram',
    labels: ['guard'],
    help: 'From the head of a request to the end of its answer, streams included.',
  },
  postern_upstream_duration_seconds: {
    type: 'histogram',
    labels: ['guard'],
    help: 'From the request to the upstream to the head of its answer.',
  },
  postern_sessions_live: { type: 'gauge', labels: ['guard'], help: 'Sessions that can be used.' },
  postern_streams_live: {
    type: 'gauge',
    labels: ['guard', 'kind'],
    help: 'Exchanges under way in this process.',
  },
  postern_leases_live: {
    type: 'gauge',
    labels: ['kind'],
    help: 'Live leases by the kind of secret in them.',
  },
  postern_audit_events_total: { type: 'counter', labels: ['action'], help: 'Audit records written.' },
  postern_audit_failures_total: {
    type: 'counter',
    labels: [],
    help: 'Audit records that could not be written.',
  },
  postern_audit_last_write_timestamp_seconds: {
    type: 'gauge',
    labels: [],
    help: 'When a record was last written, in seconds since the epoch; 0 before the first.',
  },
  postern_custody_open_failures_total: {
    type: 'counter',
    labels: ['reason'],
    help: 'Sealed credentials that could not be opened.',
  },
  postern_revocation_seconds: {
    type: 'histogram',
    labels: [],
    help: 'From the call to the moment when nothing of the session could be used any more.',
  },
} as const satisfies { readonly [name: string]: MetricEntry };

export type MetricName = keyof typeof CATALOGUE;

/** The table of docs/reference/metrics.md. */
export function metricsTable(): string {
  const rows = Object.entries<MetricEntry>(CATALOGUE).map(
    ([name, { type, labels, help }]) =>
      `| \`${name}\` | ${type} | ${labels.map((l) => `\`${l}\``).join(', ')} | ${help} |`,
  );
  return ['| name | type | labels | meaning |', '| --- | --- | --- | --- |', ...rows].join('\n');
}

/** Label → the values that it can have; those of `kind` of leases come from whoever has leases. */
export function labelsTable(): string {
  const code = (values: readonly string[]): string => values.map((value) => `\`${value}\``).join(' ');
  const rows = [
    ['guard', code(GUARDS)],
    ['result', code(RESULTS)],
    ['code', 'the reason codes'],
    ['direction', code(DIRECTIONS)],
    ['kind of `postern_streams_live`', code(STREAM_KINDS)],
    ['kind of `postern_leases_live`', 'the kinds of secrets'],
    ['action', 'the actions of the audit record'],
    ['reason', code(OPEN_FAILURES)],
  ];
  return ['| label | values |', '| --- | --- |', ...rows.map((row) => `| ${row.join(' | ')} |`)].join('\n');
}
