// The git guard: git's smart HTTP, with a session's token in place of a credential.
//
//     route       what is asked for, in one reading (route.ts); anything with two is refused
//     admission   who asks: session id and token (admission.ts)
//     policy      which of the session's credentials permits it, if one does (policy.ts)
//     push        its commands, read from the head of the body and judged per ref, all or nothing (pushing.ts)
//     upstream    one request built from the session's upstream and the parsed repository (upstream.ts)
//     record      before it leaves, and what came of it (records.ts)
//
// It holds no credential itself: custody is the session registry's, and one is opened after the decision.

import { readFileSync } from 'node:fs';
import type { AuditLog } from '../audit/log.ts';
import type { Clock } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import { type Log, silentLog } from '../common/log.ts';
import { type Metrics, noMetrics } from '../common/metrics.ts';
import { hasBody } from '../relay/body.ts';
import { createListener, type Exchange, type ListenerLimits, type TlsSource } from '../relay/listener.ts';
import { createUpstreams, type UpstreamTarget } from '../relay/upstreams.ts';
import { createFailureRecords } from '../sessions/failure-records.ts';
import type { Explanation, GitGuard } from '../sessions/guards.ts';
import type { Session, SessionRegistry } from '../sessions/session.ts';
import { admit } from './admission.ts';
import { type ExplainInput, explain } from './explain.ts';
import { serveFetch } from './fetching.ts';
import {
  type Admitted,
  createEnding,
  type FlowDeps,
  NOTHING_MOVED,
  note,
  PATIENCE,
  type Patience,
  wordsOf,
} from './flow.ts';
import { type GitUpstream, prepareSession, summarize } from './issue.ts';
import { chooseGrant, type GitPolicy, type PushCeiling, wouldBeAllowed } from './policy.ts';
import { servePush } from './pushing.ts';
import { event, failuresEvent, type Known, mintedEvents, unreadableEvent } from './records.ts';
import { type RefusalFormat, sendRefusal, statusOf, type Words } from './refusal.ts';
import { type Parsed, parseRoute, repositoryName } from './route.ts';

export interface GitGuardConfig {
  readonly upstreams: readonly GitUpstream[];
  readonly push: PushCeiling;
  /** What a sandbox connects to; absent: https and the address that is listened on. */
  readonly advertise?: string | undefined;
}

export interface GitGuardDeps {
  readonly sessions: SessionRegistry;
  readonly audit: AuditLog;
  readonly clock: Clock;
  readonly tls: TlsSource;
  readonly metrics?: Metrics;
  readonly log?: Log;
  readonly listener?: Partial<ListenerLimits>;
  readonly patience?: Partial<Patience>;
}

