import type { Credential } from '../../common/credential.ts';
import type { AppCredential } from './payload.ts';

/** Seconds by which `iat` lies in the past: GitHub refuses a token from the future, and clocks differ. */
export const BACKDATE = 60;
/** Seconds from `iat` to `exp`. GitHub takes 10 minutes at most. */
export const LIFETIME = 9 * 60;

/**
 * The JWT by which an app proves itself (GitHub, "Generating a JSON Web Token (JWT) for a GitHub App").
 * @param now milliseconds
 */
export function appJwt(app: AppCredential, now: number): Promise<Credential> {
  const iat = Math.floor(now / 1000) - BACKDATE;
  return app.sign(iat, iat + LIFETIME);
}
