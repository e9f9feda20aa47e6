import { execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { closeBenches, files, grant, kubeconfigOf, lease, mint, openBench, PAT, variables } from './bench.ts';
import { appPayload } from './fake-github.ts';

afterEach(closeBenches);

describe('with the git guard switched off', () => {
  let dir: string;
  let delivered: { [name: string]: string };

  beforeAll(async () => {
    const bench = await openBench({ git: 'off', upstreams: ['https://github.com', 'https://ghe.example'] });
    await mint(bench, 'tool', 'github_pat', PAT);
    await mint(bench, 'org', 'github_pat', 'org-token-0123456789');
    await mint(bench, 'ghe', 'github_pat', {
      token: "gh'e-token",
      upstream: 'https://ghe.example',
      username: 'robot',
    });
    await grant(bench, 'tool', 'any', { repos: ['Acme/Tool', 'acme/lib-[0-9]'] });
    await grant(bench, 'org', 'any', { repos: ['corp/*'] });
    await grant(bench, 'ghe', 'any', { repos: ['*'] });
    const made = await lease(bench);
    delivered = files(made);
    expect(made.materials).toMatchObject([{ type: 'direct', summary: expect.stringContaining('unguarded') }]);
    expect(variables(made)).toMatchObject({ GITHUB_TOKEN: "gh'e-token", POSTERN_GIT_MODE: 'read-only' });
    dir = await mkdtemp(join(tmpdir(), "postern-it's "));
    for (const [name, content] of Object.entries(delivered))
      await writeFile(join(dir, name), content, { mode: 0o600 });
  });
  afterAll(() => rm(dir, { recursive: true }));

  /** What git itself is given for a URL, by its own credential machinery. */
  async function fill(url: string): Promise<{ [key: string]: string } | undefined> {
    const home = join(dir, 'home');
    await mkdir(home, { recursive: true });
    const child = spawn('git', ['credential', 'fill'], {
      env: {
        PATH: process.env.PATH,
        HOME: home,
        GIT_CONFIG_GLOBAL: join(dir, 'gitconfig'),
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_TERMINAL_PROMPT: '0',
      },
    });
    child.stdin.end(`url=${url}\n\n`);
    let out = '';
    for await (const chunk of child.stdout) out += String(chunk);
    const entries = out
      .trim()
      .split('\n')
      .map((line): [string, string] => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]);
    const found = Object.fromEntries(entries);
    return found.password === undefined ? undefined : found;
  }

  it.each([
    ['https://github.com/acme/tool', PAT, 'x-access-token'],
    ['https://github.com/acme/tool.git', PAT, 'x-access-token'],
    ['https://github.com/ACME/TOOL.git', PAT, 'x-access-token'],
    ['https://github.com/acme/lib-7', PAT, 'x-access-token'],
    ['https://github.com/corp/anything', 'org-token-0123456789', 'x-access-token'],
    ['https://ghe.example/any/thing', "gh'e-token", 'robot'],
  ])('releases the token of %s', async (url, password, username) => {
    expect(await fill(url)).toMatchObject({ password, username });
  });

  it.each([
    'https://github.com/acme/toolkit',
    'https://github.com/acme/tool/more',
    'https://github.com/acme/lib-77',
    'https://github.com/acme/lib-x',
    'https://github.com/acme',
    'https://github.com/',
    'https://github.com/corp/a/b',
    'https://github.com/corp/..',
    'https://github.com/corp/a;id',
    'https://github.com.evil.test/acme/tool',
    'http://github.com/acme/tool',
    'https://other.example/acme/tool',
  ])('releases nothing for %s', async (url) => {
    expect(await fill(url)).toBeUndefined();
  });

  it('ignores what git asks it to store or erase', async () => {
    const run = promisify(execFile);
    for (const verb of ['store', 'erase', '']) {
      const { stdout } = await run('sh', [join(dir, 'git-credential-helper'), verb], {
        env: { GIT_CONFIG_GLOBAL: join(dir, 'gitconfig'), PATH: process.env.PATH },
      });
      expect(stdout).toBe('');
    }
  });

  it('says a token in its own file only', () => {
    for (const [name, content] of Object.entries(delivered))
      if (!name.startsWith('git-token-')) expect(content).not.toContain(PAT);
  });

  it('has no bare GITHUB_TOKEN where the list is not a written-out star', async () => {
    for (const repos of [['acme/*'], ['*/*'], ['acme/tool']]) {
      const bench = await openBench({ git: 'off' });
      await mint(bench, 'pat', 'github_pat', PAT);
      await grant(bench, 'pat', 'any', { repos, permissions: ['contents:write'] });
      expect(variables(await lease(bench))).toEqual({
        POSTERN_GIT_REPOS: repos.join(','),
        POSTERN_GIT_MODE: 'read-write',
      });
    }
  });

  it('gives an App a narrowed token, never its key, and renews it', async () => {
    const bench = await openBench({ git: 'off' });
    await mint(bench, 'app', 'github_app', appPayload(bench.github));
    await grant(bench, 'app', 'any', { repos: ['acme/app'] });
    const made = await lease(bench);
    expect(files(made)['git-token-1']).toBe(bench.github.alive()[0]?.token);
    expect(JSON.stringify(files(made))).not.toContain('PRIVATE KEY');
    for (let i = 0; i < 5; i++) {
      bench.clock.advance(14 * 60_000);
      const again = await bench.broker.leases.renew({ leaseId: made.id }, { actor: 'hub' });
      expect(bench.github.alive().map(({ token }) => token)).toContain(files(again)['git-token-1']);
    }
    await bench.broker.leases.release(made.id, { actor: 'hub' });
    expect(bench.github.alive()).toEqual([]);
  });
});

