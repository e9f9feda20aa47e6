// A GitHub of our own: what the App endpoints do, from GitHub's documentation, and strict about it. It checks the JWT's
// signature, issuer and clock (nothing from the future, ten minutes at most, not expired), that an installation belongs
// to the app, that every repository id and permission asked for is the installation's to give, and it lets a token do
// nothing more once it was destroyed or its hour is over. `fakeGitHub` is called in the process; `serveGitHub` puts the
// same behind HTTP, so that the real client is tried too.

import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { jwtVerify } from 'jose';
import type { GitHubApi, InstallationRepo } from '../../broker/github-app/api.ts';
import type { Clock } from '../../common/clock.ts';
import { Credential } from '../../common/credential.ts';
import { PosternError } from '../../common/errors.ts';

export interface Minted {
  readonly token: string;
  readonly expiresAt: number;
  readonly permissions: { readonly [name: string]: string };
  readonly repositoryIds: readonly number[] | undefined;
  destroyed: boolean;
}

export interface FakeGitHub {
  readonly api: GitHubApi;
  readonly appId: number;
  readonly installationId: number;
  readonly privateKey: string;
  repos: InstallationRepo[];
  permissions: { [name: string]: string };
  readonly minted: Minted[];
  /** Tokens that would do something now. */
  alive(): Minted[];
  /** What goes wrong next, until set back. */
  readonly faults: {
    down: boolean;
    destroyFails: boolean;
    /** Added to what was asked for. */
    widen?:
      | { permissions?: { [name: string]: string }; repositories?: InstallationRepo[]; all?: boolean }
      | undefined;
    lifetime: number;
    /** GitHub's clock against ours, in milliseconds. */
    skew: number;
    /** Awaited before a token is destroyed. */
    holdDestroy?: ((token: string) => Promise<void> | undefined) | undefined;
    /** Awaited before a token is minted. */
    hold?: Promise<void> | undefined;
  };
  handle(
    method: string,
    path: string,
    bearer: string,
    body: unknown,
  ): Promise<{ status: number; json?: unknown }>;
}

const LEVELS = ['read', 'write', 'admin'];

export function fakeGitHub(clock: Clock): FakeGitHub {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const minted: Minted[] = [];
  const github: FakeGitHub = {
    api: inProcess(() => github),
    appId: 7,
    installationId: 42,
    privateKey: privateKey.export({ type: 'pkcs1', format: 'pem' }).toString(),
    repos: [
      { id: 1, fullName: 'acme/app' },
      { id: 2, fullName: 'acme/lib' },
      { id: 3, fullName: 'acme/secret' },
    ],
    permissions: { contents: 'write', metadata: 'read', pull_requests: 'write' },
    minted,
    alive: () => minted.filter(({ destroyed, expiresAt }) => !destroyed && expiresAt > clock.now()),
    faults: { down: false, destroyFails: false, lifetime: 3_600_000, skew: 0 },
    async handle(method, path, bearer, body) {
      if (github.faults.down) return { status: 503, json: { message: 'Service unavailable' } };
      const url = new URL(path, 'http://x');
      const installation = /^\/app\/installations\/(\d+)\/access_tokens$/.exec(url.pathname)?.[1];
      if (method === 'POST' && installation !== undefined) {
        await github.faults.hold;
        return mint(
          github,
          await proves(publicKey, bearer, github, clock),
          Number(installation),
          body,
          clock,
        );
      }
      const found = github.alive().find(({ token }) => token === bearer);
      if (!found) return { status: 401, json: { message: 'Bad credentials' } };
      if (method === 'GET' && url.pathname === '/installation/repositories') return list(github, found, url);
      if (method === 'DELETE' && url.pathname === '/installation/token') {
        await github.faults.holdDestroy?.(found.token);
        if (github.faults.destroyFails) return { status: 500, json: { message: 'Server Error' } };
        found.destroyed = true;
        return { status: 204 };
      }
      return { status: 404, json: { message: 'Not Found' } };
    },
  };
  return github;
}

/** Whether a JWT is one of this app, now. */
async function proves(key: KeyObject, jwt: string, github: FakeGitHub, clock: Clock): Promise<boolean> {
  const now = clock.now() + github.faults.skew;
  try {
    const { payload } = await jwtVerify(jwt, key, {
      algorithms: ['RS256'],
      issuer: String(github.appId),
      requiredClaims: ['iat', 'exp'],
      currentDate: new Date(now),
    });
    const { iat = 0, exp = 0 } = payload;
    return iat * 1000 <= now && exp - iat <= 600;
  } catch {
    return false;
  }
}

