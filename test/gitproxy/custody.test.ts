// The canary: one credential with a known value, everything a session can do and be refused, and then a search for any
// form of it where a sandbox or an operator could look.

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Forge } from '../../cli/demo/forge.ts';
import { Credential } from '../../common/credential.ts';
import { pktLine } from '../../gitproxy/pkt-line.ts';
import { fill, testForge } from '../support/forge.ts';
import { gitHome } from '../support/git.ts';
import { basicOf, sandboxOf, startGitGuard, type TestGuard } from '../support/git-guard.ts';
import { rawExchange } from '../support/raw-client.ts';
import { waitFor } from '../support/wait.ts';

// As long as GitHub's newer ones, and with dots.
const canary = `github_pat_${'aZ9.bY8_cX7'.repeat(46)}`;
const forms = [
  canary,
  Buffer.from(`x-access-token:${canary}`).toString('base64').replace(/=+$/, ''),
  canary.slice(20, 60),
];

let forge: Forge;
let guard: TestGuard;
let instead: ((req: IncomingMessage, res: ServerResponse) => boolean) | undefined;
const outside = gitHome();
const seen: string[] = [];

beforeAll(async () => {
  forge = await testForge({ token: canary, instead: (req, res) => instead?.(req, res) ?? false });
  guard = await startGitGuard({ upstreams: [{ url: forge.url }], token: canary });
  await fill(outside, await forge.createRepository('acme/tool'));
});
afterAll(async () => {
  await guard.close();
  await forge.close();
});

function clean(where: string, text: string): void {
  for (const form of forms) expect(text.includes(form), `${where} holds the credential`).toBe(false);
}

test('after all that can be done with a session, the credential is nowhere', async () => {
  const session = await guard.issue({ permissions: ['contents:write'], pushRefs: ['refs/heads/agent/**'] });
  clean('the answer that issues', JSON.stringify({ ...session, password: session.password.reveal() }));
  const git = sandboxOf(guard, session);
  const trace = {
    GIT_TRACE: '1',
    GIT_TRACE_CURL: '1',
    GIT_TRACE_PACKET: '1',
    GIT_CURL_VERBOSE: '1',
    GIT_TRACE_REDACT: '0',
  };
  const cwd = join(git.folder, 'work');
  const run = async (args: string[], folder?: string): Promise<void> => {
    const { out, err } = await git(args, { env: trace, ...(folder ? { cwd: folder } : {}) });
    seen.push(out, err);
  };
  await run(['clone', `${guard.url}/acme/tool`, 'work']);
  await run(['commit', '--allow-empty', '-m', 'x'], cwd);
  await run(['push', 'origin', 'HEAD:agent/x'], cwd);
  await run(['push', 'origin', 'HEAD:main'], cwd);
  await run(['ls-remote', `${guard.url}/other/tool`]);
  await run(['ls-remote', `${guard.url}/acme/missing`]);
  forge.setToken('another');
  await run(['ls-remote', `${guard.url}/acme/tool`]);
  await run(['push', 'origin', 'HEAD:agent/y'], cwd);
  forge.setToken(canary);
  const processes = execFileSync('ps', ['-eo', 'args']).toString();
  clean('a process listing', processes);
  clean('the terminal', seen.join('\n'));
  clean('a log line', guard.logged.join('\n'));
  clean('a record', JSON.stringify(guard.audit.events));
  for (const entry of readdirSync(git.folder, { recursive: true, withFileTypes: true }))
    if (entry.isFile())
      clean(join(entry.parentPath, entry.name), readFileSync(join(entry.parentPath, entry.name), 'latin1'));
  expect(guard.audit.events.length).toBeGreaterThan(10);
});

const echoes: [string, (res: ServerResponse, authorization: string) => void][] = [
  ['an error page', (res, auth) => void res.writeHead(500).end(`you sent ${auth} and ${canary}`)],
  [
    'a challenge',
    (res, auth) => void res.writeHead(401, { 'WWW-Authenticate': `Basic realm="${auth}"` }).end(canary),
  ],
  ['a redirect', (res) => void res.writeHead(302, { Location: `https://x:${canary}@forge.example/` }).end()],
  ['a cookie', (res) => void res.setHeader('Set-Cookie', canary).writeHead(404).end()],
  [
    'the advertisement',
    (res) => {
      res.writeHead(200, { 'Content-Type': 'application/x-git-upload-pack-advertisement' });
      res.end(Buffer.concat([pktLine('version 2\n'), pktLine(`agent=${canary}\n`), Buffer.from('0000')]));
    },
  ],
  [
    'the advertisement, in pieces',
    (res, auth) => {
      res.writeHead(200, { 'Content-Type': 'application/x-git-upload-pack-advertisement' });
      const body = Buffer.concat([pktLine('version 2\n'), pktLine(`agent=${auth}\n`), Buffer.from('0000')]);
      let at = 0;
      const timer = setInterval(() => {
        res.write(body.subarray(at, at + 100));
        at += 100;
        if (at < body.length) return;
        clearInterval(timer);
        res.end();
      }, 5);
    },
  ],
];

test.each(echoes)('an upstream that echoes it in %s: it is not passed on', async (_where, answer) => {
  instead = (req, res) => {
    answer(res, req.headers.authorization ?? '');
    return true;
  };
  const session = await guard.issue();
  const got = await rawExchange(
    guard.port,
    guard.certs.ca,
    `GET /acme/tool/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: 127.0.0.1:${guard.port}\r\nAuthorization: ${basicOf(session)}\r\n\r\n`,
  );
  instead = undefined;
  clean('the answer', got.text);
  expect(got.text).not.toContain(canary.slice(0, 30));
  const result = () =>
    guard.audit.events.find(
      ({ action, sessionId }) => action === 'git.fetch_result' && sessionId === session.sessionId,
    );
  await waitFor('the record', () => result() !== undefined);
  expect(result()).toMatchObject({ decision: 'error' });
  clean('a record', JSON.stringify(guard.audit.events));
  clean('a log line', guard.logged.join('\n'));
});

test('a credential that is replaced is used from the next request on', async () => {
  const session = await guard.issue({ secretId: 'secret-1' });
  const git = sandboxOf(guard, session);
  forge.setToken('ghp_theNextOneTheNextOneTheNextOneTheNex');
  expect((await git(['ls-remote', `${guard.url}/acme/tool`])).err).toContain(
    'does not accept the credential in custody',
  );
  await guard.sessions.replaceSecret('secret-1', new Credential('ghp_theNextOneTheNextOneTheNextOneTheNex'));
  expect(await git(['ls-remote', `${guard.url}/acme/tool`])).toMatchObject({ code: 0 });
  forge.setToken(canary);
});
