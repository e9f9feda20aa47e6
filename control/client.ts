// A small typed client of the control API, over the Unix socket or over TLS with a token. An error of the server comes
// back as the PosternError that it was there, with its code, key and remedy; a server that can't be reached is
// `unreachable`. The schemas are imported as types only: a command starts without the framework.

import { readFile } from 'node:fs/promises';
import { request as httpRequest, type RequestOptions } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { z } from 'zod';
import { safePath } from '../broker/safe-ref.ts';
import { Credential } from '../common/credential.ts';
import { ERROR_CODES, type ErrorCode, PosternError } from '../common/errors.ts';
import type { Explanation } from '../sessions/guards.ts';
import { USER_HEADER } from './auth.ts';
import type * as shape from './schemas.ts';
import type { caAnswer, Status } from './server-routes.ts';

export type Target =
  | { readonly socket: string; readonly user: string }
  | { readonly server: string; readonly token: Credential; readonly ca?: string };

export type GitAnswer = z.output<typeof shape.gitSessionAnswer>;
export type KubeAnswer = z.output<typeof shape.kubeSessionAnswer>;
/** What is sent, with the credential still in its wrapper. */
export type GitRequest = Omit<z.input<typeof shape.gitSessionRequest>, 'credentials'> & {
  readonly credentials: readonly (Omit<
    z.input<typeof shape.gitSessionRequest>['credentials'][number],
    'token'
  > & { readonly token: Credential })[];
};
export type KubeRequest = Omit<z.input<typeof shape.kubeSessionRequest>, 'clusters'> & {
  readonly clusters: readonly (Omit<
    z.input<typeof shape.kubeSessionRequest>['clusters'][number],
    'kubeconfig'
  > & { readonly kubeconfig: Credential })[];
};

export interface ControlClient {
  issueGit(body: GitRequest): Promise<GitAnswer>;
  issueKube(body: KubeRequest): Promise<KubeAnswer>;
  sessions(filter?: { leaseId?: string; guard?: 'git' | 'kube' }): Promise<{ sessions: shape.SessionView[] }>;
  session(id: string): Promise<shape.SessionView>;
  renew(id: string, ttl?: string): Promise<{ sessionId: string; expiresAt: string; hardExpiresAt: string }>;
  revoke(id: string): Promise<{ sessionId: string; revoked: true }>;
  revokeLease(leaseId: string): Promise<{ leaseId: string; revoked: string[] }>;
  removeGrant(id: string, grantId: string): Promise<{ sessionId: string; grantId: string; removed: true }>;
  explain(id: string, request: z.input<typeof shape.explainRequest>): Promise<Explanation>;
  status(): Promise<Status>;
  ca(): Promise<z.output<typeof caAnswer>>;
  /** Any other call. */
  call<T>(method: 'GET' | 'POST' | 'DELETE', path: string, body?: unknown): Promise<T>;
}

/** @throws PosternError `invalid_input` where the URL is not https, or http of a loopback address */
export function createClient(target: Target): ControlClient {
  const call = <T>(method: 'GET' | 'POST' | 'DELETE', path: string, body?: unknown): Promise<T> =>
    send(target, method, path, body) as Promise<T>;
  const at = (...parts: string[]): string => `/v1/${parts.map(encodeURIComponent).join('/')}`;
  return {
    call,
    issueGit: (body) =>
      call('POST', at('sessions', 'git'), {
        ...body,
        credentials: body.credentials.map((entry) => ({ ...entry, token: entry.token.reveal() })),
      }),
    issueKube: (body) =>
      call('POST', at('sessions', 'kube'), {
        ...body,
        clusters: body.clusters.map((entry) => ({ ...entry, kubeconfig: entry.kubeconfig.reveal() })),
      }),
    sessions: (filter = {}) => call('GET', `${at('sessions')}${query(filter)}`),
    session: (id) => call('GET', at('sessions', id)),
    renew: (id, ttl) => call('POST', at('sessions', id, 'renew'), ttl === undefined ? {} : { ttl }),
    revoke: (id) => call('DELETE', at('sessions', id)),
    revokeLease: (leaseId) => call('DELETE', at('leases', leaseId, 'sessions')),
    removeGrant: (id, grantId) => call('DELETE', at('sessions', id, 'grants', grantId)),
    explain: (id, request) => call('POST', at('sessions', id, 'explain'), request),
    status: () => call('GET', at('status')),
    ca: () => call('GET', at('ca')),
  };
}