export interface RunningGitGuard extends GitGuard {
  listen(host: string, port: number): Promise<{ host: string; port: number }>;
  /** `https://host:port` as sandboxes are told. */
  baseUrl(): string;
  /** @throws PosternError `not_found` */
  explain(sessionId: string, input: ExplainInput): Promise<Explanation>;
  /** Accepts no more and gives what is under way `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/** @throws PosternError `invalid_config` where a `caFile` cannot be read */
export function createGitGuard(config: GitGuardConfig, deps: GitGuardDeps): RunningGitGuard {
  const { sessions, audit, clock, metrics = noMetrics, log = silentLog } = deps;
  const targets = new Map(config.upstreams.map((upstream, i) => [upstream.url, targetOf(upstream, i)]));
  const upstreams = createUpstreams();
  const flow: FlowDeps = {
    audit,
    metrics,
    log,
    upstreams,
    ceiling: config.push,
    patience: { ...PATIENCE, ...deps.patience },
    target(origin) {
      const target = targets.get(origin);
      // The configuration changed since the session was issued: it may not go there any more.
      if (!target)
        throw new PosternError('upstream_not_listed', `${origin} is not one of git.upstreams any more`);
      return target;
    },
  };
  const failures = createFailureRecords((source, count) => note(flow, failuresEvent(source, count)));
  let address: { host: string; port: number } | undefined;

  async function handle(exchange: Exchange): Promise<void> {
    const startedAt = performance.now();
    const parsed = readRoute(exchange);
    const format: RefusalFormat = parsed.ok
      ? { lfs: parsed.route.kind === 'lfs' }
      : { allow: parsed.refusal.allow };
    let known: Known = { exchange, route: parsed.ok ? parsed.route : undefined };
    let answered = true;
    const reject = async (words: Words, recorded: boolean, code = words.code, reason = words.message) => {
      metrics.denial('git', code);
      metrics.request('git', 'denied', (performance.now() - startedAt) / 1000);
      const action = code === 'push_not_allowed' ? 'git.push_denied' : 'git.rejected';
      if (recorded) await note(flow, event(known, action, 'deny', { code, reason, status: statusOf(words) }));
      if (answered) await sendRefusal(exchange, words, format);
      else exchange.req.socket.destroy();
    };

    const ending = createEnding();
    const { authorization } = exchange.req.headers;
    const admission = await admit(sessions, authorization, ending.exchange, startedAt).catch(
      (error: unknown) => {
        log.error({ err: error, exchangeId: exchange.id }, 'a session could not be looked up');
        return wordsOf(error);
      },
    );
    if (!('ok' in admission)) return reject(admission, failures.admits(exchange.sourceIp));
    if (!admission.ok) {
      answered = admission.answered ?? true;
      known = { ...known, session: admission.session, sessionId: admission.sessionId };
      if (!parsed.ok && !admission.bearing) return reject(parsed.refusal, false);
      return reject(
        admission.words,
        admission.bearing && failures.admits(exchange.sourceIp),
        admission.code,
        `authentication: ${admission.failure}`,
      );
    }

    const { live } = admission;
    known = { ...known, session: live.session };
    const refuse = async (words: Words): Promise<void> => {
      ending.cuts({ end: async () => void exchange.req.socket.destroy() });
      await reject(words, true).finally(() => live.done({ denied: true, ...NOTHING_MOVED }));
    };
    if (!parsed.ok) return refuse(parsed.refusal);
    const { route } = parsed;
    if (route.kind === 'lfs')
      return refuse({ code: 'lfs_not_allowed', message: 'Git LFS is not served by this guard' });

    const operation = route.service === 'git-receive-pack' ? 'write' : 'read';
    const choice = chooseGrant(live.session, repositoryName(route.repo), operation);
    if (!choice.ok) return refuse({ ...choice.refusal, more: wouldBeAllowed(live.session, choice.refusal) });
    const admitted: Admitted = { exchange, route, live, grant: choice.grant, ending, startedAt };
    const isPush = route.kind === 'exchange' && operation === 'write';
    try {
      await (isPush ? servePush(flow, admitted) : serveFetch(flow, admitted));
    } catch (error) {
      live.done({ denied: false, ...NOTHING_MOVED }); // where it was not concluded, it is now
      throw error;
    }
  }

  const listener = createListener({
    tls: deps.tls,
    advertised: config.advertise === undefined ? [] : [config.advertise],
    handle,
    async refuse(exchange, refusal) {
      metrics.denial('git', refusal.code);
      metrics.request('git', 'denied', 0);
      if (exchange.req.headers.authorization !== undefined && failures.admits(exchange.sourceIp)) {
        const about = { code: refusal.code, reason: `${refusal.rule}: ${refusal.message}` };
        await note(flow, event({ exchange }, 'git.rejected', 'deny', about));
      }
      await sendRefusal(exchange, refusal);
    },
    unreadable(what) {
      metrics.denial('git', 'malformed_request');
      metrics.request('git', 'denied', 0);
      if (what.bearing && failures.admits(what.sourceIp)) void note(flow, unreadableEvent(what));
    },
    ...(deps.listener ? { limits: deps.listener } : {}),
    log,
  });

  const baseUrl = (): string => {
    if (config.advertise !== undefined) return new URL(config.advertise).origin;
    if (!address) throw new PosternError('guard_unavailable', 'the git guard does not listen yet');
    const host = ['0.0.0.0', '::'].includes(address.host) ? '127.0.0.1' : address.host;
    return `https://${host.includes(':') ? `[${host}]` : host}:${address.port}`;
  };
  return {
    async issue(request) {
      const { policy, credentials } = prepareSession(request.credentials, config.upstreams, config.push);
      const url = baseUrl();
      const { session, token } = await sessions.issue<GitPolicy>({
        guard: 'git',
        leaseId: request.leaseId,
        labels: request.labels ?? {},
        policy,
        credentials,
        ...(request.ttl === undefined ? {} : { ttl: request.ttl }),
        managedBy: request.managedBy,
      });
      const summary = summarize(policy);
      try {
        const minted = mintedEvents(session, request.actor, config.push);
        await Promise.all(minted.map((each) => audit.append(each, 'durable')));
      } catch (error) {
        await sessions.revoke(session.id, 'its record could not be written');
        throw error;
      }
      const writing = policy.grants.filter((grant) => grant.write);
      const unique = (values: readonly string[]): string[] => [...new Set(values)];
      return {
        sessionId: session.id,
        baseUrl: url,
        username: session.id,
        password: token,
        expiresAt: session.expiresAt,
        readOnly: writing.length === 0,
        summary,
        upstreams: unique(policy.grants.map((grant) => grant.upstream)),
        repos: unique(policy.grants.flatMap((grant) => grant.repos)),
        pushRefs: unique(writing.flatMap((grant) => grant.pushRefs)),
      };
    },

    async listen(host, port) {
      address = await listener.listen(host, port);
      return address;
    },

    baseUrl,

    async explain(sessionId, input) {
      const found = await sessions.get(sessionId);
      if (found?.session.guard !== 'git')
        throw new PosternError('not_found', `there is no git session ${sessionId}`, { key: 'session' });
      const session = found.session as Session<GitPolicy>;
      return explain(session, { now: clock.now(), ceiling: config.push }, input);
    },

    async close(graceMs) {
      await listener.close(graceMs);
      await failures.close();
      await upstreams.close();
    },
  };
}

function readRoute({ req }: Exchange): Parsed {
  return parseRoute({
    method: req.method ?? '',
    target: req.url ?? '',
    contentType: req.headers['content-type'],
    contentEncoding: req.headers['content-encoding'],
    gitProtocol: req.headers['git-protocol'] as string | undefined,
    hasBody: hasBody(req),
  });
}

function targetOf({ url, caFile }: GitUpstream, i: number): UpstreamTarget {
  if (caFile === undefined) return { origin: url };
  const key = `git.upstreams[${i}].caFile`;
  try {
    return { origin: url, ca: readFileSync(caFile, 'utf8') };
  } catch (cause) {
    throw new PosternError('invalid_config', `${key}: ${caFile} cannot be read`, { key, cause });
  }
}
