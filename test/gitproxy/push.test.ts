import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Forge } from '../../cli/demo/forge.ts';
import { FORGE_TOKEN, fill, refsOf, testForge } from '../support/forge.ts';
import { type Git, gitHome } from '../support/git.ts';
import { sandboxOf, startGitGuard, type TestGuard } from '../support/git-guard.ts';

let forge: Forge;
let guard: TestGuard;
const outside = gitHome();
let count = 0;

beforeAll(async () => {
  forge = await testForge();
  guard = await startGitGuard({
    upstreams: [{ url: forge.url }],
    token: FORGE_TOKEN,
    push: { refs: ['refs/**'], maxRefs: 6, maxPackBytes: 40_000_000 },
  });
});
afterAll(async () => {
  await guard.close();
  await forge.close();
});

interface Work {
  repo: string;
  bare: string;
  cwd: string;
  git: Git;
  push(...args: string[]): Promise<{ code: number; err: string }>;
  refs(): Promise<string>;
  /** Requests for pushing that reached the forge. */
  pushes(): number;
}

/** A repository of its own, cloned, and a session that may push to it as the rules say. */
async function workOn(
  rules: { pushRefs?: string[]; allowDelete?: boolean; format?: 'sha256' } = {},
): Promise<Work> {
  const repo = `acme/r${count++}`;
  const bare = await forge.createRepository(repo, rules.format ?? 'sha1');
  await fill(outside, bare);
  await outside.ok(['branch', 'agent/old', 'main'], { cwd: bare });
  const { format: _, ...rest } = rules;
  const session = await guard.issue({ repos: [repo], permissions: ['contents:write'], ...rest });
  const git = sandboxOf(guard, session);
  await git.ok(['clone', '-q', `${guard.url}/${repo}.git`, 'work']);
  const cwd = join(git.folder, 'work');
  await git.ok(['commit', '-q', '--allow-empty', '-m', 'new'], { cwd });
  const before = forge.requests.length;
  return {
    repo,
    bare,
    cwd,
    git,
    push: (...args) => git(['push', ...args], { cwd }),
    refs: () => refsOf(outside, bare),
    pushes: () =>
      forge.requests
        .slice(before)
        .filter(({ url, method }) => method === 'POST' && url.endsWith('git-receive-pack')).length,
  };
}

let from = 0;
beforeEach(() => {
  from = guard.audit.events.length;
});
const recorded = (action: string) =>
  guard.audit.events.slice(from).filter((event) => event.action === action);

