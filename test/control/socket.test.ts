import { spawnSync } from 'node:child_process';
import { mkdtempSync, statSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listenOnSocket } from '../../control/socket.ts';

let base: string;
const open: Server[] = [];
const server = (): Server => {
  const made = createServer((socket) => socket.destroy());
  open.push(made);
  return made;
};

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'postern-socket-'));
});
afterEach(() => {
  for (const one of open.splice(0)) one.close();
});

test('the socket is for its owner only, and so is the folder made for it', async () => {
  const path = join(base, 'run/control.sock');
  const umask = process.umask(0);
  try {
    await listenOnSocket(server(), path);
    expect(process.umask()).toBe(0);
  } finally {
    process.umask(umask);
  }
  expect((statSync(path).mode & 0o777).toString(8)).toBe('600');
  expect((statSync(join(base, 'run')).mode & 0o777).toString(8)).toBe('700');
});

test('a socket that a killed process left is replaced', async () => {
  const path = join(base, 'control.sock');
  const script = `require('net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`;
  spawnSync(process.execPath, ['-e', script]);
  expect(statSync(path).isSocket()).toBe(true);
  await listenOnSocket(server(), path);
  await expect(listenOnSocket(server(), path)).rejects.toMatchObject({ code: 'already_running' });
});

test('a socket behind which somebody answers is left to them', async () => {
  const path = join(base, 'control.sock');
  const other = createHttpServer().listen(path);
  open.push(other);
  await new Promise((resolve) => other.once('listening', resolve));
  await expect(listenOnSocket(server(), path)).rejects.toMatchObject({
    code: 'already_running',
    key: 'control.socket',
  });
  expect(statSync(path).isSocket()).toBe(true);
});

test('a file that is no socket is not removed', async () => {
  const path = join(base, 'control.sock');
  writeFileSync(path, 'precious');
  await expect(listenOnSocket(server(), path)).rejects.toMatchObject({ code: 'invalid_config' });
  expect(statSync(path).size).toBe(8);
});
