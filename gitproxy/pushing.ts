// A push: its commands are read from the head of the body and judged, all or nothing, before one byte leaves; then the
// same bytes and the pack behind them go up. A push that is refused, by us or because the upstream failed before it ran,
// is answered with git's own status report (report.ts): any other answer makes git print `Everything up-to-date`.

import type { Dispatcher } from 'undici';
import type { Credential } from '../common/credential.ts';
import type { Refusal } from '../common/reason.ts';
import { forward, type Outcome } from '../relay/forward.ts';
import { createBandScan } from './band-scan.ts';
import { type CommandsRead, readCommands } from './commands.ts';
import {
  type Admitted,
  checkNotEnded,
  conclude,
  DROP_BYTES,
  DROP_MS,
  dropRest,
  endedWords,
  type FlowDeps,
  giveUp,
  knownOf,
  NOTHING_MOVED,
  note,
  openCredential,
  recordedCode,
  resultOf,
  upstreamOf,
} from './flow.ts';
import { describePush, judgePush, list } from './policy.ts';
import { answerEmpty } from './probe.ts';
import type { PushHead } from './receive-pack.ts';
import { event, movement, optionNames, refRecords } from './records.ts';
import { lines, sendRefusal, type Words } from './refusal.ts';
import { createReportReader, refusedReport } from './report.ts';
import { answerType, buildUpstreamRequest, gitHeaders, judgeAnswer, upstreamFailure } from './upstream.ts';

export async function servePush(deps: FlowDeps, admitted: Admitted): Promise<void> {
  const { exchange, grant, ending } = admitted;
  exchange.continueBody();
  const read = await readCommands(exchange.req, deps.patience.commandsMs, ending);
  if (read.kind !== 'head') return unread(deps, admitted, read);
  const { head, chunks } = read;
  if (head.commands.length === 0) return answerEmpty(deps, admitted);

  const verdict = judgePush(grant, deps.ceiling, head.commands, head.options);
  if (!verdict.ok) return deny(deps, admitted, head, verdict.refusal, verdict.reasons);
  const tooLarge = packTooLarge(deps.ceiling.maxPackBytes);
  if (Number(exchange.req.headers['content-length'] ?? 0) > deps.ceiling.maxPackBytes)
    return deny(deps, admitted, head, tooLarge, reasonForAll(head, tooLarge));

  const refs = refRecords(head.commands);
  let credential: Credential;
  let upstream: Dispatcher;
  try {
    upstream = upstreamOf(deps, admitted);
    const allowed = { refs, ...optionNames(head) };
    await deps.audit.append(event(knownOf(admitted), 'git.push_allowed', 'allow', allowed), 'durable');
    credential = await openCredential(admitted);
    checkNotEnded(admitted);
  } catch (error) {
    return giveUp(deps, admitted, error, 'git.push_result', (words) =>
      answerReport(admitted, head, words, reasonForAll(head, words)),
    );
  }
  await carry(deps, admitted, head, chunks, { upstream, credential });
}

async function carry(
  deps: FlowDeps,
  admitted: Admitted,
  head: PushHead,
  chunks: readonly Buffer[],
  { upstream, credential }: { readonly upstream: Dispatcher; readonly credential: Credential },
): Promise<void> {
  const { exchange, route, grant, ending } = admitted;
  const { req, res } = exchange;
  const report = createReportReader(head.capabilities, new Set(head.commands.map(({ ref }) => ref)));
  const stopCounting = deps.metrics.stream('git', 'push');
  const under = forward({
    upstream,
    ...buildUpstreamRequest(route, credential, grant.username, {
      userAgent: req.headers['user-agent'],
      contentLength: req.headers['content-length'],
    }),
    req,
    res,
    body: { first: chunks, rest: req, maxBytes: deps.ceiling.maxPackBytes },
    answer: (answer) => judgeAnswer(route, answer, report.transform),
    headMs: deps.patience.headMs,
    idleMs: deps.patience.idleMs,
    scan: createBandScan,
    dropBytes: DROP_BYTES,
    dropMs: DROP_MS,
    // git's server sends the head of its answer before it has read the pack; as long as nothing followed, a report can.
    lastWords: (outcome) => {
      if (outcome.sent !== 'head') return undefined;
      const words = failureWords(deps, admitted, outcome);
      return reportOf(admitted, head, words, reasonForAll(head, words));
    },
  });
  ending.cuts(under);
  const outcome = await under.outcome;
  stopCounting();

  const whole = outcome.how === 'complete';
  const failed = whole || outcome.how === 'client_gone' ? undefined : failureWords(deps, admitted, outcome);
  const unknown = failed !== undefined && mayHaveLanded(outcome);
  const told = failed && !unknown ? { ok: false, reason: `${failed.code}: ${failed.message}` } : undefined;
  const refs = refRecords(head.commands, ({ ref }) => report.results.get(ref) ?? told);
  const moved = movement(outcome, admitted.startedAt);
  const about = {
    refs,
    ...moved,
    ...(unknown ? { reason: `${moved.reason}; ${NOT_KNOWN}` } : {}),
    ...(failed ? { code: recordedCode(failed, outcome.why) } : {}),
  };
  const unpack = report.unpackError();
  const records: Promise<void>[] = [];
  if (failed && outcome.how === 'over_limit') {
    records.push(note(deps, event(knownOf(admitted), 'git.push_denied', 'deny', about)));
    deps.metrics.denial('git', failed.code);
  }
  const decision = whole ? 'allow' : 'error';
  const more = unpack === undefined ? {} : { reason: `the upstream could not unpack: ${unpack}` };
  records.push(note(deps, event(knownOf(admitted), 'git.push_result', decision, { ...about, ...more })));
  if (failed && outcome.sent === 'nothing')
    await answerReport(admitted, head, failed, reasonForAll(head, failed));
  await under.done;
  conclude(deps, admitted, resultOf(outcome), outcome);
  await Promise.all(records);
}

