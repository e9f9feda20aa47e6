// The nouns as plain JSON for those who look at them: the control API, the command line. Times are RFC 3339; subjects are
// written as `--to` takes them. `id` is said again under the name that the audit records use for it. No view has a
// credential in it, because none of what it shows has one.

import { rfc3339 } from '../common/clock.ts';
import { formatDuration } from '../common/duration.ts';
import { compact } from './compact.ts';
import { summarise } from './constraints/constraints.ts';
import { endedBecause, type Grant } from './grants/grant.ts';
import type { LeaseRecord } from './leases/record.ts';
import { type AccessRequest, contentHash, isPending } from './requests/request.ts';
import type { RequestUse } from './requests/uses.ts';
import type { Secret } from './secrets/secret.ts';
import { formatSubject } from './subject.ts';

const time = (ms: number | undefined): string | undefined => (ms === undefined ? undefined : rfc3339(ms));

export function secretView(secret: Secret) {
  const { createdAt, updatedAt, ...rest } = secret;
  return { secretId: secret.id, ...rest, createdAt: rfc3339(createdAt), updatedAt: rfc3339(updatedAt) };
}

export function grantView(grant: Grant, now: number) {
  const { subject, expiresAt, createdAt, revokedAt, ...rest } = grant;
  const ended = endedBecause(grant, now);
  return {
    grantId: grant.id,
    ...rest,
    ...compact({ expiresAt: time(expiresAt), revokedAt: time(revokedAt) }),
    subject: formatSubject(subject),
    createdAt: rfc3339(createdAt),
    summary: summarise(grant.constraints),
    state: revokedAt !== undefined ? 'revoked' : ended === undefined ? 'active' : 'expired',
  } as const;
}

/** Without what it delivered: only the answer that makes or renews a lease has that. */
export function leaseView(lease: LeaseRecord, now: number) {
  const { id, executorId, projectId, runId, taskId, labels, actor, grants, sessions, denied, outstanding } =
    lease;
  return {
    id,
    leaseId: id,
    ...compact({ executorId, projectId, runId, taskId }),
    labels,
    actor,
    issuedAt: rfc3339(lease.issuedAt),
    renewedAt: rfc3339(lease.renewedAt),
    expiresAt: rfc3339(lease.expiresAt),
    state: now < lease.expiresAt ? 'live' : 'expired',
    grants,
    sessions: sessions.map(({ id: sessionId, guard, grants: served, summary, expiresAt }) => ({
      sessionId,
      guard,
      grants: served,
      summary,
      expiresAt: rfc3339(expiresAt),
    })),
    denied: Object.entries(denied).map(([grantId, reason]) => ({ grantId, reason })),
    outstanding,
  } as const;
}

export function requestView(request: AccessRequest, now: number) {
  const { subject, ttl, createdAt, expiresAt, decidedAt, grantExpiresAt, aliases: _, ...rest } = request;
  return {
    requestId: request.id,
    ...rest,
    // What nobody decided in time is shown as that, before a sweep has written it down.
    state: request.state === 'pending' && !isPending(request, now) ? 'expired' : request.state,
    subject: formatSubject(subject),
    ttl: formatDuration(ttl),
    summary: summarise(request.constraints),
    createdAt: rfc3339(createdAt),
    expiresAt: rfc3339(expiresAt),
    ...compact({ decidedAt: time(decidedAt), grantExpiresAt: time(grantExpiresAt) }),
    /** What a decision has to name. */
    contentHash: contentHash(request),
  } as const;
}

export function useView(use: RequestUse) {
  return { ...use, firstSeen: rfc3339(use.firstSeen), lastSeen: rfc3339(use.lastSeen) };
}
