import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Constraints } from '../../broker/constraints/constraints.ts';
import type { Kind } from '../../broker/kind.ts';
import type { MaterialContext, Part } from '../../broker/kinds/kind-rules.ts';
import { rulesOf } from '../../broker/kinds/kinds.ts';
import { parseRoot } from '../../broker/kinds/local-repo.ts';
import { Credential } from '../../common/credential.ts';
import { PAT } from './bench.ts';

const INVALID = expect.objectContaining({ code: 'invalid_input' });
const NOTHING = expect.objectContaining({ code: 'nothing_left' });

const bytes = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
const inspect = async (kind: Kind, payload: unknown, name = 'a-secret') =>
  rulesOf(kind).inspect(bytes(payload), name);

async function part(
  kind: Kind,
  payload: unknown,
  constraints: Constraints,
  name = 'a-secret',
): Promise<Part> {
  const rules = rulesOf(kind);
  const context: MaterialContext = {
    grant: { ref: { grantId: 'g', secretId: 's', secretName: name, kind }, constraints },
    until: 0,
    upstreams: ['https://github.com'],
    appTokens: {} as MaterialContext['appTokens'],
  };
  return rules.materialise(rules.minimise(bytes(payload), constraints, name), context);
}

async function env(payload: unknown, constraints: Constraints = {}, name?: string) {
  const made = await part('env', payload, constraints, name);
  if (made.type !== 'direct') throw new Error('not direct');
  return Object.fromEntries(
    Object.entries(made.env).map(([key, value]) => [key, (value as Credential).reveal()]),
  );
}

describe('env', () => {
  it('reads an object, lines, or one opaque value that is named after the secret', async () => {
    expect(await env({ A: '1', B: 'x=y' })).toEqual({ A: '1', B: 'x=y' });
    expect(await env('# comment\nA=1\r\nexport B="two words"\nC=\'it\'\n\n')).toEqual({
      A: '1',
      B: 'two words',
      C: 'it',
    });
    expect(await env('just a value\n', {}, 'prod-api.key')).toEqual({ PROD_API_KEY: 'just a value' });
    expect(await env('postgres://u:p@db.example/x?sslmode=require', {}, 'db')).toEqual({
      DB: 'postgres://u:p@db.example/x?sslmode=require',
    });
    expect(
      await env('-----BEGIN PRIVATE KEY-----\nQUJD=\n-----END PRIVATE KEY-----', {}, '2key'),
    ).toHaveProperty('_2KEY');
    expect(await inspect('env', { B: '1', A: '2' })).toEqual(['A', 'B']);
  });

  it.each([
    ['an empty payload', ''],
    ['an empty object', {}],
    ['lines of which none is a variable', 'one\ntwo'],
    ['a nested object', { A: { B: '1' } }],
    ['a number', { A: 1 }],
    ['an odd name', { 'A-B': '1' }],
    ['an empty value', { A: '' }],
    ['a null byte', { A: 'a\u0000b' }],
    ['a name twice', 'A=1\nA=2'],
    ['lines of two kinds', 'A=1\nsomething else'],
    ['what may be base64', 'QUJDRA=='],
    ['a variable that leads around the guard', 'GIT_CONFIG_GLOBAL=/tmp/x'],
    ['the config of git by number', { GIT_CONFIG_COUNT: '1' }],
    ['a kubeconfig', { KUBECONFIG: '/tmp/x' }],
    ['a variable of ours', { POSTERN_GIT_URL: 'x' }],
    ['bytes that are no text', Buffer.from([0xff, 0xfe, 0x00])],
  ])('refuses %s', async (_, payload) => {
    await expect(
      (async () => rulesOf('env').inspect(Buffer.isBuffer(payload) ? payload : bytes(payload), 'n'))(),
    ).rejects.toEqual(INVALID);
  });

  it('delivers the listed keys, and is denied where none is left', async () => {
    expect(await env({ A: '1', B: '2' }, { envKeys: ['B', 'C'] })).toEqual({ B: '2' });
    await expect(env({ A: '1' }, { envKeys: ['C'] })).rejects.toEqual(NOTHING);
  });
});

