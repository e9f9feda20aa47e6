import { describe, expect, test } from 'vitest';
import { Credential } from '../../common/credential.ts';
import { PosternError } from '../../common/errors.ts';
import { prepareSession, summarize } from '../../gitproxy/issue.ts';
import type { PushCeiling } from '../../gitproxy/policy.ts';
import type { GitCredentialInput } from '../../sessions/guards.ts';

const upstreams = [{ url: 'https://github.com' }, { url: 'https://ghe.example.com:8443', username: 'git' }];
const ceiling: PushCeiling = { refs: ['refs/heads/**'], maxRefs: 16, maxPackBytes: 1_000 };
const secret = 'ghp_abc';
const input = (rest: Partial<GitCredentialInput> = {}): GitCredentialInput => ({
  token: new Credential(secret),
  upstream: 'https://github.com',
  repos: ['acme/tool'],
  ...rest,
});
const prepare = (rest: Partial<GitCredentialInput>, limit: Partial<PushCeiling> = {}) =>
  prepareSession([input(rest)], upstreams, { ...ceiling, ...limit });

function failure(run: () => unknown): PosternError {
  try {
    run();
  } catch (error) {
    if (error instanceof PosternError) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

describe('a session is issued', () => {
  test('read-only where nothing else is said', () => {
    const { policy, credentials } = prepare({ secretId: 's1', secretName: 'pat', grantId: 'g1' });
    expect(policy.grants).toEqual([
      {
        credentialId: 'c1',
        upstream: 'https://github.com',
        username: 'x-access-token',
        repos: ['acme/tool'],
        write: false,
        pushRefs: [],
        allowDelete: false,
      },
    ]);
    expect(credentials[0]).toMatchObject({ id: 'c1', secretId: 's1', secretName: 'pat', grantId: 'g1' });
    expect(JSON.stringify([policy, credentials])).not.toContain(secret);
    expect(summarize(policy)).toBe('read-only, acme/tool');
  });

  test('with branches to push to where a writing grant names none', () => {
    const { policy } = prepare({ permissions: ['contents:write'] });
    expect(policy.grants[0]).toMatchObject({ write: true, pushRefs: ['refs/heads/**'] });
    expect(summarize(policy)).toBe('read-write, acme/tool (push: refs/heads/**)');
    expect(prepare({ permissions: ['*'] }).policy.grants[0]?.write).toBe(true);
    expect(prepare({ permissions: ['contents:read'] }).policy.grants[0]?.write).toBe(false);
  });

  test('that only reads whatever its ref rules say, without the permission to push', () => {
    const rules = { pushRefs: ['refs/heads/**'], allowDelete: true, permissions: ['contents:read'] };
    expect(prepare(rules).policy.grants[0]).toMatchObject({ write: false, pushRefs: [], allowDelete: false });
  });

  test('with the upstream and the user name as they are configured', () => {
    const at = (upstream: string, rest = {}) => prepare({ upstream, ...rest }).policy.grants[0];
    expect(at('https://GITHUB.com:443/')?.upstream).toBe('https://github.com');
    expect(at('https://ghe.example.com:8443')?.username).toBe('git');
    expect(at('https://ghe.example.com:8443', { username: 'bot' })?.username).toBe('bot');
  });

  test('with repositories in lower case', () => {
    expect(prepare({ repos: ['ACME/Tool', 'Acme/*', '*'] }).policy.grants[0]?.repos).toEqual([
      'acme/tool',
      'acme/*',
      '*',
    ]);
  });
});

describe('what cannot be meant is refused, and the key is named', () => {
  test.each<[string, Partial<GitCredentialInput>, string]>([
    ['credentials[0].upstream', { upstream: 'https://evil.example' }, 'upstream_not_listed'],
    ['credentials[0].upstream', { upstream: 'https://github.com:444' }, 'upstream_not_listed'],
    ['credentials[0].upstream', { upstream: 'http://github.com' }, 'upstream_not_listed'],
    ['credentials[0].upstream', { upstream: 'https://github.com/acme' }, 'invalid_input'],
    ['credentials[0].upstream', { upstream: 'https://x@github.com' }, 'invalid_input'],
    ['credentials[0].upstream', { upstream: 'github.com' }, 'invalid_input'],
    ['credentials[0].repos', { repos: [] }, 'invalid_input'],
    ['credentials[0].repos[1]', { repos: ['acme/*', 'acme'] }, 'invalid_input'],
    ['credentials[0].repos[0]', { repos: ['acme/a/b'] }, 'invalid_input'],
    ['credentials[0].repos[0]', { repos: ['acme/'] }, 'invalid_input'],
    ['credentials[0].repos[0]', { repos: ['/tool'] }, 'invalid_input'],
    ['credentials[0].repos[0]', { repos: ['acme/**'] }, 'invalid_input'],
    ['credentials[0].repos[0]', { repos: ['**'] }, 'invalid_input'],
    ['credentials[0].repos[0]', { repos: ['acme/tool.git'] }, 'invalid_input'],
    ['credentials[0].repos[0]', { repos: ['acme/{a,b}'] }, 'invalid_input'],
    ['credentials[0].repos[0]', { repos: ['https://github.com/acme/tool'] }, 'invalid_input'],
    ['credentials[0].repos[0]', { repos: ['acme/../x'] }, 'invalid_input'],
    ['credentials[0].repos[0]', { repos: [''] }, 'invalid_input'],
    ['credentials[0].permissions[0]', { permissions: ['content:write'] }, 'invalid_input'],
    ['credentials[0].permissions[1]', { permissions: ['contents:read', 'contents:Write'] }, 'invalid_input'],
    ['credentials[0].permissions[0]', { permissions: ['write'] }, 'invalid_input'],
    ['credentials[0].pushRefs[0]', { pushRefs: ['main'] }, 'invalid_input'],
    ['credentials[0].pushRefs[0]', { permissions: ['*'], pushRefs: ['main'] }, 'invalid_input'],
    ['credentials[0].pushRefs[0]', { permissions: ['*'], pushRefs: ['agent/**'] }, 'invalid_input'],
    ['credentials[0].pushRefs[0]', { permissions: ['*'], pushRefs: ['push:refs/heads/x'] }, 'invalid_input'],
    [
      'credentials[0].pushRefs[1]',
      { permissions: ['*'], pushRefs: ['refs/heads/x', 'refs/heads/a b'] },
      'invalid_input',
    ],
    ['credentials[0].pushRefs[0]', { permissions: ['*'], pushRefs: ['delete:'] }, 'invalid_input'],
    ['credentials[0].pushRefs', { permissions: ['*'], pushRefs: ['refs/tags/**'] }, 'policy_refused'],
    ['credentials[0].username', { username: 'a:b' }, 'invalid_input'],
    ['credentials[0].token', { token: new Credential('ghp_abc\n') }, 'invalid_input'],
    ['credentials[0].token', { token: new Credential('') }, 'invalid_input'],
  ])('%s in %j: %s', (key, rest, code) => {
    const error = failure(() => prepare(rest));
    expect([error.code, error.key]).toEqual([code, key]);
    expect(error.message).not.toContain('ghp_abc');
  });

  const token = 'ghp_Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8Ii9Jj0Kk1L';
  test.each<[string, (pasted: string) => Partial<GitCredentialInput>]>([
    ['username', (username) => ({ username })],
    ['repos[0]', (pasted) => ({ repos: [pasted] })],
    ['repos[0]', (pasted) => ({ repos: [`https://${pasted}@github.com/acme/tool`] })],
    ['repos[0]', (pasted) => ({ repos: [`acme/${pasted}**`] })],
    ['permissions[0]', (pasted) => ({ permissions: [pasted] })],
    ['pushRefs[0]', (pasted) => ({ permissions: ['*'], pushRefs: [pasted] })],
    ['pushRefs[0]', (pasted) => ({ permissions: ['*'], pushRefs: [`refs/heads/${pasted}{}`] })],
    ['upstream', (pasted) => ({ upstream: `https://${pasted}@github.com` })],
  ])('a credential pasted into %s is not repeated in the error', (key, rest) => {
    for (const pasted of [token, `x-access-token:${token}`, `${'0123456789abcdef'.repeat(2)}01234567`]) {
      let error: PosternError | undefined;
      try {
        prepare(rest(pasted));
      } catch (thrown) {
        error = thrown as PosternError;
      }
      if (key === 'username' && !pasted.includes(':')) continue; // a name like any other
      expect(error?.key).toBe(`credentials[0].${key}`);
      expect(error?.message).not.toContain(pasted.slice(-20));
    }
  });

  test('a plain mistake is shown', () => {
    expect(failure(() => prepare({ repos: ['acme/tool.git'] })).message).toContain('"acme/tool.git"');
    expect(failure(() => prepare({ permissions: ['write'] })).message).toContain('"write"');
  });

  test('no credentials', () => {
    expect(failure(() => prepareSession([], upstreams, ceiling)).key).toBe('credentials');
  });
});

describe('a rule outside of the deployment', () => {
  const writing = (pushRefs: string[], refs: string[]) => () =>
    prepare({ permissions: ['contents:write'], pushRefs }, { refs });

  test.each<[string[], string[]]>([
    [['refs/heads/main'], ['refs/heads/agent/**']],
    [['refs/tags/v*', 'refs/notes/x'], ['refs/heads/**']],
    [['refs/heads/x'], []],
  ])('%j in %j leaves nothing, and is refused', (pushRefs, refs) => {
    expect(failure(writing(pushRefs, refs)).code).toBe('policy_refused');
  });

  test.each<[string[], string[]]>([
    [['refs/heads/**'], ['refs/heads/agent/**']],
    [['refs/heads/agent/1'], ['refs/heads/agent/**']],
    [['refs/**'], ['refs/heads/x']],
    [['refs/tags/x', 'refs/heads/x'], ['refs/heads/**']],
    [['refs/heads/a*'], ['refs/heads/*b']],
  ])('%j in %j leaves something', (pushRefs, refs) => {
    expect(writing(pushRefs, refs)().policy.grants[0]?.pushRefs).toEqual(pushRefs);
  });
});
