import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type PassphraseSource, readPassphrase } from '../../keyring/passphrase.ts';

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'postern-passphrase-'));
});
afterEach(() => rm(dataDir, { recursive: true, force: true }));

const read = (source?: PassphraseSource, more: { storeHasKeys?: boolean; env?: NodeJS.ProcessEnv } = {}) =>
  readPassphrase(source, { dataDir, storeHasKeys: false, env: {}, ...more });

describe('a passphrase', () => {
  it('comes from the environment as it is', async () => {
    const { passphrase, from } = await read({ env: 'KEY' }, { env: { KEY: ' with blanks around ' } });
    expect([passphrase.reveal(), from]).toEqual([' with blanks around ', 'env']);
  });

  it('comes from a file without the line end that editors add', async () => {
    const file = join(dataDir, 'key');
    for (const text of ['from a longer file', 'from a longer file\n', 'from a longer file\r\n']) {
      await writeFile(file, text);
      expect((await read({ file })).passphrase.reveal()).toBe('from a longer file');
    }
  });

  it.each([
    ['empty', '', 'is empty'],
    ['empty but for a line end', '\n', 'is empty'],
    ['too short', 'elevenchars', 'is shorter than 12 characters'],
  ])('that is %s is refused, and the key named, but never the value', async (_, value, problem) => {
    const file = join(dataDir, 'key');
    await writeFile(file, value);
    await writeFile(join(dataDir, 'secret.key'), value);
    for (const [source, key] of [
      [{ env: 'KEY' }, 'secretKey.env'],
      [{ file }, 'secretKey.file'],
      [undefined, 'secretKey'],
    ] as const) {
      const error = await read(source, { env: { KEY: value } }).catch((reason) => reason);
      expect(error).toMatchObject({ code: 'invalid_config', key, message: expect.stringContaining(problem) });
      expect(error.remedy).toBeTruthy();
      if (value.trim()) expect(`${error.stack}${JSON.stringify(error)}`).not.toContain(value.trim());
    }
  });

  it('that is not there is missing, and the key named', async () => {
    await expect(read({ env: 'KEY' })).rejects.toMatchObject({ code: 'key_missing', key: 'secretKey.env' });
    const file = join(dataDir, 'none');
    await expect(read({ file })).rejects.toMatchObject({ code: 'key_missing', key: 'secretKey.file' });
    await expect(read({ file: dataDir })).rejects.toMatchObject({
      code: 'key_missing',
      key: 'secretKey.file',
    });
  });
});

describe('the key file', () => {
  it('is made once where nothing is configured, for its owner alone', async () => {
    const first = await read();
    expect(first).toMatchObject({ from: 'key file', path: join(dataDir, 'secret.key') });
    expect(first.passphrase.reveal()).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect((await stat(join(dataDir, 'secret.key'))).mode & 0o777).toBe(0o600);
    expect((await read()).passphrase.reveal()).toBe(first.passphrase.reveal());
    expect(await readdir(dataDir)).toEqual(['secret.key']);
  });

  it('is one, whoever of many first starts made it', async () => {
    const all = await Promise.all(Array.from({ length: 10 }, () => read()));
    expect(new Set(all.map(({ passphrase }) => passphrase.reveal())).size).toBe(1);
    expect(await readdir(dataDir)).toEqual(['secret.key']);
  });

  it('that a store was sealed with is never replaced by a new one', async () => {
    await expect(read(undefined, { storeHasKeys: true })).rejects.toMatchObject({
      code: 'key_missing',
      key: 'secretKey',
    });
    expect(await readdir(dataDir)).toEqual([]);
    await read();
    expect((await read(undefined, { storeHasKeys: true })).from).toBe('key file');
  });

  it('that cannot be made says so', async () => {
    const file = join(dataDir, 'a-file');
    await writeFile(file, '');
    await chmod(file, 0o600);
    await expect(readPassphrase(undefined, { dataDir: file, storeHasKeys: false })).rejects.toMatchObject({
      key: 'secretKey',
    });
    expect(await readFile(file, 'utf8')).toBe('');
  });
});
