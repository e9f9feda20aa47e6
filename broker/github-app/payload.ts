// A GitHub App's credential: which app, which installation, and the private key that signs for it. Read strictly when it
// is stored, because a mangled PEM or a PAT in the wrong kind would otherwise fail during somebody's run. The key stays
// inside: the only thing that can be asked of an AppCredential is a signed JWT.

import { createPrivateKey, type KeyObject } from 'node:crypto';
import { SignJWT } from 'jose';
import { Credential } from '../../common/credential.ts';
import { compact } from '../compact.ts';
import { readUpstream } from '../kinds/github-pat.ts';
import { jsonObject, malformed, onlyKeys, textOf } from '../kinds/payload.ts';

export const GITHUB_API = 'https://api.github.com';
const WHAT = 'GitHub App credential';
const MEMBERS = ['app_id', 'installation_id', 'private_key', 'base_url', 'upstream'];

export interface AppCredential {
  readonly appId: number;
  readonly installationId: number;
  /** Root of the API, without a slash at its end: `https://api.github.com`, `https://ghe.example.com/api/v3`. */
  readonly apiUrl: string;
  /** The forge's origin, where the payload names it. */
  readonly upstream?: string;
  /** An RS256 JWT of this app with these times (seconds). The key itself can't be had from here. */
  sign(iat: number, exp: number): Promise<Credential>;
}

/**
 * `{"app_id": 1, "installation_id": 2, "private_key": "-----BEGIN …", "base_url"?: "https://ghe.example.com/api/v3"}`
 * @throws PosternError `invalid_input`; nothing of the payload is quoted
 */
export function parseApp(payload: Buffer): AppCredential {
  const json = jsonObject(textOf(payload, WHAT), WHAT);
  onlyKeys(json, MEMBERS, WHAT);
  const key = readKey(json.private_key);
  const appId = readId(json.app_id, 'app_id');
  return {
    appId,
    installationId: readId(json.installation_id, 'installation_id'),
    apiUrl: readBaseUrl(json.base_url),
    ...compact({ upstream: readUpstream(json.upstream) }),
    sign: async (iat, exp) =>
      new Credential(
        await new SignJWT({ iss: String(appId), iat, exp })
          .setProtectedHeader({ alg: 'RS256', typ: 'JWT' })
          .sign(key),
      ),
  };
}

function readId(value: unknown, member: string): number {
  if (Number.isSafeInteger(value) && (value as number) > 0) return value as number;
  throw malformed(WHAT, `${member} is not a whole number`);
}

function readKey(value: unknown): KeyObject {
  if (typeof value !== 'string') throw malformed(WHAT, 'private_key is not text');
  let key: KeyObject;
  try {
    key = createPrivateKey({ key: value, format: 'pem' });
  } catch {
    throw malformed(
      WHAT,
      'private_key is not a PEM key without a passphrase',
      'Keep its line breaks as \\n.',
    );
  }
  // GitHub takes RS256 only.
  if (key.asymmetricKeyType !== 'rsa' || (key.asymmetricKeyDetails?.modulusLength ?? 0) < 2048)
    throw malformed(WHAT, 'private_key is not an RSA key of 2048 bits or more');
  return key;
}

function readBaseUrl(value: unknown): string {
  if (value === undefined) return GITHUB_API;
  const url = typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined || [url.username, url.password, url.search, url.hash].some((part) => part !== ''))
    throw malformed(WHAT, 'base_url is not a URL such as https://ghe.example.com/api/v3');
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLoopback(url)))
    throw malformed(WHAT, 'base_url is not https, and its host is not a loopback address');
  if (!/^[A-Za-z0-9/._-]*$/.test(url.pathname)) throw malformed(WHAT, 'base_url has an odd path');
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
}

/** The forge that the API belongs to: `api.HOST` and `HOST/api/v3` are at `https://HOST`. */
export function forgeOf(app: AppCredential, configured: readonly string[]): string {
  if (app.upstream !== undefined) return app.upstream;
  const url = new URL(app.apiUrl);
  const origin = /^api\./.test(url.hostname) ? url.origin.replace('://api.', '://') : url.origin;
  // A relay of the API on this host says nothing about where the forge is: then the one that is configured is meant.
  const [only, ...others] = configured;
  if (isLoopback(url) && !configured.includes(origin) && only !== undefined && others.length === 0)
    return only;
  return origin;
}

function isLoopback(url: URL): boolean {
  return (
    url.hostname === 'localhost' || url.hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(url.hostname)
  );
}
