import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Forge, startForge } from '../../cli/demo/forge.ts';
import { configure, postern, type Ran, run, type Server, sandbox, scratch, serve } from './harness.ts';

// A credential with a known value goes into custody; then everything is done that a session can do, allowed and refused,
// with an upstream that misbehaves too. Afterwards the value, in any form, is in nothing that the product wrote or said.

const canary = `ghp_${randomBytes(27).toString('hex')}`;
const FORMS = [
  canary,
  Buffer.from(canary).toString('base64').replace(/=+$/, ''),
  Buffer.from(`x-access-token:${canary}`).toString('base64').replace(/=+$/, ''),
  Buffer.from(canary).toString('hex'),
  encodeURIComponent(canary),
  canary.slice(4, 30),
];

const { folder, remove } = scratch('canary');
const said: { from: string; text: string }[] = [];
let forge: Forge;
let server: Server;
let config = '';
let files = '';

function note(from: string, ran: Ran): Ran {
  said.push({ from: `${from}: output`, text: ran.out }, { from: `${from}: errors`, text: ran.err });
  return ran;
}

/** Command lines and environments of every process that the server and the clients are, while they run. */
function processes(): void {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    for (const file of ['cmdline', 'environ']) {
      try {
        said.push({ from: `/proc/${pid}/${file}`, text: readFileSync(`/proc/${pid}/${file}`, 'latin1') });
      } catch {} // ended meanwhile, or not ours to read
    }
  }
}

function control(path: string, method = 'GET'): Promise<string> {
  return new Promise((resolve, reject) => {
    request({ socketPath: server.ready.control, path, method }, (res) => {
      const parts: Buffer[] = [];
      res.on('data', (part: Buffer) => parts.push(part));
      res.on('end', () => resolve(`${JSON.stringify(res.headers)}${Buffer.concat(parts)}`));
    })
      .once('error', reject)
      .end();
  });
}

function raw(bytes: string): Promise<string> {
  const [host = '', port = ''] = server.ready.git.split(':');
  return new Promise((resolve) => {
    const parts: Buffer[] = [];
    const socket = connect({ host, port: Number(port), rejectUnauthorized: false }, () => socket.end(bytes));
    socket.on('data', (part: Buffer) => parts.push(part));
    socket.on('error', () => {});
    socket.on('close', () => resolve(Buffer.concat(parts).toString('latin1')));
    setTimeout(() => socket.destroy(), 5_000).unref();
  });
}

beforeAll(async () => {
  forge = await startForge({
    root: join(folder, 'repos'),
    token: canary,
    instead(req, res) {
      const { url = '' } = req;
      const auth = String(req.headers.authorization);
      if (url.startsWith('/acme/echo-header'))
        res.writeHead(200, { 'X-Was': auth, 'Set-Cookie': `t=${canary}` }).end('no');
      else if (url.startsWith('/acme/echo-error'))
        res.writeHead(500).end(`bad credential ${canary} (${auth})`);
      else if (url.startsWith('/acme/echo-body'))
        res
          .writeHead(200, { 'Content-Type': 'application/x-git-upload-pack-advertisement' })
          .end(`001e# service=git-upload-pack\n0000${canary}${auth}`);
      else if (url.startsWith('/acme/moved'))
        res.writeHead(301, { Location: `https://x:${canary}@elsewhere.example.com/` }).end();
      else if (url.startsWith('/acme/denied'))
        res.writeHead(401, { 'WWW-Authenticate': `Basic ${canary}` }).end(canary);
      else return false;
      return true;
    },
  });
  config = configure(folder, {
    git: { listen: '127.0.0.1:0', advertise: null, upstreams: [{ url: forge.url }] },
    log: { level: 'debug' },
  });
  server = await serve(config);
  const outside = join(folder, 'outside');
  mkdirSync(outside);
  writeFileSync(join(outside, 'token'), canary, { mode: 0o600 });
  files = join(folder, 'session');
  // biome-ignore format: pairs
  const issued = await postern(config, 'session', 'issue', 'git', '--upstream', forge.url, '--token-file',
    join(outside, 'token'), '--repo', 'acme/*', '--permission', 'contents:write', '--push-ref', 'refs/heads/agent/**',
    '--lease', 'canary', '--out', files);
  expect(note('issue', issued)).toMatchObject({ code: 0 });
});

