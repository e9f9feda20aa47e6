// Session tokens: JWTs (RFC 7519) signed with EdDSA. A token says which session it belongs to and no more about what
// that may do; it lives as long as the session can at most, and what it is worth at a moment is the store's to say.
// The verifier takes one algorithm, one type, its own issuer and the guard's own audience (RFC 8725), so that a key or
// token made for another purpose is none here. A signature that held once is remembered by the token's hash, never by
// the token; a failure is not remembered, or forged tokens could push right ones out.

import { hash } from 'node:crypto';
import { errors, type JWTPayload, jwtVerify, SignJWT } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';
import { Credential } from '../common/credential.ts';
import type { Deployment } from './deployment.ts';
import type { GuardName, Session } from './session.ts';

export interface Claims {
  readonly guard: GuardName;
  readonly sessionId: string;
  readonly leaseId: string;
  /** Milliseconds. */
  readonly expiresAt: number;
}

export type BadToken = 'missing' | 'malformed' | 'wrong' | 'wrong_guard';

export interface Tokens {
  issue(session: Session): Promise<Credential>;
  /** What is remembered of this token. Never waits. */
  known(guard: GuardName, token: string): Claims | undefined;
  /** Whether the token was issued here for this guard. Whether it is past its time is the caller's to see. */
  verify(guard: GuardName, token: string): Promise<Claims | BadToken>;
}

const ALG = 'EdDSA';
const TYPE = 'postern-session+jwt';
/** Ours are a quarter of it. */
const MAX_LENGTH = 2048;
const REMEMBERED = 20_000;
/** Seconds that the clocks of two replicas may differ in `nbf`. */
const CLOCK_TOLERANCE = 5;

export function openTokens({ id: issuer, privateKey, publicKey }: Deployment, clock: Clock): Tokens {
  const remembered = new LRUCache<string, Claims>({ max: REMEMBERED });
  const nameOf = (guard: GuardName, token: string): string =>
    `${guard}:${hash('sha256', token, 'base64url')}`;

  async function check(guard: GuardName, token: string): Promise<Claims | 'wrong' | 'wrong_guard'> {
    try {
      const { payload } = await jwtVerify(token, publicKey, {
        algorithms: [ALG],
        typ: TYPE,
        issuer,
        audience: guard,
        requiredClaims: ['jti', 'sub', 'iat', 'exp'],
        clockTolerance: CLOCK_TOLERANCE,
        currentDate: new Date(clock.now()),
      });
      return toClaims(guard, payload);
    } catch (error) {
      // jose looks at `exp` last: whatever is expired has a right signature, issuer and audience.
      if (error instanceof errors.JWTExpired && error.claim === 'exp') return toClaims(guard, error.payload);
      if (error instanceof errors.JWTClaimValidationFailed && error.claim === 'aud') return 'wrong_guard';
      if (error instanceof errors.JOSEError) return 'wrong';
      throw error;
    }
  }

  return {
    async issue({ id, guard, leaseId, createdAt, hardExpiresAt }) {
      const token = await new SignJWT()
        .setProtectedHeader({ alg: ALG, typ: TYPE })
        .setIssuer(issuer)
        .setAudience(guard)
        .setJti(id)
        .setSubject(leaseId)
        .setIssuedAt(Math.floor(createdAt / 1000))
        .setExpirationTime(Math.ceil(hardExpiresAt / 1000))
        .sign(privateKey);
      return new Credential(token);
    },

    known: (guard, token) => (token.length <= MAX_LENGTH ? remembered.get(nameOf(guard, token)) : undefined),

    async verify(guard, token) {
      if (token === '') return 'missing';
      if (!isCompactJws(token)) return 'malformed';
      const claims = await check(guard, token);
      if (typeof claims === 'object') remembered.set(nameOf(guard, token), claims);
      return claims;
    },
  };
}

function toClaims(guard: GuardName, { jti, sub, exp }: JWTPayload): Claims | 'wrong' {
  if (typeof jti !== 'string' || typeof sub !== 'string' || typeof exp !== 'number') return 'wrong';
  return { guard, sessionId: jti, leaseId: sub, expiresAt: exp * 1000 };
}

// Three parts of base64url, each in its one spelling (RFC 4648 leaves unused bits to the decoder).
function isCompactJws(token: string): boolean {
  if (token.length > MAX_LENGTH) return false;
  const parts = token.split('.');
  return (
    parts.length === 3 &&
    parts.every((part) => part !== '' && Buffer.from(part, 'base64url').toString('base64url') === part)
  );
}
