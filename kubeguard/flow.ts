// What all admitted requests have in common: how the session's end reaches them, how the credential is opened beside the
// record, and how they are concluded: exactly once, whatever became of them.

import type { AuditEvent } from '../audit/event.ts';
import type { AuditLog } from '../audit/log.ts';
import { PosternError } from '../common/errors.ts';
import type { Log } from '../common/log.ts';
import type { Metrics, RequestResult } from '../common/metrics.ts';
import type { Upstreams } from '../relay/upstreams.ts';
import type { EndReason, Live, LiveExchange } from '../sessions/session.ts';
import { checkPlainPaths } from './cluster-access.ts';
import type { Credentials, Source, Spend } from './credentials.ts';
import type { Allowed } from './policy.ts';
import { event, type Known, type Movement, movement } from './records.ts';
import type { RequestInfo } from './request-info.ts';
import { isDangerous } from './resources.ts';
import type { KubePolicy, Place } from './session-policy.ts';
import type { Words } from './status.ts';
import { endedWords, wordsOf } from './words.ts';

/** Silence that ends an exchange; milliseconds. Watches, logs and tunnels have no such end. */
export interface Patience {
  readonly headMs: number;
  readonly idleMs: number;
  /** From asking for an upgrade to its 101. */
  readonly upgradeMs: number;
}

export const PATIENCE: Patience = { headMs: 10 * 60_000, idleMs: 10 * 60_000, upgradeMs: 5 * 60_000 };

export interface FlowDeps {
  readonly audit: Pick<AuditLog, 'append'>;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly upstreams: Upstreams;
  readonly credentials: Credentials;
  readonly maxBodyBytes: number;
  readonly patience: Patience;
}

/** A request that the policy allows. */
export interface Admitted<E extends Known['exchange'] = Known['exchange']> {
  readonly exchange: E;
  readonly info: RequestInfo;
  readonly live: Live<KubePolicy>;
  readonly place: Place;
  readonly decision: Allowed;
  readonly ending: Ending;
  /** `performance.now()` when its head had arrived. */
  readonly startedAt: number;
}

/** The session's end, as it reaches one exchange: at any time, also before anything is under way. */
export interface Ending {
  readonly exchange: LiveExchange;
  why(): EndReason | undefined;
  /** What an end cuts from now on. */
  cuts(what: { end(why: EndReason): Promise<void> }): void;
}

export function createEnding(): Ending {
  let ended: EndReason | undefined;
  let under: { end(why: EndReason): Promise<void> } | undefined;
  return {
    exchange: {
      end(why) {
        ended ??= why;
        return under?.end(why);
      },
    },
    why: () => ended,
    cuts(what) {
      under = what;
      if (ended !== undefined) void what.end(ended);
    },
  };
}

export function knownOf({ exchange, info, live, place }: Admitted): Known {
  return { exchange, info, session: live.session, context: place.context };
}

/** Whether the authorisation has to be on disk before the request leaves. */
export function changesSomething(info: RequestInfo): boolean {
  return !['get', 'head', 'list', 'watch'].includes(info.verb) || isDangerous(info, info.verb);
}

export interface Authorised<E extends Known['exchange']> {
  readonly source: Source;
  readonly spend: Spend;
  /** With the place that it goes to: a new payload of the secret can lead elsewhere than the session was issued for. */
  readonly placed: Admitted<E>;
}

/**
 * Opens the credential and records the decision; both have to succeed before anything leaves.
 * @throws PosternError, see `wordsOf`
 */
export async function authorise<E extends Known['exchange']>(
  deps: FlowDeps,
  admitted: Admitted<E>,
): Promise<Authorised<E>> {
  const { info, live, place, ending, decision } = admitted;
  const document = await live.credential(place.context.credentialId);
  const source = deps.credentials.open(document, place.context.source);
  const spend = await source.get();
  checkPlainPaths(spend.target.origin, place.rules.nonResourcePaths);
  const placed = placeAt(admitted, spend);
  const asking = decision.review !== undefined;
  await deps.audit.append(
    event(knownOf(placed), 'kube.request_allowed', 'allow', {}),
    changesSomething(info) && !asking ? 'durable' : 'written',
  );
  if (ending.why() !== undefined) throw new PosternError('gone', 'the session has ended');
  return { source, spend, placed };
}

