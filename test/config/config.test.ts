import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Config, loadConfig } from '../../cli/config.ts';
import { ConfigError } from '../../cli/config-problems.ts';
import { PosternError } from '../../common/errors.ts';

let cwd: string;
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'postern-config-'));
});
afterAll(() => rmSync(cwd, { recursive: true }));

type Env = { [name: string]: string };
let files = 0;
function load(yaml: string, env: Env = {}): Config {
  const file = join(cwd, `config-${files++}.yaml`);
  writeFileSync(file, yaml);
  return loadConfig({ file, env, cwd });
}

/** The lines of the refusal, without the file's name. */
function refused(yaml: string, env: Env = {}): string[] {
  try {
    load(yaml, env);
  } catch (error) {
    expect(error).toBeInstanceOf(PosternError);
    expect(error).toMatchObject({ code: 'invalid_config' });
    return (error as Error).message.split('\n  ').slice(1);
  }
  throw new Error('nothing was refused');
}

describe('defaults', () => {
  it('are those of the contract, relative to the working directory where there is no file', () => {
    const config = loadConfig({ env: {}, cwd });
    expect(config).toEqual({
      file: undefined,
      dataDir: join(cwd, 'var'),
      secretKey: undefined,
      store: { sqlite: join(cwd, 'var/postern.db') },
      git: {
        enabled: true,
        listen: { host: '127.0.0.1', port: 8443 },
        advertise: undefined,
        upstreams: [{ url: 'https://github.com', caFile: undefined, username: undefined }],
        push: {
          refs: ['refs/heads/**'],
          allowDelete: undefined,
          options: ['*'],
          maxRefs: 16,
          maxPackBytes: 2147483648,
        },
        tls: undefined,
      },
      kube: {
        enabled: true,
        listen: { host: '127.0.0.1', port: 8444 },
        advertise: undefined,
        ceiling: { verbs: [], namespaces: [], resources: [] },
        execPlugins: [],
        tokenFiles: [],
        upstreams: [],
        maxBodyBytes: 3145728,
        tls: undefined,
      },
      control: { socket: join(cwd, 'var/control.sock'), listen: undefined, tokens: [], tls: undefined },
      ops: { listen: { host: '127.0.0.1', port: 9464 } },
      sessions: { ttl: 900_000, maxTtl: 43_200_000, recheck: 5_000, maxConcurrent: 64 },
      audit: { dir: join(cwd, 'var/audit'), onFailure: 'refuse', syncReads: false, retention: 7_776_000_000 },
      log: { level: 'info' },
      warnings: [],
    });
  });

  it('are the same for an empty file and for empty blocks', () => {
    const { file, ...empty } = load('');
    const { file: _, ...blocks } = load('# nothing\ngit:\nkube:\n  ceiling:\nsessions: {}\naudit:\n');
    expect(file).toMatch(/config-\d+\.yaml$/);
    expect(blocks).toEqual(empty);
  });

  it('postern.yaml in the working directory is read without being named', () => {
    const folder = mkdtempSync(join(cwd, 'implied-'));
    writeFileSync(join(folder, 'postern.yaml'), 'log: { level: debug }');
    expect(loadConfig({ env: {}, cwd: folder }).log.level).toBe('debug');
  });

  it('the store, the socket and the trail move with dataDir', () => {
    const config = load('dataDir: /srv/postern');
    expect(config.store).toEqual({ sqlite: '/srv/postern/postern.db' });
    expect(config.control.socket).toBe('/srv/postern/control.sock');
    expect(config.audit.dir).toBe('/srv/postern/audit');
  });

  it('cannot be changed by whoever is given them', () => {
    const config = load('');
    expect(() => Object.assign(config.git.push, { allowDelete: true })).toThrow(TypeError);
    expect(() => (config.git.upstreams as unknown[]).push({})).toThrow(TypeError);
  });
});

it('plugins and token files without a list of API servers are a warning', () => {
  const said = (kube: string) => load(`kube: { ${kube} }`).warnings.map(({ key }) => key);
  expect(said('execPlugins: [/usr/bin/aws]')).toEqual(['kube.upstreams']);
  expect(said('tokenFiles: [/run/token]')).toEqual(['kube.upstreams']);
  expect(said('tokenFiles: [/run/token], upstreams: ["https://10.0.0.1:6443/"]')).toEqual([]);
  expect(load('kube: { upstreams: ["https://10.0.0.1:443/"] }').kube.upstreams).toEqual(['https://10.0.0.1']);
});

