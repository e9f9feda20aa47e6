import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server as NetServer } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitFor } from '../support/wait.ts';
import {
  configure,
  launcher,
  openSite,
  run,
  type Site,
  sandbox,
  scratch,
  seed,
  serve,
  start,
} from './support.ts';

const { folder, remove } = scratch('cli-serve');
let taken: NetServer;
let takenPort: number;

beforeAll(async () => {
  taken = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => taken.once('listening', resolve));
  const address = taken.address();
  takenPort = typeof address === 'object' && address ? address.port : 0;
});
afterAll(() => {
  taken.close();
  remove();
});

const get = async (address: string, path: string) => {
  const answer = await fetch(`http://${address}${path}`);
  return { status: answer.status, text: await answer.text() };
};

describe('a start', () => {
  test('logs JSON lines, one of them with the real addresses, whatever the level; and nothing beside them', async () => {
    const config = configure(join(folder, 'quiet'), {
      git: { listen: '127.0.0.1:0', advertise: 'https://127.0.0.1:0' },
      log: { level: 'error' },
    });
    const server = await serve(config);
    const { git, control, ops } = server.ready;
    expect(git).toMatch(/^127\.0\.0\.1:[1-9]\d*$/);
    expect(ops).toMatch(/^127\.0\.0\.1:[1-9]\d*$/);
    expect(control).toBe(join(folder, 'quiet/var/control.sock'));
    expect((await get(ops, '/readyz')).status).toBe(200);
    const status = await run(process.execPath, [launcher, 'status', '--json', '--config', config]);
    expect(JSON.parse(status.out)).toMatchObject({
      ready: true,
      git: { enabled: true, advertise: `https://${git}` },
      kube: { enabled: false },
    });
    const second = start(['serve', '--config', config]);
    expect(await second.exit).toBe(1);
    expect(second.err()).toMatch(/^postern: process \d+ serves the data folder .*\n$/);
    expect(second.out()).toBe('');
    expect(await server.kill('SIGTERM')).toBe(0);
    for (const line of server.output().trim().split('\n')) JSON.parse(line);
    expect(existsSync(control)).toBe(false);
    // What a start leaves is taken up by the next one.
    const again = await serve(config);
    expect(await again.kill('SIGINT')).toBe(0);
  });

  test.each([
    ['an unknown key', { gitt: {} }, 'gitt'],
    ['a bad value', { git: { listen: 'here' } }, 'git.listen'],
    [
      'an upstream without TLS',
      { git: { upstreams: [{ url: 'http://forge.example.com' }] } },
      'git.upstreams[0].url',
    ],
    [
      'a CA file that is not there',
      { git: { upstreams: [{ url: 'https://a.example', caFile: '/nowhere.pem' }] } },
      'git.upstreams[0].caFile',
    ],
    ['a passphrase that is not set', { secretKey: { env: 'CLI_TEST_UNSET' } }, 'secretKey.env'],
    ['a Secret outside a cluster', { secretKey: { secretKeyRef: { name: 'a', key: 'b' } } }, 'secretKey'],
  ])('with %s ends with 1 and names the key', async (name, settings, key) => {
    const config = configure(join(folder, name.replaceAll(' ', '-')), settings);
    const child = start(['serve', '--config', config]);
    expect(await child.exit).toBe(1);
    expect(child.err()).toContain(key);
    expect(child.out()).not.toContain('"msg":"ready"');
  });

  test.each(['git', 'ops', 'control'])(
    'that finds %s.listen taken closes what it had opened',
    async (section) => {
      const dir = join(folder, `taken-${section}`);
      const free = {
        git: { listen: '127.0.0.1:0' },
        ops: { listen: '127.0.0.1:0' },
        log: { level: 'error' },
      };
      const config = configure(dir, { ...free, [section]: { listen: `127.0.0.1:${takenPort}` } });
      const child = start(['serve', '--config', config]);
      expect(await child.exit).toBe(1);
      expect(child.err()).toMatch(new RegExp(`^postern: ${section}\\.listen: `));
      expect(existsSync(join(dir, 'var/control.sock'))).toBe(false);
      configure(dir, free);
      const server = await serve(config);
      expect(await server.kill()).toBe(0);
    },
  );
});

