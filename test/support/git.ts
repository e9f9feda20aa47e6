// Real git in a home of its own: nothing of the machine's configuration, nothing on the terminal.

import { spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface GitResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface Git {
  readonly folder: string;
  /** Runs git in `folder` (or `cwd`); never rejects. */
  (args: readonly string[], options?: GitOptions): Promise<GitResult>;
  /** The same, where anything but success is a failure of the test. @returns standard output, trimmed */
  ok(args: readonly string[], options?: GitOptions): Promise<string>;
}

export interface GitOptions {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly input?: string;
}

/** @param config lines of the global configuration */
export function gitHome(config = ''): Git {
  const folder = mkdtempSync(join(tmpdir(), 'postern-test-git-'));
  writeFileSync(
    join(folder, '.gitconfig'),
    `[user]\n\tname = Test\n\temail = test@localhost\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n` +
      `[protocol "file"]\n\tallow = always\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n${config}`,
  );
  const git = (args: readonly string[], options: GitOptions = {}): Promise<GitResult> =>
    new Promise((resolve) => {
      const child = spawn('git', args, {
        cwd: options.cwd ?? folder,
        env: {
          PATH: process.env.PATH,
          HOME: folder,
          GIT_CONFIG_NOSYSTEM: '1',
          GIT_TERMINAL_PROMPT: '0',
          LC_ALL: 'C',
          ...options.env,
        },
      });
      let out = '';
      let err = '';
      child.stdout.setEncoding('utf8').on('data', (text) => {
        out += text;
      });
      child.stderr.setEncoding('utf8').on('data', (text) => {
        err += text;
      });
      child.on('error', (error) => {
        err += error.message;
      });
      child.on('close', (code) => resolve({ code: code ?? -1, out, err }));
      child.stdin.on('error', () => {});
      child.stdin.end(options.input ?? '');
    });
  return Object.assign(git, {
    folder,
    async ok(args: readonly string[], options?: GitOptions): Promise<string> {
      const { code, out, err } = await git(args, options);
      if (code !== 0) throw new Error(`git ${args.join(' ')} ended with ${code}:\n${err}`);
      return out.trim();
    },
  });
}
