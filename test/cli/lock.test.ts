import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { lockDataFolder, lockHolder } from '../../cli/lock.ts';
import { PosternError } from '../../common/errors.ts';

let base: string;
let dir: string;
let children: ChildProcess[];
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'postern-lock-'));
  dir = join(base, 'var');
  children = [];
});
afterEach(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(base, { recursive: true, force: true });
});

/** A process that tries to take the lock and then stays: `held`, or the code of the refusal. */
async function contender(): Promise<{ child: ChildProcess; outcome: string }> {
  const script = `
    import { lockDataFolder } from ${JSON.stringify(join(import.meta.dirname, '../../cli/lock.ts'))};
    try { lockDataFolder(process.argv[1]); gc(); console.log('held'); setInterval(() => {}, 1e6); }
    catch (error) { console.log(error.code + ' ' + error.message); }`;
  const child = spawn(process.execPath, ['--expose-gc', '--input-type=module', '-e', script, dir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  const [data] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  return { child, outcome: data.toString().trim() };
}

describe('the lock of a data folder', () => {
  it('is held by one, and tells the second whom to ask', async () => {
    const { child, outcome } = await contender();
    expect(outcome).toBe('held');
    const remedy = 'stop it, or give this one another dataDir';
    expect(() => lockDataFolder(dir)).toThrow(
      `process ${child.pid} serves the data folder ${dir}; ${remedy}`,
    );
    expect(lockHolder(dir)).toEqual({ pid: child.pid });
    const second = await contender();
    expect(second.outcome).toMatch(/^already_running process \d+ serves/);
  });

  it('is free the moment its holder is killed', async () => {
    for (let round = 0; round < 2; round++) {
      const { child, outcome } = await contender();
      expect(outcome).toBe('held');
      child.kill('SIGKILL');
      await once(child, 'exit');
      expect(lockHolder(dir)).toBeUndefined();
      lockDataFolder(dir).release();
    }
  });

  it('of many that start at once one gets it', async () => {
    const outcomes = (await Promise.all([1, 2, 3, 4].map(contender))).map(
      ({ outcome }) => outcome.split(' ')[0],
    );
    expect(outcomes.sort()).toEqual(['already_running', 'already_running', 'already_running', 'held']);
  });

  it('holds within a process too, survives the reading of it, and can be taken again', () => {
    const lock = lockDataFolder(dir);
    expect(() => lockDataFolder(dir)).toThrow(PosternError);
    expect(lockHolder(dir)).toEqual({ pid: process.pid });
    expect(() => lockDataFolder(dir)).toThrow(/already|serves/);
    lock.release();
    lock.release();
    expect(existsSync(join(dir, 'serve.pid'))).toBe(false);
    lockDataFolder(dir).release();
  });

  it('makes the folder and its files for their owner alone, and leaves no journal', () => {
    const lock = lockDataFolder(dir);
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    expect(readdirSync(dir).sort()).toEqual(['serve.lock', 'serve.pid']);
    for (const name of readdirSync(dir)) expect(statSync(join(dir, name)).mode & 0o777).toBe(0o600);
    lock.release();
    expect(readdirSync(dir)).toEqual(['serve.lock']);
  });

  it('does not believe a pid that is left over', () => {
    lockDataFolder(dir).release();
    writeFileSync(join(dir, 'serve.pid'), '1\n');
    expect(lockHolder(dir)).toBeUndefined();
    lockDataFolder(dir).release();
  });

  it('a folder that cannot be used is named', () => {
    writeFileSync(join(base, 'file'), '');
    expect(() => lockDataFolder(join(base, 'file'))).toThrow(/^dataDir: .*file cannot be used/);
    expect(lockHolder(join(base, 'none'))).toBeUndefined();
    lockDataFolder(dir).release();
    writeFileSync(join(dir, 'serve.lock'), 'not a database, and long enough to be looked at '.repeat(30));
    chmodSync(join(dir, 'serve.lock'), 0o600);
    expect(() => lockDataFolder(dir)).toThrow(/cannot be used/);
  });
});
