import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Forge } from '../../cli/demo/forge.ts';
import { FORGE_TOKEN, fill, refsOf, testForge } from '../support/forge.ts';
import { type Git, gitHome } from '../support/git.ts';
import { sandboxOf, startGitGuard, type TestGuard } from '../support/git-guard.ts';

let forge: Forge;
let guard: TestGuard;
let git: Git;
const outside = gitHome();
let clones = 0;

beforeAll(async () => {
  forge = await testForge();
  guard = await startGitGuard({ upstreams: [{ url: forge.url }], token: FORGE_TOKEN });
  // Everything that is spelt as at the forge goes through the guard, as in a delivered gitconfig.
  const spellings = ['https://forge.example/', 'ssh://git@forge.example/', 'git@forge.example:'];
  const rewrite = `[url "${guard.url}/"]\n${spellings.map((each) => `\tinsteadOf = ${each}\n`).join('')}`;
  git = sandboxOf(guard, await guard.issue({ repos: ['acme/*'] }), rewrite);
  await fill(outside, await forge.createRepository('acme/tool'), { commits: 12, branches: 3, tags: 2 });
});
afterAll(async () => {
  await guard.close();
  await forge.close();
});
beforeEach(() => {
  forge.requests.length = 0;
});

async function clone(repo: string, ...options: string[]): Promise<string> {
  const folder = `clone-${clones++}`;
  await git.ok(['clone', '-q', ...options, `${guard.url}/${repo}`, folder]);
  return join(git.folder, folder);
}

const bare = (repo: string): string => join(forge.root, `${repo}.git`);
const log = (cwd: string): Promise<string> => git.ok(['log', '--format=%s', '--all'], { cwd });

