// Self reviews: the body is read here, whole and small, judged, and sent on in our own words.

import type { IncomingMessage } from 'node:http';
import type { Exchange } from '../relay/listener.ts';
import { type Admitted, type FlowDeps, giveUp } from './flow.ts';
import { serveForward } from './forwarding.ts';
import type { Facts, SelfReview } from './policy.ts';
import { MAX_REVIEW_BYTES, readReview } from './self-review.ts';
import { sendStatus, type Words } from './status.ts';

const BODY_MS = 30_000;

export async function serveReview(
  flow: FlowDeps,
  admitted: Admitted<Exchange>,
  kind: SelfReview,
  facts: Facts,
): Promise<void> {
  const { exchange, info } = admitted;
  const { req } = exchange;
  exchange.continueBody();
  const body = await readBody(req);
  const review = Buffer.isBuffer(body)
    ? readReview(kind, info, req.headers['content-type'], body, facts)
    : body;
  if ('code' in review) {
    await giveUp(flow, admitted, review);
    return sendStatus(exchange, review, info);
  }
  return serveForward(flow, admitted, {
    headers: [
      'Accept',
      'application/json',
      'Accept-Encoding',
      'identity',
      'Content-Type',
      'application/json',
    ],
    body: review.body,
    transform: review.answer,
  });
}

function readBody(req: IncomingMessage): Promise<Buffer | Words> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const give = (what: Buffer | Words): void => {
      clearTimeout(timer);
      req.off('data', onData).off('end', onEnd).off('close', onClose);
      resolve(what);
    };
    const onClose = (): void => give({ code: 'malformed_request', message: 'the body broke off' });
    const timer = setTimeout(
      () => give({ code: 'malformed_request', message: 'the body did not come in time' }),
      BODY_MS,
    );
    const onEnd = (): void => give(Buffer.concat(chunks));
    const onData = (chunk: Buffer): void => {
      size += chunk.length;
      if (size > MAX_REVIEW_BYTES) {
        req.pause();
        give({
          code: 'body_too_large',
          message: `a self review of more than ${MAX_REVIEW_BYTES} bytes is not read`,
        });
      } else chunks.push(chunk);
    };
    req.on('error', () => {});
    req.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}