describe('a push that is allowed', () => {
  test('creates and updates, and the record tells what the forge said of each ref', async () => {
    const work = await workOn();
    const done = await work.push('-q', 'origin', 'main', 'HEAD:refs/heads/agent/new');
    expect(done).toMatchObject({ code: 0 });
    const head = await work.git.ok(['rev-parse', 'HEAD'], { cwd: work.cwd });
    expect(await work.refs()).toContain(`refs/heads/agent/new ${head}`);
    expect(await work.refs()).toContain(`refs/heads/main ${head}`);
    const [allowed] = recorded('git.push_allowed');
    expect(allowed).toMatchObject({ durability: 'durable', decision: 'allow', repo: work.repo });
    expect(allowed?.refs).toHaveLength(2);
    const [result] = recorded('git.push_result');
    expect(result?.refs).toEqual(
      expect.arrayContaining([
        { ref: 'refs/heads/agent/new', op: 'create', old: '0'.repeat(40), new: head, result: 'ok' },
        expect.objectContaining({ ref: 'refs/heads/main', op: 'update', new: head, result: 'ok' }),
      ]),
    );
    expect(result?.exchangeId).toBe(allowed?.exchangeId);
  });

  test('deletes only, without any pack', async () => {
    const work = await workOn({ allowDelete: true });
    expect(await work.push('-q', 'origin', ':agent/old')).toMatchObject({ code: 0 });
    expect(await work.refs()).not.toContain('agent/old');
    expect(recorded('git.push_result')[0]?.refs).toMatchObject([{ op: 'delete', result: 'ok' }]);
  });

  test('forces, creates a tag and deletes in one go', async () => {
    const work = await workOn({ pushRefs: ['refs/heads/**', 'refs/tags/**'], allowDelete: true });
    await work.git.ok(['tag', '-am', 'first', 'v1'], { cwd: work.cwd });
    await work.git.ok(['reset', '-q', '--hard', 'HEAD~2'], { cwd: work.cwd });
    expect(await work.push('-q', '--force', 'origin', 'main', 'v1', ':agent/old')).toMatchObject({ code: 0 });
    expect((await work.refs()).split('\n').map((line) => line.split(' ')[0])).toEqual([
      'refs/heads/main',
      'refs/tags/v1',
    ]);
  });

  test('carries push options, and can be atomic', async () => {
    const work = await workOn();
    const options = ['-o', 'ci.skip', '-o', 'note=hello world', '--atomic'];
    expect(await work.push('-q', ...options, 'origin', 'main', 'main:x')).toMatchObject({ code: 0 });
    expect(recorded('git.push_allowed')[0]?.pushOptions).toEqual(['ci.skip', 'note']);
  });

  test('comes from a shallow clone', async () => {
    const work = await workOn();
    await work.git.ok(['clone', '-q', '--depth', '1', `${guard.url}/${work.repo}`, 'shallow']);
    const cwd = join(work.git.folder, 'shallow');
    await work.git.ok(['commit', '-q', '--allow-empty', '-m', 'from a shallow clone'], { cwd });
    await work.git.ok(['push', '-q', 'origin', 'HEAD:agent/shallow'], { cwd });
    expect(await work.refs()).toContain('agent/shallow');
  });

  test('of SHA-256 objects', async () => {
    const work = await workOn({ format: 'sha256' });
    expect(await work.push('-q', 'origin', 'main')).toMatchObject({ code: 0 });
    expect(recorded('git.push_result')[0]?.refs?.[0]?.new).toHaveLength(64);
  });

  test('over 1 MiB is probed for first and then chunked: some 30 MB, equal at the other end', async () => {
    const work = await workOn();
    writeFileSync(join(work.cwd, 'noise'), randomBytes(30_000_000));
    await work.git.ok(['add', '.'], { cwd: work.cwd });
    await work.git.ok(['-c', 'core.compression=0', 'commit', '-qm', 'large'], { cwd: work.cwd });
    const args = ['-c', 'pack.compression=0', 'push', '-q', 'origin', 'main'];
    expect(await work.git(args, { cwd: work.cwd })).toMatchObject({ code: 0 });
    expect(await work.refs()).toContain(await work.git.ok(['rev-parse', 'HEAD'], { cwd: work.cwd }));
    expect(work.pushes()).toBe(1); // the probe was answered by the guard
    expect(recorded('git.push_result')[0]?.bytesUp).toBeGreaterThan(30_000_000);
  });

  test('that changes nothing asks for nothing', async () => {
    const work = await workOn();
    await work.git.ok(['reset', '-q', '--hard', 'origin/main'], { cwd: work.cwd });
    const done = await work.push('origin', 'main');
    expect(done).toMatchObject({ code: 0, err: 'Everything up-to-date\n' });
  });

  test('that the forge refuses in part is told so, ref by ref', async () => {
    const work = await workOn();
    await outside.ok(['config', 'receive.denyNonFastForwards', 'true'], { cwd: work.bare });
    await work.git.ok(['reset', '-q', '--hard', 'HEAD~2'], { cwd: work.cwd });
    const done = await work.push('--force', 'origin', 'main', 'main:agent/x');
    expect(done.code).toBe(1);
    expect(done.err).toMatch(/! \[remote rejected\] main -> main \(non-fast-forward\)/);
    const refs = recorded('git.push_result')[0]?.refs;
    expect(refs).toContainEqual(
      expect.objectContaining({ ref: 'refs/heads/main', result: 'ng', reason: 'non-fast-forward' }),
    );
    expect(refs).toContainEqual(expect.objectContaining({ ref: 'refs/heads/agent/x', result: 'ok' }));
  });
});

