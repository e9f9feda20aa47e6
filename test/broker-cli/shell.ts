// `postern run … -- sh`, spoken to line by line over its standard input, as an agent would use it.

import { type ChildProcess, spawn } from 'node:child_process';
import { launcher } from '../system/harness.ts';

export interface Shell {
  readonly process: ChildProcess;
  readonly exit: Promise<number | NodeJS.Signals | null>;
  /** Runs a line to its end. */
  exec(line: string): Promise<{ readonly code: number; readonly out: string }>;
  err(): string;
  /** Ends the shell. */
  close(): Promise<number | NodeJS.Signals | null>;
}

export function startShell(
  args: readonly string[],
  env: { readonly [name: string]: string | undefined },
): Shell {
  const child = spawn(process.execPath, [launcher, 'run', ...args, '--', 'sh'], {
    env: env as NodeJS.ProcessEnv,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let out = '';
  let err = '';
  let look = (): void => {};
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString();
    look();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    err += chunk.toString();
  });
  child.stdin.on('error', () => {});
  const exit = new Promise<number | NodeJS.Signals | null>((resolve) =>
    child.once('close', (code, signal) => resolve(code ?? signal)),
  );
  let lines = 0;
  return {
    process: child,
    exit,
    err: () => err,
    exec(line) {
      const mark = `==${++lines}==`;
      return new Promise((resolve, reject) => {
        look = () => {
          const found = new RegExp(`^([\\s\\S]*?)${mark}(\\d+)\n`).exec(out);
          if (!found) return;
          out = out.slice(found[0].length);
          look = () => {};
          resolve({ out: found[1] ?? '', code: Number(found[2]) });
        };
        void exit.then((code) => reject(new Error(`the shell ended with ${code}: ${err}`)));
        child.stdin.write(`( ${line} ) 2>&1 </dev/null; echo "${mark}$?"\n`);
      });
    },
    close() {
      child.stdin.end();
      return exit;
    },
  };
}
