import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Constraints, parseConstraints, summarise } from '../../broker/constraints/constraints.ts';
import { checkHostPattern, coversHost, normaliseHost } from '../../broker/constraints/host.ts';
import { allowsContext, allowsNamespace, kubeReadOnly, kubeVerbs } from '../../broker/constraints/kube.ts';
import { allowsPermission } from '../../broker/constraints/permission.ts';
import { checkRepoPattern, coversRepo, normaliseRepo } from '../../broker/constraints/repo.ts';
import { KINDS, type Kind, parseKind } from '../../broker/kind.ts';
import { allowsEnvKey } from '../../broker/kinds/env.ts';
import { rulesOf } from '../../broker/kinds/kinds.ts';
import { allowsRegistry } from '../../broker/kinds/registry.ts';

const INVALID = expect.objectContaining({ code: 'invalid_input' });
const DENIED = expect.objectContaining({ code: 'policy_refused' });

describe('constraints from outside', () => {
  it('are known members, lists of words, and flags', () => {
    expect(
      parseConstraints({ repos: ['a/b', 'a/b'], allowDelete: false, writable: true, hosts: [] }),
    ).toEqual({
      repos: ['a/b'],
      writable: true,
    });
    expect(parseConstraints(undefined)).toEqual({});
  });

  it.each([
    [[]],
    ['repos'],
    [{ repo: ['a/b'] }],
    [{ repos: 'a/b' }],
    [{ repos: [''] }],
    [{ repos: [' a/b'] }],
    [{ repos: [7] }],
    [{ repos: ['a/b\n'] }],
    [{ repos: Array.from({ length: 257 }, (_, i) => `a/r${i}`) }],
    [{ writable: 'true' }],
    [{ __proto__x: ['*'] }],
  ])('%j is an error', (input) => {
    expect(() => parseConstraints(input)).toThrow(INVALID);
  });

  it('read themselves back', () => {
    const list = fc.array(fc.stringMatching(/^[a-z*][a-z0-9.*/-]{0,10}$/), { maxLength: 4 });
    fc.assert(
      fc.property(fc.record({ repos: list, hosts: list, envKeys: list, writable: fc.boolean() }), (input) => {
        const read = parseConstraints(input);
        expect(parseConstraints(JSON.parse(JSON.stringify(read)))).toEqual(read);
      }),
    );
  });

  it('are summarised sorted', () => {
    expect(summarise({ repos: ['b/x', 'a/y'], allowDelete: true, permissions: ['contents:write'] })).toBe(
      'allowDelete; permissions=contents:write; repos=a/y,b/x',
    );
    expect(summarise({})).toBe('none');
  });
});