describe('a push that is refused says so in the words of git, and nothing reaches the forge', () => {
  const agent = { pushRefs: ['refs/heads/agent/**'] };

  async function refused(work: Work, args: string[], code: string): Promise<string> {
    const before = await work.refs();
    const done = await work.push(...args);
    expect(done.code).toBe(1);
    expect(done.err).not.toContain('Everything up-to-date');
    expect(done.err).not.toMatch(/RPC failed|hung up|unexpected disconnect/);
    expect(done.err).toMatch(new RegExp(`remote: postern: .*\\(${code}\\)`));
    expect(done.err).toMatch(/remote: postern: request req_[0-9a-z]{26}/);
    expect(await work.refs()).toBe(before);
    expect(work.pushes()).toBe(0);
    const [denied] = recorded('git.push_denied');
    expect(denied).toMatchObject({ decision: 'deny', code, repo: work.repo });
    expect(denied?.refs?.every(({ result, reason }) => result === 'ng' && reason)).toBe(true);
    expect(done.err).toContain(denied?.exchangeId);
    return done.err;
  }

  test('a branch outside of the rule, and what would be allowed', async () => {
    const err = await refused(await workOn(agent), ['origin', 'main'], 'ref_not_allowed');
    expect(err).toContain(
      '! [remote rejected] main -> main (ref_not_allowed: not among the refs that this session may push)',
    );
    expect(err).toContain('this session may create and update refs/heads/agent/**; delete nothing');
  });

  test('all or nothing: the innocent are refused with the others', async () => {
    const err = await refused(await workOn(agent), ['origin', 'main:agent/fine', 'main'], 'ref_not_allowed');
    expect(err).toContain('main -> agent/fine (refused as a whole: another ref was (ref_not_allowed))');
    expect(err).toContain('main -> main (ref_not_allowed: ');
  });

  test('deleting', async () => {
    const err = await refused(await workOn(agent), ['origin', ':agent/old'], 'delete_not_allowed');
    expect(err).toContain(
      '! [remote rejected] agent/old (delete_not_allowed: this session may not delete it)',
    );
  });

  test('updating where only creating is allowed', async () => {
    const work = await workOn({ pushRefs: ['create:refs/heads/agent/**'] });
    expect(await work.push('-q', 'origin', 'main:agent/new')).toMatchObject({ code: 0 });
    from = guard.audit.events.length;
    const before = await work.refs();
    const done = await work.push('origin', 'main:agent/old');
    expect(done.err).toContain('(ref_not_allowed: this session may push it, but not update it)');
    expect(await work.refs()).toBe(before);
  });

  test('a tag where branches are allowed', async () => {
    const work = await workOn();
    await work.git.ok(['tag', 'v1'], { cwd: work.cwd });
    await refused(work, ['origin', 'v1'], 'ref_not_allowed');
  });

  test('more refs than the limit, each told', async () => {
    const refs = Array.from({ length: 7 }, (_, i) => `main:agent/${i}`);
    const err = await refused(await workOn(), ['origin', ...refs], 'too_many_refs');
    expect(err.match(/! \[remote rejected\]/g)).toHaveLength(7);
    expect(err).toContain('one push may name 6 refs, this one names 7');
  });

  test('a mirror of hundreds of refs', async () => {
    const work = await workOn();
    const lines = Array.from({ length: 500 }, (_, i) => `create refs/heads/many/${i} HEAD\n`);
    await work.git.ok(['update-ref', '--stdin'], { cwd: work.cwd, input: lines.join('') });
    await work.git.ok(['pack-refs', '--all'], { cwd: work.cwd });
    const err = await refused(work, ['--mirror', 'origin'], 'too_many_refs');
    expect(err.match(/! \[remote rejected\]/g)?.length).toBeGreaterThan(500);
  });

  test('after a large pack was sent: the words come through', async () => {
    const work = await workOn(agent);
    writeFileSync(join(work.cwd, 'noise'), randomBytes(12_000_000));
    await work.git.ok(['add', '.'], { cwd: work.cwd });
    await work.git.ok(['-c', 'core.compression=0', 'commit', '-qm', 'large'], { cwd: work.cwd });
    const err = await refused(work, ['origin', 'main'], 'ref_not_allowed');
    expect(err).toContain('! [remote rejected] main -> main');
  });

  test('a pack over the limit: cut while it streams, nothing lands', async () => {
    const work = await workOn();
    writeFileSync(join(work.cwd, 'noise'), randomBytes(44_000_000));
    await work.git.ok(['add', '.'], { cwd: work.cwd });
    await work.git.ok(['-c', 'core.compression=0', 'commit', '-qm', 'too large'], { cwd: work.cwd });
    const before = await work.refs();
    const done = await work.git(['-c', 'pack.compression=0', 'push', 'origin', 'main'], { cwd: work.cwd });
    expect(done.code).toBe(1);
    expect(done.err).toMatch(/! \[remote rejected\] main -> main \(pack_too_large: .*40000000 bytes/);
    expect(done.err).not.toMatch(/RPC failed|Everything up-to-date/);
    expect(await work.refs()).toBe(before);
    expect(recorded('git.push_denied')[0]).toMatchObject({ code: 'pack_too_large' });
    const [result] = recorded('git.push_result');
    expect(result).toMatchObject({ decision: 'error', refs: [{ ref: 'refs/heads/main' }] });
    expect(result?.refs?.[0]?.result).toBeUndefined(); // see the pack that is whole before the limit
  });

  test('options that act beyond the refs, however the forge would take them', async () => {
    const work = await workOn();
    await outside.ok(['config', 'receive.advertisePushOptions', 'true'], { cwd: work.bare });
    const args = ['-o', 'ci.skip', '-o', 'merge_request.title=a secret word', 'origin', 'main'];
    const err = await refused(work, args, 'push_not_allowed');
    expect(err).toMatch(
      /! \[remote rejected\] main -> main \(push_not_allowed: the push option merge_request\.title acts beyond/,
    );
    const [denied] = recorded('git.push_denied');
    expect(denied?.pushOptions).toEqual(['ci.skip', 'merge_request.title']);
    expect(denied?.reason).toMatch(/^git\.push\.options: /);
    expect(err + JSON.stringify(denied)).not.toContain('a secret word');
  });

  test('signing is not offered: --signed says so, if-asked pushes', async () => {
    const work = await workOn();
    await outside.ok(['config', 'receive.certNonceSeed', 'seed'], { cwd: work.bare });
    const signed = await work.push('--signed', 'origin', 'main');
    expect(signed.code).not.toBe(0);
    expect(signed.err).toContain('does not support --signed');
    expect(work.pushes()).toBe(0);
    expect(await work.push('-q', '--signed=if-asked', 'origin', 'main')).toMatchObject({ code: 0 });
  });
});

describe('a session that may only read', () => {
  test('is told so before a pack is made', async () => {
    const bare = await forge.createRepository('acme/readonly');
    await fill(outside, bare);
    const git = sandboxOf(guard, await guard.issue({ repos: ['acme/readonly'] }));
    await git.ok(['clone', '-q', `${guard.url}/acme/readonly`, 'work']);
    const cwd = join(git.folder, 'work');
    await git.ok(['commit', '-q', '--allow-empty', '-m', 'x'], { cwd });
    forge.requests.length = 0;
    const done = await git(['push', 'origin', 'main'], { cwd });
    expect(done.code).toBe(128);
    expect(done.err).toContain(
      'remote: postern: this session may read acme/readonly but not push to it (push_not_allowed)',
    );
    expect(done.err).toContain('The requested URL returned error: 403');
    expect(forge.requests).toEqual([]);
    expect(recorded('git.push_denied')[0]).toMatchObject({ code: 'push_not_allowed', status: 403 });
  });
});
