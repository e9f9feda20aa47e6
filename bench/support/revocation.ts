// Revoking a session while many clones of it run: when does the last byte arrive after DELETE has answered?
//
// The upstream replays what git http-backend answered once, slowly, so that a hundred clones are under way at the same
// time on two cores. Each client sends the very request of a real `git clone` and notes when it last received a byte.

import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import { Agent, request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Guard } from './guard.ts';
import { percentile } from './tools.ts';

const CHUNK = 16 * 1024;
const CHUNK_EVERY_MS = 40;

interface Answer {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: Buffer;
}

export interface SlowForge {
  readonly url: string;
  /** The body of the last request for a pack. */
  lastFetch(): Buffer;
  close(): void;
}

async function read(message: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of message) parts.push(part);
  return Buffer.concat(parts);
}

/** Stands before a real forge: asks it once for each question, and gives answers out slowly. */
export async function slowForge(forgeUrl: string): Promise<SlowForge> {
  const known = new Map<string, Answer>();
  let lastFetch: Buffer = Buffer.alloc(0);
  const server: Server = createServer(async (req, res) => {
    const body = await read(req);
    const key = `${req.method} ${req.url} ${req.headers['git-protocol']} ${body.toString('latin1')}`;
    let answer = known.get(key);
    if (!answer) {
      answer = await new Promise<Answer>((resolve, reject) => {
        const { host: _, 'transfer-encoding': __, ...headers } = req.headers;
        httpRequest(
          new URL(req.url ?? '/', forgeUrl),
          { method: req.method ?? 'GET', headers },
          async (from) => {
            resolve({ status: from.statusCode ?? 0, headers: from.headers, body: await read(from) });
          },
        )
          .once('error', reject)
          .end(body);
      });
      known.set(key, answer);
    }
    res.writeHead(answer.status, { 'content-type': String(answer.headers['content-type']) });
    if (answer.body.length < 4 * CHUNK) return void res.end(answer.body);
    lastFetch = body;
    let at = 0;
    const timer = setInterval(() => {
      if (at >= (answer?.body.length ?? 0)) return void res.end();
      res.write(answer?.body.subarray(at, at + CHUNK));
      at += CHUNK;
    }, CHUNK_EVERY_MS);
    res.once('close', () => clearInterval(timer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    lastFetch: () => lastFetch,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

export interface RevocationResult {
  readonly clones: number;
  readonly cut: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly deleteMs: number;
}

export async function revocation(options: {
  folder: string;
  guard: Guard;
  slow: SlowForge;
  tokenFile: string;
  clones: number;
}): Promise<RevocationResult> {
  const { guard, slow, clones } = options;
  const issued = guard.cli<{ sessionId: string; username: string; password: string }>(
    ...['session', 'issue', 'git', '--upstream', slow.url, '--token-file', options.tokenFile],
    ...['--repo', 'acme/ten', '--lease', 'bench-revocation'],
  );
  const authorization = `Basic ${Buffer.from(`${issued.username}:${issued.password}`).toString('base64')}`;
  // One real clone, cut short, teaches us the request.
  await promisify(execFile)(
    'git',
    // biome-ignore format: pairs
    ['-c', `http.sslCAInfo=${guard.ca}`, '-c', `http.extraHeader=Authorization: ${authorization}`,
     'clone', '-q', '--bare', `https://${guard.git}/acme/ten.git`, join(options.folder, 'clone-for-its-request')],
    { timeout: 60_000, env: { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: '/dev/null' } },
  );
  const body = slow.lastFetch();

  const ca = readFileSync(guard.ca);
  const agent = new Agent({ ca, maxSockets: Number.POSITIVE_INFINITY });
  const running = Array.from({ length: clones }, () => {
    const state = { bytes: 0, lastAt: 0, ended: false, whole: false };
    const done = new Promise<void>((resolve) => {
      const finish = (whole: boolean) => {
        if (!state.ended) Object.assign(state, { ended: true, whole });
        resolve();
      };
      const req = request(
        `https://${guard.git}/acme/ten.git/git-upload-pack`,
        {
          agent,
          method: 'POST',
          headers: {
            authorization,
            'content-type': 'application/x-git-upload-pack-request',
            'git-protocol': 'version=2',
            'content-length': body.length,
          },
        },
        (res) => {
          res.on('data', (chunk: Buffer) => {
            state.bytes += chunk.length;
            state.lastAt = performance.now();
          });
          res
            .once('end', () => finish(res.complete))
            .once('error', () => finish(false))
            .once('close', () => finish(false));
        },
      );
      req.once('error', () => finish(false));
      req.end(body);
    });
    return { state, done };
  });
  const deadline = performance.now() + 20_000;
  while (running.some(({ state }) => state.bytes < CHUNK)) {
    if (performance.now() > deadline) throw new Error('not every clone got under way');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const asked = performance.now();
  const answered = await new Promise<number>((resolve, reject) => {
    const req = httpRequest(
      {
        socketPath: join(options.guard.config, '..', 'var', 'control.sock'),
        method: 'DELETE',
        path: `/v1/sessions/${issued.sessionId}`,
      },
      (res) => {
        res.resume();
        const at = performance.now();
        res.once('end', () => resolve(at));
      },
    );
    req.once('error', reject).end();
  });
  await Promise.race([
    Promise.all(running.map(({ done }) => done)),
    new Promise((resolve) => setTimeout(resolve, 10_000)),
  ]);
  agent.destroy();
  const late = running.map(({ state }) => Math.max(0, state.lastAt - answered));
  return {
    clones,
    cut: running.filter(({ state }) => state.ended && !state.whole).length,
    p50Ms: percentile(late, 50),
    p99Ms: percentile(late, 99),
    deleteMs: answered - asked,
  };
}