describe('a stop', () => {
  let site: Site;
  let env: ReturnType<typeof sandbox>;
  const big = (name: string) =>
    run('git', ['clone', '-q', `${site.forge.url}/acme/big.git`, name], { env, cwd: env.HOME });

  /** Protocol v2 asks for the refs first and for the pack with the second POST. */
  const streaming = (seen: number) =>
    waitFor('the clone to stream', () => {
      const posts = site.forge.requests.slice(seen).filter((one) => one.url.endsWith('/git-upload-pack'));
      return posts.length >= 2;
    });

  beforeAll(async () => {
    site = await openSite('cli-stop', { log: { level: 'error' } }, (url) =>
      url.endsWith('/git-upload-pack') ? 100_000 : undefined,
    );
    await seed(site, 'acme/big', { data: randomBytes(4 << 20) });
    const out = join(site.folder, 'out');
    expect((await site.issue('--repo', '*', '--lease', 'L', '--out', out)).code).toBe(0);
    env = sandbox(site.folder, out);
  });
  afterAll(() => site.close());

  test('says at once that it is not ready, takes nothing new, ends what is under way in bounded time, exits 0', async () => {
    const seen = site.forge.requests.length;
    const clone = big('slow');
    await streaming(seen);
    // An idle connection, and one that never says anything, hold nobody.
    const [host = '', port = ''] = site.server.ready.git.split(':');
    const idle = connectTls({ host, port: Number(port), rejectUnauthorized: false });
    idle.on('error', () => {});
    await new Promise((resolve) => idle.once('secureConnect', resolve));
    const stuck = connect(join(site.folder, 'var/control.sock'));
    stuck.on('error', () => {});
    stuck.write('POST /v1/sessions/git HTTP/1.1\r\nHost: x\r\nContent-Le');
    const from = performance.now();
    const exit = site.server.kill('SIGTERM');
    await waitFor('not ready', async () => (await get(site.server.ready.ops, '/readyz')).status === 503);
    expect(
      (await run('git', ['ls-remote', `${site.forge.url}/acme/big.git`], { env, cwd: env.HOME })).code,
    ).not.toBe(0);
    expect(await exit).toBe(0);
    expect(performance.now() - from).toBeLessThan(25_000);
    expect((await clone).code).not.toBe(0);
    const records = readTrail(site);
    expect(records.at(-1)).toMatchObject({ action: 'server.stopped' });
    expect((await site.postern('audit', 'verify')).code).toBe(0);
  }, 60_000);

  test('by a second signal is at once, and the session goes on after the next start', async () => {
    const server = await serve(site.config);
    const port = server.ready.git;
    // The guard has another port now; the sandbox's rewrite is told of it by hand.
    const gitconfig = join(site.folder, 'out/gitconfig');
    writeFileSync(gitconfig, readFileSync(gitconfig, 'utf8').replaceAll(site.server.ready.git, port));
    const seen = site.forge.requests.length;
    const clone = big('again');
    await streaming(seen);
    const exit = server.kill('SIGTERM');
    await waitFor('the server to drain', async () => (await get(server.ready.ops, '/readyz')).status === 503);
    await new Promise((resolve) => setTimeout(resolve, 500));
    server.process.kill('SIGTERM');
    expect(await exit).toBe('SIGTERM');
    expect((await clone).code).not.toBe(0);
    expect((await site.postern('audit', 'verify')).code).toBe(0);
  }, 60_000);
});

test('a thread that hangs in a system call of a dead disk does not hold the end up', async () => {
  const { folder, remove } = scratch('hung');
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, 'hung-end.ts'), join(folder, 'audit'), pipe],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  let out = '';
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString();
  });
  const ended = await new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
  expect([out, ended]).toEqual(['hangs: true\n', 'SIGKILL']);
  remove();
}, 60_000);

test('behind a shell of npx that dies of the signal, the server ends too', async () => {
  const config = configure(join(folder, 'npx'), { git: { listen: '127.0.0.1:0' }, log: { level: 'error' } });
  const line = '"$0" "$1" serve --config "$2" & echo started; wait';
  const shell = spawn('sh', ['-c', line, process.execPath, launcher, config], {
    env: { ...process.env, npm_command: 'exec' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let out = '';
  shell.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString();
  });
  await waitFor('ready', () => out.includes('"msg":"ready"'));
  const server = Number(readFileSync(join(folder, 'npx/var/serve.pid'), 'utf8'));
  shell.kill('SIGTERM');
  await waitFor('the server to be gone', () => !alive(server));
});

describe('the launcher on an old node', () => {
  // The same launcher, told that this node is an old one: it starts the one among the packages.
  const old = [
    '--import',
    `data:text/javascript,if (!process.channel) Object.defineProperty(process.versions, 'node', { value: '20.1.0' })`,
  ];

  test('passes the exit status, the output and the input through', async () => {
    const ran = start(['session', 'show'], { node: old });
    expect(await ran.exit).toBe(2);
    expect(ran.err()).toContain('ID is missing');
  });

  test('passes signals on, and takes the server along when it is killed', async () => {
    const config = configure(join(folder, 'launched'), {
      git: { listen: '127.0.0.1:0' },
      log: { level: 'error' },
    });
    const first = start(['serve', '--config', config], { node: old });
    await waitFor('ready', () => first.out().includes('"msg":"ready"'));
    first.child.kill('SIGTERM');
    expect(await first.exit).toBe(0);
    const second = start(['serve', '--config', config], { node: old });
    await waitFor('ready', () => second.out().includes('"msg":"ready"'));
    const server = Number(readFileSync(join(folder, 'launched/var/serve.pid'), 'utf8'));
    expect(server).not.toBe(second.child.pid);
    second.child.kill('SIGKILL');
    await waitFor('the server to be gone', () => !alive(server));
  });
});

function readTrail(site: Site): { action: string }[] {
  const dir = join(site.folder, 'var/audit');
  return readdirSync(dir)
    .filter((name) => /^\d+\.jsonl$/.test(name))
    .sort()
    .flatMap((name) => readFileSync(join(dir, name), 'utf8').trim().split('\n'))
    .map((line) => JSON.parse(line));
}

function alive(pid: number): boolean {
  try {
    readlinkSync(`/proc/${pid}/exe`);
    return true;
  } catch {
    return false;
  }
}
