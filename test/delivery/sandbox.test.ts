// The delivered folder in the hands of a real git, before a stand-in for the guard.

import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Credential } from '../../common/credential.ts';
import { openFolder } from '../../delivery/folder.ts';
import { parcel } from '../../delivery/parcel.ts';
import { testCertificates } from '../support/certificates.ts';
import { type StubGuard, stubGuard } from './stub-guard.ts';

const certificates = testCertificates();
const root = mkdtempSync(join(tmpdir(), 'postern-delivery-'));
const login = { username: 'gs_test', password: 'session-token-value' };
let guard: StubGuard;
let folder: string;
let home: string;

function run(args: string[], options: { cwd?: string; env?: Record<string, string> } = {}) {
  return new Promise<{ status: number; out: string }>((resolve) => {
    const env = {
      PATH: process.env.PATH ?? '',
      HOME: home,
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_TERMINAL_PROMPT: '0',
      GIT_CONFIG_GLOBAL: join(folder, 'gitconfig'),
      GIT_ALLOW_PROTOCOL: 'https:file',
      ...options.env,
    };
    execFile('git', args, { cwd: options.cwd ?? home, env }, (error, stdout, stderr) =>
      resolve({ status: error ? Number(error.code ?? 1) : 0, out: stdout + stderr }),
    );
  });
}

function seed(name: string): void {
  const bare = join(root, 'repos', `${name}.git`);
  const sh = (command: string) =>
    spawnSync('sh', ['-ec', command], {
      cwd: root,
      env: { PATH: process.env.PATH, HOME: root, GIT_CONFIG_NOSYSTEM: '1' },
      encoding: 'utf8',
    });
  const result = sh(`
    git init -q --bare -b main '${bare}'
    git -C '${bare}' config http.receivepack true
    work=$(mktemp -d); git -C $work init -q -b main; echo '${name}' > $work/README
    git -C $work add README
    git -C $work -c user.name=s -c user.email=s@example.com commit -q -m seed
    git -C $work push -q '${bare}' main`);
  expect(result.stderr).toBe('');
}

beforeAll(async () => {
  mkdirSync(join(root, 'repos'));
  seed('acme/tool');
  seed('acme/lib');
  guard = await stubGuard(certificates, join(root, 'repos'), login);
});
afterAll(() => guard.close());

beforeEach(async () => {
  home = mkdtempSync(join(root, 'home-'));
  const out = await openFolder(join(home, `it's "out" #1; $HOME`));
  folder = out.dir;
  await out.write(
    parcel(
      {
        ca: certificates.ca,
        git: {
          sessionId: login.username,
          baseUrl: guard.url,
          username: login.username,
          password: new Credential(login.password),
          readOnly: false,
          upstreams: ['https://github.com', 'https://ghe.example.com:8443'],
          repos: ['acme/*'],
          pushRefs: ['refs/heads/**'],
        },
      },
      { dir: out.dir },
    ),
  );
  guard.heads.length = 0;
});

