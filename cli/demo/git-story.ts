// The git half of the demo: a forge that demands a token, a session that never holds it, and what each of them does.

import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Forge, startForge } from './forge.ts';
import type { Environment, Stage } from './stage.ts';

const run = promisify(execFile);
const CLONE_BYTES_PER_SECOND = 1_000_000;

export interface DemoForge {
  readonly forge: Forge;
  readonly tokenFile: string;
  readonly token: string;
}

/** A forge with three repositories; the clone of `acme/big` would take about twenty seconds. */
export async function openForge(stage: Stage): Promise<DemoForge> {
  const token = `ghp_${randomBytes(24).toString('base64url').replaceAll(/[-_]/g, 'x')}`;
  const forge = await startForge({
    root: join(stage.folder, 'forge'),
    token,
    slow: (url) => (url.startsWith('/acme/big') ? CLONE_BYTES_PER_SECOND : undefined),
  });
  stage.onEnd(() => forge.close());
  for (const name of ['tool', 'private', 'big']) {
    const bare = await forge.createRepository(`acme/${name}`);
    const work = join(stage.folder, 'seed', name);
    await mkdir(work, { recursive: true });
    await writeFile(join(work, 'README'), `This is acme/${name}.\n`);
    if (name === 'big') await writeFile(join(work, 'data'), randomBytes(20 << 20));
    const git = (...args: string[]) =>
      run('git', ['-C', work, '-c', 'user.name=demo', '-c', 'user.email=demo@localhost', ...args]);
    await git('init', '-q', '-b', 'main');
    await git('add', '.');
    await git('commit', '-qm', 'first');
    await git('push', '-q', bare, 'main');
  }
  const tokenFile = join(stage.folder, 'forge-token');
  await writeFile(tokenFile, token, { mode: 0o600 });
  return { forge, tokenFile, token };
}

/** An environment with nothing of the operator's in it: what a sandbox has. */
export async function openSandbox(stage: Stage): Promise<{ home: string; env: Environment }> {
  const home = join(stage.folder, 'sandbox');
  await mkdir(home, { recursive: true });
  await writeFile(join(home, '.gitconfig'), '[user]\n\tname = agent\n\temail = agent@localhost\n');
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    LC_ALL: 'C',
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_NOSYSTEM: '1',
  };
  return { home, env };
}

export async function gitStory(
  stage: Stage,
  { forge, tokenFile, token }: DemoForge,
  config: string,
): Promise<void> {
  const { home, env } = await openSandbox(stage);
  const files = join(stage.folder, 'session');
  const sandbox = (line: string) => stage.shell(`. ${files}/env; ${line}`, { env, cwd: home });
  const mainOf = async (repo: string): Promise<string> =>
    (await run('git', ['-C', join(forge.root, 'acme', `${repo}.git`), 'for-each-ref'])).stdout;
  let sessionId = '';

  await stage.step('Outside the sandbox, a session is issued', async () => {
    stage.say(
      '   It may read and push acme/tool and acme/big, but only branches below agent/. The forge token is read from',
    );
    stage.say('   a file and stays with the guard.');
    // biome-ignore format: pairs
    const ran = await stage.postern(
      ['session', 'issue', 'git', '--upstream', forge.url, '--token-file', tokenFile, '--repo', 'acme/tool',
       '--repo', 'acme/big', '--permission', 'contents:write', '--push-ref', 'refs/heads/agent/**',
       '--lease', 'demo', '--out', files], config);
    stage.expect(ran.code === 0, 'the session was issued');
    sessionId = /POSTERN_GIT_SESSION='([^']+)'/.exec(await readFile(join(files, 'env'), 'utf8'))?.[1] ?? '';
    const names = ['env', 'gitconfig', 'git-credential', 'ca.pem'];
    const written = await Promise.all(names.map((name) => readFile(join(files, name), 'utf8')));
    stage.expect(!written.some((text) => text.includes(token)), 'none of its files holds the forge token');
  });

  await stage.step('In the sandbox, a clone: the usual address, the usual git', async () => {
    const ran = await sandbox(`git clone -q ${forge.url}/acme/tool.git && cat tool/README`);
    stage.expect(ran.code === 0 && ran.out.includes('This is acme/tool.'), 'cloned through the guard');
  });

  await stage.step('Another repository of the same owner is refused', async () => {
    const seen = forge.requests.length;
    const ran = await sandbox(`git clone -q ${forge.url}/acme/private.git`);
    stage.expect(
      ran.code !== 0 && ran.err.includes('repo_not_allowed'),
      'refused, and git says by which rule',
    );
    stage.expect(forge.requests.length === seen, 'the forge saw nothing of it');
  });

  await stage.step('A push to a protected branch is refused, and the person sees why', async () => {
    const before = await mainOf('tool');
    const ran = await sandbox(
      'cd tool && echo change >> README && git commit -qam change && git push -q origin HEAD:main',
    );
    stage.expect(
      ran.code !== 0 && /remote rejected.*ref_not_allowed/.test(ran.err),
      "refused in git's own words",
    );
    stage.expect((await mainOf('tool')) === before, 'the branch at the forge did not move');
  });

  await stage.step('The same commit to an allowed branch goes through', async () => {
    const ran = await sandbox('cd tool && git push -q origin HEAD:agent/change && git ls-remote -h origin');
    stage.expect(
      ran.code === 0 && (await mainOf('tool')).includes('refs/heads/agent/change'),
      'the branch is there',
    );
  });

  await stage.step('The session is revoked in the middle of a clone', async () => {
    const clone = stage.begin(`. ${files}/env; git clone -q ${forge.url}/acme/big.git`, { env, cwd: home });
    let over = false;
    void clone.done.then(() => {
      over = true;
    });
    const under = () =>
      forge.requests.some((one) => one.url === '/acme/big.git/git-upload-pack' && one.bytes > 100);
    for (let tries = 0; tries < 100 && !under(); tries++)
      await new Promise((resolve) => setTimeout(resolve, 50));
    await new Promise((resolve) => setTimeout(resolve, 500));
    stage.expect(!over, 'the clone is under way');
    const revoked = await stage.postern(['session', 'revoke', sessionId], config);
    const ran = await clone.done;
    stage.say('   The clone prints:');
    for (const line of ran.err.trim().split('\n')) stage.say(`     ${line}`);
    stage.expect(revoked.code === 0 && ran.code !== 0, 'the clone was cut');
    const again = await sandbox('git ls-remote -q tool');
    stage.expect(again.code === 0, 'what was cloned before is still there');
    const denied = await sandbox(`git ls-remote ${forge.url}/acme/tool.git`);
    stage.expect(denied.code !== 0, 'and the session opens nothing any more');
  });

  await stage.step('Every decision is on record', async () => {
    const list = await stage.postern(['audit', 'list', '--session', sessionId], config);
    stage.expect(
      ['git.session_minted', 'git.push_denied', 'git.push_result', 'git.session_closed'].every((action) =>
        list.out.includes(action),
      ),
      'the trail tells the whole story',
    );
    stage.expect(!list.out.includes(token), 'and holds no credential');
    const verified = await stage.postern(['audit', 'verify'], config);
    stage.expect(verified.code === 0, 'the chain is whole');
  });
}
