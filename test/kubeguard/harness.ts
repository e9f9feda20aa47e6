// A guard in this process with a real session registry over a store in memory, in front of whatever upstream a test
// names, and with a trail that can be read. kubectl is run as a person runs it: with the kubeconfig of the session.

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import type { AuditEvent } from '../../audit/event.ts';
import type { AuditLog, Durability } from '../../audit/log.ts';
import { systemClock } from '../../common/clock.ts';
import { Credential } from '../../common/credential.ts';
import {
  createKubeGuard,
  type KubeGuardConfig,
  type KubeGuardDeps,
  type RunningKubeGuard,
} from '../../kubeguard/guard.ts';
import type { IssuedKubeSession, KubeClusterInput } from '../../sessions/guards.ts';
import { openBench } from '../sessions/setup.ts';
import { type TestCertificates, testCertificates, tlsOf } from '../support/certificates.ts';

export interface Trail extends AuditLog {
  readonly events: { event: AuditEvent; durability: Durability }[];
  /** Set to make every append fail. */
  broken: Error | undefined;
  of(action: AuditEvent['action']): AuditEvent[];
}

export function trail(): Trail {
  const events: Trail['events'] = [];
  const log: Trail = {
    events,
    broken: undefined,
    async append(event, durability) {
      if (log.broken) throw log.broken;
      events.push({ event, durability });
    },
    of: (action) => events.filter(({ event }) => event.action === action).map(({ event }) => event),
    health: () => ({ ok: true }),
    async close() {},
  } as Trail;
  return log;
}

export const CANARY = 'custody-canary-token-8b7d';

/** A kubeconfig for any upstream. */
export function kubeconfigFor(
  origin: string,
  user: object = { token: CANARY },
  cluster: object = {},
): string {
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    clusters: [{ name: 'c', cluster: { server: origin, ...cluster } }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'test', context: { cluster: 'c', user: 'u', namespace: 'team-a' } }],
  });
}

export interface Held {
  readonly guard: RunningKubeGuard;
  readonly port: number;
  readonly ca: string;
  readonly trail: Trail;
  readonly bench: Awaited<ReturnType<typeof openBench>>;
  issue(
    input: Omit<KubeClusterInput, 'kubeconfig'> & { kubeconfig: string },
    more?: { ttl?: number; leaseId?: string; managedBy?: 'broker' },
  ): Promise<Session>;
}

export interface Session extends IssuedKubeSession {
  readonly token: string;
  /** `/c/<segment>` of the current context. */
  readonly prefix: string;
  /** The delivered kubeconfig, on disk. */
  readonly file: string;
}

let certificates: TestCertificates | undefined;
const closers: (() => Promise<void> | void)[] = [];
const children = new Set<ChildProcess>();

/** After all tests of a file. */
export async function closeAll(): Promise<void> {
  for (const child of children) child.kill('SIGKILL');
  for (const close of closers.splice(0).reverse()) await close();
}

export function onClose(close: () => Promise<void> | void): void {
  closers.push(close);
}