describe('a clone through the guard', () => {
  test.each(['0', '1', '2'])('by protocol v%s is whole', async (version) => {
    const folder = await clone('acme/tool.git', '-c', `protocol.version=${version}`);
    await git.ok(['fsck', '--strict'], { cwd: folder });
    expect((await log(folder)).split('\n').length).toBe(12);
    const asked = forge.requests.map(({ headers }) => headers['git-protocol']);
    expect(new Set(asked)).toEqual(new Set([version === '0' ? undefined : `version=${version}`]));
    expect(forge.requests.every(({ authorized, status }) => authorized && status === 200)).toBe(true);
  });

  test('is found in any case and without .git, and asked for in one spelling', async () => {
    await clone('ACME/Tool');
    expect(new Set(forge.requests.map(({ url }) => url.split('?')[0]))).toEqual(
      new Set(['/acme/tool.git/info/refs', '/acme/tool.git/git-upload-pack']),
    );
  });

  test('can be shallow, and made whole later', async () => {
    const folder = await clone('acme/tool.git', '--depth', '1');
    expect(await log(folder)).toBe('commit 12');
    await git.ok(['fetch', '-q', '--deepen', '2'], { cwd: folder });
    expect((await log(folder)).split('\n').length).toBe(3);
    await git.ok(['fetch', '-q', '--unshallow'], { cwd: folder });
    expect((await log(folder)).split('\n').length).toBe(12);
  });

  test('can leave out blobs and fetch them when they are wanted', async () => {
    const folder = await clone('acme/tool.git', '--filter=blob:none', '--no-checkout');
    const missing = await git.ok(['rev-list', '--objects', '--all', '--missing=print'], { cwd: folder });
    expect(missing).toContain('?');
    forge.requests.length = 0;
    await git.ok(['checkout', '-q', 'main'], { cwd: folder });
    expect(existsSync(join(folder, 'file-12'))).toBe(true);
    expect(forge.requests.some(({ url }) => url === '/acme/tool.git/git-upload-pack')).toBe(true);
  });

  test('can be a mirror, equal ref for ref', async () => {
    const folder = await clone('acme/tool.git', '--mirror');
    expect(await refsOf(git, folder)).toBe(await refsOf(outside, bare('acme/tool')));
  });

  test('follows submodules in other allowed repositories, relative and absolute, https and ssh', async () => {
    const repo = bare('acme/tool');
    for (const name of ['relative', 'https', 'ssh', 'scp'])
      await fill(outside, await forge.createRepository(`acme/${name}`));
    const spelling = {
      relative: '../relative.git',
      https: 'https://forge.example/acme/https.git',
      ssh: 'ssh://git@forge.example/acme/ssh.git',
      scp: 'git@forge.example:acme/scp.git',
    };
    const work = join(outside.folder, 'super');
    await outside.ok(['clone', '-q', repo, work]);
    await outside.ok(['init', '-q', '--bare', join(forge.root, 'acme', 'super.git')]);
    for (const [name, url] of Object.entries(spelling)) {
      const id = await outside.ok(['rev-parse', 'main'], { cwd: bare(`acme/${name}`) });
      await outside.ok(['config', '-f', '.gitmodules', `submodule.${name}.path`, name], { cwd: work });
      await outside.ok(['config', '-f', '.gitmodules', `submodule.${name}.url`, url], { cwd: work });
      await outside.ok(['update-index', '--add', '--cacheinfo', `160000,${id},${name}`], { cwd: work });
    }
    await outside.ok(['add', '.gitmodules'], { cwd: work });
    await outside.ok(['commit', '-qm', 'submodules'], { cwd: work });
    await outside.ok(['push', '-q', bare('acme/super'), 'HEAD:refs/heads/main'], { cwd: work });
    const folder = await clone('acme/super.git', '--recurse-submodules');
    for (const name of Object.keys(spelling)) expect(readdirSync(join(folder, name))).toContain('file-3');
  });

  test.each([
    ['5,000 refs', { branches: 5_000 }, 5_001],
    ['400 tags', { tags: 400 }, 401],
  ])('brings %s', async (what, content, count) => {
    const name = `acme/many-${what.replace(/\D/g, '')}`;
    await fill(outside, await forge.createRepository(name), content);
    const folder = await clone(`${name}.git`, '--mirror');
    expect((await refsOf(git, folder)).split('\n').length).toBe(count);
    await outside.ok(['update-ref', 'refs/heads/new', 'refs/heads/main'], { cwd: bare(name) });
    await git.ok(['fetch', '-q'], { cwd: folder });
    expect(await refsOf(git, folder)).toBe(await refsOf(outside, bare(name)));
  });

  test.each(['0', '2'])('passes a compressed negotiation on as it is (v%s)', async (version) => {
    const repo = await forge.createRepository(`acme/branchy-${version}`);
    await fill(outside, repo, { commits: 120, branches: 120 });
    const folder = await clone(`acme/branchy-${version}.git`, '-c', `protocol.version=${version}`);
    expect(forge.requests.some(({ headers }) => headers['content-encoding'] === 'gzip')).toBe(true);
    expect((await log(folder)).split('\n').length).toBe(120);
  });

  test('of SHA-256 objects', async () => {
    const repo = await forge.createRepository('acme/sha256', 'sha256');
    const id = await fill(outside, repo);
    expect(id.length).toBe(64);
    expect(await git.ok(['rev-parse', 'HEAD'], { cwd: await clone('acme/sha256.git') })).toBe(id);
  });

  test('of an empty repository', async () => {
    await forge.createRepository('acme/empty');
    expect(await refsOf(git, await clone('acme/empty.git'))).toBe('');
  });

  test('of some 30 MB is equal, and its bytes are on record', async () => {
    const id = await fill(outside, await forge.createRepository('acme/big'), { noise: 36_000_000 });
    const from = guard.audit.events.length;
    const folder = await clone('acme/big.git', '--bare');
    expect(await git.ok(['rev-parse', 'main'], { cwd: folder })).toBe(id);
    const results = guard.audit.events.slice(from).filter(({ action }) => action === 'git.fetch_result');
    expect(Math.max(...results.map(({ bytesDown }) => bytesDown ?? 0))).toBeGreaterThan(25_000_000);
    expect(
      results.every(
        ({ decision, status, durationMs }) =>
          decision === 'allow' && status === 200 && durationMs !== undefined,
      ),
    ).toBe(true);
  });
});

test('each exchange has a record before it leaves and one after, under its request id', async () => {
  const from = guard.audit.events.length;
  await clone('acme/tool.git');
  const events = guard.audit.events.slice(from);
  const before = events.filter(({ action }) => action === 'git.fetch');
  const after = events.filter(({ action }) => action === 'git.fetch_result');
  expect(before.length).toBe(forge.requests.length);
  expect(after.map(({ exchangeId }) => exchangeId).sort()).toEqual(
    before.map(({ exchangeId }) => exchangeId).sort(),
  );
  expect(before[0]).toMatchObject({
    guard: 'git',
    decision: 'allow',
    repo: 'acme/tool',
    service: 'git-upload-pack',
    host: '127.0.0.1',
    port: Number(new URL(forge.url).port),
    leaseId: 'lease-1',
    projectId: 'project-1',
    sourceIp: '127.0.0.1',
    exchangeId: expect.stringMatching(/^req_/),
    sessionId: expect.stringMatching(/^ses_/),
  });
});
