// Everything that Postern ever asks of GitHub's API: mint a narrowed installation token, list what an installation
// covers, destroy a token. The interface is what the broker sees; githubApi() speaks HTTP. Redirects are not followed, an
// answer is read up to a limit, and an error says the status and GitHub's own short message, never a header or a body.

import { Agent } from 'undici';
import { Credential } from '../../common/credential.ts';
import { PosternError } from '../../common/errors.ts';
import { compact } from '../compact.ts';

export interface InstallationRepo {
  readonly id: number;
  /** `owner/name`. */
  readonly fullName: string;
}

export interface InstallationToken {
  readonly token: Credential;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
  readonly permissions: { readonly [name: string]: string };
  readonly repositorySelection?: string;
  /** Present where the token is narrowed to repositories. */
  readonly repositories?: readonly InstallationRepo[];
}

export interface TokenRequest {
  readonly apiUrl: string;
  readonly jwt: Credential;
  readonly installationId: number;
  /** Ids, because a name can come to mean another repository by a rename. Absent: the whole installation. */
  readonly repositoryIds?: readonly number[];
  /** Absent: all that the installation has. */
  readonly permissions?: { readonly [name: string]: string };
}

export interface GitHubApi {
  /** @throws PosternError `github_app_failed` */
  createToken(request: TokenRequest): Promise<InstallationToken>;
  /** What the token reaches. GitHub has no such list for the app itself. */
  listRepos(apiUrl: string, token: Credential): Promise<InstallationRepo[]>;
  /** After it resolves the token is dead at GitHub. One that is dead already is no error. */
  destroyToken(apiUrl: string, token: Credential): Promise<void>;
}

const TIMEOUT = 15_000;
const MAX_BODY = 4 * 1024 * 1024;
const MAX_PAGES = 100;

interface Answer {
  readonly status: number;
  readonly json: unknown;
}

export function githubApi(options: { readonly ca?: string } = {}): GitHubApi & { close(): Promise<void> } {
  const agent = new Agent({ connect: { timeout: TIMEOUT, ...compact({ ca: options.ca }) } });

  async function call(
    method: 'GET' | 'POST' | 'DELETE',
    to: string,
    auth: Credential,
    body?: object,
  ): Promise<Answer> {
    const url = new URL(to);
    try {
      const response = await agent.request({
        origin: url.origin,
        path: url.pathname + url.search,
        method,
        // In all: who releases a lease waits for no longer than this.
        signal: AbortSignal.timeout(TIMEOUT),
        headersTimeout: TIMEOUT,
        bodyTimeout: TIMEOUT,
        headers: {
          authorization: `Bearer ${auth.reveal()}`,
          accept: 'application/vnd.github+json',
          'x-github-api-version': '2022-11-28',
          'user-agent': 'postern',
          ...(body && { 'content-type': 'application/json' }),
        },
        ...(body && { body: JSON.stringify(body) }),
      });
      return { status: response.statusCode, json: await readJson(response.body) };
    } catch (cause) {
      const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : '';
      throw failed(`GitHub's API at ${url.host} does not answer${code}.`);
    }
  }

  return {
    async createToken({ apiUrl, jwt, installationId, repositoryIds, permissions }) {
      const body = compact({ repository_ids: repositoryIds, permissions });
      const answer = await call(
        'POST',
        `${apiUrl}/app/installations/${installationId}/access_tokens`,
        jwt,
        body,
      );
      if (answer.status !== 201)
        throw failed(`GitHub refused to mint an installation token: ${why(answer)}.`);
      return readToken(answer.json);
    },
    async listRepos(apiUrl, token) {
      const found: InstallationRepo[] = [];
      for (let page = 1; page <= MAX_PAGES; page++) {
        const answer = await call(
          'GET',
          `${apiUrl}/installation/repositories?per_page=100&page=${page}`,
          token,
        );
        if (answer.status !== 200) throw failed(`GitHub refused to list the installation: ${why(answer)}.`);
        const { total_count: total, repositories } = fields(answer.json);
        const batch = readRepos(repositories);
        if (!batch) throw failed('GitHub answered a list of repositories that cannot be read.');
        found.push(...batch);
        if (batch.length === 0 || found.length >= Number(total)) return found;
      }
      throw failed('The installation covers more repositories than can be listed.');
    },
    async destroyToken(apiUrl, token) {
      const answer = await call('DELETE', `${apiUrl}/installation/token`, token);
      // 401: it is dead already.
      if (answer.status !== 204 && answer.status !== 401)
        throw failed(`GitHub refused to destroy an installation token: ${why(answer)}.`);
    },
    close: () => agent.close(),
  };
}

async function readJson(body: AsyncIterable<Buffer>): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > MAX_BODY) throw Object.assign(new Error('too large'), { code: 'TOO_LARGE' });
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}

function readToken(json: unknown): InstallationToken {
  const { token, expires_at, permissions, repository_selection, repositories } = fields(json);
  const expiresAt = typeof expires_at === 'string' ? Date.parse(expires_at) : Number.NaN;
  if (typeof token !== 'string' || !/^[\x21-\x7e]{1,4096}$/.test(token) || Number.isNaN(expiresAt))
    throw failed('GitHub answered a token that cannot be read.');
  return {
    token: new Credential(token),
    expiresAt,
    permissions: Object.fromEntries(
      Object.entries(fields(permissions)).map(([name, level]) => [name, String(level)]),
    ),
    ...compact({
      repositorySelection: typeof repository_selection === 'string' ? repository_selection : undefined,
      repositories:
        repositories === undefined ? undefined : (readRepos(repositories) ?? [{ id: -1, fullName: '?' }]),
    }),
  };
}

function readRepos(value: unknown): InstallationRepo[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const repos: InstallationRepo[] = [];
  for (const entry of value as unknown[]) {
    const { id, full_name: fullName } = fields(entry);
    if (typeof id !== 'number' || !Number.isSafeInteger(id) || typeof fullName !== 'string') return undefined;
    repos.push({ id, fullName });
  }
  return repos;
}

function fields(value: unknown): { readonly [key: string]: unknown } {
  return typeof value === 'object' && value !== null ? (value as { [key: string]: unknown }) : {};
}

function why({ status, json }: Answer): string {
  const { message } = fields(json);
  // GitHub's messages are short sentences; anything else is not worth the risk of quoting.
  const text = typeof message === 'string' && /^[\w .,:;'()/-]{1,200}$/.test(message) ? `, ${message}` : '';
  return `status ${status}${text}`;
}

function failed(message: string): PosternError {
  return new PosternError('github_app_failed', message);
}