describe('what a kind demands', () => {
  const gates: [Kind, Constraints, Constraints[]][] = [
    ['github_pat', { repos: ['*'] }, [{}, { repos: [] }, { permissions: ['contents:read'] }]],
    ['github_app', { repos: ['acme/app'] }, [{}, { repos: [] }]],
    ['kubeconfig', { namespaces: ['*'] }, [{}, { verbs: ['get'] }, { contexts: [], namespaces: [] }]],
    ['registry', { registries: ['*'] }, [{}, { registries: [] }]],
    ['egress_proxy', { hosts: ['*'] }, [{}, { hosts: [] }]],
    ['local_repo', { repos: ['*'] }, [{}, { writable: true }]],
    ['host_device', { devices: ['*'] }, [{}, { devices: [] }]],
  ];
  it.each(gates)('%s says what it is for; an empty list opens nothing', (kind, enough, tooLittle) => {
    expect(() => rulesOf(kind).checkConstraints(enough)).not.toThrow();
    for (const constraints of tooLittle)
      expect(() => rulesOf(kind).checkConstraints(constraints)).toThrow(INVALID);
  });

  it('env may go without: its keys are its scope', () => {
    expect(() => rulesOf('env').checkConstraints({})).not.toThrow();
    expect(allowsEnvKey(undefined, 'A')).toBe(true);
    expect(allowsEnvKey([], 'A')).toBe(true);
    expect(allowsEnvKey(['A'], 'A')).toBe(true);
    expect(allowsEnvKey(['A'], 'a')).toBe(false);
  });

  it('a constraint of another kind is refused, not ignored', () => {
    const all: Constraints = {
      repos: ['*'],
      permissions: ['contents:read'],
      pushRefs: ['refs/heads/**'],
      contexts: ['*'],
      namespaces: ['*'],
      verbs: ['get'],
      resources: ['pods'],
      registries: ['*'],
      envKeys: ['A'],
      hosts: ['*'],
      devices: ['*'],
      allowDelete: true,
      writable: true,
    };
    for (const kind of KINDS) {
      const rules = rulesOf(kind);
      for (const name of Object.keys(all) as (keyof Constraints)[]) {
        if (rules.constraints.includes(name)) continue;
        const needed = Object.fromEntries(rules.constraints.slice(0, 1).map((gate) => [gate, all[gate]]));
        expect(() => rules.checkConstraints({ ...needed, [name]: all[name] })).toThrow(INVALID);
      }
    }
  });

  it.each<[Kind, Constraints]>([
    ['github_pat', { repos: ['acme'] }],
    ['github_pat', { repos: ['acme/app/sub'] }],
    ['github_pat', { repos: ['https://github.com/acme/app'] }],
    ['github_pat', { repos: ['acme/app.git'] }],
    ['github_pat', { repos: ['**'] }],
    ['github_pat', { repos: ['acme/{a,b}'] }],
    ['github_pat', { repos: ['acme/../x'] }],
    ['github_pat', { repos: ['*'], permissions: ['pull_requests:maybe'] }],
    ['github_pat', { repos: ['*'], permissions: ['contents'] }],
    ['github_pat', { repos: ['*'], permissions: ['contents:write:more'] }],
    ['github_pat', { repos: ['*'], pushRefs: ['main'] }],
    ['github_pat', { repos: ['*'], permissions: ['contents:write'], pushRefs: ['main'] }],
    ['github_pat', { repos: ['*'], permissions: ['contents:write'], pushRefs: ['force:refs/heads/main'] }],
    ['kubeconfig', { namespaces: ['Team-A'] }],
    ['kubeconfig', { namespaces: ['a/b'] }],
    ['kubeconfig', { namespaces: ['*'], verbs: ['exec'] }],
    ['kubeconfig', { namespaces: ['*'], verbs: ['GET'] }],
    ['kubeconfig', { namespaces: ['*'], resources: ['Pods'] }],
    ['kubeconfig', { namespaces: ['*'], resources: ['pods/log/x'] }],
    ['registry', { registries: ['ghcr.io/acme'] }],
    ['registry', { registries: ['*.*.io'] }],
    ['egress_proxy', { hosts: ['10.0.0.0/8'] }],
    ['egress_proxy', { hosts: ['api.example.com:443'] }],
    ['egress_proxy', { hosts: ['https://api.example.com'] }],
    ['egress_proxy', { hosts: ['*.10.0.0.1'] }],
    ['egress_proxy', { hosts: ['*example.com'] }],
    ['egress_proxy', { hosts: ['127.1'] }],
    ['env', { envKeys: ['1A'] }],
    ['env', { envKeys: ['A*'] }],
    ['local_repo', { repos: ['acme/app'] }],
    ['host_device', { devices: ['/dev/kvm'] }],
  ])('%s refuses %j', (kind, constraints) => {
    expect(() => rulesOf(kind).checkConstraints(constraints)).toThrow(INVALID);
  });

  it.each<[Kind, Constraints]>([
    ['github_pat', { repos: ['Acme/*', 'acme/app-[0-9]', '*'] }],
    [
      'github_app',
      { repos: ['acme/app'], permissions: ['*'], pushRefs: ['refs/heads/**', 'create:refs/tags/v*'] },
    ],
    ['github_pat', { repos: ['a/b'], permissions: ['contents:write', 'issues:read'], allowDelete: true }],
    ['github_pat', { repos: ['a/b'], pushRefs: ['refs/heads/main'], allowDelete: true }],
    [
      'kubeconfig',
      { contexts: ['arn:aws:eks:eu-1:123:cluster/prod'], verbs: ['*'], resources: ['*/*', '*.apps'] },
    ],
    ['registry', { registries: ['ghcr.io', '*.corp.example'] }],
    ['egress_proxy', { hosts: ['api.example.com', '*.example.com', '10.0.0.1', '::1', '*'] }],
    ['local_repo', { repos: ['App', 'lib-*'], writable: true }],
    ['host_device', { devices: ['gpu[0-3]'] }],
  ])('%s takes %j', (kind, constraints) => {
    expect(() => rulesOf(kind).checkConstraints(constraints)).not.toThrow();
  });

  it('there are eight kinds and no other', () => {
    expect(KINDS).toHaveLength(8);
    for (const text of ['github-pat', 'ENV', '', 'toString', '__proto__'])
      expect(() => parseKind(text)).toThrow(INVALID);
    for (const kind of KINDS) expect(rulesOf(kind).kind).toBe(kind);
  });
});