describe('the sample of the contract', () => {
  const sample = `
dataDir: ./var
secretKey: { env: POSTERN_SECRET_KEY }
store: { sqlite: ./var/postern.db }
git:
  enabled: true
  listen: 127.0.0.1:8443
  advertise: https://127.0.0.1:8443
  upstreams:
    - { url: https://github.com }
    - { url: https://ghe.example.com, caFile: ./ghe.pem, username: x-access-token }
  push: { refs: ["refs/heads/**"], allowDelete: false, maxRefs: 16, maxPackBytes: 2147483648 }
kube:
  enabled: true
  listen: 127.0.0.1:8444
  advertise: https://127.0.0.1:8444
  ceiling: { verbs: [], namespaces: [], resources: [] }
  execPlugins: []
  maxBodyBytes: 3145728
control: { socket: ./var/control.sock, listen: null, tokens: [ { name: ci, role: hub, sha256: ${'Ab'.repeat(32)} } ], oidc: null }
ops: { listen: 127.0.0.1:9464 }
sessions: { ttl: 15m, maxTtl: 12h, recheck: 5s, maxConcurrent: 64 }
audit: { dir: ./var/audit, onFailure: continue, syncReads: false, retention: 90d }
log: { level: info }
`;
  it('is read, with paths relative to its folder', () => {
    const config = load(sample);
    expect(config.dataDir).toBe(join(cwd, 'var'));
    expect(config.secretKey).toEqual({ env: 'POSTERN_SECRET_KEY' });
    expect(config.git.upstreams[1]).toEqual({
      url: 'https://ghe.example.com',
      caFile: join(cwd, 'ghe.pem'),
      username: 'x-access-token',
    });
    expect(config.git.push.allowDelete).toBe(false);
    expect(config.control.tokens).toEqual([{ name: 'ci', role: 'hub', sha256: 'ab'.repeat(32) }]);
    expect(config.audit.onFailure).toBe('continue');
  });
});

describe('values', () => {
  it.each([
    ['127.0.0.1:0', { host: '127.0.0.1', port: 0 }],
    ['"[::1]:8443"', { host: '::1', port: 8443 }],
    ['0.0.0.0:1', { host: '0.0.0.0', port: 1 }],
    ['Localhost:65535', { host: 'localhost', port: 65535 }],
  ])('listen: %s', (text, listen) => expect(load(`git: { listen: ${text} }`).git.listen).toEqual(listen));

  it.each([
    '8443',
    '":8443"',
    '127.0.0.1',
    '127.0.0.1:65536',
    '127.0.0.1:08',
    '"::1:8443"',
    '256.0.0.1:80',
    'a_b:1',
  ])('listen: %s is refused', (text) =>
    expect(refused(`git: { listen: ${text} }`)[0]).toMatch(/^git\.listen: is .*; it must be host:port/),
  );

  it.each(['900', '15', '15 m', '-5m', '0s', '1.5h', '20000d'])('ttl: %s is refused', (text) => {
    expect(refused(`sessions: { ttl: ${text} }`)[0]).toMatch(
      /^sessions\.ttl: is .*; it must be a duration such as/,
    );
  });

  it.each([
    ['https://github.com', 'https://github.com'],
    ['https://GitHub.com:443/', 'https://github.com'],
    ['https://ghe.example.com:8443', 'https://ghe.example.com:8443'],
    ['http://127.0.0.1:3000', 'http://127.0.0.1:3000'],
    ['http://localhost:3000', 'http://localhost:3000'],
    ['"http://[::1]:3000"', 'http://[::1]:3000'],
  ])('upstream %s', (text, url) => {
    expect(load(`git: { upstreams: [ { url: ${text} } ] }`).git.upstreams[0]?.url).toBe(url);
  });

  it.each([
    'http://github.com',
    'http://127.0.0.1.example.com',
    'http://localhost.example.com',
    'http://[::2]',
    'ssh://git@github.com',
    'https://github.com/acme',
    'https://github.com?x',
    'https://github.com#x',
    'https://github.com\\\\@evil.example',
    'github.com',
    'https://',
    ' https://github.com',
    'file:///etc/passwd',
  ])('upstream %s is refused', (url) => {
    expect(refused(`git: { upstreams: [ { url: "${url}" } ] }`)).toEqual([
      expect.stringMatching(/^git\.upstreams\[0\]\.url: .*; it must be an https:\/\/ origin/),
    ]);
  });

  it.each([
    ['git: { push: { refs: ["refs/heads/{a,b}"] } }', 'git.push.refs[0]'],
    ['git: { push: { refs: ["main"] } }', 'git.push.refs[0]'],
    ['git: { push: { refs: "refs/heads/**" } }', 'git.push.refs'],
    ['git: { push: { maxRefs: 0 } }', 'git.push.maxRefs'],
    ['git: { push: { maxRefs: 1001 } }', 'git.push.maxRefs'],
    ['git: { push: { options: ["ci.[a-z]*"] } }', 'git.push.options[0]'],
    ['git: { push: { options: [""] } }', 'git.push.options[0]'],
    ['git: { push: { maxPackBytes: 2GiB } }', 'git.push.maxPackBytes'],
    ['git: { push: { maxPackBytes: .inf } }', 'git.push.maxPackBytes'],
    ['git: { enabled: yes }', 'git.enabled'],
    ['git: { advertise: "http://guard.example.com" }', 'git.advertise'],
    ['git: { advertise: "https://guard.example.com/git" }', 'git.advertise'],
    ['git: { tls: { certFile: a.pem } }', 'git.tls.keyFile'],
    ['kube: { ceiling: { verbs: [reed] } }', 'kube.ceiling.verbs[0]'],
    ['kube: { ceiling: { namespaces: ["a/**"] } }', 'kube.ceiling.namespaces[0]'],
    ['kube: { ceiling: { resources: ["Pods"] } }', 'kube.ceiling.resources[0]'],
    ['kube: { execPlugins: [aws] }', 'kube.execPlugins[0]'],
    ['kube: { tokenFiles: [token] }', 'kube.tokenFiles[0]'],
    ['kube: { upstreams: ["http://10.0.0.1"] }', 'kube.upstreams[0]'],
    ['kube: { upstreams: ["https://10.0.0.1/k8s"] }', 'kube.upstreams[0]'],
    ['control: { oidc: { issuer: x } }', 'control.oidc'],
    ['audit: { onFailure: ignore }', 'audit.onFailure'],
    ['log: { level: verbose }', 'log.level'],
    ['secretKey: { env: A, file: b }', 'secretKey'],
    ['secretKey: { env: "A B" }', 'secretKey.env'],
    ['store: { sqlite: a, postgres: "postgres://db/x" }', 'store'],
    ['store: { postgres: "mysql://db/x" }', 'store.postgres'],
    ['git: 5', 'git'],
    ['[]', 'is a list'],
    ['dataDir: ""', 'dataDir'],
  ])('%s is refused at its path', (yaml, path) =>
    expect(refused(yaml)[0]).toMatch(new RegExp(`^${path.replace(/[[\].]/g, '\\$&')}`)),
  );

  it('allowDelete has three states', () => {
    const state = (text: string) => load(`git: { push: { ${text} } }`).git.push.allowDelete;
    expect([state(''), state('allowDelete: false'), state('allowDelete: true')]).toEqual([
      undefined,
      false,
      true,
    ]);
  });
});

