// A command as a child with this process's terminal: it gets the signals that reach this process, and its status is told
// as a shell tells it. It stays in this process group, so that a terminal's job control works; what a terminal sends it
// sends to the whole group, and is not passed on a second time.

import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';

export interface Child {
  /** Its status: of its own, 128 and the signal's number, 127 where there is no such command, 126 where it can't run. */
  readonly status: Promise<number>;
  kill(signal: NodeJS.Signals): void;
}

/** @param say what goes wrong at the start */
export function startChild(
  command: readonly string[],
  env: { readonly [name: string]: string },
  say: (text: string) => void,
): Child {
  const [file = '', ...args] = command;
  let child: ChildProcess;
  const status = new Promise<number>((resolve) => {
    const failed = (error: NodeJS.ErrnoException): void => {
      const missing = error.code === 'ENOENT' || error.code === 'ENOTDIR';
      say(`${file}: ${missing ? 'command not found' : `can't be run (${error.code ?? 'failed'})`}`);
      resolve(missing ? 127 : 126);
    };
    try {
      child = spawn(file, args, { stdio: 'inherit', env });
    } catch (error) {
      // A word that no program can be given: a NUL byte, or more than the system takes.
      failed(error as NodeJS.ErrnoException);
      return;
    }
    child.once('error', (error) => {
      if (child.pid === undefined) failed(error);
    });
    child.once('exit', (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)));
  });
  return {
    status,
    kill(signal) {
      child?.kill(signal);
    },
  };
}

const PASSED: readonly NodeJS.Signals[] = [
  'SIGINT',
  'SIGTERM',
  'SIGHUP',
  'SIGQUIT',
  'SIGUSR1',
  'SIGUSR2',
  'SIGWINCH',
];
/** A terminal sends these to every process of the group itself. */
const FROM_TERMINAL: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT'];
/** A signal to the whole group comes a second time from a launcher that passes it on. */
const SAME_SIGNAL_MS = 100;

/** Calls `pass` for every signal that is to reach the child, and keeps them from ending this process. */
export function catchSignals(pass: (signal: NodeJS.Signals) => void): () => void {
  const terminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
  const last = new Map<NodeJS.Signals, number>();
  const on = (signal: NodeJS.Signals): void => {
    const now = performance.now();
    const repeated = now - (last.get(signal) ?? Number.NEGATIVE_INFINITY) < SAME_SIGNAL_MS;
    last.set(signal, now);
    if (repeated || (terminal && FROM_TERMINAL.includes(signal))) return;
    pass(signal);
  };
  for (const signal of PASSED) process.on(signal, on);
  return () => {
    for (const signal of PASSED) process.off(signal, on);
  };
}
