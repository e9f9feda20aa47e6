import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { configure, launcher, openSite, run, type Site, serve } from './support.ts';

let site: Site;
interface Check {
  readonly name: string;
  readonly state: string;
  readonly message: string;
  readonly remedy?: string;
}
const checks = async (config = site.config): Promise<{ code: number; found: Check[] }> => {
  const ran = await run(process.execPath, [launcher, 'doctor', '--json', '--config', config]);
  return { code: ran.code, found: JSON.parse(ran.out).checks };
};
const state = (found: readonly Check[], name: string) => found.find((check) => check.name === name)?.state;

beforeAll(async () => {
  site = await openSite('cli-doctor');
});
afterAll(() => site.close());

test('doctor says what is right, and that the key lies beside the data', async () => {
  const { code, found } = await checks();
  expect(code).toBe(0);
  expect(state(found, 'server')).toBe('ok');
  expect(state(found, 'git.advertise')).toBe('ok');
  expect(state(found, 'git.upstreams[0]')).toBe('ok');
  expect(found.find((check) => check.name === 'secretKey')).toMatchObject({
    state: 'warn',
    message: expect.stringContaining('beside'),
  });
  expect(found.filter((check) => check.state !== 'ok').every((check) => check.remedy)).toBe(true);
  expect((await site.postern('doctor')).out).toMatch(/^ok +dataDir: /m);
});

test('a data folder that others can read fails, with the remedy', async () => {
  chmodSync(join(site.folder, 'var'), 0o755);
  const { code, found } = await checks();
  chmodSync(join(site.folder, 'var'), 0o700);
  expect(code).toBe(1);
  expect(found.find((check) => check.name === 'dataDir')).toMatchObject({
    state: 'fail',
    remedy: expect.stringContaining('chmod 700'),
  });
});

test('a configuration that can not be used: every problem, none of them hidden by the first', async () => {
  const config = configure(join(site.folder, 'bad'), { git: { listen: 'x', maxRefs: 1 }, gitt: {} });
  const { code, found } = await checks(config);
  expect(code).toBe(1);
  expect(found.map((check) => check.name).sort()).toEqual(['git.listen', 'git.maxRefs', 'gitt']);
});

test('no server, files that are not there: a warning and a failure', async () => {
  const config = configure(join(site.folder, 'off'), {
    git: { listen: '127.0.0.1:0', upstreams: [{ url: site.forge.url, caFile: '/nowhere.pem' }] },
  });
  const { code, found } = await checks(config);
  expect(code).toBe(1);
  expect(state(found, 'server')).toBe('warn');
  expect(state(found, 'git.upstreams[0].caFile')).toBe('fail');
});

describe('a store that serve would refuse', () => {
  const said = async (config: string) => {
    const { code, found } = await checks(config);
    const serving = await run(process.execPath, [launcher, 'serve', '--config', config]);
    return { code, serving, failed: found.filter((check) => check.state === 'fail') };
  };
  const settings = { git: { enabled: false }, kube: { enabled: false }, control: {} };

  test('passes with its key, and fails in the words of serve with another one or with none', async () => {
    const folder = join(site.folder, 'sealed');
    const config = configure(folder, settings);
    const server = await serve(config);
    await server.kill();
    const key = join(folder, 'var/secret.key');
    const right = await checks(config);
    expect(right.code).toBe(0);
    expect(state(right.found, 'store')).toBe('ok');

    chmodSync(key, 0o644);
    expect((await checks(config)).found).toContainEqual(
      expect.objectContaining({ name: 'secretKey', state: 'warn', remedy: `chmod 600 ${key}` }),
    );

    writeFileSync(key, 'quite another passphrase\n');
    const wrong = await said(config);
    expect(wrong.code).toBe(1);
    expect(wrong.failed).toHaveLength(1);
    expect(wrong.serving.err).toContain(wrong.failed[0]?.message);

    rmSync(key);
    const gone = await said(config);
    expect(gone.code).toBe(1);
    expect(gone.failed).toHaveLength(1);
    expect(gone.serving.err).toContain(gone.failed[0]?.message);
    expect(existsSync(key)).toBe(false);
  });

  test('and a first start whose passphrase is not there, without making anything', async () => {
    const folder = join(site.folder, 'first');
    const config = configure(folder, { ...settings, secretKey: { env: 'NOT_THERE_AT_ALL' } });
    const { code, failed, serving } = await said(config);
    expect(code).toBe(1);
    expect(failed).toHaveLength(1);
    expect(serving.err).toContain(failed[0]?.message);
  });
});

test('status says what runs, and fails where nothing does', async () => {
  const status = JSON.parse((await site.postern('status', '--json')).out);
  expect(status).toMatchObject({
    ready: true,
    git: { enabled: true, listen: site.server.ready.git, sessions: 0 },
    kube: { enabled: false },
    ops: { listen: site.server.ready.ops },
  });
  const off = configure(join(site.folder, 'none'), {});
  const ran = await run(process.execPath, [launcher, 'status', '--config', off]);
  expect(ran).toMatchObject({ code: 1, out: '' });
  expect(ran.err).toContain('postern serve');
});

test('ca bundle is ca.pem, ca show says what is in it; both need no server', async () => {
  const pem = readFileSync(join(site.folder, 'var/ca.pem'), 'utf8');
  expect((await site.postern('ca', 'bundle')).out).toBe(pem);
  expect((await site.postern('ca', 'show')).out).toMatch(
    /^subject +CN=.*\nfingerprint +([0-9A-F]{2}:){31}[0-9A-F]{2}\n/,
  );
  const none = configure(join(site.folder, 'never'), {});
  const ran = await run(process.execPath, [launcher, 'ca', 'bundle', '--config', none]);
  expect(ran).toMatchObject({ code: 1, out: '' });
});

test('a session of the guard that is off is refused, and says which setting', async () => {
  const ran = await site.postern('session', 'issue', 'kube', '--kubeconfig', site.tokenFile, '--lease', 'L');
  expect(ran).toMatchObject({ code: 1, out: '' });
  expect(ran.err).toContain('kube');
});