describe('every spelling of a repository leads to the guard', () => {
  test.each([
    'https://github.com/acme/tool.git',
    'https://github.com/acme/tool',
    'https://git@github.com/acme/tool.git',
    'http://github.com/acme/tool.git',
    'ssh://git@github.com/acme/tool.git',
    'ssh://git@github.com:22/acme/tool.git',
    'git@github.com:acme/tool.git',
    'git@github.com:/acme/tool.git',
    'git://github.com/acme/tool.git',
    'git+ssh://git@github.com/acme/tool.git',
    'https://ghe.example.com:8443/acme/tool.git',
    'ssh://git@ghe.example.com/acme/tool.git',
    'git@ghe.example.com:acme/tool.git',
  ])('%s', async (url) => {
    expect(await run(['ls-remote', url, 'refs/heads/main'])).toMatchObject({
      status: 0,
      out: expect.stringContaining('refs/heads/main'),
    });
    expect(guard.heads.at(-1)?.url).toMatch(/^\/acme\/tool(\.git)?\//);
  });

  test('the guard by its own address, from the environment', async () => {
    expect((await run(['ls-remote', `${guard.url}/acme/tool.git`])).status).toBe(0);
  });

  test('submodules, relative and in ssh and https spellings', async () => {
    const clone = join(home, 'super');
    expect((await run(['clone', '-q', 'git@github.com:acme/tool.git', clone])).status).toBe(0);
    const identity = ['-c', 'user.name=u', '-c', 'user.email=u@example.com'];
    let i = 0;
    for (const url of [
      '../lib.git',
      'git@github.com:acme/lib.git',
      'https://github.com/acme/lib.git',
      'ssh://git@github.com/acme/lib',
    ])
      expect(await run(['submodule', '--quiet', 'add', url, `sub${i++}`], { cwd: clone })).toMatchObject({
        status: 0,
      });
    await run([...identity, 'commit', '-q', '-m', 'submodules'], { cwd: clone });
    const push = await run(['push', '-q', 'origin', 'HEAD:refs/heads/with-submodules'], { cwd: clone });
    expect(push).toMatchObject({ status: 0 });
    const again = join(home, 'again');
    const result = await run([
      'clone',
      '-q',
      '--recurse-submodules',
      '-b',
      'with-submodules',
      'ssh://git@github.com/acme/tool',
      again,
    ]);
    expect(result).toMatchObject({ status: 0 });
    for (let n = 0; n < i; n++)
      expect(readFileSync(join(again, `sub${n}`, 'README'), 'utf8')).toBe('acme/lib\n');
  });
});

describe("the user's own configuration stays in force", () => {
  test('name, e-mail, alias and an include of an include, also from the XDG file', async () => {
    writeFileSync(join(home, 'more'), '[alias]\n  hello = !echo hi there\n');
    writeFileSync(join(home, '.gitconfig'), '[user]\n name = Own Name\n[include]\n path = more\n');
    mkdirSync(join(home, '.config/git'), { recursive: true });
    writeFileSync(join(home, '.config/git/config'), '[user]\n name = Xdg Name\n email = xdg@example.com\n');
    expect((await run(['config', 'user.name'])).out.trim()).toBe('Own Name');
    expect((await run(['config', 'user.email'])).out.trim()).toBe('xdg@example.com');
    expect((await run(['hello'])).out.trim()).toBe('hi there');
  });

  test('a rewrite of the same prefix, or of one owner, does not lead around the guard', async () => {
    writeFileSync(
      join(home, '.gitconfig'),
      [
        '[url "ssh://git@elsewhere.example/"]',
        ' insteadOf = https://github.com/',
        ' insteadOf = git@github.com:',
        ' insteadOf = https://github.com/acme/',
        ` insteadOf = ${guard.url}/`,
        ' pushInsteadOf = https://github.com/',
        ' pushInsteadOf = https://github.com/acme/',
        '',
      ].join('\n'),
    );
    const clone = join(home, 'clone');
    expect((await run(['clone', '-q', 'https://github.com/acme/tool.git', clone])).status).toBe(0);
    expect((await run(['ls-remote', 'git@github.com:acme/lib.git'])).status).toBe(0);
    expect((await run(['ls-remote', `${guard.url}/acme/lib.git`])).status).toBe(0);
    expect(await run(['push', '-q', 'origin', 'HEAD:refs/heads/straight'], { cwd: clone })).toMatchObject({
      status: 0,
    });
  });

  test("a rewrite of the user's own for another host still works", async () => {
    const local = join(root, 'repos/acme/lib.git');
    writeFileSync(join(home, '.gitconfig'), `[url "file://${local}"]\n insteadOf = lib:\n`);
    expect((await run(['ls-remote', 'lib:'])).out).toContain('refs/heads/main');
  });

  test('settings that would break or leak at the guard are undone there and nowhere else', async () => {
    writeFileSync(
      join(home, '.gitconfig'),
      [
        '[http]',
        ' extraHeader = X-Private: value',
        ' proxy = http://127.0.0.1:1',
        ' sslVerify = false',
        ' emptyAuth = true',
        ' saveCookies = true',
        ` cookieFile = ${join(home, 'cookies')}`,
        ' curloptResolve = 127.0.0.1:1:127.0.0.9',
        ' sslCAInfo = /nonexistent.pem',
        '',
      ].join('\n'),
    );
    writeFileSync(join(home, 'cookies'), '127.0.0.1\tFALSE\t/\tFALSE\t0\tprivate\tcookie\n');
    expect(await run(['ls-remote', 'https://github.com/acme/tool'])).toMatchObject({ status: 0 });
    const sent = JSON.stringify(guard.heads);
    expect(sent).not.toContain('x-private');
    expect(sent).not.toContain('private');
    expect(readFileSync(join(home, 'cookies'), 'utf8')).not.toContain('\ta\t');
    const other = (key: string) => run(['config', '--get-urlmatch', key, 'https://other.example/']);
    expect((await other('http.extraHeader')).out.trim()).toBe('X-Private: value');
    expect((await other('http.proxy')).out.trim()).toBe('http://127.0.0.1:1');
    expect((await other('http.sslCAInfo')).out.trim()).toBe('/nonexistent.pem');
  });

  test('GIT_SSL_CAINFO of the environment does not break the trust in the guard', async () => {
    const env = { GIT_SSL_CAINFO: testCertificates().caFile };
    expect(await run(['ls-remote', 'https://github.com/acme/tool'], { env })).toMatchObject({ status: 0 });
  });

  test('sourcing env turns GIT_SSL_CAINFO into a setting that the guard is exempt from, for any TLS library', () => {
    const ask = (url: string) => `git config --get-urlmatch http.sslCAInfo ${url}`;
    const script = `. "$FOLDER/env"; ${ask('https://elsewhere.example.com/')}; ${ask(guard.url)}; env | grep -c ^GIT_SSL`;
    for (const shell of ['sh', 'bash']) {
      const env = { PATH: process.env.PATH, HOME: home, FOLDER: folder, GIT_SSL_CAINFO: "/it's here/ca.pem" };
      const { stdout } = spawnSync(shell, ['-c', script], { env, encoding: 'utf8' });
      expect(stdout.trim().split('\n')).toEqual(["/it's here/ca.pem", join(folder, 'ca.pem'), '0']);
    }
  });
});

describe('the session credential goes to the guard and nowhere else', () => {
  test("a user's credential store neither receives nor answers for the guard", async () => {
    const store = join(home, 'stored');
    writeFileSync(store, `https://own:${'o'.repeat(8)}@127.0.0.1:${new URL(guard.url).port}\n`);
    const before = readFileSync(store, 'utf8');
    writeFileSync(
      join(home, '.gitconfig'),
      `[credential]\n helper = store --file '${store}'\n useHttpPath = true\n`,
    );
    expect((await run(['ls-remote', 'https://github.com/acme/tool'])).status).toBe(0);
    expect(readFileSync(store, 'utf8')).toBe(before);
    const sent = guard.heads.map((head) => head.headers.authorization).filter(Boolean);
    expect(new Set(sent)).toEqual(
      new Set([`Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}`]),
    );
  });

  test('a refusal does not make git erase it, and git does not store it', async () => {
    const file = join(folder, 'git-credential');
    const before = readFileSync(file, 'utf8');
    const fill = `protocol=https\nhost=${new URL(guard.url).host}\nusername=${login.username}\npassword=x\n\n`;
    for (const verb of ['reject', 'approve']) {
      const result = spawnSync('git', ['credential', verb], {
        input: fill,
        env: { PATH: process.env.PATH, HOME: home, GIT_CONFIG_GLOBAL: join(folder, 'gitconfig') },
        encoding: 'utf8',
      });
      expect(result).toMatchObject({ status: 0, stderr: '' });
    }
    expect(readFileSync(file, 'utf8')).toBe(before);
    expect(existsSync(join(home, '.git-credentials'))).toBe(false);
  });

  test.each([
    ['another host', 'https', 'github.com'],
    ['the guard without TLS', 'http', 'GUARD'],
    ['the guard host at another port', 'https', '127.0.0.1:1'],
  ])('%s gets no answer', (_name, protocol, host) => {
    const named = host === 'GUARD' ? new URL(guard.url).host : host;
    const result = spawnSync('git', ['credential', 'fill'], {
      input: `protocol=${protocol}\nhost=${named}\n\n`,
      env: {
        PATH: process.env.PATH,
        HOME: home,
        GIT_CONFIG_GLOBAL: join(folder, 'gitconfig'),
        GIT_TERMINAL_PROMPT: '0',
      },
      encoding: 'utf8',
    });
    expect(result.stdout).not.toContain(login.password);
    expect(result.status).not.toBe(0);
  });

  test('the helper copied to another section does not answer there', async () => {
    const text = readFileSync(join(folder, 'gitconfig'), 'utf8');
    const helper = /^\thelper = (".*)$/m.exec(text)?.[1] ?? '';
    writeFileSync(join(home, 'copied'), `[credential]\n\thelper = ${helper}\n`);
    const result = spawnSync('git', ['credential', 'fill'], {
      input: 'protocol=https\nhost=evil.example\n\n',
      env: {
        PATH: process.env.PATH,
        HOME: home,
        GIT_CONFIG_GLOBAL: join(home, 'copied'),
        GIT_TERMINAL_PROMPT: '0',
      },
      encoding: 'utf8',
    });
    expect(result.stdout).not.toContain(login.password);
  });

  test('another https host sees neither the CA nor the credential', async () => {
    const seen: string[] = [];
    const other = createServer((socket) => {
      socket.on('data', (chunk) => seen.push(chunk.toString('latin1')));
      socket.on('error', () => {});
      setTimeout(() => socket.destroy(), 200);
    });
    await promisify(other.listen.bind(other) as (port: number, done: () => void) => void)(0);
    const address = other.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const result = await run(['ls-remote', `https://localhost:${port}/acme/tool`]);
    other.close();
    expect(result.status).not.toBe(0);
    expect(seen.join('')).not.toContain(login.password);
    const scoped = await run(['config', '--get-urlmatch', 'http.sslCAInfo', `https://localhost:${port}/`]);
    expect(scoped.out.trim()).toBe('');
  });
});
