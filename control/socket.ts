// The control socket's file: where it is, who may open it, and what to do with one that an earlier process left. A
// socket is replaced only when nobody answers behind it; anything else at its path is left alone and named.

import { lstat, mkdir, unlink } from 'node:fs/promises';
import { connect, type Server } from 'node:net';
import { dirname } from 'node:path';
import { PosternError } from '../common/errors.ts';

/** @throws PosternError `already_running`, `invalid_config` */
export async function listenOnSocket(server: Server, path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await clearStale(path);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    // The file gets its mode from the umask as it is made: a chmod after it would leave a moment for anyone.
    const umask = process.umask(0o177);
    try {
      server.listen(path, () => {
        server.off('error', reject);
        resolve();
      });
    } finally {
      process.umask(umask);
    }
  });
}

async function clearStale(path: string): Promise<void> {
  const stat = await lstat(path).catch(() => undefined);
  if (!stat) return;
  if (!stat.isSocket())
    throw new PosternError(
      'invalid_config',
      `control.socket: there is a file at ${path} that is no socket.`,
      {
        key: 'control.socket',
        remedy: 'Move the file away or set control.socket to another path.',
      },
    );
  if (await answers(path))
    throw new PosternError('already_running', `Another server answers at ${path}.`, {
      key: 'control.socket',
      remedy: 'Stop it, or give this server another dataDir.',
    });
  await unlink(path);
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const say = (alive: boolean) => () => {
      socket.destroy();
      resolve(alive);
    };
    socket.once('connect', say(true)).once('error', say(false));
    // A server that accepts nothing because it hangs is still a server.
    setTimeout(say(true), 2_000).unref();
  });
}
