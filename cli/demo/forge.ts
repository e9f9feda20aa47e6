// A small forge for the demo, the tests and the benchmarks: git's own server (`git http-backend`, a CGI) behind a node
// server on loopback. It demands `Basic x-access-token:<token>` on every request and keeps a log of what reached it,
// which is how "the upstream saw nothing" is shown. It is not meant for anybody else's repositories: one token opens
// everything, and pushing is allowed to whoever has it.

import { execFile, spawn } from 'node:child_process';
import { timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Transform } from 'node:stream';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** One request as it arrived, but for the credential: only whether it was the right one is kept. */
export interface ForgeRequest {
  readonly method: string;
  /** The raw target. */
  readonly url: string;
  readonly authorized: boolean;
  /** As they came, names in lower case, without Authorization. */
  readonly headers: { readonly [name: string]: string };
  /** Of the body, as it came over the wire. */
  bytes: number;
  /** Set when the answer is complete. */
  status?: number;
}

export interface ForgeOptions {
  /** Repositories live at `<root>/<owner>/<name>.git`. */
  readonly root: string;
  readonly token: string;
  readonly username?: string;
  /** PEM; with it the forge speaks TLS. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** 0, the default: a free one. */
  readonly port?: number;
  /** Answers a request instead of git; tells by `true` that it did. For what git's own server never does. */
  readonly instead?: (req: IncomingMessage, res: ServerResponse) => boolean;
  /** Bytes a second that the answer to this target is given out with; undefined: as fast as it goes. */
  readonly slow?: (url: string) => number | undefined;
}

export interface Forge {
  /** `http(s)://127.0.0.1:port` */
  readonly url: string;
  readonly root: string;
  readonly server: Server;
  /** Oldest first; emptied by the caller (`requests.length = 0`). */
  readonly requests: ForgeRequest[];
  /** Takes another token from now on, as when the old one is revoked at a real forge. */
  setToken(token: string): void;
  /** Makes `<root>/<owner>/<name>.git`, bare and empty, with `main` as its branch. @returns its folder */
  createRepository(path: string, format?: 'sha1' | 'sha256'): Promise<string>;
  close(): Promise<void>;
}

/** What git's server allows, without a line in any repository's own configuration. */
const SETTINGS: { readonly [key: string]: string } = {
  'http.receivepack': 'true',
  'receive.advertisePushOptions': 'true',
  'uploadpack.allowFilter': 'true',
  'uploadpack.allowAnySHA1InWant': 'true',
  'safe.directory': '*',
  // A delivery at the end of a push may start `git gc` in the background, beyond the life of the demo.
  'receive.autogc': 'false',
};