describe('github_pat', () => {
  it('is a bare token, or an object that says for which forge', async () => {
    const made = await part('github_pat', `${PAT}\n`, { repos: ['acme/app'] });
    expect(made).toMatchObject({
      type: 'git',
      credential: { upstream: 'https://github.com', permissions: ['contents:read'] },
    });
    if (made.type === 'git') expect(made.credential.token.reveal()).toBe(PAT);
    const other = { token: 'x', upstream: 'https://ghe.example', username: 'robot' };
    expect(await part('github_pat', other, { repos: ['*'], permissions: ['*'] })).toMatchObject({
      credential: { upstream: 'https://ghe.example', username: 'robot', permissions: ['*'] },
    });
    expect(
      await part('github_pat', PAT, {
        repos: ['*'],
        permissions: ['issues:write', 'contents:read', 'contents:write'],
      }),
    ).toMatchObject({ credential: { permissions: ['contents:write'] } });
  });

  it.each([
    ['', 'nothing'],
    ['a b', 'white space'],
    ['line\nline', 'lines'],
    ['{"token":""}', 'no token'],
    ['{"tokn":"x"}', 'a misspelt member'],
    ['{"token":"x","upstream":"ftp://x"}', 'no forge'],
    ['{"token":"x","upstream":"https://a:b@x"}', 'a user'],
    ['{"token":"x","upstream":"https://x/path"}', 'a path'],
    ['{"token":"x","username":"a:b"}', 'a colon'],
    ['{"token":"x"', 'half a document'],
  ])('refuses %j (%s) and quotes nothing', async (payload) => {
    const refusal = inspect('github_pat', payload);
    await expect(refusal).rejects.toEqual(INVALID);
    if (payload.length > 3) await expect(refusal).rejects.not.toThrow(payload);
  });
});

describe('registry', () => {
  const config = {
    auths: {
      'ghcr.io': { auth: 'dTpw', email: 'x@y.example' },
      'quay.io': { username: 'u', password: 'p' },
      'https://index.docker.io/v1/': { identitytoken: 't' },
    },
    credsStore: 'desktop',
    HttpHeaders: { 'X-Secret': 'no' },
  };

  it('delivers the allowed logins and nothing else of the document', async () => {
    const made = await part('registry', config, { registries: ['ghcr.io', 'index.docker.io'] });
    if (made.type !== 'registry') throw new Error('no registry');
    expect(Object.keys(made.logins).sort()).toEqual(['ghcr.io', 'https://index.docker.io/v1/']);
    expect(made.logins['ghcr.io']?.reveal()).toBe('{"auth":"dTpw","email":"x@y.example"}');
    expect(await inspect('registry', config)).toEqual(['ghcr.io', 'https://index.docker.io/v1/', 'quay.io']);
  });

  it('gives user:password to the registries that are named outright', async () => {
    const made = await part('registry', 'robot:pa:ss', { registries: ['r.corp.example', '*.io'] });
    if (made.type !== 'registry') throw new Error('no registry');
    expect(Object.keys(made.logins)).toEqual(['r.corp.example']);
    await expect(part('registry', 'robot:pass', { registries: ['*'] })).rejects.toEqual(NOTHING);
  });

  it('is denied where no login is left', async () => {
    await expect(part('registry', config, { registries: ['gcr.io'] })).rejects.toEqual(NOTHING);
  });

  it.each([
    ['no login', 'just-a-token'],
    ['no auths', {}],
    ['empty auths', { auths: {} }],
    ['a helper in place of a login', { auths: { 'ghcr.io': {} }, credHelpers: { 'ghcr.io': 'x' } }],
    ['a name that is no registry', { auths: { 'https://u:p@evil.test/': { auth: 'x' } } }],
  ])('refuses %s', async (_, payload) => {
    await expect(inspect('registry', payload)).rejects.toEqual(INVALID);
  });
});

describe('egress_proxy', () => {
  it('is variables for the proxy and the allowlist beside it', async () => {
    const made = await part('egress_proxy', 'http://user:pass@proxy.example:3128/', {
      hosts: ['b.example', '*.a.example'],
    });
    if (made.type !== 'direct') throw new Error('not direct');
    expect(made.env.HTTPS_PROXY).toBeInstanceOf(Credential);
    expect((made.env.http_proxy as Credential).reveal()).toBe('http://user:pass@proxy.example:3128');
    expect(made.env.POSTERN_EGRESS_HOSTS).toBe('*.a.example,b.example');
    expect(made.summary).not.toContain('pass');
  });

  it.each([
    '',
    'proxy:3128',
    'ftp://proxy',
    'http://',
    'http://proxy/path',
    'http://proxy?x',
    'http://a b',
    'http://%zz',
  ])('refuses %j', async (payload) => {
    await expect(inspect('egress_proxy', payload)).rejects.toEqual(INVALID);
  });
});