describe('settings that contradict each other', () => {
  it.each([
    ['sessions: { ttl: 2h, maxTtl: 1h }', /^sessions\.ttl: 2h is longer than sessions\.maxTtl, 1h/],
    ['git: { listen: "0.0.0.0:8444" }', /^kube\.listen: 127\.0\.0\.1:8444 is taken by git\.listen/],
    ['ops: { listen: "localhost:8443" }', /^ops\.listen: .* git\.listen/],
    ['control: { listen: "[::]:8443" }', /^control\.listen: .* git\.listen/],
    [
      'git: { upstreams: [ { url: https://a.example }, { url: https://A.example:443 } ] }',
      /^git\.upstreams\[1\]\.url: .*\[0\]/,
    ],
    [
      `control: { tokens: [ { name: a, role: hub, sha256: ${'a'.repeat(64)} }, { name: a, role: hub, sha256: ${'A'.repeat(64)} } ] }`,
      /^control\.tokens\[1\]\.name: "a"/,
    ],
    [`control: { socket: /${'x'.repeat(120)} }`, /^control\.socket: .* 121 bytes/],
  ])('%s', (yaml, message) => expect(refused(yaml)[0]).toMatch(message));

  it('a disabled guard and port 0 take no address', () => {
    load('git: { enabled: false }\nkube: { listen: 127.0.0.1:8443 }');
    load('git: { listen: 127.0.0.1:0 }\nkube: { listen: 127.0.0.1:0 }\nops: { listen: 127.0.0.1:0 }');
  });
});

