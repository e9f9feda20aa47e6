// How a refusal reaches the person. git shows each line of a text/plain body of a refused info/refs as `remote: …`; for
// a push that is refused because of its refs the words travel inside a status report (report.ts). Every refusal says
// what refused, what would be allowed, the code for machines and the request's id for the operator.

import { REASONS, type Reason } from '../common/reason.ts';
import { dropBody, hasBody } from '../relay/body.ts';
import type { Exchange } from '../relay/listener.ts';

export interface Words {
  readonly code: Reason;
  readonly message: string;
  /** Where it is not the code's own. */
  readonly status?: number;
  /** What would be allowed, or what to do; a line each. */
  readonly more?: readonly string[];
}

/** For anything that is refused before it is known to be git's. */
const DROP_BYTES = 1024 * 1024;
const DROP_IDLE_MS = 10_000;

export function lines({ code, message, more = [] }: Words, requestId: string): string[] {
  return [`${message} (${code})`, ...more, `request ${requestId}`].map((line) => `postern: ${visible(line)}`);
}

/** Names come from the request: what a terminal would act on is shown as `?`. */
function visible(text: string): string {
  return text.replace(/[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g, '?');
}

export interface RefusalFormat {
  /** LFS has an error format of its own. */
  readonly lfs?: boolean;
  readonly allow?: string | undefined;
}

export function statusOf({ code, status }: Words): number {
  return status ?? REASONS[code].status;
}

/** Answers, and lets the client send what it would rather send than read. */
export async function sendRefusal(
  exchange: Exchange,
  words: Words,
  format: RefusalFormat = {},
): Promise<void> {
  const { req, res, id } = exchange;
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const status = statusOf(words);
  const text = lines(words, id);
  const body = format.lfs
    ? `${JSON.stringify({ message: text.join('\n'), request_id: id })}\n`
    : `${text.join('\n')}\n`;
  const headers = [
    ...['Content-Type', format.lfs ? 'application/vnd.git-lfs+json' : 'text/plain; charset=utf-8'],
    ...['Cache-Control', 'no-store', 'Content-Length', String(Buffer.byteLength(body))],
    ...(status === 401 ? ['WWW-Authenticate', 'Basic realm="postern"'] : []),
    ...(format.allow === undefined ? [] : ['Allow', format.allow]),
    ...(status === 429 ? ['Retry-After', '1'] : []),
  ];
  const unread = hasBody(req) && !req.complete;
  if (unread) headers.push('Connection', 'close');
  res.writeHead(status, headers);
  res.end(body);
  // A client that waits for `100 Continue` sends nothing more.
  if (unread && req.headers.expect === undefined) await dropBody(req, DROP_BYTES, DROP_IDLE_MS);
}