describe('with the kube guard switched off', () => {
  it('delivers the reduced documents as one', async () => {
    const bench = await openBench({ kube: 'off' });
    await mint(bench, 'east', 'kubeconfig', kubeconfigOf([{ name: 'prod' }, { name: 'admin' }]));
    await mint(bench, 'west', 'kubeconfig', kubeconfigOf([{ name: 'prod' }]));
    await grant(bench, 'east', 'any', { contexts: ['prod'], namespaces: ['team-a'] });
    await grant(bench, 'west', 'any', { namespaces: ['team-b'] });
    const made = await lease(bench);
    const text = files(made).kubeconfig ?? '';
    expect(text).toContain('cluster-token-of-prod');
    expect(text).not.toContain('cluster-token-of-admin');
    expect(made.materials[0]).toMatchObject({
      summary: expect.stringContaining('unguarded: prod (team-a), prod-west (team-b)'),
    });
  });

  it('denies a document that runs a program, and keeps the others', async () => {
    const bench = await openBench({ kube: 'off' });
    const exec = JSON.parse(kubeconfigOf([{ name: 'eks' }]));
    exec.users[0].user = { exec: { apiVersion: 'client.authentication.k8s.io/v1', command: 'aws' } };
    await mint(bench, 'eks', 'kubeconfig', exec);
    await mint(bench, 'west', 'kubeconfig', kubeconfigOf([{ name: 'prod' }]));
    await grant(bench, 'eks', 'any', { namespaces: ['*'] });
    await grant(bench, 'west', 'any', { namespaces: ['*'] });
    const made = await lease(bench);
    expect(made.denied).toMatchObject([{ secretName: 'eks', reason: expect.stringContaining('exec') }]);
    expect(files(made).kubeconfig).toContain('prod');
    const alone = await openBench({ kube: 'off' });
    await mint(alone, 'eks', 'kubeconfig', exec);
    await grant(alone, 'eks', 'any', { namespaces: ['*'] });
    expect((await lease(alone)).materials).toEqual([]);
  });
});