describe('a refusal', () => {
  it('names every problem at once', () => {
    expect(refused('git: { lisen: 1, enabled: 5 }\nlog: { level: x }\ndata_dir: y')).toEqual([
      'git.enabled: is 5; it must be true or false',
      'git.lisen: unknown key; did you mean git.listen?',
      'log.level: is "x"; it must be one of debug, info, warn, error',
      'data_dir: unknown key; did you mean dataDir?',
    ]);
  });

  it.each([
    ['upstreams: []', 'upstreams: unknown key; did you mean git.upstreams?'],
    ['session: {}', 'session: unknown key; did you mean sessions?'],
    ['git: { push: { max_refs: 1 } }', 'git.push.max_refs: unknown key; did you mean git.push.maxRefs?'],
    [
      'git: { upstreams: [ { url: https://a.example, cafile: x } ] }',
      'git.upstreams[0].cafile: unknown key; did you mean git.upstreams[].caFile?',
    ],
    ['zebra: 1', 'zebra: unknown key'],
    ['__proto__: { x: 1 }', '__proto__: unknown key'],
    ['constructor: 1', 'constructor: unknown key'],
  ])('%s: %s', (yaml, line) => expect(refused(yaml)).toEqual([line]));

  it('passes on what the room says that reads the value', () => {
    expect(
      refused(
        'git: { push: { refs: ["refs/heads/{a,b}"] } }\nkube: { ceiling: { verbs: [read], resources: [deploy] } }',
      ),
    ).toEqual([
      expect.stringMatching(
        /^git\.push\.refs\[0\]: the pattern "refs\/heads\/\{a,b\}" has "\{"; the wildcards are/,
      ),
      expect.stringMatching(
        /^kube\.ceiling\.verbs\[0\]: "read" is not a verb; did you mean get, list and watch/,
      ),
      'kube.ceiling.resources[0]: "deploy" is no plural resource name; write deployments',
    ]);
  });

  it('never quotes what could be a credential', () => {
    const canary = 'hunter2-canary-9f3a';
    const cases: [string, Env?][] = [
      [`secretKey: ${canary}`],
      [`secretKey: { env: "${canary} x" }`],
      [`secretKey: { value: ${canary} }`],
      [`store: { postgres: "mysql://u:${canary}@db/x" }`],
      [`git: { upstreams: [ { url: "http://u:${canary}@forge.example" } ] }`],
      [`git: { upstreams: [ { url: https://a.example, token: ${canary} } ] }`],
      [`control: { tokens: [ { name: a, role: hub, sha256: ${canary} } ] }`],
      [`control: { tokens: [ ${canary} ] }`],
      [`secretKey: "${canary}`],
      [`secretKey: [a] ${canary}`],
      [`secretKey: !!binary ${canary}`],
      [`secretKey: *${canary}`],
      [`secretKey: { ${canary} }`],
      [`{ ghp_${canary}${'x'.repeat(36)} }`],
      [`? { ${canary}: 1 }\n: 1`],
      ['', { POSTERN_STORE_POSTGRES: canary }],
      ['', { POSTERN_SECRET_KEY_FILE: '', POSTERN_SECRET_KEY: canary }],
    ];
    for (const [yaml, env] of cases) {
      const lines = refused(yaml, env);
      expect(lines.length).toBeGreaterThan(0);
      expect(lines.join('\n')).not.toContain(canary);
    }
  });

  it('says that the file is missing, is a folder, is not text', () => {
    writeFileSync(join(cwd, 'binary.yaml'), Buffer.from([0xff, 0xfe, 0]));
    for (const [file, words] of [
      ['none.yaml', /does not exist/],
      ['.', /cannot be read \(EISDIR\)/],
      ['binary.yaml', /not UTF-8/],
    ] as const)
      expect(() => loadConfig({ file, env: {}, cwd })).toThrow(words);
  });
});

describe('YAML that means more than it shows is refused with its line', () => {
  it.each([
    ['log: { level: info }\nlog: { level: warn }', /^line 2, column 1: the key stands twice/],
    ['git: { enabled: true, enabled: false }', /the key stands twice/],
    ['a: &x [1]\nb: *x', /^line 2, column 4: aliases/],
    ['? [a]\n: b', /a key must be a plain name/],
    ['dataDir: !!binary aGk=', /tags/],
    ['dataDir: !env HOME', /tags/],
    ['log: {}\n---\nlog: {}', /more than one document/],
    ['git:\n\tenabled: true', /a tab|not YAML/],
    ['git: { listen: [::1]:8443 }', /put quotes around|not YAML/],
  ])('%j', (yaml, message) => expect(refused(yaml)[0]).toMatch(message));

  it.each([
    'git:\n  listen: "127.0.0.1:0\nfoo: [1\n bar: }\n',
    'git: [a\nkube: 1\n',
    'a: b: c\nd: !x y\n',
    'git: }\nkube: }\n',
    'dataDir: !env HOME',
  ])('%j is one problem', (yaml) => expect(refused(yaml)).toHaveLength(1));

  it('an alias bomb costs nothing', () => {
    const bomb = Array.from({ length: 30 }, (_, i) => `a${i + 1}: &a${i + 1} [${`*a${i},`.repeat(9)}]`).join(
      '\n',
    );
    expect(refused(`a0: &a0 x\n${bomb}`)[0]).toMatch(/aliases/);
  });

  it('any text is a configuration or a refusal', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'git: {}[]\n-"\'&*!|>#%@`,listen1.\t') }), (text) => {
        try {
          return Object.isFrozen(load(text));
        } catch (error) {
          return error instanceof ConfigError;
        }
      }),
      { numRuns: 300 },
    );
  });
});