afterAll(async () => {
  await server.kill();
  await forge.close();
  remove();
});

describe('a credential in custody', () => {
  test('is used, and seen by nobody but the upstream', async () => {
    await forge.createRepository('acme/tool');
    const env = sandbox(folder, files);
    const work = join(folder, 'work');
    const url = `${forge.url}/acme/tool.git`;
    const git = async (...args: string[]) =>
      note(
        `git ${args[0]}`,
        await run('git', args, { env: { ...env, GIT_CURL_VERBOSE: '1', GIT_TRACE: '1' }, cwd: folder }),
      );
    expect(await git('clone', url, work)).toMatchObject({ code: 0 });
    writeFileSync(join(work, 'file'), 'content');
    await git('-C', work, 'add', '.');
    await git('-C', work, 'commit', '-m', 'one');
    expect(await git('-C', work, 'push', 'origin', 'HEAD:refs/heads/agent/one')).toMatchObject({ code: 0 });
    processes();
    expect((await git('-C', work, 'push', 'origin', 'HEAD:refs/heads/main')).code).not.toBe(0);
    for (const repo of ['echo-header', 'echo-error', 'echo-body', 'moved', 'denied', 'missing'])
      expect((await git('ls-remote', `${forge.url}/acme/${repo}.git`)).code, repo).not.toBe(0);
    expect((await git('ls-remote', `${forge.url}/other/repo.git`)).code).not.toBe(0);

    // The value itself, sent where a guard might note it down.
    const basic = Buffer.from(`ses_x:${canary}`).toString('base64');
    const host = `Host: ${server.ready.git}\r\n`;
    for (const head of [
      `GET /acme/tool.git/info/refs?service=git-upload-pack HTTP/1.1\r\n${host}Authorization: Basic ${basic}\r\n`,
      `GET /acme/tool.git/info/refs?service=git-upload-pack HTTP/1.1\r\n${host}Authorization: Bearer ${canary}\r\n`,
      `GET /${canary}/tool.git/info/refs?token=${canary} HTTP/1.1\r\n${host}User-Agent: ${canary}\r\n`,
      `NONSENSE ${canary}\r\nAuthorization: Basic ${basic}\r\n`,
    ])
      await raw(`${head}Connection: close\r\n\r\n`);

    const refused = postern(config, 'session', 'issue', 'git', '--token', canary, '--upstream', forge.url);
    expect(note('token as an argument', await refused).code).toBe(2);
    const session = env.POSTERN_GIT_SESSION ?? '';
    for (const args of [
      ['session', 'list', '--json'],
      ['session', 'show', session, '--json'],
      ['explain', 'git', '/acme/tool.git', '--session', session, '--json'],
      ['status', '--json'],
      ['doctor', '--json'],
      ['audit', 'list', '--json'],
      ['audit', 'export'],
      ['ca', 'show', '--json'],
    ])
      note(args.join(' '), await postern(config, ...args));
    for (const path of [
      '/v1/sessions',
      `/v1/sessions/${session}`,
      '/v1/audit',
      '/v1/openapi.json',
      '/v1/nothing',
    ])
      said.push({ from: path, text: await control(path) });
    for (const path of ['/metrics', '/readyz', '/livez'])
      said.push({ from: path, text: await (await fetch(`http://${server.ready.ops}${path}`)).text() });
    note('revoke', await postern(config, 'session', 'revoke', session));
    processes();
    await server.kill();
    said.push({ from: "the server's log", text: server.output() });

    const everyFile = readdirSync(folder, { recursive: true, encoding: 'utf8', withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.parentPath.startsWith(join(folder, 'outside')))
      .map((entry) => join(entry.parentPath, entry.name));
    expect(everyFile.length).toBeGreaterThan(20);
    for (const file of everyFile) said.push({ from: file, text: readFileSync(file, 'latin1') });

    const found = said.flatMap(({ from, text }) =>
      FORMS.filter((form) => text.includes(form)).map((form) => `${from}: ${form}`),
    );
    expect(said.length).toBeGreaterThan(50);
    // The one command that was given it as an argument was this test's own child; it is over by now, and said nothing.
    expect(found).toEqual([]);
    expect(
      forge.requests.some(({ authorized, url: asked }) => authorized && asked.includes('/acme/tool')),
    ).toBe(true);
  }, 120_000);
});
