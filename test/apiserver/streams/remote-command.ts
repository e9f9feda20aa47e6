// exec and attach over any transport: five streams, and a Status at the end that says how the command ended, in the
// kubelet's words.

import type { Readable, Writable } from 'node:stream';
import type { Logs } from '../cluster/logs.ts';
import type { PodRuntime, Terminal } from '../cluster/pod-runtime.ts';
import { internal } from '../objects/status.ts';
import type { JsonObject, KObject } from '../objects/values.ts';

export interface RemoteStreams {
  stdin: Readable | undefined;
  stdout: Writable | undefined;
  stderr: Writable | undefined;
  /** The sizes that the client's terminal takes, as they come. */
  onResize(listener: (size: Terminal) => void): void;
  /** The client has gone: nobody waits for the command. */
  onGone(listener: () => void): void;
}

export const SUCCESS: JsonObject = { metadata: {}, status: 'Success' };

function exited(command: readonly string[], code: number): JsonObject {
  if (code === 0) return SUCCESS;
  return {
    metadata: {},
    status: 'Failure',
    message: `command terminated with non-zero exit code: error executing command [${command.join(' ')}], exit code ${code}`,
    reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: String(code) }] },
  };
}

/** @returns the Status for the error stream */
export async function exec(
  runtime: PodRuntime,
  pod: KObject,
  command: readonly string[],
  tty: boolean,
  streams: RemoteStreams,
  onSize: (size: Terminal) => void,
): Promise<JsonObject> {
  const terminal = tty ? await firstSize(streams, onSize) : undefined;
  if (!tty) streams.onResize(onSize);
  const child = runtime.run(pod, command, terminal);
  if (!child)
    return internal(
      `error executing command in container: exec failed: exec: "${command[0]}": executable file not found in $PATH`,
    ).status;
  streams.onGone(() => {
    // As the runtime does: the process stays until it notices that nobody reads or writes.
    child.stdin?.destroy();
    child.stdout?.destroy();
    child.stderr?.destroy();
    if (tty) child.kill('SIGHUP');
  });
  child.stdin?.on('error', () => {});
  if (streams.stdin && child.stdin) streams.stdin.pipe(child.stdin);
  else child.stdin?.end();
  if (streams.stdout) child.stdout?.pipe(streams.stdout, { end: false });
  else child.stdout?.resume();
  if (streams.stderr) child.stderr?.pipe(streams.stderr, { end: false });
  else child.stderr?.resume();
  const code = await new Promise<number>((resolve) => {
    child.on('error', () => resolve(126));
    child.on('close', (status, signal) => resolve(status ?? (signal === 'SIGKILL' ? 137 : 143)));
  });
  return exited(command, code);
}

/** A client with a terminal sends its size at once; one that doesn't gets 80 by 24. */
function firstSize(streams: RemoteStreams, onSize: (size: Terminal) => void): Promise<Terminal> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve({ columns: 80, rows: 24 }), 300);
    streams.onResize((size) => {
      clearTimeout(timer);
      onSize(size);
      resolve(size);
    });
  });
}

/** The container's main process: what it writes is its log, and it repeats what it is told, until its input ends. */
export function attach(
  logs: Logs,
  pod: KObject,
  container: string,
  streams: RemoteStreams,
): Promise<JsonObject> {
  return new Promise((resolve) => {
    const stop = logs.follow(
      pod,
      container,
      (line) => void streams.stdout?.write(`${line.text}\n`),
      () => done(),
    );
    const done = (): void => {
      stop();
      resolve(SUCCESS);
    };
    let rest = '';
    streams.stdin?.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk.toString()).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) logs.emit(pod, container, line);
    });
    streams.stdin?.on('end', () => {
      if (rest !== '') logs.emit(pod, container, rest);
      done();
    });
    streams.onGone(done);
  });
}
