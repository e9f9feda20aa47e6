// The closed list of reasons that a guard gives. A code is stable: it is in the record, in the metrics and in the
// answer. `status` is the HTTP status where the protocol lets us choose one.

export const REASONS = {
  unauthenticated: { status: 401, meaning: 'no usable session token for this guard' },
  session_expired: { status: 401, meaning: 'a correct token whose session is past its time' },
  session_revoked: {
    status: 401,
    meaning: 'the session was revoked (told to the record, not to the sandbox)',
  },
  malformed_request: { status: 400, meaning: 'the bytes are not a request that can be read in one way only' },
  non_canonical_path: { status: 400, meaning: 'the path or query has more than one spelling' },
  not_found: { status: 404, meaning: 'no such route at this guard' },
  method_not_allowed: { status: 405, meaning: 'the route does not take this method' },
  repo_not_allowed: { status: 403, meaning: 'no credential of the session covers the repository' },
  push_not_allowed: { status: 403, meaning: 'the session may read the repository but not push to it' },
  ref_not_allowed: { status: 403, meaning: 'the push touches a ref outside the allowed ones' },
  delete_not_allowed: { status: 403, meaning: 'the push deletes a ref and the grant does not allow that' },
  force_not_allowed: { status: 403, meaning: 'the push rewrites a ref that the grant only lets grow' },
  push_cert_not_supported: { status: 403, meaning: 'a signed push: its certificate is not read yet' },
  too_many_refs: { status: 403, meaning: 'one push names more refs than the limit' },
  pack_too_large: { status: 413, meaning: 'the pack is larger than the limit' },
  lfs_not_allowed: { status: 403, meaning: 'Git LFS is not served' },
  namespace_not_allowed: { status: 403, meaning: 'the namespace is outside the grant' },
  cluster_scope: {
    status: 403,
    meaning: 'a request over all namespaces or a cluster-wide resource under a namespace list',
  },
  verb_not_allowed: { status: 403, meaning: 'the verb is outside the grant' },
  resource_not_allowed: { status: 403, meaning: 'the resource is outside the grant' },
  dangerous_subresource: {
    status: 403,
    meaning: 'exec and its kind, opened only where the grant names them',
  },
  non_resource_path: { status: 403, meaning: 'a path outside the API that the grant does not name' },
  upgrade_not_allowed: { status: 400, meaning: 'an Upgrade where the guard serves none' },
  body_too_large: { status: 413, meaning: 'the request body is larger than the limit' },
  rate_limited: { status: 429, meaning: 'the session has too many requests under way' },
  upstream_unreachable: { status: 502, meaning: 'the upstream could not be reached' },
  upstream_refused: { status: 502, meaning: 'the upstream refused the credential in custody' },
  upstream_redirect: { status: 502, meaning: 'the upstream redirected; redirects are never followed' },
  guard_unavailable: { status: 503, meaning: 'the guard cannot decide now' },
  audit_unavailable: { status: 503, meaning: 'the decision cannot be recorded, so nothing is done' },
} as const satisfies Record<string, { status: number; meaning: string }>;

export type Reason = keyof typeof REASONS;

/** A pure decision's refusal. `rule` names what refused; `message` says so to a person, and what would be allowed. */
export interface Refusal {
  readonly code: Reason;
  readonly rule: string;
  readonly message: string;
}
