// What every bench stands on: child processes that end with the bench, the peers' configuration, memory and numbers.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const children = new Set<ChildProcess>();
const folders: string[] = [];

export function scratch(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `postern-bench-${name}-`));
  folders.push(folder);
  return folder;
}

/** Starts a program that is ended with the bench at the latest. */
export function start(command: string, args: string[], env: NodeJS.ProcessEnv = process.env): ChildProcess {
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  children.add(child);
  child.once('exit', () => children.delete(child));
  return child;
}

export async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  const force = setTimeout(() => child.kill('SIGKILL'), 5000);
  await gone;
  clearTimeout(force);
}

/** Ends every child and removes every scratch folder. */
export async function cleanUp(): Promise<void> {
  await Promise.all([...children].map(stop));
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}

/** Fails with the package to install, so that a bench never runs without one of its peers. */
export function need(program: string, debianPackage: string): void {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' });
  } catch {
    if (process.getuid?.() !== 0) throw new Error(`${program} is missing: apt-get install ${debianPackage}`);
    execFileSync('sh', ['-c', `apt-get update -q && apt-get install -yq ${debianPackage}`], {
      stdio: 'ignore',
    });
  }
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}

export async function listening(port: number): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    const open = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1');
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
      socket.once('close', () => socket.destroy());
      socket.once('connect', () => socket.destroy());
    });
    if (open) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`nothing listens on port ${port}`);
}

export interface Certificate {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/** A self-signed certificate for loopback, as files. */
export function certificate(folder: string): Certificate {
  const cert = join(folder, 'peer.pem');
  const key = join(folder, 'peer.key');
  execFileSync(
    'openssl',
    // biome-ignore format: pairs
    ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2',
     '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', key, '-out', cert],
    { stdio: 'ignore' },
  );
  return { ca: cert, cert, key };
}

/** nginx with one worker, the same number of processes that carry bytes as the guard has. */
export async function nginx(
  folder: string,
  name: string,
  server: string,
  port: number,
): Promise<ChildProcess> {
  const home = join(folder, name);
  mkdirSync(join(home, 'logs'), { recursive: true });
  writeFileSync(
    join(home, 'nginx.conf'),
    `daemon off; user root; worker_processes 1; pid ${home}/pid; error_log ${home}/logs/error.log error;
events { worker_connections 4096; }
http {
  access_log off; client_max_body_size 0; keepalive_requests 10000000; keepalive_timeout 600s;
  proxy_read_timeout 3600s; proxy_send_timeout 3600s; client_body_timeout 3600s; send_timeout 3600s;
  client_body_temp_path ${home}/body; proxy_temp_path ${home}/proxy; fastcgi_temp_path ${home}/f;
  uwsgi_temp_path ${home}/u; scgi_temp_path ${home}/s;
  ${server}
}
`,
  );
  const child = start('nginx', [
    '-p',
    home,
    '-c',
    join(home, 'nginx.conf'),
    '-e',
    join(home, 'logs/start.log'),
  ]);
  await listening(port);
  return child;
}

/** A TLS front with buffering off that adds a static Authorization, as a peer of the guards. */
export function nginxProxy(options: {
  port: number;
  tls: Certificate;
  upstream: string;
  upstreamCa: string;
  authorization: string;
  extra?: string;
}): string {
  const origin = new URL(options.upstream);
  return `
  upstream up { server ${origin.host}; keepalive 256; keepalive_requests 10000000; }
  server {
    listen 127.0.0.1:${options.port} ssl reuseport backlog=4096;
    ssl_certificate ${options.tls.cert}; ssl_certificate_key ${options.tls.key}; ssl_protocols TLSv1.2 TLSv1.3;
    ${options.extra ?? ''}
    location / {
      proxy_pass https://up; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host ${origin.host}; proxy_set_header Authorization "${options.authorization}";
      proxy_ssl_trusted_certificate ${options.upstreamCa}; proxy_ssl_verify on; proxy_ssl_name localhost;
      proxy_ssl_session_reuse on;
      proxy_buffering off; proxy_request_buffering off;
    }
  }`;
}

/** Peak resident memory of a process and its children since the last reset, in MB. */
export function peakRss(pid: number): { reset(): void; mb(): number } {
  const tree = (root: number): number[] => {
    const found = [root];
    for (const entry of readdirSync('/proc')) {
      if (!/^\d+$/.test(entry)) continue;
      try {
        const parent = Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${entry}/status`, 'utf8'))?.[1]);
        if (parent === root) found.push(...tree(Number(entry)));
      } catch {}
    }
    return found;
  };
  return {
    reset() {
      for (const each of tree(pid)) {
        try {
          writeFileSync(`/proc/${each}/clear_refs`, '5');
        } catch {}
      }
    },
    mb() {
      let total = 0;
      for (const each of tree(pid)) {
        const status = readFileSync(`/proc/${each}/status`, 'utf8');
        total += Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? 0);
      }
      return Math.round(total / 1024);
    },
  };
}

export interface WrkResult {
  readonly rate: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly errors: number;
}

export function wrk(
  url: string,
  headers: Record<string, string>,
  connections: number,
  seconds: number,
): WrkResult {
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '--timeout', '20s'];
  for (const [name, value] of Object.entries(headers)) args.push('-H', `${name}: ${value}`);
  const out = execFileSync('wrk', [...args, url], { encoding: 'utf8' });
  const time = (label: string): number => {
    const found = new RegExp(`^\\s+${label}\\s+([\\d.]+)(us|ms|s)`, 'm').exec(out);
    const scale = { us: 0.001, ms: 1, s: 1000 }[found?.[2] as 'us' | 'ms' | 's'] ?? Number.NaN;
    return Number(found?.[1]) * scale;
  };
  const bad = /Non-2xx or 3xx responses: (\d+)/.exec(out)?.[1];
  const socket = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(out);
  return {
    rate: Number(/Requests\/sec:\s+([\d.]+)/.exec(out)?.[1]),
    p50Ms: time('50%'),
    p99Ms: time('99%'),
    errors: Number(bad ?? 0) + (socket?.slice(1).reduce((sum, text) => sum + Number(text), 0) ?? 0),
  };
}

export function percentile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * p) / 100))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return percentile(values, 50);
}

/** Rows of text, the first being the head, aligned as a Markdown table. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`;
  return [
    line(rows[0] ?? []),
    `|${widths.map((w) => '-'.repeat(w + 2)).join('|')}|`,
    ...rows.slice(1).map(line),
  ].join('\n');
}