describe('repositories', () => {
  it.each<[string[], string, boolean]>([
    [['acme/app'], 'acme/app', true],
    [['acme/app'], 'ACME/App', true],
    [['ACME/App'], 'acme/app', true],
    [['acme/app'], 'acme/app2', false],
    [['acme/*'], 'acme/a', true],
    [['acme/*'], 'acme/a/b', false],
    [['acme/*'], 'acmes/a', false],
    [['*'], 'any/thing', true],
    [['*/app'], 'acme/app', true],
    [['*/*'], 'acme/app', true],
    [['ac?e/app'], 'acme/app', true],
    [[], 'acme/app', false],
  ])('%j covers %s: %s', (patterns, repo, expected) => {
    expect(coversRepo(patterns, repo)).toBe(expected);
  });

  it.each([
    'acme/app',
    'ACME/App.git',
    'https://github.com/acme/app',
    'https://github.com/acme/app.git/',
    'https://git@github.com/acme/app',
    'ssh://git@github.com/acme/app.git',
    'ssh://git@github.com:22/acme/app.git',
    'git@github.com:acme/app.git',
    'git://github.com/acme/app',
  ])('%s is acme/app', (text) => {
    expect(normaliseRepo(text)).toBe('acme/app');
  });

  it.each([
    '',
    'acme',
    'acme/',
    '/acme/app',
    'acme/app/more',
    'acme/..',
    '../acme',
    'acme/app.git.git',
    'acme/app?x',
    'acme/app#x',
    'acme%2fapp',
    'acme\\app',
    'acme/a b',
    'https://evil.example/acme/app',
    'https://github.com.evil.example/acme/app',
    'https://github.com@evil.example/acme/app',
    'https://user:pw@github.com/acme/app',
    'git@evil.example:acme/app',
    'file:///acme/app',
    'acme/app\u0000',
  ])('%j is denied', (text) => {
    expect(() => normaliseRepo(text)).toThrow(DENIED);
  });

  it('that are covered by a pattern without a star within a segment have its owner', () => {
    const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,8}$/);
    fc.assert(
      fc.property(name, name, name, (owner, other, repo) => {
        checkRepoPattern(`${owner}/*`, 'x');
        expect(coversRepo([`${owner}/*`], `${other}/${repo}`)).toBe(owner === other);
      }),
    );
  });
});

