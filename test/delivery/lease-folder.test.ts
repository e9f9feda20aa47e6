import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { link, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Credential } from '../../common/credential.ts';
import {
  chooseBase,
  LEASE_FOLDER_PREFIX,
  makeLeaseFolder,
  newLeaseFolderPath,
  wipeFolder,
} from '../../delivery/lease-folder.ts';
import { isAlive, recorded, remember } from '../../delivery/lease-records.ts';
import { sweepLeaseFolders } from '../../delivery/lease-sweep.ts';

let base: string;
let records: { dir: string };

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), 'postern-folders-'));
  records = { dir: join(base, 'records') };
});
afterAll(() => rm(base, { recursive: true, force: true }));

const text = (value: string) => new Credential(value);
const mode = async (path: string) => (await stat(path)).mode & 0o777;
const gone = async (path: string) => (await stat(path).catch(() => undefined)) === undefined;

describe('a lease folder', () => {
  it('is named first, recorded second, and made third', async () => {
    const path = await newLeaseFolderPath(base);
    expect(await gone(path)).toBe(true);
    expect(path).toMatch(/\/postern-lease-[0-9a-f]{24}$/);
    const folder = await makeLeaseFolder(path, records);
    expect((await recorded(records)).map((record) => record.folder)).toEqual([path]);
    await folder.wipe();
    expect(await recorded(records)).toEqual([]);
  });

  it('is 0700 with files of 0600, whatever the umask', async () => {
    const before = process.umask(0);
    try {
      const folder = await makeLeaseFolder(await newLeaseFolderPath(base), records);
      await folder.write({ env: text('x'), kubeconfig: text('y') });
      expect(await mode(folder.dir)).toBe(0o700);
      for (const name of ['env', 'kubeconfig']) expect(await mode(join(folder.dir, name))).toBe(0o600);
      await folder.wipe();
      expect(await gone(folder.dir)).toBe(true);
    } finally {
      process.umask(before);
    }
  });

  it('is never one that exists, and never elsewhere', async () => {
    const path = await newLeaseFolderPath(base);
    await mkdir(path);
    await expect(makeLeaseFolder(path, records)).rejects.toMatchObject({ code: 'conflict' });
    const linked = await newLeaseFolderPath(base);
    await symlink(base, linked);
    await expect(makeLeaseFolder(linked, records)).rejects.toMatchObject({ code: 'conflict' });
    for (const other of [
      join(base, 'other'),
      'postern-lease-relative',
      join(base, 'missing', 'postern-lease-x'),
    ])
      await expect(makeLeaseFolder(other, records)).rejects.toMatchObject({ code: 'invalid_input' });
    expect(await recorded(records)).toEqual([]);
  });

  it('writes bare names only', async () => {
    const folder = await makeLeaseFolder(await newLeaseFolderPath(base), records);
    for (const name of ['../x', 'a/b', '', '.', '..', '.hidden', 'a\u0000b'])
      await expect(folder.write({ [name]: text('x') })).rejects.toMatchObject({ code: 'invalid_input' });
    expect(await readdir(folder.dir)).toEqual([]);
    await folder.wipe();
  });

  it('follows a renewal: new files replace old ones, kept ones stay, what is over is wiped', async () => {
    const folder = await makeLeaseFolder(await newLeaseFolderPath(base), records);
    await folder.write({ env: text('one'), gitconfig: text('git'), 'config.json': text('login') });
    await folder.write({ env: text('two') }, ['gitconfig']);
    expect((await readdir(folder.dir)).toSorted()).toEqual(['env', 'gitconfig']);
    expect(await readFile(join(folder.dir, 'env'), 'utf8')).toBe('two');
    await folder.wipe();
    await folder.wipe();
  });

  it('overwrites what it removes, and touches nothing that is linked from elsewhere', async () => {
    const folder = await makeLeaseFolder(await newLeaseFolderPath(base), records);
    await folder.write({ env: text('canary') });
    const mine = join(base, 'mine');
    await writeFile(mine, 'precious');
    await link(mine, join(folder.dir, 'hard'));
    await symlink(mine, join(folder.dir, 'soft'));
    await mkdir(join(folder.dir, 'made-by-the-workload'));
    const { open } = await import('node:fs/promises');
    const kept = await open(join(folder.dir, 'env'));
    await folder.wipe();
    expect((await kept.readFile('utf8')).replaceAll('\0', '')).toBe('');
    await kept.close();
    expect(await readFile(mine, 'utf8')).toBe('precious');
    expect(await gone(folder.dir)).toBe(true);
  });

  it('is what a wipe demands: our prefix, a real folder', async () => {
    const other = join(base, 'not-ours');
    await mkdir(other);
    const linked = join(base, `${LEASE_FOLDER_PREFIX}link`);
    await symlink(other, linked);
    for (const path of [other, linked, join(base, `${LEASE_FOLDER_PREFIX}missing`)])
      expect(await wipeFolder(path)).toBe(false);
    expect(await gone(other)).toBe(false);
  });

  it('lies on a tmpfs where there is one', async () => {
    expect(await chooseBase({ XDG_RUNTIME_DIR: 'relative' })).toMatch(/^\//);
    expect(await chooseBase({ XDG_RUNTIME_DIR: base })).not.toBe(base); // a disk is no tmpfs
  });
});

describe('after a kill -9', () => {
  it('the next start wipes the folder, and leaves those whose process lives', async () => {
    const here = { dir: join(base, 'killed') };
    const start = async () => {
      const child = spawn(process.execPath, [join(import.meta.dirname, 'lease-holder.ts'), here.dir, base]);
      const [line] = await once(child.stdout, 'data');
      return { child, dir: String(line).trim() };
    };
    const [one, two] = await Promise.all([start(), start()]);
    expect(await readFile(join(one.dir, 'env'), 'utf8')).toContain('canary');
    one.child.kill('SIGKILL');
    await once(one.child, 'exit');
    expect(await sweepLeaseFolders(here)).toEqual([one.dir]);
    expect(await gone(one.dir)).toBe(true);
    expect(await gone(two.dir)).toBe(false);
    two.child.kill('SIGKILL');
    await once(two.child, 'exit');
    expect(await sweepLeaseFolders(here)).toEqual([two.dir]);
    expect(await sweepLeaseFolders(here)).toEqual([]);
  });

  it('between the record and the folder there is nothing to wipe, and the record goes', async () => {
    const here = { dir: join(base, 'early') };
    await remember(here, join(base, `${LEASE_FOLDER_PREFIX}never-made`));
    const [record] = await recorded(here);
    expect(record && (await isAlive(record))).toBe(true);
    // The id came again: another process has it now.
    const path = join(here.dir, (await readdir(here.dir))[0] ?? '');
    await writeFile(path, JSON.stringify({ ...record, started: '1' }));
    await writeFile(join(here.dir, 'half.json'), '{"folder":');
    expect(await sweepLeaseFolders(here)).toEqual([]);
    expect(await recorded(here)).toEqual([]);
  });

  it('a record that points elsewhere wipes nothing', async () => {
    const here = { dir: join(base, 'forged') };
    const target = join(base, 'target');
    await mkdir(target);
    await writeFile(join(target, 'file'), 'x');
    await mkdir(here.dir);
    await writeFile(join(here.dir, 'x.json'), JSON.stringify({ folder: target, pid: 1 << 30, started: '1' }));
    expect(await sweepLeaseFolders(here)).toEqual([]);
    expect(await readdir(target)).toEqual(['file']);
  });
});
