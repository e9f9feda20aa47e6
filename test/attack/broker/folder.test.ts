// The workload owns the folder that its lease was delivered to, and does to it what it likes while it runs. Whoever comes to
// wipe it runs outside.
import { execFileSync } from 'node:child_process';
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Credential } from '../../../common/credential.ts';
import { ENV_MARK } from '../../../delivery/env.ts';
import { type LeaseFolder, makeLeaseFolder, newLeaseFolderPath } from '../../../delivery/lease-folder.ts';
import { openLeaseOut } from '../../../delivery/lease-out.ts';
import { recorded, remember } from '../../../delivery/lease-records.ts';
import { sweepLeaseFolders } from '../../../delivery/lease-sweep.ts';

let base: string;
beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), 'postern-attack-'));
});
afterAll(async () => {
  execFileSync('chmod', ['-R', 'u+rwX', base]);
  await rm(base, { recursive: true, force: true });
});

const gone = (path: string): Promise<boolean> =>
  stat(path).then(
    () => false,
    () => true,
  );
const text = (value: string): Credential => new Credential(value);

describe('a lease folder of `run` is wiped', () => {
  let folder: LeaseFolder;
  let records: { dir: string };
  beforeEach(async () => {
    records = { dir: await mkdtemp(join(base, 'records-')) };
    folder = await makeLeaseFolder(await newLeaseFolderPath(base), records);
    await folder.write({ env: text('export KEY=1'), kubeconfig: text('token: x') });
  });
  const wiped = async (): Promise<void> => {
    await folder.wipe().catch(() => {});
    expect(await gone(folder.dir)).toBe(true);
    expect(await recorded(records)).toEqual([]);
  };

  test('where the workload left a file larger than memory', async () => {
    // As large as the file system takes; without a byte of it on disk.
    for (const size of [2 ** 43, 2 ** 40, 2 ** 38, 2 ** 36]) {
      const path = join(folder.dir, '0');
      await writeFile(path, '');
      const made = await truncate(path, size).then(
        () => true,
        () => false,
      );
      if (made) break;
    }
    await wiped();
  });

  test('where one of its own files was made so large', async () => {
    await truncate(join(folder.dir, 'env'), 2 ** 36);
    await wiped();
  });

  test('where files were replaced by links, pipes and folders', async () => {
    const outside = join(base, 'outside');
    await writeFile(outside, 'mine');
    for (const name of ['env', 'kubeconfig']) await rm(join(folder.dir, name));
    await symlink(outside, join(folder.dir, 'env'));
    execFileSync('mkfifo', [join(folder.dir, 'kubeconfig')]);
    await mkdir(join(folder.dir, 'sub'));
    await symlink(base, join(folder.dir, 'sub', 'up'));
    await wiped();
    expect(await readFile(outside, 'utf8')).toBe('mine');
  });

  test('where folders in it were closed to everybody', async () => {
    await mkdir(join(folder.dir, 'shut', 'in'), { recursive: true });
    await chmod(join(folder.dir, 'shut'), 0);
    await chmod(folder.dir, 0o500);
    await wiped();
  });

  test('one that cannot be wiped keeps no other from it, nor the next run from its start', async () => {
    const stuck = join(base, 'postern-lease-stuck');
    const other = join(base, 'postern-lease-other');
    for (const path of [stuck, other]) {
      await mkdir(path);
      await writeFile(join(path, 'env'), 'export KEY=1');
      await remember(records, path);
    }
    await truncate(join(stuck, 'env'), 2 ** 36);
    // As after kill -9: the process of these records is gone.
    for (const name of await readdir(records.dir)) {
      const file = join(records.dir, name);
      await writeFile(file, (await readFile(file, 'utf8')).replace(/"started":"\d*"/, '"started":"1"'));
    }
    await sweepLeaseFolders(records);
    expect(await gone(other)).toBe(true);
    await rm(stuck, { recursive: true, force: true });
  });
});

describe('a folder of `lease create --out` is read again at a renewal or a release', () => {
  const LIST = '.postern-lease';
  const made = async (): Promise<string> => {
    const dir = await mkdtemp(join(base, 'out-'));
    const out = await openLeaseOut(dir);
    await out.write({
      leaseId: 'lease_1',
      files: [{ name: 'env', mode: '0600', content: `${ENV_MARK}\n` }],
      keep: [],
    });
    return dir;
  };
  const opened = (dir: string): Promise<string> =>
    Promise.race([
      openLeaseOut(dir, 'lease_1').then(
        () => 'opened',
        ({ code }) => String(code),
      ),
      new Promise<string>((resolve) => setTimeout(resolve, 3_000, 'hangs')),
    ]);

  test('as it was written it is the one of the lease', async () =>
    expect(await opened(await made())).toBe('opened'));

  test('a folder in the place of a file keeps no other from being wiped', async () => {
    const dir = await made();
    await rm(join(dir, 'env'));
    await mkdir(join(dir, 'env', 'in'), { recursive: true });
    await writeFile(join(dir, 'env', 'in', 'x'), 'x');
    await writeFile(join(dir, 'mine'), 'mine');
    // What says whose folder it is went with the file.
    await expect(openLeaseOut(dir, 'lease_1')).rejects.toMatchObject({ code: 'conflict' });
    const other = await mkdtemp(join(base, 'out-'));
    const out = await openLeaseOut(other);
    await out.write({
      leaseId: 'lease_2',
      files: ['a', 'kubeconfig', 'z'].map((name) => ({ name, mode: '0600', content: 'token: x' })),
      keep: [],
    });
    await rm(join(other, 'kubeconfig'));
    await mkdir(join(other, 'kubeconfig', 'in'), { recursive: true });
    await out.wipe();
    expect(await gone(other)).toBe(true);
  });

  test('its list, made a pipe by the workload, does not hold whoever reads it', async () => {
    const dir = await made();
    await rm(join(dir, LIST));
    execFileSync('mkfifo', [join(dir, LIST)]);
    const got = await opened(dir);
    // Lets go of a reader that waits.
    execFileSync('sh', ['-c', `timeout 1 sh -c ': > "$0"' "$0" || true`, join(dir, LIST)]);
    expect(got).toBe('conflict');
  });

  test('its list, made a link by the workload, is not followed', async () => {
    const dir = await made();
    const elsewhere = join(base, 'elsewhere');
    await writeFile(elsewhere, '{"leaseId":"lease_1","files":["env"]}');
    await rm(join(dir, LIST));
    await symlink(elsewhere, join(dir, LIST));
    expect(await opened(dir)).toBe('conflict');
  });
});
