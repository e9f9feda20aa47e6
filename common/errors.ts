// What goes wrong on the operator's side of Postern: configuration, commands, the control API. One class, a closed
// list of codes, each with the HTTP status of its problem document and the exit status of a command that meets it.
// What a guard answers to a sandbox is another list: reason.ts.

export const ERROR_CODES = {
  invalid_input: { status: 400, exit: 2, title: 'The request holds a value that cannot be used' },
  invalid_config: { status: 500, exit: 1, title: 'The configuration is not usable' },
  unauthorized: { status: 401, exit: 1, title: 'No usable control token was given' },
  forbidden: { status: 403, exit: 3, title: 'The role of this token does not allow the call' },
  not_found: { status: 404, exit: 1, title: 'There is no such thing' },
  method_not_allowed: { status: 405, exit: 1, title: 'The path does not take this method' },
  conflict: { status: 409, exit: 1, title: 'The state does not allow it' },
  gone: { status: 410, exit: 1, title: 'It has ended' },
  too_large: { status: 413, exit: 2, title: 'The request is too large' },
  too_many_requests: { status: 429, exit: 1, title: 'The caller has too many calls under way' },
  unsupported_media_type: { status: 415, exit: 2, title: 'The body must be JSON' },
  ttl_too_long: { status: 400, exit: 2, title: 'The time asked for exceeds the limit' },
  upstream_not_listed: {
    status: 403,
    exit: 3,
    title: 'The upstream is not one that the configuration lists',
  },
  policy_refused: { status: 403, exit: 3, title: 'Policy does not allow it' },
  not_owner: { status: 403, exit: 3, title: 'The personal secret belongs to somebody else' },
  personal_wildcard: { status: 403, exit: 3, title: 'A personal secret cannot go to a wildcard subject' },
  self_approval: { status: 403, exit: 3, title: 'Who asked for access cannot approve it' },
  not_requester: { status: 403, exit: 3, title: 'Only who opened the request may withdraw it' },
  delegation_exceeded: {
    status: 403,
    exit: 3,
    title: 'The approval exceeds what this approver may hand out',
  },
  request_decided: { status: 409, exit: 1, title: 'The request has its decision already' },
  request_changed: { status: 409, exit: 1, title: 'The request is not the one that was read' },
  request_expired: { status: 410, exit: 1, title: 'Nobody decided the request in time' },
  lease_expired: { status: 410, exit: 1, title: 'The lease was not renewed in time' },
  nothing_left: { status: 403, exit: 3, title: 'The constraints leave nothing of the secret' },
  github_app_failed: { status: 502, exit: 1, title: 'GitHub did not mint or destroy an installation token' },
  guard_unavailable: { status: 503, exit: 1, title: 'A guard that is needed is off or down' },
  audit_unavailable: { status: 503, exit: 1, title: 'The audit trail cannot be written, so nothing is done' },
  store_unavailable: { status: 503, exit: 1, title: 'The store does not answer' },
  key_missing: { status: 500, exit: 1, title: 'No passphrase or key file opens the store' },
  key_wrong: { status: 500, exit: 1, title: 'The passphrase is not the one that sealed the data' },
  key_unknown: { status: 500, exit: 1, title: 'A row names a key that this store does not have' },
  key_in_use: { status: 409, exit: 1, title: 'The key is primary or still seals rows' },
  key_retired: { status: 500, exit: 1, title: 'A row names a key that was retired' },
  sealed_data_tampered: { status: 500, exit: 1, title: 'A sealed row was changed or moved' },
  already_running: { status: 409, exit: 1, title: 'Another process serves this data folder' },
  unreachable: { status: 502, exit: 1, title: 'The server does not answer' },
  internal: { status: 500, exit: 1, title: 'Postern failed' },
} as const satisfies Record<string, { status: number; exit: 0 | 1 | 2 | 3; title: string }>;

export type ErrorCode = keyof typeof ERROR_CODES;

export interface ErrorDetails {
  /** The configuration key, flag or JSON path that is wrong. */
  key?: string;
  /** What the person can do about it. */
  remedy?: string;
  cause?: unknown;
}

/** `message` is one or more plain sentences for a person and never holds a credential. */
export class PosternError extends Error {
  readonly code: ErrorCode;
  readonly key: string | undefined;
  readonly remedy: string | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'PosternError';
    this.code = code;
    this.key = details.key;
    this.remedy = details.remedy;
  }
}
