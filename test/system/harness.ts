// The product as a user has it: `postern serve` in a process of its own, the CLI as a process, a forge that runs git's own
// server, and a sandbox with nothing but the files of its session.

import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export const launcher = join(import.meta.dirname, '..', '..', 'cli', 'postern.js');

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export type Environment = { readonly [name: string]: string | undefined };

/** Runs a program to its end; a hanging one is killed after two minutes and has failed. */
export function run(
  command: string,
  args: readonly string[],
  options: { env?: Environment; cwd?: string; input?: string } = {},
): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: (options.env ?? process.env) as NodeJS.ProcessEnv,
      stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      timeout: 120_000,
      killSignal: 'SIGKILL',
    });
    child.stdin?.end(options.input);
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stdout?.on('data', (chunk: Buffer) => out.push(chunk));
    child.stderr?.on('data', (chunk: Buffer) => err.push(chunk));
    child.once('error', reject);
    child.once('close', (code) =>
      resolve({ code: code ?? 128, out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString() }),
    );
  });
}

export function scratch(name: string): { folder: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), `postern-${name}-`));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** A port that a restarted server can come back to. */
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

export interface Server {
  readonly process: ChildProcess;
  readonly ready: {
    readonly git: string;
    readonly kube: string;
    readonly control: string;
    readonly ops: string;
  };
  /** Everything it printed so far. */
  output(): string;
  kill(signal?: NodeJS.Signals): Promise<number | NodeJS.Signals | null>;
}

/** @param config path of the configuration file */
export async function serve(config: string, env: Environment = process.env): Promise<Server> {
  const child = spawn(process.execPath, [launcher, 'serve', '--config', config], {
    env: env as NodeJS.ProcessEnv,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output: string[] = [];
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk.toString()));
  const exit = new Promise<number | NodeJS.Signals | null>((resolve) =>
    child.once('exit', (code, signal) => resolve(code ?? signal)),
  );
  const ready = await new Promise<Server['ready']>((resolve, reject) => {
    void exit.then((code) => reject(new Error(`serve ended with ${code}: ${output.join('')}`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      output.push(`${line}\n`);
      if (line.includes('"msg":"ready"')) resolve(JSON.parse(line));
    });
  });
  return {
    process: child,
    ready,
    output: () => output.join(''),
    kill: (signal = 'SIGTERM') => {
      child.kill(signal);
      return exit;
    },
  };
}

/** Writes a configuration: YAML accepts JSON. @returns its path */
export function configure(folder: string, settings: { [key: string]: unknown }): string {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, 'postern.yaml');
  writeFileSync(
    path,
    JSON.stringify({
      dataDir: join(folder, 'var'),
      kube: { enabled: false },
      ops: { listen: '127.0.0.1:0' },
      ...settings,
    }),
  );
  return path;
}

export function postern(config: string, ...args: string[]): Promise<Ran> {
  return run(process.execPath, [launcher, ...args, '--config', config]);
}

/** A sandbox: a home of its own, no terminal, and the environment that `--out` wrote. */
export function sandbox(folder: string, files: string): Environment & { readonly HOME: string } {
  const home = join(folder, `home-${randomBytes(4).toString('hex')}`);
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, '.gitconfig'), '[user]\n\tname = sandbox\n\temail = sandbox@localhost\n');
  const exported: { [name: string]: string } = {};
  for (const [, name = '', value = ''] of readFileSync(join(files, 'env'), 'utf8').matchAll(
    /^export (\w+)='(.*)'$/gm,
  ))
    exported[name] = value;
  return { PATH: process.env.PATH, HOME: home, LC_ALL: 'C', GIT_TERMINAL_PROMPT: '0', ...exported };
}
