// Where the containers of the test pods live: a private folder for each pod, in which exec'd commands run for real as
// child processes of this machine, and an echo server behind its ports. Only the commands listed exist "in the image".

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { KObject } from '../objects/values.ts';

export interface PodRuntime {
  folder(pod: KObject): string;
  /** @returns undefined when the image has no such program */
  run(pod: KObject, command: readonly string[], terminal: Terminal | undefined): ChildProcess | undefined;
  /** A connection to a port of the pod; rejected like a port that nobody listens on. */
  dial(pod: KObject, port: number): Promise<Socket>;
  /** Lets a pod's port lead to a real port of this machine; by default every port echoes. */
  map(podName: string, port: number, to: number): void;
  stop(pod: KObject): void;
  running(): number;
  close(): Promise<void>;
}

export interface Terminal {
  columns: number;
  rows: number;
}

const PROGRAMS = new Set(
  'sh seq cat tar echo true false sleep head tail wc ls env pwd printf sha256sum md5sum dd date id hostname test tty stty mkdir rm touch'.split(
    ' ',
  ),
);

export function createPodRuntime(): PodRuntime {
  let root: string | undefined; // made when a pod first needs it
  const processes = new Map<string, Set<ChildProcess>>();
  const mapped = new Map<string, number>();
  const sockets = new Set<Socket>();
  let echo: Promise<Server> | undefined;

  const folder = (pod: KObject): string => {
    root ??= mkdtempSync(join(tmpdir(), 'test-apiserver-'));
    const path = join(root, pod.metadata.uid);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    return path;
  };
  const echoPort = async (): Promise<number> => {
    echo ??= new Promise((resolve, reject) => {
      const server = createServer({ allowHalfOpen: true }, (socket) => {
        sockets.add(socket);
        socket.on('close', () => sockets.delete(socket));
        socket.on('error', () => {});
        socket.pipe(socket);
      });
      server.on('error', reject);
      server.listen(0, '127.0.0.1', () => resolve(server));
      server.unref();
    });
    return ((await echo).address() as AddressInfo).port;
  };
  const kill = (child: ChildProcess): void => {
    // Each one leads its own group, so that what a shell started ends with it.
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // It ended by itself.
    }
  };

  return {
    folder,
    run(pod, command, terminal) {
      const [program = '', ...args] = command;
      if (!PROGRAMS.has(program.replace(/^\/(usr\/)?bin\//, ''))) return undefined;
      const home = folder(pod);
      const argv = terminal ? inTerminal(command, terminal) : [program, ...args];
      const child = spawn(argv[0] ?? '', argv.slice(1), {
        cwd: home,
        detached: true,
        stdio: ['pipe', 'pipe', 'pipe'],
        env: {
          PATH: '/usr/local/bin:/usr/bin:/bin',
          HOME: home,
          HOSTNAME: pod.metadata.name,
          ...(terminal ? { TERM: 'xterm', SHELL: '/bin/sh' } : {}),
        },
      });
      const own = processes.get(pod.metadata.uid) ?? new Set();
      processes.set(pod.metadata.uid, own.add(child));
      child.on('error', () => {});
      child.on('close', () => own.delete(child));
      return child;
    },
    async dial(pod, port) {
      const to = mapped.get(`${pod.metadata.name}:${port}`) ?? (await echoPort());
      return new Promise((resolve, reject) => {
        const socket = connect({ port: to, host: '127.0.0.1', allowHalfOpen: true });
        socket.once('error', reject);
        socket.once('connect', () => {
          socket.off('error', reject);
          sockets.add(socket);
          socket.on('close', () => sockets.delete(socket));
          resolve(socket);
        });
      });
    },
    map: (podName, port, to) => void mapped.set(`${podName}:${port}`, to),
    stop(pod) {
      for (const child of processes.get(pod.metadata.uid) ?? []) kill(child);
      processes.delete(pod.metadata.uid);
      if (root) rmSync(join(root, pod.metadata.uid), { recursive: true, force: true });
    },
    running: () => [...processes.values()].reduce((sum, own) => sum + own.size, 0),
    async close() {
      for (const own of processes.values()) for (const child of own) kill(child);
      for (const socket of sockets) socket.destroy();
      const server = await echo;
      if (server) await new Promise((resolve) => server.close(resolve));
      if (root) rmSync(root, { recursive: true, force: true });
    },
  };
}

/** Under util-linux' `script`, which gives the command a real terminal of the size asked for. */
function inTerminal(command: readonly string[], { columns, rows }: Terminal): string[] {
  const quoted = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
  return ['script', '-qefc', `stty rows ${rows} cols ${columns}; exec ${quoted}`, '/dev/null'];
}
