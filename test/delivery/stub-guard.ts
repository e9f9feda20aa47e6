// A stand-in for the git guard: TLS, Basic authentication with one login, `git http-backend` behind it. It keeps the
// heads that it got, so that a test can say what a client sent.

import { spawn } from 'node:child_process';
import type { IncomingHttpHeaders } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TestCertificates } from '../support/certificates.ts';

export interface StubGuard {
  readonly url: string;
  readonly heads: { readonly method: string; readonly url: string; readonly headers: IncomingHttpHeaders }[];
  close(): void;
}

export async function stubGuard(
  certificates: TestCertificates,
  root: string,
  login: { username: string; password: string },
): Promise<StubGuard> {
  const heads: StubGuard['heads'] = [];
  const wanted = `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}`;
  const server = createServer({ cert: certificates.cert, key: certificates.key }, (request, response) => {
    heads.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers });
    if (request.headers.authorization !== wanted) {
      response.writeHead(401, { 'WWW-Authenticate': 'Basic realm="stub"', 'Set-Cookie': 'a=b' }).end();
      return;
    }
    const [path = '', queryString = ''] = (request.url ?? '').split('?');
    const backend = spawn('git', ['http-backend'], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: root,
        GIT_HTTP_EXPORT_ALL: '1',
        REMOTE_USER: login.username,
        REQUEST_METHOD: request.method,
        PATH_INFO: path,
        QUERY_STRING: queryString,
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
        GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      },
    });
    request.pipe(backend.stdin);
    backend.stdin.on('error', () => {});
    const chunks: Buffer[] = [];
    backend.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    backend.stdout.on('end', () => {
      const all = Buffer.concat(chunks);
      const end = all.indexOf('\r\n\r\n');
      const fields = all.subarray(0, end).toString('latin1').split('\r\n');
      const status = /^Status: (\d+)/m.exec(fields.join('\n'))?.[1] ?? '200';
      const type = /^Content-Type: (.*)$/m.exec(fields.join('\n'))?.[1] ?? 'text/plain';
      response.writeHead(Number(status), { 'Content-Type': type }).end(all.subarray(end + 4));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    heads,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