const NOT_KNOWN = 'whether the push has landed is not known';

/**
 * Whether the upstream can have carried out what was cut. It does so once it has the pack, which it knows by the pack's
 * own end and not by the end of the body: whatever was sent can have been enough, unless it said no itself. 5xx is what
 * proxies say in place of an answer that they did not wait for.
 */
function mayHaveLanded({ how, status = 0, bytesUp }: Outcome): boolean {
  if (bytesUp === 0) return false;
  return how !== 'declined' || status < 300 || status >= 500;
}

function packTooLarge(limit: number): Refusal {
  return {
    code: 'pack_too_large',
    rule: 'git.push.maxPackBytes',
    message: `the push is larger than ${limit} bytes, the most that the deployment takes`,
  };
}

function failureWords(deps: FlowDeps, { route, grant }: Admitted, outcome: Outcome): Words {
  const { remedies = [], ...words } = outcomeWords();
  const more = mayHaveLanded(outcome) ? [`${NOT_KNOWN}: fetch before you push again`] : [];
  return { ...words, more: [...remedies, ...more] };

  function outcomeWords(): Words & { readonly remedies?: readonly string[] } {
    if (outcome.how === 'over_limit') return packTooLarge(deps.ceiling.maxPackBytes);
    if (outcome.how === 'ended') return endedWords(outcome.why);
    return upstreamFailure(route, grant.upstream, outcome);
  }
}

/** No command list came that could be judged. */
async function unread(
  deps: FlowDeps,
  admitted: Admitted,
  read: Exclude<CommandsRead, { kind: 'head' }>,
): Promise<void> {
  const { exchange } = admitted;
  if (read.kind === 'gone') return conclude(deps, admitted, 'allowed', NOTHING_MOVED);
  if (read.kind === 'ended')
    return giveUp(deps, admitted, undefined, 'git.rejected', (words) => sendRefusal(exchange, words));
  const { refusal, capabilities } = read.error;
  const action = refusal.code === 'malformed_request' ? 'git.rejected' : 'git.push_denied';
  const about = { code: refusal.code, reason: refusal.message };
  await note(deps, event(knownOf(admitted), action, 'deny', about));
  deps.metrics.denial('git', refusal.code);
  // A list that can be read in part is answered in git's words; anything else is no push at all.
  const unpack = `${refusal.code}: ${refusal.message}`;
  const body =
    capabilities && refusal.code !== 'malformed_request'
      ? refusedReport(capabilities, [], lines(refusal, exchange.id), unpack)
      : undefined;
  if (body) await sendReport(admitted, body);
  else await sendRefusal(exchange, refusal);
  conclude(deps, admitted, 'denied', NOTHING_MOVED);
}

async function deny(
  deps: FlowDeps,
  admitted: Admitted,
  head: PushHead,
  refusal: Refusal,
  reasons: readonly string[],
): Promise<void> {
  const refs = refRecords(head.commands, (_command, i) => ({
    ok: false,
    reason: reasons[i] ?? refusal.message,
  }));
  const reason = `${refusal.rule}: ${refusal.message}`;
  const about = { refs, ...optionNames(head), code: refusal.code, status: 200, reason };
  await note(deps, event(knownOf(admitted), 'git.push_denied', 'deny', about));
  deps.metrics.denial('git', refusal.code);
  const more =
    refusal.rule === 'git.push.options'
      ? [`push options that may pass, harmless ones where it is *: ${list(deps.ceiling.options ?? ['*'])}`]
      : [`this session may ${describePush(admitted.grant, deps.ceiling)}`];
  await answerReport(admitted, head, { ...refusal, more }, reasons);
  conclude(deps, admitted, 'denied', NOTHING_MOVED);
}

function reasonForAll(head: PushHead, { message, code }: Words): string[] {
  return head.commands.map(() => `${code}: ${message}`);
}

function reportOf(
  { exchange }: Admitted,
  head: PushHead,
  words: Words,
  reasons: readonly string[],
): Buffer | undefined {
  const refs = head.commands.map(({ ref }, i) => [ref, reasons[i] ?? words.message] as const);
  return refusedReport(head.capabilities, refs, lines(words, exchange.id));
}

async function answerReport(
  admitted: Admitted,
  head: PushHead,
  words: Words,
  reasons: readonly string[],
): Promise<void> {
  const body = reportOf(admitted, head, words, reasons);
  if (body) await sendReport(admitted, body);
  else await sendRefusal(admitted.exchange, words);
}

async function sendReport(admitted: Admitted, body: Buffer): Promise<void> {
  const { exchange, route } = admitted;
  const { res } = exchange;
  if (res.destroyed || res.headersSent) return;
  res.writeHead(200, [...gitHeaders(answerType(route)), 'Content-Length', String(body.length)]);
  res.end(body);
  await dropRest(admitted);
}
