import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Forge, startForge } from '../../cli/demo/forge.ts';
import { configure, freePort, postern, run, type Server, sandbox, scratch, serve } from './harness.ts';

const ROUNDS = 20;
const CLIENTS = 10;

const { folder, remove } = scratch('kill');
let forge: Forge;
let server: Server | undefined;

beforeAll(async () => {
  forge = await startForge({ root: join(folder, 'repos'), token: 'the-forge-token-of-the-kill-test' });
});

afterAll(async () => {
  await server?.kill();
  await forge.close();
  remove();
});

/** Moments of death spread evenly over a round, so that early and late phases of the transfers are all met. */
function momentOf(round: number): number {
  return 30 + Math.round((round / ROUNDS) * 900);
}

test('kill -9 in the middle of 20 concurrent clones and pushes, 20 times: nothing is lost and the token still works', async () => {
  const bare = await forge.createRepository('acme/tool');
  const seed = join(folder, 'seed');
  mkdirSync(seed);
  const git = (cwd: string, ...args: string[]) => run('git', args, { cwd });
  await git(seed, 'init', '-q', '-b', 'main');
  writeFileSync(join(seed, 'data'), randomBytes(2 << 20));
  await git(seed, 'add', '.');
  await git(seed, '-c', 'user.name=t', '-c', 'user.email=t@localhost', 'commit', '-qm', 'seed');
  await git(seed, 'push', '-q', bare, 'main');

  const port = await freePort();
  const config = configure(folder, {
    git: {
      listen: `127.0.0.1:${port}`,
      advertise: `https://127.0.0.1:${port}`,
      upstreams: [{ url: forge.url }],
    },
    log: { level: 'error' },
  });
  server = await serve(config);
  const tokenFile = join(folder, 'token');
  writeFileSync(tokenFile, 'the-forge-token-of-the-kill-test');
  const files = join(folder, 'session');
  // biome-ignore format: pairs
  const issued = await postern(config, 'session', 'issue', 'git', '--upstream', forge.url, '--token-file', tokenFile,
      '--repo', 'acme/tool', '--permission', 'contents:write', '--lease', 'kill', '--ttl', '1h', '--out', files);
  expect(issued, 'the session is issued').toMatchObject({ code: 0 });
  const env = sandbox(folder, files);
  const url = `${forge.url}/acme/tool.git`;

  const commit = async (name: string): Promise<string> => {
    const work = join(folder, `work-${name}`);
    await git(folder, 'clone', '-q', bare, work);
    writeFileSync(join(work, name), randomBytes(256 << 10));
    await git(work, 'add', '.');
    await git(work, '-c', 'user.name=t', '-c', 'user.email=t@localhost', 'commit', '-qm', name);
    return work;
  };
  const works = await Promise.all(Array.from({ length: CLIENTS }, (_, i) => commit(`p${i}`)));

  let interrupted = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const pushes = works.map((work, i) =>
      run('git', ['push', '-q', url, `HEAD:refs/heads/r${round}/p${i}`], { cwd: work, env }),
    );
    const clones = works.map((_, i) =>
      run('git', ['clone', '-q', '--bare', url, join(folder, `clone-${round}-${i}`)], { cwd: folder, env }),
    );
    await new Promise((resolve) => setTimeout(resolve, momentOf(round)));
    await server.kill('SIGKILL');
    const ended = await Promise.all([...pushes, ...clones]);
    interrupted += ended.filter(({ code }) => code !== 0).length;
    for (let i = 0; i < CLIENTS; i++)
      rmSync(join(folder, `clone-${round}-${i}`), { recursive: true, force: true });

    server = await serve(config);
    const again = join(folder, `again-${round}`);
    const next = await run('git', ['clone', '-q', url, again], { cwd: folder, env });
    expect(next, `round ${round}: the next clone with the same token`).toMatchObject({ code: 0 });
    rmSync(again, { recursive: true, force: true });
  }
  expect(interrupted, 'the kills met work under way').toBeGreaterThan(ROUNDS);

  expect((await run('git', ['-C', bare, 'fsck', '--full'])).code, 'the repository is whole').toBe(0);
  const listed = await postern(config, 'session', 'list', '--json');
  expect(listed.out).toContain('"kill"');
  const verified = await postern(config, 'audit', 'verify', '--json');
  expect(verified, 'the chain is whole').toMatchObject({ code: 0 });

  // Nothing reached the forge that is not on record: every ref there was authorised before it left.
  const refs = (await run('git', ['-C', bare, 'for-each-ref', '--format=%(refname)'])).out.trim().split('\n');
  const allowed = await postern(config, 'audit', 'export', '--action', 'git.push_allowed');
  for (const ref of refs.filter((name) => name !== 'refs/heads/main'))
    expect(allowed.out).toContain(`"${ref}"`);
}, 300_000);