function mint(github: FakeGitHub, proven: boolean, installation: number, body: unknown, clock: Clock) {
  if (!proven) return { status: 401, json: { message: 'A JSON web token could not be decoded' } };
  if (installation !== github.installationId) return { status: 404, json: { message: 'Not Found' } };
  const asked = (body ?? {}) as { repository_ids?: number[]; permissions?: { [name: string]: string } };
  const rank = (level: string | undefined): number => LEVELS.indexOf(level ?? '');
  for (const [name, level] of Object.entries(asked.permissions ?? {}))
    if (rank(level) < 0 || rank(level) > rank(github.permissions[name]))
      return {
        status: 422,
        json: { message: 'The permissions requested are not granted to this installation.' },
      };
  const known = github.repos.map(({ id }) => id);
  if (asked.repository_ids?.some((id) => !known.includes(id)))
    return { status: 422, json: { message: 'There is at least one repository that does not exist' } };
  const { widen, lifetime } = github.faults;
  const token: Minted = {
    token: `ghs_${String(github.minted.length).padStart(4, '0')}${'x'.repeat(32)}`,
    expiresAt: clock.now() + lifetime,
    permissions: { ...(asked.permissions ?? github.permissions), metadata: 'read', ...widen?.permissions },
    repositoryIds: asked.repository_ids,
    destroyed: false,
  };
  github.minted.push(token);
  const narrowed = asked.repository_ids !== undefined && !widen?.all;
  const repositories = [
    ...github.repos.filter(({ id }) => asked.repository_ids?.includes(id)),
    ...(widen?.repositories ?? []),
  ];
  return {
    status: 201,
    json: {
      token: token.token,
      expires_at: new Date(token.expiresAt).toISOString(),
      permissions: token.permissions,
      repository_selection: narrowed ? 'selected' : 'all',
      ...(narrowed && {
        repositories: repositories.map(({ id, fullName }) => ({ id, full_name: fullName })),
      }),
    },
  };
}

function list(github: FakeGitHub, { repositoryIds }: Minted, url: URL) {
  const all = github.repos.filter(({ id }) => repositoryIds?.includes(id) ?? true);
  const size = Number(url.searchParams.get('per_page') ?? 30);
  const page = Number(url.searchParams.get('page') ?? 1);
  return {
    status: 200,
    json: {
      total_count: all.length,
      repositories: all
        .slice((page - 1) * size, page * size)
        .map(({ id, fullName }) => ({ id, full_name: fullName })),
    },
  };
}

function inProcess(github: () => FakeGitHub): GitHubApi {
  const call = async (method: string, path: string, auth: Credential, body?: object) => {
    const { status, json } = await github().handle(method, path, auth.reveal(), body);
    if (status >= 300 && !(status === 401 && method === 'DELETE'))
      throw new PosternError('github_app_failed', `GitHub refused: status ${status}.`);
    return json as { [key: string]: never };
  };
  return {
    async createToken({ jwt, installationId, repositoryIds, permissions }) {
      const json = await call('POST', `/app/installations/${installationId}/access_tokens`, jwt, {
        ...(repositoryIds && { repository_ids: repositoryIds }),
        ...(permissions && { permissions }),
      });
      const repositories = (json.repositories as { id: number; full_name: string }[] | undefined)?.map(
        (repo) => ({
          id: repo.id,
          fullName: repo.full_name,
        }),
      );
      return {
        token: new Credential(json.token ?? ''),
        expiresAt: Date.parse(json.expires_at ?? ''),
        permissions: json.permissions ?? {},
        repositorySelection: json.repository_selection ?? '',
        ...(repositories && { repositories }),
      };
    },
    async listRepos(_, token) {
      const json = await call('GET', '/installation/repositories?per_page=100&page=1', token);
      return (json.repositories as unknown as { id: number; full_name: string }[]).map((repo) => ({
        id: repo.id,
        fullName: repo.full_name,
      }));
    },
    async destroyToken(_, token) {
      await call('DELETE', '/installation/token', token);
    },
  };
}

/** The same over HTTP on loopback, under a base path as GitHub Enterprise has one. */
export async function serveGitHub(github: FakeGitHub): Promise<{ apiUrl: string; close(): Promise<void> }> {
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString('utf8');
    const bearer = /^Bearer (\S+)$/.exec(req.headers.authorization ?? '')?.[1] ?? '';
    const path = req.url?.replace(/^\/api\/v3/, '') ?? '/';
    const { status, json } = await github.handle(
      req.method ?? '',
      path,
      bearer,
      text === '' ? undefined : JSON.parse(text),
    );
    res.writeHead(status, json === undefined ? {} : { 'content-type': 'application/json' });
    res.end(json === undefined ? '' : JSON.stringify(json));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    apiUrl: `http://127.0.0.1:${port}/api/v3`,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

export function appPayload(github: FakeGitHub, more: object = {}): object {
  return {
    app_id: github.appId,
    installation_id: github.installationId,
    private_key: github.privateKey,
    ...more,
  };
}
