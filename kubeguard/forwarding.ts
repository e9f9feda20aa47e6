// One allowed request to the cluster and its answer back. What leaves is built here from the parsed request: path and
// query in their judged spelling, the headers of the list, our own Audit-ID, and last of all the credential. What comes
// back is passed on as it comes, less what would lead around the guard: redirects, challenges, cookies.

import { hasBody } from '../relay/body.ts';
import {
  type Answer,
  type BodyTransform,
  forward,
  type Outcome,
  type UpstreamHead,
} from '../relay/forward.ts';
import type { Exchange } from '../relay/listener.ts';
import type { Spend } from './credentials.ts';
import {
  type Admitted,
  type Authorised,
  authorise,
  conclude,
  type FlowDeps,
  giveUp,
  resultOf,
} from './flow.ts';
import { answerHeaders, isAnswer, isEncoded, requestHeaders } from './headers.ts';
import { buildTarget, type RequestInfo } from './request-info.ts';
import { isSecret } from './resources.ts';
import { sendStatus, type Words } from './status.ts';
import { followWatch, type WatchEnd } from './watch-end.ts';
import { outcomeWords } from './words.ts';

/** Where the guard puts something of its own in place of what the client said. */
export interface Shape {
  /** Default: the request as it was judged. */
  readonly target?: string;
  /** In place of the client's, flat. */
  readonly headers?: readonly string[];
  readonly body?: Buffer;
  /** For a successful answer; it changes the body. */
  readonly transform?: () => BodyTransform & { lastWords?: WatchEnd['lastWords'] };
}

type Kind = 'watch' | 'log' | 'request';

/** What the API server itself calls long-running: no silence ends it. */
function kindOf({ verb, subresource }: RequestInfo): Kind {
  if (verb === 'watch') return 'watch';
  return subresource === 'log' ? 'log' : 'request';
}

export async function serveForward(
  deps: FlowDeps,
  admitted: Admitted<Exchange>,
  shape: Shape = {},
): Promise<void> {
  const { exchange, info, ending } = admitted;
  const { req, res } = exchange;
  const streams = shape.body === undefined && hasBody(req);
  let opened: Authorised<Exchange>;
  try {
    opened = await authorise(deps, admitted);
  } catch (error) {
    return sendStatus(exchange, await giveUp(deps, admitted, error), info);
  }
  exchange.continueBody();

  const kind = kindOf(info);
  const stopCounting = deps.metrics.stream('kube', kind);
  const patience =
    kind === 'request' && info.subresource !== 'proxy' ? deps.patience : { headMs: 0, idleMs: 0 };
  // Where a credential is what is asked for, the answer has to be one that can be searched for ours.
  const searched = isSecret(info);
  let watching: Pick<WatchEnd, 'lastWords'> | undefined;

  const answer = (head: UpstreamHead): Answer | undefined => {
    const { status, headers } = head;
    if (!isAnswer(status) || (searched && isEncoded(headers))) return undefined;
    const shaped = status >= 200 && status < 300 ? shape.transform?.() : undefined;
    const followed = !shaped && kind === 'watch' && status === 200 ? followWatch(headers) : undefined;
    watching = shaped?.lastWords ? (shaped as Pick<WatchEnd, 'lastWords'>) : followed;
    const transform = shaped ?? followed?.transform;
    return {
      status,
      headers: answerHeaders(status, headers, exchange.id, shaped !== undefined),
      ...(transform ? { transform } : {}),
    };
  };
  const send = (spend: Spend): Promise<Outcome> => {
    const under = forward({
      upstream: deps.upstreams.to(spend.target),
      method: info.method,
      path: spend.basePath + (shape.target ?? buildTarget(info)),
      headers: upstreamHeaders(admitted, shape, streams, spend),
      req,
      res,
      body: shape.body ?? (streams ? { rest: req, maxBytes: deps.maxBodyBytes } : undefined),
      answer,
      needles: spend.needles,
      headMs: patience.headMs,
      idleMs: patience.idleMs,
      lastWords: ({ how, why }) =>
        how === 'ended' && why ? watching?.lastWords(why, exchange.id) : undefined,
    });
    ending.cuts(under);
    return under.done;
  };

  let outcome = await send(opened.spend);
  if (outcome.how === 'declined' && outcome.status === 401 && !streams && ending.why() === undefined) {
    const renewed = await opened.source.renew(opened.spend).catch((error: unknown) => {
      deps.log.warn(
        { err: error, exchangeId: exchange.id },
        'a credential was refused and could not be renewed',
      );
      return undefined;
    });
    if (renewed && ending.why() === undefined) outcome = await send(renewed);
  } else if (outcome.status === 401) void opened.source.renew(opened.spend).catch(() => undefined);
  stopCounting();

  const words = wordsFor(deps, opened.placed, outcome);
  const recorded = conclude(deps, opened.placed, outcome, words);
  if (words && outcome.sent === 'nothing') await sendStatus(exchange, words, info);
  await recorded;
}

function upstreamHeaders(
  { exchange, info }: Admitted<Exchange>,
  shape: Shape,
  streams: boolean,
  spend: Spend,
): string[] {
  const { req, id } = exchange;
  const own = shape.headers ?? (isSecret(info) ? ['Accept-Encoding', 'identity'] : []);
  const omit = own.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  const headers = [...requestHeaders(req.rawHeaders, omit), ...own];
  const length = req.headers['content-length'];
  if (streams && length !== undefined) headers.push('Content-Length', length);
  headers.push('Audit-ID', id, ...spend.headers);
  return headers;
}

function wordsFor(deps: FlowDeps, { place, ending }: Admitted, outcome: Outcome): Words | undefined {
  if (outcome.how === 'complete' || outcome.how === 'client_gone') return undefined;
  const why = outcome.why ?? ending.why();
  const seen = why === undefined ? outcome : ({ how: 'ended', why } as const);
  const words = outcomeWords(seen, place.context.name, deps.maxBodyBytes);
  if (resultOf(outcome.how) === 'upstream_failed')
    deps.log.warn({ code: words.code, err: outcome.error }, words.message);
  return words;
}
