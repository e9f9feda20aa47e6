// Upgrades: exec, attach and port-forward, by WebSocket or SPDY/3.1. A tunnel is opened at the cluster (dial.ts), joined to
// the client (front.ts), and ended with the session: a WebSocket exec is told by a Status on its error channel, SPDY is
// cut. An answer of the cluster that is no 101 is passed on as an answer.

import type { Socket } from 'node:net';
import { answerOnSocket, type UpgradeExchange } from '../relay/listener.ts';
import type { EndReason } from '../sessions/session.ts';
import type { Spend } from './credentials.ts';
import { type Attempt, dial } from './dial.ts';
import { type Admitted, type Authorised, authorise, conclude, type FlowDeps, giveUp } from './flow.ts';
import { farewell } from './frames.ts';
import { createFront, type Front } from './front.ts';
import { answerHeaders, isAnswer } from './headers.ts';
import type { Movement } from './records.ts';
import { sendStatusOnSocket, statusObject } from './status.ts';
import type { Upgrade } from './upgrade.ts';
import { endedWords, outcomeWords } from './words.ts';

export async function serveTunnel(
  deps: FlowDeps,
  admitted: Admitted<UpgradeExchange>,
  upgrade: Upgrade,
): Promise<void> {
  const { exchange, info, ending } = admitted;
  const { socket, id } = exchange;
  let opened: Authorised<UpgradeExchange>;
  try {
    opened = await authorise(deps, admitted);
  } catch (error) {
    return sendStatusOnSocket(exchange, await giveUp(deps, admitted, error), info);
  }

  const kind = info.subresource as 'exec' | 'attach' | 'portforward';
  const stopCounting = deps.metrics.stream('kube', kind);
  let why: EndReason | undefined;
  let abort: () => void = () => {};
  ending.cuts({
    async end(reason) {
      why ??= reason;
      abort();
    },
  });

  const startedAt = performance.now();
  const attempt = (spend: Spend): Promise<[Attempt, Front]> => {
    const front = createFront(socket);
    return new Promise((resolve) => {
      abort = dial(deps, admitted, upgrade, spend, front, (result) => resolve([result, front]));
    });
  };
  let [result, front] = await attempt(opened.spend);
  if (result.how === 'answered' && result.status === 401 && why === undefined) {
    const renewed = await opened.source.renew(opened.spend).catch(() => undefined);
    if (renewed && why === undefined) [result, front] = await attempt(renewed);
  }
  const upstreamMs = performance.now() - startedAt;
  if (result.how !== 'open') {
    stopCounting();
    return passOn(deps, opened.placed, result, why, upstreamMs);
  }

  const { switched, upstream } = result;
  const over = closed(socket, upstream, front);
  const tells = upgrade.protocol === 'websocket' && kind !== 'portforward';
  const tunnel = {
    async end(reason: EndReason): Promise<void> {
      why ??= reason;
      if (tells) await front.farewell(farewell(switched.chosen, statusObject(endedWords(reason), id)));
      else socket.destroy();
      upstream.destroy();
    },
  };
  ending.cuts(tunnel);
  const clean = await over;
  stopCounting();
  const moved = {
    how: why === undefined ? clean : 'ended',
    status: 101,
    ...front.counts(),
    upstreamMs,
  } as const;
  await conclude(
    deps,
    opened.placed,
    { ...moved, ...(why ? { why } : {}) },
    why === undefined ? undefined : endedWords(why),
  );
}

/** No tunnel: what the cluster said in place of a 101, or words of ours. */
async function passOn(
  deps: FlowDeps,
  admitted: Admitted<UpgradeExchange>,
  result: Exclude<Attempt, { how: 'open' }>,
  why: EndReason | undefined,
  upstreamMs: number,
): Promise<void> {
  const { exchange, info, place } = admitted;
  const { socket, id } = exchange;
  const answer = result.how === 'answered' ? result : undefined;
  const how = unopened(result, why, socket.destroyed);
  const moved = {
    ...{ how, bytesUp: 0, bytesDown: 0, upstreamMs },
    ...(why ? { why } : {}),
    ...(answer ? { status: answer.status } : {}),
  };
  const fine = how === 'complete' || how === 'client_gone';
  const words = fine ? undefined : outcomeWords(moved, place.context.name, deps.maxBodyBytes);
  if (result.how === 'failed' && words && how !== 'ended')
    deps.log.warn({ err: result.error, exchangeId: id }, words.message);
  if (words) sendStatusOnSocket(exchange, words, info);
  else if (answer && how === 'complete') {
    const headers = answerHeaders(answer.status, answer.headers, id, true);
    answerOnSocket(socket, id, answer.status, answer.body.toString('utf8'), headers);
  }
  return conclude(deps, admitted, moved, words);
}

function unopened(
  result: Exclude<Attempt, { how: 'open' }>,
  why: EndReason | undefined,
  gone: boolean,
): Movement['how'] {
  if (why !== undefined) return 'ended';
  if (gone) return 'client_gone';
  if (result.how === 'failed') return result.echoed ? 'echoed' : 'upstream_failed';
  return isAnswer(result.status) ? 'complete' : 'declined';
}

/** Resolves when neither side can move any more, with how it came to that. */
function closed(
  socket: Socket,
  upstream: Socket,
  front: Front,
): Promise<'complete' | 'client_gone' | 'upstream_failed'> {
  return new Promise((resolve) => {
    let how: 'complete' | 'client_gone' | 'upstream_failed' = 'complete';
    let first = true;
    const check = (): void => {
      if (socket.destroyed && upstream.destroyed) resolve(how);
    };
    upstream.on('close', () => {
      // A clean end has been piped to the client; after anything else the client must not take it for one.
      if (upstream.readableEnded) {
        if (front.stream.writableFinished) front.linger();
        else front.stream.once('finish', () => front.linger());
      } else {
        if (first) how = 'upstream_failed';
        front.stream.destroy();
      }
      first = false;
      check();
    });
    socket.on('close', () => {
      if (first && !socket.readableEnded && !front.stream.writableFinished) how = 'client_gone';
      first = false;
      upstream.destroy();
      check();
    });
    if (socket.destroyed) upstream.destroy();
    check();
  });
}
