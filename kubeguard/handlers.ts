// What the listener calls: one exchange from its head to its answer or to whoever serves it. Refusals end here, each
// counted once and, where anybody presented a credential, recorded once.

import type { AuditEvent } from '../audit/event.ts';
import type { Refusal } from '../common/reason.ts';
import { hasBody } from '../relay/body.ts';
import type { Exchange, ListenerOptions, UpgradeExchange } from '../relay/listener.ts';
import { createFailureRecords, sumOf } from '../sessions/failure-records.ts';
import type { LiveExchange, SessionRegistry } from '../sessions/session.ts';
import { admit } from './admission.ts';
import { serveReview } from './answering.ts';
import { noPlace } from './explain.ts';
import { type Admitted, createEnding, type FlowDeps, note } from './flow.ts';
import { serveForward } from './forwarding.ts';
import { mediaType } from './headers.ts';
import { narrowed } from './namespaces.ts';
import { decide, type Facts } from './policy.ts';
import { event, type Known } from './records.ts';
import { createRepeats } from './repeats.ts';
import { parseRequest, type RequestInfo } from './request-info.ts';
import { grantLimits, type Limits } from './rules.ts';
import { findPlace, splitTarget } from './session-policy.ts';
import { httpStatus, sendStatus, sendStatusOnSocket, type Words } from './status.ts';
import { serveTunnel } from './tunnel.ts';
import { readUpgrade } from './upgrade.ts';
import { wordsOf } from './words.ts';

type Listening = Pick<ListenerOptions, 'handle' | 'refuse' | 'upgrade' | 'refuseUpgrade' | 'unreadable'>;

export interface Handlers {
  readonly listening: Listening;
  /** Ends the tunnels that are still open. */
  cutTunnels(): Promise<void>;
  /** Records what was only counted. */
  close(): Promise<void>;
}

const TUNNELS: ReadonlySet<string> = new Set(['exec', 'attach', 'portforward']);

