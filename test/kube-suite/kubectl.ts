// A kubectl for tests: a binary, a kubeconfig and a home of its own, run to its end or started and read line by line.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

export interface Result {
  code: number;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  /** What the command reads; without it, standard input is empty. */
  input?: string | Buffer;
  env?: Record<string, string>;
  /** Milliseconds until it is killed, which is an error. */
  timeout?: number;
  /** Another program in kubectl's place and surroundings. */
  program?: string;
}

export interface Started {
  child: ChildProcess;
  /** Everything that it has written so far. */
  stdout(): string;
  stderr(): string;
  /** Resolves when standard output matches; rejects when it ends, or after the time, without. */
  until(pattern: RegExp, timeout?: number): Promise<void>;
  /** Ends it and waits for that. */
  stop(signal?: NodeJS.Signals): Promise<Result>;
  /** Its end by itself. */
  ended(timeout?: number): Promise<Result>;
}

export interface Kubectl {
  binary: string;
  run(args: readonly string[], options?: RunOptions): Promise<Result>;
  /** run, and an error that shows both outputs unless it exits with 0. @returns standard output */
  ok(args: readonly string[], options?: RunOptions): Promise<string>;
  /** Standard output as bytes, for what is not text. */
  bytes(args: readonly string[], options?: RunOptions): Promise<Buffer>;
  start(args: readonly string[], options?: RunOptions): Started;
}

export interface KubectlOptions {
  binary?: string;
  kubeconfig: string;
  /** Where its caches and home go. */
  folder: string;
  env?: Record<string, string>;
}

const TIMEOUT = 60_000;

export function createKubectl(options: KubectlOptions): Kubectl {
  const binary = options.binary ?? 'kubectl';
  const home = join(options.folder, 'home');
  mkdirSync(home, { recursive: true });
  const launch = (
    args: readonly string[],
    env: Record<string, string> = {},
    program: string = binary,
  ): ChildProcess =>
    spawn(program, args, {
      cwd: options.folder,
      env: {
        PATH: process.env.PATH ?? '/usr/bin:/bin',
        HOME: home,
        TMPDIR: home,
        KUBECONFIG: options.kubeconfig,
        ...options.env,
        ...env,
      },
      stdio: ['pipe', 'pipe', 'pipe'],
    });

  const collect = async (
    args: readonly string[],
    { input, env, timeout = TIMEOUT }: RunOptions = {},
  ): Promise<{ code: number; stdout: Buffer; stderr: Buffer }> => {
    const child = launch(args, env);
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stdout?.on('data', (chunk: Buffer) => out.push(chunk));
    child.stderr?.on('data', (chunk: Buffer) => err.push(chunk));
    child.stdin?.on('error', () => {}); // it may end without reading all
    child.stdin?.end(input);
    const timer = setTimeout(() => child.kill('SIGKILL'), timeout);
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    clearTimeout(timer);
    const stderr = Buffer.concat(err);
    if (code === null) throw new Error(`kubectl ${args.join(' ')} was ended by ${signal}: ${stderr}`);
    return { code, stdout: Buffer.concat(out), stderr };
  };
  const run = async (args: readonly string[], more?: RunOptions): Promise<Result> => {
    const { code, stdout, stderr } = await collect(args, more);
    return { code, stdout: stdout.toString(), stderr: stderr.toString() };
  };
  const failed = (args: readonly string[], { code, stdout, stderr }: Result): Error =>
    new Error(
      `kubectl ${args.join(' ')} exited with ${code}\n${stdout.slice(0, 4000)}\n${stderr.slice(0, 4000)}`,
    );

  return {
    binary,
    run,
    async ok(args, more) {
      const result = await run(args, more);
      if (result.code !== 0) throw failed(args, result);
      return result.stdout;
    },
    async bytes(args, more) {
      const { code, stdout, stderr } = await collect(args, more);
      if (code !== 0) throw failed(args, { code, stdout: '', stderr: stderr.toString() });
      return stdout;
    },
    start: (args, { input, env, program } = {}) => follow(launch(args, env, program), args, input),
  };
}

function follow(child: ChildProcess, args: readonly string[], input: string | Buffer | undefined): Started {
  let stdout = '';
  let stderr = '';
  let done: Result | undefined;
  const watchers = new Set<() => void>();
  const wake = (): void => {
    for (const watcher of [...watchers]) watcher();
  };
  child.stdin?.on('error', () => {});
  if (input !== undefined) child.stdin?.end(input);
  child.stdout?.on('data', (chunk: Buffer) => {
    stdout += chunk;
    wake();
  });
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk;
    wake();
  });
  child.on('close', (code) => {
    done = { code: code ?? -1, stdout, stderr };
    wake();
  });
  const wait = <T>(what: string, look: () => T | undefined, timeout: number): Promise<T> =>
    new Promise((resolve, reject) => {
      const settle = (): void => {
        const found = look();
        if (found === undefined && !done) return;
        clearTimeout(timer);
        watchers.delete(settle);
        if (found !== undefined) resolve(found);
        else reject(new Error(`kubectl ${args.join(' ')} ended without ${what}\n${stdout}\n${stderr}`));
      };
      const timer = setTimeout(() => {
        watchers.delete(settle);
        reject(new Error(`kubectl ${args.join(' ')}: no ${what} in ${timeout} ms\n${stdout}\n${stderr}`));
      }, timeout);
      watchers.add(settle);
      settle();
    });
  return {
    child,
    stdout: () => stdout,
    stderr: () => stderr,
    until: async (pattern, timeout = TIMEOUT) => {
      await wait(String(pattern), () => (pattern.test(stdout) ? true : undefined), timeout);
    },
    ended: (timeout = TIMEOUT) => wait('its end', () => done, timeout),
    stop(signal = 'SIGTERM') {
      if (!done) child.kill(signal);
      return wait('its end', () => done, TIMEOUT);
    },
  };
}
