// What the demo stands on: it says what it is about to do, does it with the real programs, shows what they printed and
// checks it. A step that does not go as told throws, and the demo fails with it.

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const launcher = join(import.meta.dirname, '..', 'postern.js');

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export class NotAsTold extends Error {}

export interface Stage {
  /** Private, removed at the end. */
  readonly folder: string;
  say(text: string): void;
  /** Runs a step; its title is numbered. */
  step(title: string, play: () => Promise<void>): Promise<void>;
  /** Runs a shell line the way a person would, shows it and what it printed. */
  shell(line: string, options?: { env?: Environment; cwd?: string; quiet?: boolean }): Promise<Ran>;
  /** Starts a shell line and goes on; the caller awaits `done`. */
  begin(line: string, options?: { env?: Environment; cwd?: string }): { done: Promise<Ran> };
  expect(holds: boolean, what: string): void;
  /** Starts `postern serve` with a configuration file. @returns the fields of its ready line */
  serve(config: string): Promise<{ [name: string]: string }>;
  /** Runs `postern` as the person outside the sandbox; shown without the configuration's path. */
  postern(args: readonly string[], config: string): Promise<Ran>;
  onEnd(what: () => void | Promise<void>): void;
  end(): Promise<void>;
}

export type Environment = { readonly [name: string]: string | undefined };

export async function openStage(write: (text: string) => void): Promise<Stage> {
  const folder = await mkdtemp(join(tmpdir(), 'postern-demo-'));
  const ending: (() => void | Promise<void>)[] = [];
  let steps = 0;
  const color = process.stdout.isTTY && !process.env.NO_COLOR;
  const paint = (code: string, text: string): string => (color ? `\u001b[${code}m${text}\u001b[0m` : text);
  const shorten = (text: string): string => text.replaceAll(folder, '…');
  const show = (text: string): void => {
    const lines = text
      .replaceAll('\r', '\n')
      .split('\n')
      .filter((line) => line.trim() !== '');
    for (const line of lines) write(`     ${paint('2', shorten(line))}\n`);
  };

  const run = (command: string, args: readonly string[], env: Environment, cwd: string): Promise<Ran> =>
    new Promise((resolve, reject) => {
      const child = spawn(command, args, {
        cwd,
        env: env as NodeJS.ProcessEnv,
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let out = '';
      let err = '';
      child.stdout.on('data', (chunk: Buffer) => {
        out += chunk.toString();
      });
      child.stderr.on('data', (chunk: Buffer) => {
        err += chunk.toString();
      });
      child.once('error', reject);
      child.once('close', (code) => resolve({ code: code ?? 1, out, err }));
    });

  const stage: Stage = {
    folder,
    say: (text) => write(`${text}\n`),
    async step(title, play) {
      steps += 1;
      write(`\n${paint('1', `${steps}. ${title}`)}\n`);
      await play();
    },
    async shell(line, options = {}) {
      write(`   ${paint('36', `$ ${shorten(line)}`)}\n`);
      const ran = await run('sh', ['-c', line], options.env ?? process.env, options.cwd ?? folder);
      if (!options.quiet) show(ran.out + ran.err);
      return ran;
    },
    begin(line, options = {}) {
      write(`   ${paint('36', `$ ${shorten(line)} &`)}\n`);
      return { done: run('sh', ['-c', line], options.env ?? process.env, options.cwd ?? folder) };
    },
    expect(holds, what) {
      if (!holds) throw new NotAsTold(what);
      write(`   ${paint('32', '✓')} ${what}\n`);
    },
    serve(config) {
      const child: ChildProcess = spawn(process.execPath, [launcher, 'serve', '--config', config], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
      ending.push(async () => {
        child.kill('SIGTERM');
        const force = setTimeout(() => child.kill('SIGKILL'), 5_000);
        await gone;
        clearTimeout(force);
      });
      return new Promise((resolve, reject) => {
        child.once('error', reject);
        child.once('exit', (code) => reject(new NotAsTold(`the server ended with status ${code}`)));
        createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
          const entry = JSON.parse(line) as { msg?: string } & { [name: string]: string };
          if (entry.msg === 'ready') resolve(entry);
        });
      });
    },
    async postern(args, config) {
      write(`   ${paint('36', `$ postern ${shorten(args.map(word).join(' '))}`)}\n`);
      const ran = await run(process.execPath, [launcher, ...args, '--config', config], process.env, folder);
      show(ran.out + ran.err);
      return ran;
    },
    onEnd: (what) => void ending.push(what),
    async end() {
      for (const what of ending.reverse()) await what();
      await rm(folder, { recursive: true, force: true });
    },
  };
  return stage;
}

/** As a shell would want it, for show. */
function word(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