export function createHandlers(flow: FlowDeps, sessions: SessionRegistry, ceiling: Limits): Handlers {
  const { metrics, log } = flow;
  const repeats = createRepeats();
  const tunnels = new Set<LiveExchange>();
  const failures = createFailureRecords((sourceIp, count) => {
    const about = { sourceIp, code: 'unauthenticated', reason: sumOf(count) } as const;
    return note(flow, { action: 'kube.rejected', decision: 'deny', guard: 'kube', ...about });
  });

  /** @returns the admitted request, or undefined: it was refused and answered */
  async function decideOn<E extends Exchange | UpgradeExchange>(
    exchange: E,
    answer: (words: Words, info?: RequestInfo) => Promise<void> | void,
  ): Promise<{ admitted: Admitted<E>; facts: Facts } | undefined> {
    const startedAt = performance.now();
    const { req } = exchange;
    const upgrading = !('res' in exchange);
    const split = splitTarget(req.url ?? '');
    const parsed = parseRequest(req.method ?? '', split.rest);
    let known: Known = { exchange, info: parsed.ok ? parsed.info : undefined };
    let answered = true;
    const reject = async (
      words: Words,
      action: AuditEvent['action'],
      recorded = true,
      code = words.code,
      reason = words.message,
    ): Promise<undefined> => {
      metrics.denial('kube', code);
      metrics.request('kube', 'denied', (performance.now() - startedAt) / 1000);
      if (recorded)
        await note(flow, event(known, action, 'deny', { code, reason, status: httpStatus(words) }));
      if (answered) await answer(words, known.info);
      else req.socket.destroy();
      return undefined;
    };

    const ending = createEnding();
    const admission = await admit(sessions, req.headers.authorization, ending.exchange, startedAt).catch(
      (error: unknown) => {
        log.error({ err: error, exchangeId: exchange.id }, 'a session could not be looked up');
        return wordsOf(error);
      },
    );
    if (!('ok' in admission)) return reject(admission, 'kube.rejected', failures.admits(exchange.sourceIp));
    if (!admission.ok) {
      const { words, bearing, code, failure } = admission;
      answered = admission.answered ?? true;
      known = { ...known, session: admission.session, sessionId: admission.sessionId };
      const recorded = bearing && failures.admits(exchange.sourceIp);
      return reject(words, 'kube.rejected', recorded, code, `authentication: ${failure}`);
    }

    const { live } = admission;
    known = { ...known, session: live.session };
    const refuse = async (
      words: Words,
      action: AuditEvent['action'],
      recorded = true,
    ): Promise<undefined> => {
      live.done({ denied: true, bytesUp: 0, bytesDown: 0 });
      return reject(words, action, recorded);
    };
    if (!parsed.ok) return refuse(parsed.refusal, 'kube.rejected');
    const place = findPlace(live.session, split.segment);
    if (!place) return refuse({ code: 'not_found', message: noPlace(live.session.policy) }, 'kube.rejected');
    known = { ...known, context: place.context };
    const { info } = parsed;
    if (!upgrading && hasBody(req) && (info.method === 'GET' || info.method === 'HEAD'))
      return refuse(
        { code: 'malformed_request', message: `a ${info.method} takes no body` },
        'kube.rejected',
      );

    const facts: Facts = {
      sides: [grantLimits(place.rules), ceiling],
      nonResourcePaths: place.rules.nonResourcePaths,
      contentType: mediaType(req.headers['content-type']),
    };
    const decision = decide(info, facts);
    if (!decision.allow) {
      const { refusal } = decision;
      const repeated = repeats.isRepeat(
        live.session.id,
        info,
        refusal.code,
        upgrading && req.headers.upgrade,
      );
      return refuse(refusal, 'kube.request_denied', !repeated);
    }
    const length = Number(req.headers['content-length'] ?? 0);
    if (length > flow.maxBodyBytes)
      return refuse(
        {
          code: 'body_too_large',
          message: `the body of ${length} bytes is larger than the ${flow.maxBodyBytes} that this guard takes`,
        },
        'kube.request_denied',
      );
    return { admitted: { exchange, info, live, place, decision, ending, startedAt }, facts };
  }

  async function handle(exchange: Exchange): Promise<void> {
    const decided = await decideOn(exchange, (words, info) => sendStatus(exchange, words, info));
    if (!decided) return;
    const { admitted, facts } = decided;
    const { info, decision } = admitted;
    if (decision.review) return serveReview(flow, admitted, decision.review, facts);
    if (decision.narrow)
      return serveForward(flow, admitted, narrowed(info, exchange.req.headers.accept, decision.narrow));
    return serveForward(flow, admitted);
  }

  async function upgrade(exchange: UpgradeExchange): Promise<void> {
    const decided = await decideOn(exchange, (words, info) => sendStatusOnSocket(exchange, words, info));
    if (!decided) return;
    const { admitted } = decided;
    const { info, live, ending } = admitted;
    const served =
      info.apiGroup === '' && info.resource === 'pods' && TUNNELS.has(info.subresource) && !info.verbFromPath;
    const read = served
      ? readUpgrade(info.method, exchange.req.rawHeaders)
      : ({
          code: 'upgrade_not_allowed',
          message: 'upgrades are served on pods/exec, pods/attach and pods/portforward',
        } as const);
    if ('code' in read) {
      live.done({ denied: true, bytesUp: 0, bytesDown: 0 });
      metrics.denial('kube', read.code);
      metrics.request('kube', 'denied', (performance.now() - admitted.startedAt) / 1000);
      const known: Known = { exchange, info, session: live.session, context: admitted.place.context };
      await note(
        flow,
        event(known, 'kube.request_denied', 'deny', {
          code: read.code,
          reason: read.message,
          status: httpStatus(read),
        }),
      );
      return sendStatusOnSocket(exchange, read, info);
    }
    tunnels.add(ending.exchange);
    try {
      await serveTunnel(flow, admitted, read);
    } finally {
      tunnels.delete(ending.exchange);
    }
  }

  /** A head that could not be understood in one way: counted; recorded where it came with a credential. */
  async function refuseHead(exchange: Exchange | UpgradeExchange, refusal: Refusal): Promise<void> {
    metrics.denial('kube', refusal.code);
    metrics.request('kube', 'denied', 0);
    if (exchange.req.headers.authorization === undefined || !failures.admits(exchange.sourceIp)) return;
    const about = { code: refusal.code, reason: `${refusal.rule}: ${refusal.message}` };
    await note(flow, event({ exchange }, 'kube.rejected', 'deny', about));
  }

  return {
    listening: {
      handle,
      upgrade,
      async refuse(exchange, refusal) {
        await refuseHead(exchange, refusal);
        await sendStatus(exchange, refusal);
      },
      async refuseUpgrade(exchange, refusal) {
        await refuseHead(exchange, refusal);
        sendStatusOnSocket(exchange, refusal);
      },
      unreadable({ id, sourceIp, reason, bearing }) {
        metrics.denial('kube', 'malformed_request');
        metrics.request('kube', 'denied', 0);
        if (!bearing || !failures.admits(sourceIp)) return;
        void note(flow, {
          action: 'kube.rejected',
          decision: 'deny',
          guard: 'kube',
          exchangeId: id,
          sourceIp,
          code: 'malformed_request',
          reason,
        });
      },
    },
    async cutTunnels() {
      await Promise.all([...tunnels].map((tunnel) => tunnel.end('shutdown')));
    },
    close: failures.close,
  };
}