describe('host_device', () => {
  const inventory = [
    { name: 'gpu0', source: '/dev/nvidia0' },
    { name: 'GPU0', source: '/dev/nvidia1', target: '/dev/nvidia0x', permissions: 'r' },
    { name: 'tpm', source: '/dev/tpmrm0', permissions: 'rwm' },
  ];

  it('opens the listed devices, in their own case', async () => {
    expect(await part('host_device', inventory, { devices: ['gpu*'] })).toMatchObject({
      devices: [{ name: 'gpu0', source: '/dev/nvidia0', target: '/dev/nvidia0', permissions: 'rw' }],
    });
    expect(await part('host_device', inventory, { devices: ['*'] })).toMatchObject({
      devices: { length: 3 },
    });
    await expect(part('host_device', inventory, { devices: ['Tpm'] })).rejects.toEqual(NOTHING);
    const many = Array.from({ length: 17 }, (_, i) => ({ name: `d${i}`, source: `/dev/d${i}` }));
    await expect(part('host_device', many, { devices: ['*'] })).rejects.toEqual(NOTHING);
    expect(await inspect('host_device', inventory)).toEqual(['gpu0', 'GPU0', 'tpm']);
  });

  it.each([
    ['no list', { name: 'x', source: '/dev/x' }],
    ['an empty list', []],
    ['a name twice', [inventory[0], inventory[0]]],
    ['one node under two names', [inventory[0], { name: 'b', source: '/dev/nvidia0' }]],
    ['a misspelt member', [{ name: 'a', source: '/dev/a', perms: 'r' }]],
    ['a file elsewhere', [{ name: 'a', source: '/etc/shadow' }]],
    ['a way out', [{ name: 'a', source: '/dev/../etc/shadow' }]],
    ['two slashes', [{ name: 'a', source: '/dev//a' }]],
    ['the folder', [{ name: 'a', source: '/dev/' }]],
    ['a target elsewhere', [{ name: 'a', source: '/dev/a', target: '/etc/a' }]],
    ['an odd permission', [{ name: 'a', source: '/dev/a', permissions: 'rx' }]],
    ['permissions in another order', [{ name: 'a', source: '/dev/a', permissions: 'mr' }]],
    ['no permission', [{ name: 'a', source: '/dev/a', permissions: '' }]],
    ['a name with a slash', [{ name: 'a/b', source: '/dev/a' }]],
    ['text', 'not json'],
  ])('refuses %s', async (_, payload) => {
    await expect(inspect('host_device', payload)).rejects.toEqual(INVALID);
  });
});

describe('local_repo', () => {
  let base: string;
  beforeAll(async () => {
    base = await mkdtemp(join(tmpdir(), 'postern-repos-'));
    for (const name of ['app', 'lib', 'App', 'plain'])
      await mkdir(join(base, 'root', name), { recursive: true });
    for (const name of ['app', 'lib', 'App']) await mkdir(join(base, 'root', name, '.git'));
    await mkdir(join(base, 'root', 'bare.git', 'objects'), { recursive: true });
    await mkdir(join(base, 'root', 'bare.git', 'refs'));
    await writeFile(join(base, 'root', 'bare.git', 'HEAD'), 'ref: refs/heads/main\n');
    await mkdir(join(base, 'outside', '.git'), { recursive: true });
    await symlink(join(base, 'outside'), join(base, 'root', 'link'));
    await symlink(join(base, 'root'), join(base, 'entry'));
  });
  afterAll(() => rm(base, { recursive: true }));

  it('mounts what is listed and is a repository, read-only, in its own case', async () => {
    const made = await part('local_repo', `${join(base, 'root')}/`, { repos: ['a*', 'bare*'] });
    expect(made).toMatchObject({
      mounts: [
        { name: 'app', source: join(base, 'root', 'app'), target: '/repos/app', readOnly: true },
        { name: 'bare.git', readOnly: true },
      ],
    });
    expect(await part('local_repo', join(base, 'root'), { repos: ['App'], writable: true })).toMatchObject({
      mounts: [{ name: 'App', readOnly: false }],
    });
    await expect(part('local_repo', join(base, 'root'), { repos: ['APP', 'plain'] })).rejects.toEqual(
      NOTHING,
    );
    expect(await inspect('local_repo', join(base, 'root'))).toEqual(['App', 'app', 'bare.git', 'lib']);
  });

  it('does not follow a link out of the folder, and resolves the folder itself', async () => {
    await expect(part('local_repo', join(base, 'root'), { repos: ['link'] })).rejects.toEqual(NOTHING);
    expect(await part('local_repo', join(base, 'entry'), { repos: ['lib'] })).toMatchObject({
      mounts: [{ source: join(base, 'root', 'lib') }],
    });
  });

  it('opens 32 at most', async () => {
    for (let i = 0; i < 33; i++) await mkdir(join(base, 'many', `r${i}`, '.git'), { recursive: true });
    await expect(part('local_repo', join(base, 'many'), { repos: ['*'] })).rejects.toEqual(NOTHING);
  });

  it('takes an absolute path that is there', async () => {
    expect(parseRoot(bytes('/srv//git/./x/\n'))).toBe('/srv/git/x');
    for (const path of ['', 'srv', '/', '//', '/srv/../etc', '/srv\u0000x'])
      expect(() => parseRoot(bytes(path))).toThrow(INVALID);
    for (const path of [join(base, 'nope'), join(base, 'root', 'bare.git', 'HEAD'), join(base, 'outside')])
      await expect(inspect('local_repo', path)).rejects.toEqual(INVALID);
  });
});
