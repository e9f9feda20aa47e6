// What fetches and pushes have in common: an admitted request, how its session's end reaches it, and how it is
// concluded. Every admitted request is concluded exactly once, whatever became of it: counters, metrics, the session.

import type { Dispatcher } from 'undici';
import type { Action, AuditEvent } from '../audit/event.ts';
import type { AuditLog } from '../audit/log.ts';
import type { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import type { Log } from '../common/log.ts';
import type { Metrics, RequestResult } from '../common/metrics.ts';
import type { Reason } from '../common/reason.ts';
import { dropBody } from '../relay/body.ts';
import type { Forwarding, Outcome } from '../relay/forward.ts';
import type { Exchange } from '../relay/listener.ts';
import type { Upstreams, UpstreamTarget } from '../relay/upstreams.ts';
import type { EndReason, Live, LiveExchange } from '../sessions/session.ts';
import type { GitGrant, GitPolicy, PushCeiling } from './policy.ts';
import { event, type Known } from './records.ts';
import type { Words } from './refusal.ts';
import type { GitRoute } from './upstream.ts';

/** Silence that ends an exchange; milliseconds. There is no total limit. */
export interface Patience {
  /** Until the upstream's answer begins: a large pack may take its server long to check. */
  readonly headMs: number;
  /** In the middle of an answer. git's server says something every five seconds. */
  readonly idleMs: number;
  /** Between two portions of a push's command list. */
  readonly commandsMs: number;
}

export const PATIENCE: Patience = { headMs: 15 * 60_000, idleMs: 15 * 60_000, commandsMs: 60_000 };

export interface FlowDeps {
  readonly audit: Pick<AuditLog, 'append'>;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly upstreams: Upstreams;
  /** Where the upstream of a grant is and whom to trust there. */
  readonly target: (origin: string) => UpstreamTarget;
  readonly ceiling: PushCeiling;
  readonly patience: Patience;
}

/** A request whose session may do what it asks for, refs apart. */
export interface Admitted {
  readonly exchange: Exchange;
  readonly route: GitRoute;
  readonly live: Live<GitPolicy>;
  readonly grant: GitGrant;
  readonly ending: Ending;
  /** `performance.now()` when its head had arrived. */
  readonly startedAt: number;
}

/** The session's end, as it reaches one exchange: at any time, also before anything is under way. */
export interface Ending {
  readonly exchange: LiveExchange;
  why(): EndReason | undefined;
  /** What an end cuts from now on. */
  cuts(what: Pick<Forwarding, 'end'>): void;
  /** Called when the end comes while nothing is under way yet, or has come. */
  onEnd(what: () => void): void;
}

export function createEnding(): Ending {
  let ended: EndReason | undefined;
  let under: Pick<Forwarding, 'end'> | undefined;
  let tell: (() => void) | undefined;
  return {
    exchange: {
      end(why) {
        ended ??= why;
        if (!under) tell?.();
        return under?.end(why);
      },
    },
    why: () => ended,
    cuts(what) {
      under = what;
      if (ended !== undefined) void what.end(ended);
    },
    onEnd(what) {
      tell = what;
      if (ended !== undefined) what();
    },
  };
}

export function knownOf({ exchange, route, live, grant }: Admitted): Known {
  return { exchange, route, session: live.session, grant };
}

/** @throws PosternError `upstream_not_listed`: the configuration has changed since the session was issued */
export function upstreamOf(deps: FlowDeps, { grant }: Admitted): Dispatcher {
  return deps.upstreams.to(deps.target(grant.upstream));
}

/** @throws PosternError, see `wordsOf` */
export function openCredential({ live, grant }: Admitted): Promise<Credential> {
  return live.credential(grant.credentialId);
}

/**
 * The last step before the credential is spent, with nothing awaited between it and that: an end that came while the
 * record was written or the credential opened has nothing to cut, and must not be overtaken.
 */
export function checkNotEnded({ ending }: Admitted): void {
  if (ending.why() !== undefined) throw new PosternError('gone', 'the session has ended');
}

/** What went wrong on our side, for the sandbox: no more than it needs to know. */
export function wordsOf(error: unknown): Words {
  const code = error instanceof PosternError ? error.code : undefined;
  if (code === 'audit_unavailable')
    return {
      code: 'audit_unavailable',
      message: 'the decision cannot be recorded now, so nothing is done; try later',
    };
  if (code === 'gone') return endedWords(undefined);
  return { code: 'guard_unavailable', message: 'the guard cannot decide now; try later' };
}

export function endedWords(why: EndReason | undefined): Words {
  if (why === 'shutdown')
    return { code: 'guard_unavailable', message: 'the guard is shutting down; try again soon' };
  if (why === 'expired') return { code: 'session_expired', message: 'the session came to its end meanwhile' };
  return { code: 'unauthenticated', message: 'the session has ended' };
}

/** For the record, which says more than the sandbox is told. */
export function recordedCode(words: Words, why: EndReason | undefined): Reason {
  if (why === 'revoked') return 'session_revoked';
  return why === 'grant_removed' ? 'repo_not_allowed' : words.code;
}

/** How much of a refused pack is read and dropped, so that git shows our words and not an error of its transport. */
export const DROP_BYTES = 1024 * 1024 * 1024;
const DROP_IDLE_MS = 30_000;
export const DROP_MS = 10 * 60_000;
/** Where the session has ended: nothing counts it any more. */
const DROP_ENDED_MS = 30_000;

/**
 * Reads and drops what a client that has its answer goes on sending. It is part of the exchange: it counts for the
 * session until it has ended, and the session's end cuts it.
 */
export async function dropRest({ exchange, ending }: Admitted): Promise<void> {
  const { req } = exchange;
  const live = ending.why() === undefined;
  if (live) ending.cuts({ end: async () => void req.socket.destroy() });
  await dropBody(req, DROP_BYTES, DROP_IDLE_MS, live ? DROP_MS : DROP_ENDED_MS);
}

/** A record that nothing waits for; its failure is counted by the log itself. */
export async function note(deps: Pick<FlowDeps, 'audit' | 'log'>, what: AuditEvent): Promise<void> {
  try {
    await deps.audit.append(what, 'written');
  } catch (error) {
    deps.log.error({ err: error, exchangeId: what.exchangeId, action: what.action }, 'a record was not kept');
  }
}

/** How an exchange counts that was let through to the upstream. */
export function resultOf({ how }: Outcome): RequestResult {
  if (how === 'complete' || how === 'client_gone') return 'allowed';
  return how === 'over_limit' || how === 'ended' ? 'denied' : 'upstream_failed';
}

/** For an exchange that asked nothing of the upstream. */
export const NOTHING_MOVED = { bytesUp: 0, bytesDown: 0 } as const;

export function conclude(
  deps: FlowDeps,
  admitted: Admitted,
  result: RequestResult,
  moved: Pick<Outcome, 'bytesUp' | 'bytesDown'> & { readonly upstreamMs?: number },
): void {
  const { metrics } = deps;
  metrics.request('git', result, (performance.now() - admitted.startedAt) / 1000);
  if (moved.upstreamMs !== undefined) metrics.upstream('git', moved.upstreamMs / 1000);
  if (moved.bytesUp > 0) metrics.bytes('git', 'up', moved.bytesUp);
  if (moved.bytesDown > 0) metrics.bytes('git', 'down', moved.bytesDown);
  admitted.live.done({
    denied: result === 'denied',
    bytesUp: moved.bytesUp,
    bytesDown: moved.bytesDown,
  });
}

/**
 * An admitted request that cannot be served after all: recorded as `action`, answered with the words, counted.
 */
export async function giveUp(
  deps: FlowDeps,
  admitted: Admitted,
  error: unknown,
  action: Action,
  answer: (words: Words) => Promise<void>,
): Promise<void> {
  const why = admitted.ending.why();
  const words = why === undefined ? wordsOf(error) : endedWords(why);
  if (words.code === 'guard_unavailable' && why === undefined)
    deps.log.error({ err: error, exchangeId: admitted.exchange.id }, 'a request could not be served');
  const about = { code: recordedCode(words, why), reason: words.message };
  await note(deps, event(knownOf(admitted), action, 'error', about));
  deps.metrics.denial('git', words.code);
  await answer(words);
  conclude(deps, admitted, 'denied', NOTHING_MOVED);
}
