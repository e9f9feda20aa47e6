// What the rooms count. ops/metrics.ts implements it with prom-client under the names of the reference; a label's
// values come from closed sets only.

import type { Action } from '../audit/event.ts';
import type { GuardName } from '../sessions/session.ts';
import type { Reason } from './reason.ts';

export type StreamKind = 'fetch' | 'push' | 'watch' | 'log' | 'exec' | 'attach' | 'portforward' | 'request';
export type RequestResult = 'allowed' | 'denied' | 'upstream_failed';
export type OpenFailure = 'wrong_key' | 'unknown_key' | 'retired_key' | 'tampered' | 'missing';

export interface Metrics {
  request(guard: GuardName, result: RequestResult, seconds: number): void;
  denial(guard: GuardName, code: Reason): void;
  bytes(guard: GuardName, direction: 'up' | 'down', count: number): void;
  upstream(guard: GuardName, seconds: number): void;
  /** Returns the function to call at its end. */
  stream(guard: GuardName, kind: StreamKind): () => void;
  auditEvent(action: Action): void;
  auditFailure(): void;
  auditWritten(atMs: number): void;
  custodyOpenFailure(reason: OpenFailure): void;
  /** From the call to the moment when nothing of the session could be used any more. */
  revocation(seconds: number): void;
}

export const noMetrics: Metrics = {
  request() {},
  denial() {},
  bytes() {},
  upstream() {},
  stream: () => () => {},
  auditEvent() {},
  auditFailure() {},
  auditWritten() {},
  custodyOpenFailure() {},
  revocation() {},
};
