// A refusal as Kubernetes clients read one: a full metav1.Status, so that kubectl prints
// `Error from server (Forbidden): pods is forbidden: …`. The message says which rule refused, what it would have allowed,
// the code for machines and the request's id; `details.causes` carries the code again. Never a Retry-After:
// client-go would ask ten times more.

import { REASONS, type Reason } from '../common/reason.ts';
import { dropBody, hasBody } from '../relay/body.ts';
import { answerOnSocket, type Exchange, type UpgradeExchange } from '../relay/listener.ts';
import type { RequestInfo } from './request-info.ts';

export interface Words {
  readonly code: Reason;
  readonly message: string;
  /** Where it is not the code's own. */
  readonly status?: number;
}

export interface Status {
  readonly kind: 'Status';
  readonly apiVersion: 'v1';
  readonly metadata: Record<string, never>;
  readonly status: 'Failure';
  readonly message: string;
  readonly reason: string;
  readonly details: {
    readonly name?: string;
    readonly group?: string;
    readonly kind?: string;
    readonly causes: readonly { readonly reason: Reason; readonly message: string }[];
  };
  readonly code: number;
}

/** metav1.StatusReason for an HTTP status; what has none of its own is an internal error to clients. */
const STATUS_REASONS: { readonly [status: number]: string } = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  413: 'RequestEntityTooLarge',
  429: 'TooManyRequests',
  503: 'ServiceUnavailable',
};

const DROP_BYTES = 4 * 1024 * 1024;
const DROP_IDLE_MS = 10_000;

export function httpStatus({ code, status }: Words): number {
  return status ?? REASONS[code].status;
}

export function statusObject(words: Words, id: string, info?: RequestInfo): Status {
  const code = httpStatus(words);
  const named = info?.isResource === true;
  const subject = !named
    ? (info?.path.slice(0, 100) ?? 'the request')
    : `${info.resource}${info.apiGroup && `.${info.apiGroup}`}${info.name && ` ${JSON.stringify(info.name)}`}`;
  const prefix = code === 403 ? `${subject} is forbidden: ` : '';
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: visible(`${prefix}${words.message} (${words.code}, request ${id})`),
    reason: STATUS_REASONS[code] ?? 'InternalError',
    details: {
      ...(named && info.name ? { name: info.name } : {}),
      ...(named && info.apiGroup ? { group: info.apiGroup } : {}),
      ...(named ? { kind: info.resource } : {}),
      causes: [{ reason: words.code, message: visible(words.message) }],
    },
    code,
  };
}

/** Names come from the request: what a terminal would act on is shown as `?`. */
function visible(text: string): string {
  return text.replace(/[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g, '?');
}

function headersOf(id: string): string[] {
  return [
    'Content-Type',
    'application/json',
    'Cache-Control',
    'no-cache, private',
    'X-Content-Type-Options',
    'nosniff',
    'Audit-ID',
    id,
  ];
}

/** Answers, and lets the client send what it would rather send than read. */
export async function sendStatus(exchange: Exchange, words: Words, info?: RequestInfo): Promise<void> {
  const { req, res, id } = exchange;
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const body = `${JSON.stringify(statusObject(words, id, info))}\n`;
  const headers = [...headersOf(id), 'Content-Length', String(Buffer.byteLength(body))];
  if (words.code === 'method_not_allowed') headers.push('Allow', 'GET, HEAD, POST, PUT, PATCH, DELETE');
  const unread = hasBody(req) && !req.complete;
  if (unread) headers.push('Connection', 'close');
  res.writeHead(httpStatus(words), headers);
  res.end(body);
  // A client that waits for `100 Continue` sends nothing more.
  if (unread && req.headers.expect === undefined) await dropBody(req, DROP_BYTES, DROP_IDLE_MS);
}

/** The same where an upgrade was asked for; the connection ends with it. */
export function sendStatusOnSocket({ socket, id }: UpgradeExchange, words: Words, info?: RequestInfo): void {
  answerOnSocket(
    socket,
    id,
    httpStatus(words),
    `${JSON.stringify(statusObject(words, id, info))}\n`,
    headersOf(id),
  );
}
