// The two ends of a session. The rolling one moves with each renewal; the hard one is fixed when the session is issued,
// is the token's `exp`, and is never passed. A time that exceeds the limit is an error and not a shorter time: the hub
// must not believe that it has what it asked for. All in milliseconds; pure.

import { formatDuration } from '../common/duration.ts';
import { PosternError } from '../common/errors.ts';

export interface TtlSettings {
  /** Of a session that asks for none. */
  readonly ttl: number;
  readonly maxTtl: number;
}

/** @throws PosternError `invalid_input`, `ttl_too_long` */
export function checkTtl(asked: number | undefined, { ttl, maxTtl }: TtlSettings): number {
  const wanted = asked ?? Math.min(ttl, maxTtl);
  if (!Number.isFinite(wanted) || wanted < 1)
    throw new PosternError('invalid_input', `ttl: ${wanted} milliseconds is no time`, {
      key: 'ttl',
      remedy: 'write 90s, 15m or 12h, or leave it out',
    });
  if (wanted > maxTtl)
    throw new PosternError(
      'ttl_too_long',
      `ttl: ${formatDuration(wanted)} is longer than the ${formatDuration(maxTtl)} that sessions.maxTtl allows`,
      { key: 'ttl', remedy: 'ask for less and renew while the work goes on' },
    );
  return Math.floor(wanted);
}

export function firstExpiry(
  createdAt: number,
  ttl: number,
  maxTtl: number,
): { expiresAt: number; hardExpiresAt: number } {
  const hardExpiresAt = createdAt + maxTtl;
  return { expiresAt: renewedExpiry(createdAt, ttl, hardExpiresAt), hardExpiresAt };
}

export function renewedExpiry(now: number, ttl: number, hardExpiresAt: number): number {
  return Math.min(now + ttl, hardExpiresAt);
}
