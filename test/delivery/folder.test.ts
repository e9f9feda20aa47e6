import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { Credential } from '../../common/credential.ts';
import { envFile } from '../../delivery/env.ts';
import { openFolder } from '../../delivery/folder.ts';
import type { Parcel } from '../../delivery/parcel.ts';

let base: string;
const of = (text: string): Parcel => ({
  files: {
    'ca.pem': new Credential(text),
    gitconfig: new Credential(text),
    env: new Credential(envFile({ KUBECONFIG: text })),
  },
  env: { KUBECONFIG: text },
});
const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'postern-folder-'));
});

describe('a folder', () => {
  test('is made with mode 0700 and files of 0600, whatever the umask', async () => {
    const umask = process.umask(0);
    try {
      const folder = await openFolder(join(base, 'deep/er/out'));
      await folder.write(of('x'));
      expect(mode(folder.dir)).toBe('700');
      for (const name of readdirSync(folder.dir)) expect(mode(join(folder.dir, name))).toBe('600');
    } finally {
      process.umask(umask);
    }
  });

  test('that is empty is used, and closed to others', async () => {
    mkdirSync(join(base, 'out'));
    chmodSync(join(base, 'out'), 0o755);
    const folder = await openFolder(join(base, 'out'));
    await folder.write(of('x'));
    expect(mode(folder.dir)).toBe('700');
  });

  test('of an earlier parcel is written again file by file, and says what was in it', async () => {
    await (await openFolder(join(base, 'out'))).write(of('one'));
    const again = await openFolder(join(base, 'out'));
    expect(again.env).toEqual({ KUBECONFIG: 'one' });
    await again.write(of('two'));
    expect(readFileSync(join(base, 'out/gitconfig'), 'utf8')).toBe('two');
    expect(readdirSync(join(base, 'out')).sort()).toEqual(['ca.pem', 'env', 'gitconfig']);
    expect(mode(join(base, 'out/gitconfig'))).toBe('600');
  });

  test('with files of someone else is refused and left as it is', async () => {
    mkdirSync(join(base, 'out'));
    writeFileSync(join(base, 'out/thesis.txt'), 'x');
    await expect(openFolder(join(base, 'out'))).rejects.toMatchObject({ code: 'conflict', key: '--out' });
    writeFileSync(join(base, 'out/env'), "export KUBECONFIG='x'\n");
    await expect(openFolder(join(base, 'out'))).rejects.toMatchObject({ code: 'conflict' });
    expect(readdirSync(join(base, 'out')).sort()).toEqual(['env', 'thesis.txt']);
  });

  test('that is a symbolic link, or a file, is refused', async () => {
    mkdirSync(join(base, 'target'));
    symlinkSync(join(base, 'target'), join(base, 'link'));
    await expect(openFolder(join(base, 'link'))).rejects.toMatchObject({ code: 'conflict' });
    symlinkSync(join(base, 'nowhere'), join(base, 'dangling'));
    await expect(openFolder(join(base, 'dangling'))).rejects.toMatchObject({ code: 'conflict' });
    writeFileSync(join(base, 'file'), '');
    await expect(openFolder(join(base, 'file'))).rejects.toMatchObject({ code: 'conflict' });
  });

  test('with a link in the place of a file: the link is replaced, its target is not written', async () => {
    await (await openFolder(join(base, 'out'))).write(of('one'));
    writeFileSync(join(base, 'victim'), 'untouched');
    const { rmSync } = await import('node:fs');
    rmSync(join(base, 'out/gitconfig'));
    symlinkSync(join(base, 'victim'), join(base, 'out/gitconfig'));
    await (await openFolder(join(base, 'out'))).write(of('two'));
    expect(readFileSync(join(base, 'victim'), 'utf8')).toBe('untouched');
    expect(readFileSync(join(base, 'out/gitconfig'), 'utf8')).toBe('two');
  });

  test('whose mark is a link to a marked file elsewhere is not ours', async () => {
    writeFileSync(join(base, 'marked'), envFile({}));
    mkdirSync(join(base, 'out'));
    symlinkSync(join(base, 'marked'), join(base, 'out/env'));
    await expect(openFolder(join(base, 'out'))).rejects.toMatchObject({ code: 'conflict' });
  });

  test('that was made for nothing is taken away again; one that was there, or has files, stays', async () => {
    await (await openFolder(join(base, 'out'))).discard();
    expect(existsSync(join(base, 'out'))).toBe(false);
    mkdirSync(join(base, 'out'));
    const found = await openFolder(join(base, 'out'));
    await found.discard();
    expect(existsSync(join(base, 'out'))).toBe(true);
    const made = await openFolder(join(base, 'other'));
    await made.write(of('x'));
    await made.discard();
    expect(readdirSync(join(base, 'other'))).toHaveLength(3);
  });

  test('that can not be made is an error that names the flag', async () => {
    writeFileSync(join(base, 'file'), '');
    await expect(openFolder(join(base, 'file/out'))).rejects.toMatchObject({
      code: 'invalid_input',
      key: '--out',
    });
    expect(existsSync(join(base, 'file/out'))).toBe(false);
  });
});
