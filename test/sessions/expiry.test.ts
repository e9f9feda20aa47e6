import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkTtl, firstExpiry, renewedExpiry } from '../../sessions/expiry.ts';
import { answeredReason, recordedReason } from '../../sessions/failure.ts';
import { FAILURE_FLOOR_MS, failureFloor, untilFloor } from '../../sessions/floor.ts';
import { judge } from '../../sessions/judge.ts';
import type { Session } from '../../sessions/session.ts';

const SETTINGS = { ttl: 900_000, maxTtl: 43_200_000 };
const time = fc.integer({ min: 0, max: 2 ** 45 });
const span = fc.integer({ min: 1, max: 2 ** 40 });

describe('a ttl', () => {
  it.each([0, -1, -900_000, 0.5, Number.NaN, Number.NEGATIVE_INFINITY])('of %d is refused', (ttl) => {
    expect(() => checkTtl(ttl, SETTINGS)).toThrow(
      expect.objectContaining({ code: 'invalid_input', key: 'ttl' }),
    );
  });

  it.each([43_200_001, 2 ** 31, Number.POSITIVE_INFINITY])(
    'of %d is over the limit: an error, not a clamp',
    (ttl) => {
      const code = Number.isFinite(ttl) ? 'ttl_too_long' : 'invalid_input';
      expect(() => checkTtl(ttl, SETTINGS)).toThrow(expect.objectContaining({ code, key: 'ttl' }));
    },
  );

  it('names what was asked for and what is allowed', () => {
    expect(() => checkTtl(86_400_000, SETTINGS)).toThrow(
      /1d is longer than the 12h that sessions\.maxTtl allows/,
    );
  });

  it('is the configured one where none is asked for, and the limit itself is allowed', () => {
    expect(checkTtl(undefined, SETTINGS)).toBe(900_000);
    expect(checkTtl(undefined, { ttl: 10, maxTtl: 5 })).toBe(5);
    expect(checkTtl(43_200_000, SETTINGS)).toBe(43_200_000);
  });
});

describe('the rolling end', () => {
  it('is never past the hard end, whatever is renewed when and for how long', () => {
    fc.assert(
      fc.property(time, span, span, fc.array(fc.tuple(span, span)), (start, ttl, maxTtl, renewals) => {
        let { expiresAt, hardExpiresAt } = firstExpiry(start, ttl, maxTtl);
        expect(hardExpiresAt).toBe(start + maxTtl);
        expect(expiresAt).toBe(Math.min(start + ttl, hardExpiresAt));
        let now = start;
        for (const [pause, again] of renewals) {
          now += pause;
          if (now >= expiresAt) break;
          expiresAt = renewedExpiry(now, again, hardExpiresAt);
          expect(expiresAt).toBeGreaterThan(now);
          expect(expiresAt).toBeLessThanOrEqual(Math.min(now + again, hardExpiresAt));
        }
      }),
    );
  });
});

describe('the judgement', () => {
  const session: Session = {
    id: 'ses_1',
    guard: 'git',
    leaseId: 'L1',
    labels: {},
    credentials: [],
    policy: {},
    createdAt: 0,
    expiresAt: 100,
    hardExpiresAt: 1000,
  };
  const claims = { guard: 'git', sessionId: 'ses_1', leaseId: 'L1', expiresAt: 1000 } as const;
  const record = { session, ttl: 100, rev: 1 };
  const revoked = { ...record, session: { ...session, revokedAt: 50, revokedBecause: 'x' } };

  it.each([
    ['in time', undefined, record, 99, undefined],
    ['in time, with its id beside it', 'ses_1', record, 99, undefined],
    ['at its end', undefined, record, 100, 'expired'],
    ['closed by a replica whose clock is ahead', undefined, { ...record, closedAt: 100 }, 98, 'expired'],
    ['past a hard end that the rolling one passed by a fault', undefined, late(), 1000, 'expired'],
    ['revoked', undefined, revoked, 99, 'revoked'],
    ['revoked and past its time', undefined, revoked, 5000, 'revoked'],
    ['of another guard', undefined, { ...record, session: { ...session, guard: 'kube' } }, 99, 'mismatched'],
    ['of another lease', undefined, { ...record, session: { ...session, leaseId: 'L2' } }, 99, 'mismatched'],
    ['with another id beside it', 'ses_2', record, 99, 'mismatched'],
    ['with another id beside it, past its time', 'ses_2', record, 5000, 'mismatched'],
    ['unknown', undefined, undefined, 999, 'unknown'],
    ['unknown and past its time', undefined, undefined, 1000, 'expired'],
  ] as const)('on a session %s', (_, id, known, now, failure) => {
    expect(judge({ claims, id }, known, now)).toBe(failure);
  });

  function late() {
    return { ...record, session: { ...session, expiresAt: 2000 } };
  }
});

describe('what a failure is called', () => {
  it('outside, tells a right token past its time and a busy one, and nothing else', () => {
    const failures = [
      'missing',
      'malformed',
      'unknown',
      'wrong',
      'wrong_guard',
      'mismatched',
      'revoked',
    ] as const;
    expect(new Set(failures.map(answeredReason))).toEqual(new Set(['unauthenticated']));
    expect(answeredReason('expired')).toBe('session_expired');
    expect(answeredReason('too_many')).toBe('rate_limited');
    expect(failures.map(recordedReason).filter((code) => code !== 'unauthenticated')).toEqual([
      'session_revoked',
    ]);
  });
});

describe('the floor under failures', () => {
  it('is a multiple of one length, and never nothing', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 10_000, noNaN: true }), (took) => {
        const total = took + untilFloor(took);
        expect(total).toBeGreaterThanOrEqual(FAILURE_FLOOR_MS);
        expect(total).toBeGreaterThanOrEqual(took);
        expect(total - took).toBeLessThanOrEqual(FAILURE_FLOOR_MS);
        expect(Math.abs(total / FAILURE_FLOOR_MS - Math.round(total / FAILURE_FLOOR_MS))).toBeLessThan(1e-9);
      }),
    );
  });

  it('is waited for', async () => {
    const start = performance.now();
    await failureFloor(start);
    // A timer may fire a little early by another clock than its own.
    expect(performance.now() - start).toBeGreaterThan(FAILURE_FLOOR_MS - 2);
  });
});