export async function startForge(options: ForgeOptions): Promise<Forge> {
  const requests: ForgeRequest[] = [];
  let expected = basic(options.username, options.token);

  const handle = (req: IncomingMessage, res: ServerResponse): void => {
    const given = Buffer.from(req.headers.authorization ?? '');
    const authorized = given.length === expected.length && timingSafeEqual(given, expected);
    const { authorization: _, ...headers } = req.headers;
    const entry: ForgeRequest = {
      method: req.method ?? '',
      url: req.url ?? '',
      authorized,
      headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])),
      bytes: 0,
    };
    requests.push(entry);
    res.on('finish', () => {
      entry.status = res.statusCode;
    });
    if (!authorized) {
      res.writeHead(401, { 'WWW-Authenticate': 'Basic realm="forge"', Connection: 'close' });
      res.end('the forge wants its own token\n');
      req.resume();
      return;
    }
    if (options.instead?.(req, res)) return;
    serveGit(options.root, req, res, entry, options.slow?.(entry.url));
  };
  const settings = { requestTimeout: 0, keepAliveTimeout: 60_000 };
  const server = options.tls
    ? createTlsServer({ ...settings, ...options.tls }, handle)
    : createServer(settings, handle);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port ?? 0, '127.0.0.1', resolve);
  });

  return {
    url: `${options.tls ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    root: options.root,
    server,
    requests,
    setToken(token) {
      expected = basic(options.username, token);
    },
    async createRepository(path, format = 'sha1') {
      const folder = join(options.root, `${path}.git`);
      const args = [
        'init',
        '--quiet',
        '--bare',
        '--initial-branch=main',
        `--object-format=${format}`,
        folder,
      ];
      await run('git', args, { env: environment() });
      return folder;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function basic(username = 'x-access-token', token: string): Buffer {
  return Buffer.from(`Basic ${Buffer.from(`${username}:${token}`).toString('base64')}`);
}

/** Nothing of the caller's own configuration of git reaches the server. */
function environment(): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {
    PATH: process.env.PATH,
    HOME: '/nonexistent',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_COUNT: String(Object.keys(SETTINGS).length),
  };
  for (const [i, [key, value]] of Object.entries(SETTINGS).entries()) {
    env[`GIT_CONFIG_KEY_${i}`] = key;
    env[`GIT_CONFIG_VALUE_${i}`] = value;
  }
  return env;
}

function slowly(bytesPerSecond: number): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      setTimeout(() => done(null, chunk), (chunk.length / bytesPerSecond) * 1000);
    },
  });
}

/** RFC 3875, as far as git http-backend needs it. A repository is found with and without `.git`. */
function serveGit(
  root: string,
  req: IncomingMessage,
  res: ServerResponse,
  entry: ForgeRequest,
  bytesPerSecond?: number,
): void {
  const [path = '', query = ''] = (req.url ?? '').split('?', 2);
  const env: NodeJS.ProcessEnv = {
    ...environment(),
    GIT_PROJECT_ROOT: root,
    GIT_HTTP_EXPORT_ALL: '1',
    REQUEST_METHOD: req.method,
    PATH_INFO: path.replace(/^(\/[^/]+\/[^/]+?)(?:\.git)?(?=\/)/, '$1.git'),
    QUERY_STRING: query,
    REMOTE_USER: 'x-access-token',
    REMOTE_ADDR: '127.0.0.1',
    CONTENT_TYPE: req.headers['content-type'] ?? '',
    HTTP_CONTENT_ENCODING: req.headers['content-encoding'] ?? '',
    GIT_PROTOCOL: String(req.headers['git-protocol'] ?? ''),
  };
  if (req.headers['content-length'] !== undefined) env.CONTENT_LENGTH = req.headers['content-length'];
  // One that loses its parent in the middle of a body of known length reads the end of its input for ever (git 2.39);
  // the limit on its processor time ends that too.
  const cgi = spawn('sh', ['-c', 'ulimit -t 300; exec git http-backend'], {
    env,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  cgi.stdin.on('error', () => {}); // it may answer before it has read everything
  req.on('data', (chunk: Buffer) => {
    entry.bytes += chunk.length;
  });
  req.on('error', () => cgi.kill());
  req.pipe(cgi.stdin);
  res.on('close', () => {
    if (!res.writableFinished) cgi.kill();
  });
  cgi.on('error', () => res.destroy());

  const out = bytesPerSecond === undefined ? cgi.stdout : slowly(bytesPerSecond);
  let head = Buffer.alloc(0);
  const onHead = (chunk: Buffer): void => {
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf('\r\n\r\n');
    if (end < 0) return;
    cgi.stdout.off('data', onHead);
    let status = 200;
    for (const line of head.toString('latin1', 0, end).split('\r\n')) {
      const colon = line.indexOf(':');
      const [name, value] = [line.slice(0, colon), line.slice(colon + 1).trim()];
      if (name.toLowerCase() === 'status') status = Number(value.slice(0, 3));
      else res.setHeader(name, value);
    }
    res.writeHead(status);
    const rest = head.subarray(end + 4);
    if (rest.length > 0) res.write(rest);
    if (out !== cgi.stdout) cgi.stdout.pipe(out as Transform);
    out.pipe(res, { end: false });
  };
  cgi.stdout.on('data', onHead);
  cgi.on('close', (code) => {
    // A server that died in the middle must not look like one that finished.
    if (code !== 0 && !res.headersSent) res.destroy();
    else if (out === cgi.stdout || out.readableEnded) res.end();
    else out.once('end', () => res.end());
  });
}
