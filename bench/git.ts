// npm run bench:git: the git guard beside nginx and beside no proxy at all, on the same upstream, in one run.
//
// The upstream is nginx with TLS in front of git http-backend; two repositories' `info/refs` are static files there, so
// that a small request measures the proxy and not the start of a CGI. The peer is nginx with TLS on both sides, buffering
// off and a static Authorization: the fastest thing that hides a credential, without sessions, policy or audit. The guard
// runs as `postern serve` with its audit on. Ratios count; absolute times belong to the machine.

import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startForge } from '../cli/demo/forge.ts';
import { serve } from './support/guard.ts';
import { revocation, slowForge } from './support/revocation.ts';
import {
  certificate,
  cleanUp,
  freePort,
  median,
  need,
  nginx,
  nginxProxy,
  peakRss,
  scratch,
  table,
  wrk,
} from './support/tools.ts';

const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 1 : 3;
const SECONDS = quick ? 2 : 4;
const BIG_MB = quick ? 30 : 300;

interface Way {
  readonly name: string;
  readonly base: string;
  readonly authorization: string;
  readonly ca: string;
  readonly pid: number;
}

const log = (text: string): void => void process.stderr.write(`${text}\n`);

function git(way: Way, args: string[], cwd?: string): Promise<{ code: number; ms: number; err: string }> {
  const started = performance.now();
  const settings = [
    '-c',
    `http.sslCAInfo=${way.ca}`,
    ...(way.authorization ? ['-c', `http.extraHeader=Authorization: ${way.authorization}`] : []),
  ];
  return new Promise((resolve) => {
    execFile(
      'git',
      [...settings, ...args],
      {
        cwd,
        env: { PATH: process.env.PATH, GIT_TERMINAL_PROMPT: '0', GIT_CONFIG_GLOBAL: '/dev/null' },
        maxBuffer: 1 << 26,
      },
      (error, _out, err) =>
        resolve({
          code: error ? Number(error.code ?? 1) : 0,
          ms: performance.now() - started,
          err: String(err),
        }),
    );
  });
}

function makeRepository(folder: string, name: string, mb: number): string {
  const bare = join(folder, 'repos', 'acme', `${name}.git`);
  const work = join(folder, `work-${name}`);
  execFileSync('git', ['init', '-q', '-b', 'main', work]);
  // What is random does not compress; trying to would measure the client.
  execFileSync('git', ['-C', work, 'config', 'core.compression', '0']);
  for (let i = 0; i < mb; i++) writeFileSync(join(work, `blob-${i}`), randomBytes(1 << 20));
  const run = (...args: string[]) =>
    execFileSync('git', ['-C', work, '-c', 'user.name=bench', '-c', 'user.email=bench@localhost', ...args]);
  run('add', '.');
  run('commit', '-qm', 'content');
  execFileSync('git', ['clone', '-q', '--bare', work, bare]);
  execFileSync('git', ['-C', bare, 'config', 'http.receivepack', 'true']);
  execFileSync('git', ['-C', bare, '-c', 'core.compression=0', 'repack', '-adq']);
  return work;
}

/** A v0 advertisement of `refs` refs, as git http-backend writes it. */
function advertisement(refs: number): Buffer {
  const line = (text: string) => `${(text.length + 4).toString(16).padStart(4, '0')}${text}`;
  const id = 'a'.repeat(40);
  let out = `${line('# service=git-upload-pack\n')}0000`;
  for (let i = 0; i < refs; i++)
    out += line(`${id} refs/heads/b${i}${i === 0 ? '\0 side-band-64k ofs-delta' : ''}\n`);
  return Buffer.from(`${out}0000`);
}

