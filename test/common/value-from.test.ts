import { execFileSync } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PosternError } from '../../common/errors.ts';
import {
  MAX_VALUE_BYTES,
  parseValueFrom,
  resolveValueFrom,
  type ValueFrom,
} from '../../common/value-from.ts';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'postern-value-'));
});
afterAll(() => rmSync(dir, { recursive: true }));

const put = (name: string, content: string | Buffer): string => {
  const file = join(dir, name);
  writeFileSync(file, content);
  return file;
};

describe('a reference', () => {
  it.each<ValueFrom>([
    { file: '/run/secrets/pat' },
    { env: 'GITHUB_PAT' },
    { secretKeyRef: { name: 'git-pat', key: 'token' } },
  ])('%j is read', (ref) => expect(parseValueFrom(ref)).toEqual(ref));

  it.each([
    undefined,
    null,
    'ghp_canary9f3a',
    [],
    {},
    { file: '' },
    { file: 'a\0b' },
    { file: 'a', env: 'B' },
    { env: 'ghp_canary9f3a=1' },
    { env: '' },
    { secretKeyRef: { name: 'a' } },
    { secretKeyRef: { name: '../a', key: 'b' } },
    { secretKeyRef: { name: 'a', key: 'b/c' } },
    { secretKeyRef: { name: 'a', key: 'b', namespace: 'c' } },
    { value: 'ghp_canary9f3a' },
  ])('%j is refused without being quoted', (value) => {
    let message = '';
    try {
      parseValueFrom(value, 'credentials[0].valueFrom');
    } catch (error) {
      expect(error).toBeInstanceOf(PosternError);
      message = (error as Error).message;
    }
    expect(message).toMatch(/^credentials\[0\]\.valueFrom/);
    expect(message).not.toContain('canary9f3a');
  });
});

describe('resolving', () => {
  const sources = { key: 'secretKey', env: { PAT: 'v\n', EMPTY: '', NEWLINE: '\n' } };
  const resolve = async (ref: ValueFrom, more = {}) =>
    (await resolveValueFrom(ref, { ...sources, ...more })).reveal();

  it('drops one newline at the end and nothing else', async () => {
    expect(await resolve({ file: put('a', 'x y\r\n') })).toBe('x y');
    expect(await resolve({ file: put('b', ' x\n\n') })).toBe(' x\n');
    expect(await resolve({ env: 'PAT' })).toBe('v');
    expect(await resolve({ file: 'a' }, { baseDir: dir })).toBe('x y');
    expect(await resolve({ file: put('big', 'x'.repeat(MAX_VALUE_BYTES)) })).toHaveLength(MAX_VALUE_BYTES);
  });

  it.each<[string, () => ValueFrom, RegExp]>([
    ['a missing file', () => ({ file: join(dir, 'none') }), /secretKey: file .*none does not exist/],
    ['an empty file', () => ({ file: put('empty', '') }), /is empty/],
    ['a file with a newline only', () => ({ file: put('newline', '\n') }), /is empty/],
    ['a folder', () => ({ file: dir }), /is not a regular file/],
    ['a device without an end', () => ({ file: '/dev/zero' }), /is not a regular file/],
    [
      'a file that is too large',
      () => ({ file: put('huge', 'x'.repeat(MAX_VALUE_BYTES + 1)) }),
      /is larger than 1048576/,
    ],
    ['bytes that are no text', () => ({ file: put('bytes', Buffer.from([0xff, 0x61])) }), /is not UTF-8/],
    ['an unset variable', () => ({ env: 'NONE' }), /secretKey: variable NONE is not set/],
    ['an empty variable', () => ({ env: 'EMPTY' }), /variable EMPTY is empty/],
    ['a variable with a newline only', () => ({ env: 'NEWLINE' }), /is empty/],
    [
      'a Secret outside a cluster',
      () => ({ secretKeyRef: { name: 's', key: 'k' } }),
      /Secret s, key k cannot be read; .*cluster/,
    ],
  ])('%s is refused', async (_name, ref, message) => {
    await expect(resolve(ref())).rejects.toThrow(PosternError);
    await expect(resolve(ref())).rejects.toThrow(message);
  });

  it('does not wait for a writer of a FIFO', async () => {
    execFileSync('mkfifo', [join(dir, 'fifo')]);
    await expect(resolve({ file: join(dir, 'fifo') })).rejects.toThrow(/is not a regular file/);
  });

  it('asks the resolver for a Secret', async () => {
    const ref = { secretKeyRef: { name: 's', key: 'k' } };
    expect(await resolve(ref, { readSecret: async () => Buffer.from('v\n') })).toBe('v');
    await expect(resolve(ref, { readSecret: async () => undefined })).rejects.toThrow(/does not exist/);
    await expect(resolve(ref, { readSecret: async () => '' })).rejects.toThrow(/is empty/);
    const denied = async () => {
      throw new Error('forbidden');
    };
    await expect(resolve(ref, { readSecret: denied })).rejects.toThrow(/Secret s, key k cannot be read; see/);
  });
});

describe('resolving again', () => {
  it('sees a file that is replaced, by rename or by a swapped link, and refuses a bad one', async () => {
    const file = put('followed', 'one');
    const current = async () => (await resolveValueFrom({ file }, { key: 'k' })).reveal();
    expect(await current()).toBe('one');
    renameSync(put('next', 'two'), file);
    expect(await current()).toBe('two');
    symlinkSync(put('three', 'three'), join(dir, 'link'));
    renameSync(join(dir, 'link'), file);
    expect(await current()).toBe('three');
    put('three', '');
    await expect(current()).rejects.toThrow(/is empty/);
    rmSync(file);
    await expect(current()).rejects.toThrow(/does not exist/);
  });
});