/** `?a=b`, without the members that are absent. */
export function query(members: { readonly [name: string]: string | undefined }): string {
  const given = Object.entries(members).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
}

/**
 * The target that flags and variables name: a server with its token file, else the socket.
 * @throws PosternError `invalid_input`
 */
export async function serverTarget(given: {
  readonly server: string;
  readonly tokenFile: string | undefined;
  readonly caFile: string | undefined;
}): Promise<Target> {
  if (!given.tokenFile)
    throw new PosternError('invalid_input', 'A server needs a token, and no file holds one.', {
      key: 'POSTERN_TOKEN_FILE',
      remedy: 'Put the token into a file of mode 0600 and name it in POSTERN_TOKEN_FILE.',
    });
  const token = (await readOf(given.tokenFile, 'POSTERN_TOKEN_FILE')).trim();
  if (!token)
    throw new PosternError('invalid_input', `POSTERN_TOKEN_FILE: ${safePath(given.tokenFile)} is empty.`, {
      key: 'POSTERN_TOKEN_FILE',
    });
  const target = { server: given.server, token: new Credential(token) };
  return given.caFile ? { ...target, ca: await readOf(given.caFile, 'POSTERN_CA_FILE') } : target;
}

async function readOf(path: string, key: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const cause = error as NodeJS.ErrnoException;
    throw new PosternError(
      'invalid_input',
      `${key}: ${safePath(path)} can't be read (${cause.code ?? 'failed'}).`,
      {
        key,
        cause,
      },
    );
  }
}

function connection(target: Target): { options: RequestOptions; secure: boolean; prefix: string } {
  if ('socket' in target)
    return {
      options: { socketPath: target.socket, headers: { [USER_HEADER]: target.user } },
      secure: false,
      prefix: '',
    };
  const url = URL.canParse(target.server) ? new URL(target.server) : undefined;
  if (url?.protocol !== 'https:' || url.username || url.password || url.search || url.hash)
    throw new PosternError('invalid_input', '--server must be an https URL without user information.', {
      key: '--server',
      remedy: 'Write https://host:port, as control.listen serves it.',
    });
  return {
    options: {
      hostname: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port || 443,
      headers: { authorization: `Bearer ${target.token.reveal()}` },
      ...(target.ca === undefined ? {} : { ca: target.ca }),
    },
    secure: true,
    prefix: url.pathname.replace(/\/$/, ''),
  };
}

function send(target: Target, method: string, path: string, body: unknown): Promise<unknown> {
  const { options, secure, prefix } = connection(target);
  const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  const headers = {
    ...options.headers,
    accept: 'application/json',
    ...(payload && { 'content-type': 'application/json', 'content-length': payload.length }),
  };
  return new Promise((resolve, reject) => {
    const request = (secure ? httpsRequest : httpRequest)(
      { ...options, method, path: `${prefix}${path}`, headers, agent: false },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', (cause) => reject(unreachable(target, cause)));
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          const status = response.statusCode ?? 0;
          try {
            const answer: unknown = JSON.parse(text);
            if (status >= 200 && status < 300) resolve(answer);
            else reject(fromProblem(answer, status));
          } catch {
            reject(fromProblem(undefined, status));
          }
        });
      },
    );
    request.on('error', (cause) => reject(unreachable(target, cause)));
    request.end(payload);
  });
}

function fromProblem(problem: unknown, status: number): PosternError {
  const { code, detail, key, remedy } = (problem ?? {}) as { [member: string]: unknown };
  if (typeof code !== 'string' || !(code in ERROR_CODES))
    return new PosternError(
      'unreachable',
      `What answers there is no Postern control API (status ${status}).`,
      {
        key: '--server',
      },
    );
  return new PosternError(code as ErrorCode, String(detail), {
    ...(typeof key === 'string' && { key }),
    ...(typeof remedy === 'string' && { remedy }),
  });
}

function unreachable(target: Target, cause: Error): PosternError {
  const code = 'code' in cause ? String(cause.code) : 'failed';
  if ('socket' in target)
    return new PosternError('unreachable', `No server answers at ${target.socket} (${code}).`, {
      key: 'control.socket',
      remedy: 'Start postern serve with the same configuration, or name a server with --server.',
      cause,
    });
  return new PosternError('unreachable', `${new URL(target.server).origin} can't be reached (${code}).`, {
    key: '--server',
    remedy: 'See that control.listen is set there and that POSTERN_CA_FILE holds the CA of that server.',
    cause,
  });
}
