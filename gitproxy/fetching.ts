// What reads: both advertisements, and the git-upload-pack exchange. One record before anything is asked of the upstream,
// one after; between them bytes, streamed. The advertisement loses the capabilities that would lead around the guard.

import type { Dispatcher } from 'undici';
import type { Credential } from '../common/credential.ts';
import { forward, type Outcome } from '../relay/forward.ts';
import { createAdvertisementFilter } from './advertisement.ts';
import { createBandScan } from './band-scan.ts';
import {
  type Admitted,
  checkNotEnded,
  conclude,
  endedWords,
  type FlowDeps,
  giveUp,
  knownOf,
  note,
  openCredential,
  recordedCode,
  resultOf,
  upstreamOf,
} from './flow.ts';
import { answerEmpty, readProbe } from './probe.ts';
import { event, movement } from './records.ts';
import { sendRefusal, type Words } from './refusal.ts';
import { buildUpstreamRequest, type GitRoute, judgeAnswer, upstreamFailure } from './upstream.ts';

/** Of a negotiation, as it comes over the wire: some million object names; gzip makes half of them. */
const MAX_NEGOTIATION_BYTES = 128 * 1024 * 1024;
const MAX_GZIP_BYTES = 16 * 1024 * 1024;

export async function serveFetch(deps: FlowDeps, admitted: Admitted): Promise<void> {
  const { exchange, route, grant, ending } = admitted;
  const { req, res } = exchange;
  let first: Buffer[] = [];
  if (route.kind === 'exchange') {
    exchange.continueBody();
    const probe = await readProbe(req, deps.patience.commandsMs, ending);
    if (probe === 'empty') return answerEmpty(deps, admitted);
    if (probe) first = [probe];
  }

  let credential: Credential;
  let upstream: Dispatcher;
  try {
    upstream = upstreamOf(deps, admitted);
    const recorded = deps.audit.append(event(knownOf(admitted), 'git.fetch', 'allow', {}), 'written');
    [credential] = await Promise.all([openCredential(admitted), recorded]);
    checkNotEnded(admitted);
  } catch (error) {
    return giveUp(deps, admitted, error, 'git.fetch_result', (words) => sendRefusal(exchange, words));
  }

  const stopCounting = deps.metrics.stream('git', route.kind === 'exchange' ? 'fetch' : 'request');
  const under = forward({
    upstream,
    ...buildUpstreamRequest(route, credential, grant.username, {
      userAgent: req.headers['user-agent'],
      contentLength: req.headers['content-length'],
    }),
    req,
    res,
    body: route.kind === 'exchange' ? { first, rest: req, maxBytes: limitOf(route) } : undefined,
    ...(route.kind === 'exchange' ? { scan: createBandScan } : {}),
    answer: (head) =>
      judgeAnswer(
        route,
        head,
        route.kind === 'advertise' ? createAdvertisementFilter(route.service) : undefined,
      ),
    headMs: deps.patience.headMs,
    idleMs: deps.patience.idleMs,
  });
  ending.cuts(under);
  const outcome = await under.outcome;
  stopCounting();

  const failed = outcome.how !== 'complete';
  const words = failed && outcome.how !== 'client_gone' ? wordsOf(admitted, outcome) : undefined;
  const about = {
    ...movement(outcome, admitted.startedAt),
    ...(words ? { code: recordedCode(words, outcome.why) } : {}),
  };
  const recorded = note(
    deps,
    event(knownOf(admitted), 'git.fetch_result', failed ? 'error' : 'allow', about),
  );
  const result = resultOf(outcome);
  if (words && result === 'denied') deps.metrics.denial('git', words.code);
  if (words && outcome.sent === 'nothing') await sendRefusal(exchange, words);
  await under.done;
  conclude(deps, admitted, result, outcome);
  await recorded;
}

function limitOf(route: GitRoute): number {
  return route.kind === 'exchange' && route.gzip ? MAX_GZIP_BYTES : MAX_NEGOTIATION_BYTES;
}

function wordsOf({ route, grant }: Admitted, outcome: Outcome): Words {
  if (outcome.how === 'ended') return endedWords(outcome.why);
  if (outcome.how === 'over_limit')
    return {
      code: 'body_too_large',
      message: `the negotiation is larger than ${limitOf(route)} bytes`,
    };
  const { remedies, ...failure } = upstreamFailure(route, grant.upstream, outcome);
  return { ...failure, more: remedies };
}