async function main(): Promise<void> {
  need('nginx', 'nginx-light');
  need('wrk', 'wrk');
  const folder = scratch('git');
  const tls = certificate(folder);
  const token = 'bench-token-that-only-the-upstream-and-custody-know';
  const basic = `Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`;
  const forge = await startForge({ root: join(folder, 'repos'), token });

  for (const [name, refs] of [
    ['small', 1],
    ['refs', 5000],
  ] as const) {
    mkdirSync(join(folder, `www/acme/${name}.git/info`), { recursive: true });
    writeFileSync(join(folder, `www/acme/${name}.git/info/refs`), advertisement(refs));
  }
  const upstreamPort = await freePort();
  const type = 'default_type application/x-git-upload-pack-advertisement;';
  await nginx(
    folder,
    'upstream',
    `server {
      listen 127.0.0.1:${upstreamPort} ssl reuseport backlog=4096;
      ssl_certificate ${tls.cert}; ssl_certificate_key ${tls.key};
      location ~ ^/acme/(small|refs)\\.git/ { root ${folder}/www; ${type} }
      location / { proxy_pass ${forge.url}; proxy_http_version 1.1; proxy_buffering off; proxy_request_buffering off; }
    }`,
    upstreamPort,
  );
  const upstream = `https://127.0.0.1:${upstreamPort}`;
  const nginxPort = await freePort();
  const refusedPush = 'location ~ ^/acme/refused.*/git-receive-pack { return 403; }';
  const peer = await nginx(
    folder,
    'peer',
    nginxProxy({
      port: nginxPort,
      tls,
      upstream,
      upstreamCa: tls.ca,
      authorization: basic,
      extra: refusedPush,
    }),
    nginxPort,
  );

  const slow = await slowForge(forge.url);
  const guard = await serve(folder, {
    git: {
      upstreams: [{ url: upstream, caFile: tls.ca }, { url: slow.url }],
      push: { refs: ['refs/heads/**'], maxPackBytes: 4 * 2 ** 30 },
    },
    sessions: { maxConcurrent: 1024 },
    log: { level: 'warn' },
  });
  const tokenFile = join(folder, 'token');
  writeFileSync(tokenFile, token, { mode: 0o600 });
  const session = guard.cli<{ username: string; password: string }>(
    ...['session', 'issue', 'git', '--upstream', upstream, '--token-file', tokenFile, '--repo', 'acme/*'],
    ...['--permission', 'contents:write', '--push-ref', 'refs/heads/allowed/**', '--lease', 'bench'],
  );
  const ways: Way[] = [
    { name: 'direct', base: upstream, authorization: basic, ca: tls.ca, pid: 0 },
    {
      name: 'nginx',
      base: `https://127.0.0.1:${nginxPort}`,
      authorization: '',
      ca: tls.ca,
      pid: peer.pid ?? 0,
    },
    {
      name: 'guard',
      base: `https://${guard.git}`,
      authorization: `Basic ${Buffer.from(`${session.username}:${session.password}`).toString('base64')}`,
      ca: guard.ca,
      pid: guard.pid,
    },
  ];

  const rows: string[][] = [
    ['what', 'unit', ...ways.map((way) => way.name), 'guard / nginx', 'peak RSS nginx', 'peak RSS guard'],
  ];
  const report = (what: string, unit: string, values: number[], rss: number[]): void => {
    const [, b = Number.NaN, c = Number.NaN] = values;
    const digits = unit === 'req/s' ? 0 : 2;
    const row = [
      what,
      unit,
      ...values.map((v) => v.toFixed(digits)),
      (c / b).toFixed(2),
      ...rss.slice(1).map((mb) => `${mb} MB`),
    ];
    rows.push(row);
    log(row.join('  '));
  };
  /** Each way in turn, several rounds, so that a slow moment of the machine meets all of them; the median counts. */
  async function compare(
    what: string,
    unit: string,
    once: (way: Way, round: number) => Promise<number>,
  ): Promise<void> {
    const values = ways.map((): number[] => []);
    const rss = ways.map(() => 0);
    for (let round = 0; round < ROUNDS; round++) {
      for (const [i, way] of ways.entries()) {
        const memory = way.pid > 0 ? peakRss(way.pid) : undefined;
        memory?.reset();
        values[i]?.push(await once(way, round));
        rss[i] = Math.max(rss[i] ?? 0, memory?.mb() ?? 0);
      }
    }
    report(what, unit, values.map(median), rss);
  }

  for (const [repo, label, connections] of [
    ['small', 'info/refs, 1 ref', 32],
    ['refs', 'info/refs, 5,000 refs', 8],
  ] as const) {
    const results = ways.map((): { rate: number; p50: number; p99: number }[] => []);
    const rss = ways.map(() => 0);
    for (let round = 0; round < ROUNDS; round++) {
      for (const [i, way] of ways.entries()) {
        const memory = way.pid > 0 ? peakRss(way.pid) : undefined;
        memory?.reset();
        const headers: Record<string, string> = way.authorization ? { Authorization: way.authorization } : {};
        const found = wrk(
          `${way.base}/acme/${repo}.git/info/refs?service=git-upload-pack`,
          headers,
          connections,
          SECONDS,
        );
        if (found.errors > 0) throw new Error(`${way.name}: ${found.errors} requests failed`);
        results[i]?.push({ rate: found.rate, p50: found.p50Ms, p99: found.p99Ms });
        rss[i] = Math.max(rss[i] ?? 0, memory?.mb() ?? 0);
      }
    }
    const of = (key: 'rate' | 'p50' | 'p99') =>
      results.map((list) => median(list.map((entry) => entry[key])));
    report(`${label}, ${connections} connections`, 'req/s', of('rate'), rss);
    report(`${label}, p50`, 'ms', of('p50'), rss);
    report(`${label}, p99`, 'ms', of('p99'), rss);
  }

  log('making repositories');
  makeRepository(folder, 'big', BIG_MB);
  const bigWork = join(folder, 'work-big');
  makeRepository(folder, 'ten', 10);

  await compare(`clone ${BIG_MB} MB`, 's', async (way, round) => {
    const target = join(folder, `clone-${way.name}-${round}`);
    const result = await git(way, ['clone', '-q', '--bare', `${way.base}/acme/big.git`, target]);
    if (result.code !== 0) throw new Error(`${way.name}: clone failed: ${result.err}`);
    rmSync(target, { recursive: true, force: true });
    return result.ms / 1000;
  });

  await compare(`push ${BIG_MB} MB`, 's', async (way, round) => {
    const name = `push-${way.name}-${round}`;
    const bare = join(folder, 'repos', 'acme', `${name}.git`);
    execFileSync('git', ['init', '-q', '--bare', bare]);
    execFileSync('git', ['-C', bare, 'config', 'http.receivepack', 'true']);
    const result = await git(
      way,
      ['push', '-q', `${way.base}/acme/${name}.git`, 'main:refs/heads/allowed/main'],
      bigWork,
    );
    if (result.code !== 0) throw new Error(`${way.name}: push failed: ${result.err}`);
    rmSync(bare, { recursive: true, force: true });
    return result.ms / 1000;
  });

  await compare('50 clones of 10 MB at once', 's', async (way, round) => {
    const started = performance.now();
    const targets = Array.from({ length: quick ? 10 : 50 }, (_, i) =>
      join(folder, `many-${way.name}-${round}-${i}`),
    );
    const results = await Promise.all(
      targets.map((target) => git(way, ['clone', '-q', '--bare', `${way.base}/acme/ten.git`, target])),
    );
    const ms = performance.now() - started;
    const failed = results.find((result) => result.code !== 0);
    if (failed) throw new Error(`${way.name}: a clone failed: ${failed.err}`);
    for (const target of targets) rmSync(target, { recursive: true, force: true });
    return ms / 1000;
  });

  execFileSync('git', ['init', '-q', '--bare', join(folder, 'repos', 'acme', 'refused.git')]);
  execFileSync('git', [
    '-C',
    join(folder, 'repos', 'acme', 'refused.git'),
    'config',
    'http.receivepack',
    'true',
  ]);
  makeRepository(folder, 'hundred', quick ? 10 : 100);
  const refusing = ways.filter((way) => way.name !== 'direct');
  const refused = new Map<string, number[]>(refusing.map((way) => [way.name, []]));
  let words = '';
  for (let round = 0; round < ROUNDS; round++) {
    for (const way of refusing) {
      const target = `${way.base}/acme/refused.git`;
      const result = await git(
        way,
        ['push', '-q', target, 'main:refs/heads/main'],
        join(folder, 'work-hundred'),
      );
      if (result.code === 0) throw new Error(`${way.name}: the push was not refused`);
      if (way.name === 'guard') words = result.err.trim().split('\n').at(-1) ?? '';
      refused.get(way.name)?.push(result.ms / 1000);
    }
  }
  const [byNginx = Number.NaN, byGuard = Number.NaN] = refusing.map((way) =>
    median(refused.get(way.name) ?? []),
  );
  rows.push([
    `refused push of ${quick ? 10 : 100} MB`,
    's',
    '-',
    byNginx.toFixed(2),
    byGuard.toFixed(2),
    (byGuard / byNginx).toFixed(2),
    '-',
    '-',
  ]);

  log('revocation');
  const cut = await revocation({ folder, guard, slow, tokenFile, clones: quick ? 20 : 100 });

  console.log(table(rows));
  console.log(`\nrefused push, last line at the client: ${words}`);
  console.log(
    `revoke during ${cut.clones} live clones: ${cut.cut} cut; from the answer of DELETE to the last byte: ` +
      `p50 ${cut.p50Ms.toFixed(1)} ms, p99 ${cut.p99Ms.toFixed(1)} ms; DELETE itself ${cut.deleteMs.toFixed(1)} ms`,
  );
  slow.close();
  await forge.close();
}

await main().finally(cleanUp);