export async function startGuard(
  config: Partial<KubeGuardConfig> = {},
  deps: Partial<KubeGuardDeps> = {},
  settings: { maxConcurrent?: number } = {},
): Promise<Held> {
  certificates ??= testCertificates();
  const certs = certificates;
  const bench = await openBench({
    settings: { maxConcurrent: 1_000, ...settings },
    clock: deps.clock ?? systemClock,
  });
  const log = trail();
  const guard = createKubeGuard(
    {
      ceiling: { verbs: [], namespaces: [], resources: [] },
      execPlugins: [],
      maxBodyBytes: 3_145_728,
      ...config,
    },
    {
      sessions: bench.sessions,
      audit: log,
      clock: systemClock,
      tls: tlsOf(certs),
      trustBundle: () => certs.ca,
      ...deps,
    },
  );
  const { port } = await guard.listen('127.0.0.1', 0);
  const folder = mkdtempSync(join(tmpdir(), 'postern-kube-'));
  onClose(async () => {
    await bench.sessions.endAll();
    await guard.close(1_000);
    await bench.close();
    rmSync(folder, { recursive: true, force: true });
  });
  let count = 0;
  return {
    guard,
    port,
    ca: certs.ca,
    trail: log,
    bench,
    async issue({ kubeconfig, ...input }, more = {}) {
      const issued = await guard.issue({
        leaseId: 'lease-1',
        actor: 'test',
        ...more,
        clusters: [{ contexts: ['test'], kubeconfig: new Credential(kubeconfig), ...input }],
      });
      const text = issued.kubeconfig.reveal();
      const document = parse(text);
      const file = join(folder, `kubeconfig-${++count}`);
      writeFileSync(file, text, { mode: 0o600 });
      return {
        ...issued,
        token: document.users[0].user.token,
        prefix: new URL(document.clusters[0].cluster.server).pathname,
        file,
      };
    },
  };
}

export interface Got {
  readonly status: number;
  readonly headers: { readonly [name: string]: string | string[] | undefined };
  readonly body: Buffer;
  json(): { [key: string]: unknown } & {
    message?: string;
    reason?: string;
    details?: { causes?: { reason: string }[] };
  };
}

/** One request through the guard; the path is sent as it is. */
export function ask(
  held: Held,
  session: Pick<Session, 'token' | 'prefix'> | undefined,
  method: string,
  path: string,
  {
    body,
    headers = {},
    raw = false,
  }: { body?: string | Buffer; headers?: RequestOptions['headers']; raw?: boolean } = {},
): Promise<Got> {
  return new Promise((resolve, reject) => {
    const request = httpsRequest({
      host: '127.0.0.1',
      port: held.port,
      ca: held.ca,
      method,
      path: raw ? path : `${session?.prefix ?? ''}${path}`,
      agent: false,
      headers: { ...(session ? { Authorization: `Bearer ${session.token}` } : {}), ...(headers as object) },
    });
    request.on('error', reject);
    request.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const all = Buffer.concat(chunks);
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: all,
          json: () => JSON.parse(all.toString('utf8')),
        });
      });
    });
    request.end(body);
  });
}

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Programs that tests of this room may run in place of the system's kubectl. */
export function kubectl(
  session: Pick<Session, 'file'>,
  args: readonly string[],
  options: {
    input?: string | Buffer;
    program?: string;
    timeout?: number;
    env?: { [name: string]: string };
  } = {},
): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(
      options.program ?? 'kubectl',
      ['--kubeconfig', session.file, ...args],
      {
        maxBuffer: 256 * 1024 * 1024,
        timeout: options.timeout ?? 60_000,
        env: { PATH: process.env.PATH ?? '', HOME: '/nonexistent', ...options.env },
      },
      (error, stdout, stderr) => {
        children.delete(child);
        resolve({ code: error ? ((error as { code?: number }).code ?? null) : 0, stdout, stderr });
      },
    );
    children.add(child);
    child.stdin?.on('error', () => {});
    child.stdin?.end(options.input ?? '');
  });
}

export interface Started {
  readonly child: ChildProcess;
  out(): string;
  err(): string;
  readonly ended: Promise<Ran>;
}

export function startKubectl(
  session: Pick<Session, 'file'>,
  args: readonly string[],
  options: { program?: string; env?: { [name: string]: string } } = {},
): Started {
  const child = spawn(options.program ?? 'kubectl', ['--kubeconfig', session.file, ...args], {
    env: { PATH: process.env.PATH ?? '', HOME: '/nonexistent', ...options.env },
  });
  children.add(child);
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk;
  });
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk;
  });
  const ended = new Promise<Ran>((resolve) => {
    child.on('close', (code) => {
      children.delete(child);
      resolve({ code, stdout, stderr });
    });
  });
  return { child, out: () => stdout, err: () => stderr, ended };
}
