import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Credential } from '../../common/credential.ts';
import { envFile, GIT_VARIABLES, KUBE_VARIABLES, readEnvFile } from '../../delivery/env.ts';
import { spellings } from '../../delivery/gitconfig.ts';
import { type GitShare, type KubeShare, parcel } from '../../delivery/parcel.ts';
import { gitSection, gitValue, shellWord } from '../../delivery/quote.ts';

const git: GitShare = {
  sessionId: 'gs_1',
  baseUrl: 'https://guard.example:8443',
  username: 'gs_1',
  password: new Credential('session-token'),
  readOnly: true,
  upstreams: ['https://github.com'],
  repos: ['acme/*', 'acme/tool'],
  pushRefs: [],
};
const kube: KubeShare = {
  sessionId: 'ks_1',
  kubeconfig: new Credential('kind: Config\n'),
  namespace: 'team-a',
  namespaces: ['team-a', 'team-b'],
  verbs: ['get', 'list'],
};
const place = { dir: '/run/out' };

describe('a parcel', () => {
  test('of a git session holds its files and its variables, none of the other guard', () => {
    const { files, env } = parcel({ git, ca: 'PEM' }, place);
    expect(Object.keys(files).sort()).toEqual(['ca.pem', 'env', 'git-credential', 'gitconfig']);
    expect(Object.keys(env)).toEqual([...GIT_VARIABLES]);
    expect(env).toMatchObject({ POSTERN_GIT_MODE: 'read-only', POSTERN_GIT_REPOS: 'acme/*,acme/tool' });
  });

  test('of a kube session likewise', () => {
    const { files, env } = parcel({ kube, ca: 'PEM' }, place);
    expect(Object.keys(files).sort()).toEqual(['ca.pem', 'env', 'kubeconfig']);
    expect(Object.keys(env)).toEqual([...KUBE_VARIABLES]);
    expect(env).toMatchObject({
      KUBECONFIG: '/run/out/kubeconfig',
      POSTERN_KUBE_NAMESPACES: 'team-a,team-b',
    });
  });

  test('of both holds everything, and one that joins a folder keeps what was said there', () => {
    const both = parcel({ git, kube, ca: 'PEM' }, place);
    expect(Object.keys(both.env)).toEqual([...GIT_VARIABLES, ...KUBE_VARIABLES]);
    const first = parcel({ git, ca: 'PEM' }, place);
    const second = parcel({ kube, ca: 'PEM' }, { ...place, keep: first.env });
    expect(second.env).toEqual(both.env);
  });

  test('has no variable with a credential, and prints none', () => {
    const all = parcel({ git, kube, ca: 'PEM' }, place);
    expect(JSON.stringify(all)).not.toContain('session-token');
    expect(all.files.env?.reveal()).not.toContain('session-token');
    expect(all.files.gitconfig?.reveal()).not.toContain('session-token');
    expect(all.files['git-credential']?.reveal()).toBe(
      'protocol=https\nhost=guard.example:8443\nusername=gs_1\npassword=session-token\n',
    );
  });
});

test('the spellings of an upstream hold the four that the contract names', () => {
  expect(spellings('https://github.com')).toEqual(
    expect.arrayContaining([
      'https://github.com/',
      'ssh://git@github.com/',
      'git@github.com:',
      'git://github.com/',
    ]),
  );
  expect(spellings('http://127.0.0.1:3000')).toEqual(
    expect.arrayContaining(['http://127.0.0.1:3000/', 'ssh://git@127.0.0.1/', 'git@127.0.0.1:']),
  );
  expect(spellings('https://github.com').every((prefix) => /[/:]$/.test(prefix))).toBe(true);
});

const ODD = [
  `it's`,
  '"q"',
  '$HOME `id` $(id)',
  'back\\slash\\',
  '#;=',
  ' outer ',
  'tab\tnew\nline',
  'ü–漢',
  '%(prefix)/~',
];

describe('quoting', () => {
  test.each(ODD)('git reads %j back', (text) => {
    const file = join(mkdtempSync(join(tmpdir(), 'postern-quote-')), 'config');
    writeFileSync(file, `${gitSection('a', text.replaceAll('\n', ''))}\n\tkey = ${gitValue(text)}\n`);
    const out = execFileSync('git', ['config', '-z', '-f', file, '--list'], { encoding: 'utf8' });
    expect(out).toBe(`a.${text.replaceAll('\n', '')}.key\n${text}\0`);
  });

  test('sh reads everything back', () => {
    const words = [
      ...ODD,
      ...fc.sample(
        fc.string({ unit: 'binary' }).filter((s) => !/\0|[\ud800-\udfff]/.test(s)),
        50,
      ),
    ];
    const script = words.map((word) => `printf '%s\\0' ${shellWord(word)}`).join('\n');
    expect(execFileSync('sh', ['-c', script], { encoding: 'utf8' })).toBe(
      words.map((word) => `${word}\0`).join(''),
    );
  });

  test('an env file is read back as it was written, and sh agrees', () => {
    fc.assert(
      fc.property(
        fc.string().filter((s) => !s.includes('\0')),
        (value) => {
          expect(readEnvFile(envFile({ KUBECONFIG: value, POSTERN_GIT_URL: 'u' }))).toEqual({
            KUBECONFIG: value,
            POSTERN_GIT_URL: 'u',
          });
        },
      ),
    );
    const text = envFile({ KUBECONFIG: ODD.join('/') });
    const out = execFileSync('sh', ['-c', `${text}\nprintf %s "$KUBECONFIG"`], { encoding: 'utf8' });
    expect(out).toBe(ODD.join('/'));
  });

  test('a file that postern did not write is not read as one', () => {
    expect(readEnvFile("export KUBECONFIG='x'\n")).toBeUndefined();
    expect(readEnvFile(`${envFile({})}export PATH='x'\n`)).toEqual({});
  });
});
