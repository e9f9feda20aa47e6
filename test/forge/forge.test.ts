import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Forge, startForge } from '../../cli/demo/forge.ts';
import { gitHome } from '../support/git.ts';

const token = 'ghp_forgeForgeForgeForgeForgeForgeForge1';
const git = gitHome();
let forge: Forge;
let url: string;

beforeAll(async () => {
  forge = await startForge({ root: mkdtempSync(join(tmpdir(), 'postern-test-forge-')), token });
  url = forge.url.replace('://', `://x-access-token:${token}@`);
  await forge.createRepository('acme/tool');
});
afterAll(() => forge.close());

describe('the forge of the tests', () => {
  test('takes a push and gives a clone, with and without .git, under each protocol', async () => {
    await git.ok(['init', '-q', 'work']);
    const cwd = join(git.folder, 'work');
    await git.ok(['commit', '-q', '--allow-empty', '-m', 'first'], { cwd });
    await git.ok(['push', '-q', '-o', 'hello', `${url}/acme/tool`, 'main'], { cwd });
    for (const version of ['0', '1', '2']) {
      const args = [
        '-c',
        `protocol.version=${version}`,
        'clone',
        '-q',
        `${url}/acme/tool.git`,
        `v${version}`,
      ];
      await git.ok(args);
      expect(await git.ok(['log', '--format=%s'], { cwd: join(git.folder, `v${version}`) })).toBe('first');
    }
    expect(new Set(forge.requests.map(({ headers }) => headers['git-protocol']))).toEqual(
      new Set([undefined, 'version=1', 'version=2']),
    );
    // git asks without its credential first.
    expect(forge.requests.every(({ authorized, status }) => status === (authorized ? 200 : 401))).toBe(true);
  });

  test('reads a body of its own length, a chunked one and a compressed one', async () => {
    const body = Buffer.from('0014command=ls-refs\n00010009peel\n0000');
    const headers = {
      authorization: `Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`,
      'content-type': 'application/x-git-upload-pack-request',
      'git-protocol': 'version=2',
    };
    const chunked = new ReadableStream({
      start(controller) {
        for (const byte of body) controller.enqueue(new Uint8Array([byte]));
        controller.close();
      },
    });
    for (const init of [
      { body },
      { body: gzipSync(body), extra: { 'content-encoding': 'gzip' } },
      { body: chunked, duplex: 'half' },
    ]) {
      const { extra, ...rest } = init as { extra?: Record<string, string> };
      const answer = await fetch(`${forge.url}/acme/tool.git/git-upload-pack`, {
        method: 'POST',
        headers: { ...headers, ...extra },
        ...rest,
      });
      expect(await answer.text()).toContain('refs/heads/main');
    }
  });

  test('demands its token on every request and logs nothing of a wrong one', async () => {
    forge.requests.length = 0;
    const wrong = await git(['ls-remote', url.replace(token, 'ghp_somethingElse')]);
    expect(wrong.code).not.toBe(0);
    expect((await git(['ls-remote', forge.url])).code).not.toBe(0);
    expect(forge.requests.every(({ authorized, status }) => !authorized && status === 401)).toBe(true);
    expect(JSON.stringify(forge.requests)).not.toContain('somethingElse');
  });

  test('keeps repositories of both object formats', async () => {
    const folder = await forge.createRepository('acme/new', 'sha256');
    expect(await git.ok(['rev-parse', '--show-object-format'], { cwd: folder })).toBe('sha256');
  });
});