describe('hosts', () => {
  it.each<[string[], string, boolean]>([
    [['example.com'], 'example.com', true],
    [['example.com'], 'EXAMPLE.com.', true],
    [['example.com'], 'example.com:8443', true],
    [['example.com'], 'https://example.com:443', true],
    [['example.com'], 'api.example.com', false],
    [['*.example.com'], 'api.example.com', true],
    [['*.example.com'], 'a.b.example.com', true],
    [['*.example.com'], 'example.com', false],
    [['*.example.com'], 'evilexample.com', false],
    [['*.example.com'], 'example.com.evil.test', false],
    [['10.0.0.1'], '10.0.0.1', true],
    [['10.0.0.1'], '10.0.0.10', false],
    [['::1'], '[0:0:0:0:0:0:0:1]:80', true],
    [['*'], 'anything.test', true],
    [[], 'example.com', false],
  ])('%j covers %s: %s', (patterns, host, expected) => {
    expect(coversHost(patterns, normaliseHost(host))).toBe(expected);
  });

  it.each([
    '',
    ' ',
    '.',
    'a..b',
    '.example.com',
    'example.com/',
    'https://example.com/path',
    'user@example.com',
    'https://api.example.com@evil.test',
    'example.com#',
    'example.com?',
    'example.com\\.evil.test',
    'ex%61mple.com',
    '*.example.com',
    'example.com:0',
    'example.com:99999',
    'example.com:80:80',
    '127.1',
    '2130706433',
    '0x7f.1',
    '010.0.0.1',
    '1.2.3.4.5',
    '[example.com]',
    '[::1',
    'exämple.com',
    'a b.test',
    '-a.test',
  ])('%j is denied', (text) => {
    expect(() => normaliseHost(text)).toThrow(DENIED);
  });

  it('whatever is admitted is its own spelling', () => {
    const text = fc.oneof(
      fc.domain(),
      fc.ipV4(),
      fc.ipV6(),
      fc.stringMatching(/^[a-zA-Z0-9.:@/*\\[\]_-]{1,20}$/),
      fc.domain().map((host) => `https://${host.toUpperCase()}:443`),
    );
    fc.assert(
      fc.property(text, (host) => {
        let normal: string;
        try {
          normal = normaliseHost(host);
        } catch {
          return;
        }
        expect(normaliseHost(normal)).toBe(normal);
        expect(coversHost([normal], normal)).toBe(true);
        expect(() => checkHostPattern(normal, 'x')).not.toThrow();
        // What a URL parser would connect to is the same host.
        const parsed = new URL(`http://${normal.includes(':') ? `[${normal}]` : normal}/`).hostname;
        expect(parsed.replace(/^\[|\]$/g, '')).toBe(normal);
      }),
      { numRuns: 500 },
    );
  });

  it('below a domain never include the domain', () => {
    fc.assert(
      fc.property(fc.domain(), fc.domain(), (domain, other) => {
        expect(coversHost([`*.${domain}`], domain)).toBe(false);
        expect(coversHost([`*.${domain}`], `x.${domain}`)).toBe(true);
        if (coversHost([`*.${domain}`], other)) expect(other.endsWith(`.${domain}`)).toBe(true);
      }),
    );
  });

  it('of registries are those that docker writes', () => {
    const allowed = { registries: ['index.docker.io', 'ghcr.io', '*.corp.example'] };
    for (const name of ['https://index.docker.io/v1/', 'ghcr.io', 'ghcr.io/acme', 'r.corp.example:5000'])
      expect(allowsRegistry(allowed, name)).toBe(true);
    for (const name of [
      'corp.example',
      'ghcr.io.evil.test',
      'https://ghcr.io@evil.test/',
      'evil.test/ghcr.io',
      '',
    ])
      expect(allowsRegistry(allowed, name)).toBe(false);
  });
});

describe('permissions', () => {
  it.each<[string[] | undefined, string, boolean]>([
    [undefined, 'contents:read', true],
    [undefined, 'contents:write', false],
    [[], 'contents:write', false],
    [undefined, 'metadata:read', true],
    [undefined, 'issues:read', false],
    [['contents:write'], 'contents:read', true],
    [['contents:write'], 'contents:admin', false],
    [['contents:read'], 'contents:write', false],
    [['issues:write'], 'contents:read', false],
    [['*'], 'administration:admin', true],
    [['*'], 'contents:everything', false],
    [['contents:read'], 'toString:read', false],
  ])('%j allows %s: %s', (granted, wanted, expected) => {
    expect(allowsPermission(granted, wanted)).toBe(expected);
  });
});

describe('clusters', () => {
  it('silence about verbs is reading', () => {
    expect(kubeVerbs({})).toEqual(['get', 'list', 'watch']);
    expect(kubeVerbs({ verbs: [] })).toEqual(['get', 'list', 'watch']);
    expect(kubeReadOnly({ verbs: ['get', 'watch'] })).toBe(true);
    expect(kubeReadOnly({ verbs: ['get', 'patch'] })).toBe(false);
    expect(kubeReadOnly({ verbs: ['*'] })).toBe(false);
  });

  it('contexts and namespaces', () => {
    expect(allowsContext({ contexts: ['prod'] }, 'prod')).toBe(true);
    expect(allowsContext({ contexts: ['prod'] }, 'PROD')).toBe(false);
    expect(allowsContext({ contexts: ['prod-*'] }, 'prod-eu')).toBe(true);
    expect(allowsContext({ contexts: ['prod'], namespaces: ['a'] }, 'other')).toBe(false);
    expect(allowsContext({ namespaces: ['a'] }, 'other')).toBe(true);
    expect(allowsContext({}, 'other')).toBe(false);
    expect(allowsNamespace({ namespaces: ['team-*'] }, 'team-a')).toBe(true);
    expect(allowsNamespace({ namespaces: ['team-*'] }, 'kube-system')).toBe(false);
    expect(allowsNamespace({ contexts: ['prod'] }, 'team-a')).toBe(false);
  });
});
