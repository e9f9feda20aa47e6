// Revoking a session while real kubectls watch, follow logs and run commands through it: when is each of them over after
// DELETE has answered, with which status, and what did it print?

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import type { Guard } from './guard.ts';
import { percentile } from './tools.ts';

export interface CutKind {
  readonly kind: string;
  readonly clients: number;
  readonly ended: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** `0` or `0, 1`: the exit statuses that were seen. */
  readonly exits: string;
  readonly printed: string;
}

interface Client {
  readonly kind: string;
  readonly child: ChildProcess;
  out: string;
  endedAt: number;
  code: number | null;
}

const POD = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'bench', namespace: 'team-a' },
  spec: { containers: [{ name: 'main', image: 'main' }] },
};

export async function revokeKubectls(options: {
  folder: string;
  guard: Guard;
  apiConfig: string;
  issued: { readonly sessionId: string; readonly kubeconfig: string };
  watches: number;
  logs: number;
  execs: number;
}): Promise<CutKind[]> {
  const config = join(options.folder, 'revoked.kubeconfig');
  writeFileSync(config, options.issued.kubeconfig, { mode: 0o600 });
  const direct = (...args: string[]) =>
    execFileSync('kubectl', ['--kubeconfig', options.apiConfig, ...args], {
      input: JSON.stringify(POD),
      encoding: 'utf8',
    });
  direct('create', 'namespace', 'team-a');
  direct('create', '-f', '-');
  direct('-n', 'team-a', 'wait', '--for=condition=Ready', 'pod/bench', '--timeout=20s');

  const clients: Client[] = [];
  const begin = (kind: string, ...args: string[]): void => {
    const child = spawn('kubectl', ['--kubeconfig', config, '-n', 'team-a', ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const client: Client = { kind, child, out: '', endedAt: 0, code: null };
    const hear = (chunk: Buffer): void => {
      client.out = (client.out + chunk).slice(-4000);
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    child.once('close', (code) => {
      client.endedAt = performance.now();
      client.code = code;
    });
    clients.push(client);
  };
  // A few at a time: starting a kubectl costs more than running one.
  const all = [
    ...Array.from({ length: options.watches }, () => ['watches', 'get', 'pods', '-w'] as const),
    ...Array.from({ length: options.logs }, () => ['logs -f', 'logs', '-f', 'bench'] as const),
    ...Array.from(
      { length: options.execs },
      () => ['execs', 'exec', 'bench', '--', 'sh', '-c', 'echo up; sleep 600'] as const,
    ),
  ];
  for (let i = 0; i < all.length; i += 10) {
    for (const [kind, ...args] of all.slice(i, i + 10)) begin(kind, ...args);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
  }
  const isUp = ({ kind, out, child }: Client): boolean =>
    child.exitCode === null && (kind === 'logs -f' || out.length > 0);
  for (let tries = 0; tries < 120 && !clients.every(isUp); tries++)
    await new Promise((resolve) => setTimeout(resolve, 500));
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  const down = clients.filter((client) => !isUp(client));
  if (down.length > 0) throw new Error(`${down.length} kubectls did not get under way: ${down[0]?.out}`);

  const answeredAt = await new Promise<number>((resolve, reject) => {
    request(
      {
        socketPath: join(options.guard.config, '..', 'var', 'control.sock'),
        method: 'DELETE',
        path: `/v1/sessions/${options.issued.sessionId}`,
      },
      (res) => {
        const at = performance.now();
        res.resume().once('end', () => resolve(at));
      },
    )
      .once('error', reject)
      .end();
  });
  for (let tries = 0; tries < 60 && clients.some(({ endedAt }) => endedAt === 0); tries++)
    await new Promise((resolve) => setTimeout(resolve, 250));
  for (const { child, endedAt } of clients) if (endedAt === 0) child.kill('SIGKILL');

  return ['watches', 'logs -f', 'execs'].map((kind) => {
    const of = clients.filter((client) => client.kind === kind);
    const ended = of.filter(({ endedAt }) => endedAt > 0);
    const late = ended.map(({ endedAt }) => Math.max(0, endedAt - answeredAt));
    const lastLines = new Set(
      of.map(({ out }) => (out.trim().split('\n').at(-1) ?? '').replace(/req_\w+/g, 'req_…').slice(0, 120)),
    );
    return {
      kind,
      clients: of.length,
      ended: ended.length,
      p50Ms: percentile(late, 50),
      p99Ms: percentile(late, 99),
      exits: [...new Set(of.map(({ code }) => String(code)))].join(', '),
      printed: [...lastLines].slice(0, 2).join(' / ') || '(nothing)',
    };
  });
}