function placeAt<A extends Admitted>(admitted: A, { host, port }: Spend): A {
  const { place } = admitted;
  if (place.context.host === host && place.context.port === port) return admitted;
  return { ...admitted, place: { ...place, context: { ...place.context, host, port } } };
}

/** A record that nothing waits for; its failure is counted by the log itself. */
export async function note(deps: Pick<FlowDeps, 'audit' | 'log'>, what: AuditEvent): Promise<void> {
  try {
    await deps.audit.append(what, 'written');
  } catch (error) {
    deps.log.error({ err: error, exchangeId: what.exchangeId, action: what.action }, 'a record was not kept');
  }
}

/** How an exchange counts that was let through to the cluster. */
export function resultOf(how: Movement['how']): RequestResult {
  if (how === 'complete' || how === 'client_gone') return 'allowed';
  return how === 'over_limit' || how === 'ended' ? 'denied' : 'upstream_failed';
}

const NOTHING_MOVED = { bytesUp: 0, bytesDown: 0 } as const;

/** What came of it: the record, the counters, the session. `words`: what the client was told in place of an answer. */
export function conclude(
  deps: FlowDeps,
  admitted: Admitted,
  moved: Movement & { readonly upstreamMs?: number },
  words: Words | undefined,
): Promise<void> {
  const { metrics } = deps;
  const about = { ...movement(moved, admitted.startedAt), ...(words ? { code: words.code } : {}) };
  const failed = moved.how !== 'complete' && moved.how !== 'client_gone';
  const recorded = note(
    deps,
    event(knownOf(admitted), 'kube.request_result', failed ? 'error' : 'allow', about),
  );
  const result = resultOf(moved.how);
  if (words && result === 'denied') metrics.denial('kube', words.code);
  finish(deps, admitted, result, moved);
  return recorded;
}

/**
 * An admitted request that cannot be served after all: recorded, counted; the caller answers with the words.
 * @param error what was thrown, or the words themselves
 */
export async function giveUp(deps: FlowDeps, admitted: Admitted, error: unknown): Promise<Words> {
  const why = admitted.ending.why();
  const words = why !== undefined ? endedWords(why) : isWords(error) ? error : wordsOf(error);
  if (why === undefined && (words.code === 'guard_unavailable' || words.code === 'upstream_refused'))
    deps.log.error({ err: error, exchangeId: admitted.exchange.id }, 'a request could not be served');
  await note(
    deps,
    event(knownOf(admitted), 'kube.rejected', 'error', { code: words.code, reason: words.message }),
  );
  deps.metrics.denial('kube', words.code);
  finish(deps, admitted, 'denied', NOTHING_MOVED);
  return words;
}

function isWords(error: unknown): error is Words {
  return typeof error === 'object' && error !== null && !(error instanceof Error) && 'code' in error;
}

function finish(
  { metrics }: FlowDeps,
  { live, startedAt }: Admitted,
  result: RequestResult,
  {
    bytesUp,
    bytesDown,
    upstreamMs,
  }: Pick<Movement, 'bytesUp' | 'bytesDown'> & { readonly upstreamMs?: number },
): void {
  metrics.request('kube', result, (performance.now() - startedAt) / 1000);
  if (upstreamMs !== undefined) metrics.upstream('kube', upstreamMs / 1000);
  if (bytesUp > 0) metrics.bytes('kube', 'up', bytesUp);
  if (bytesDown > 0) metrics.bytes('kube', 'down', bytesDown);
  live.done({ denied: result === 'denied', bytesUp, bytesDown });
}
