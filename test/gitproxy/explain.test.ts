import { describe, expect, test } from 'vitest';
import { explain } from '../../gitproxy/explain.ts';
import type { GitPolicy } from '../../gitproxy/policy.ts';
import type { Session } from '../../sessions/session.ts';

const session: Session<GitPolicy> = {
  id: 'ses_1',
  guard: 'git',
  leaseId: 'l',
  labels: {},
  credentials: [{ id: 'c1' }],
  policy: {
    grants: [
      {
        credentialId: 'c1',
        upstream: 'https://github.com',
        username: 'x',
        repos: ['acme/*'],
        write: true,
        pushRefs: ['refs/heads/agent/**'],
        allowDelete: false,
      },
    ],
  },
  createdAt: 0,
  expiresAt: 1_000,
  hardExpiresAt: 2_000,
};
const state = { now: 500, ceiling: { refs: ['refs/heads/**'], maxRefs: 16, maxPackBytes: 1 } };
const ask = (target: string, rest = {}) => explain(session, state, { target, ...rest });

describe('explain git', () => {
  test('a repository, as people write it', () => {
    expect(ask('ACME/Tool')).toEqual({
      decision: 'allow',
      rule: 'acme/* with contents:write at https://github.com',
      reason: 'asks https://github.com/acme/tool.git/info/refs?service=git-upload-pack',
      request: {
        method: 'GET',
        repo: 'acme/tool',
        service: 'git-upload-pack',
        host: 'github.com',
        port: 443,
      },
    });
  });

  test.each([
    ['/acme/tool.git/git-receive-pack', 'allow', undefined],
    ['/acme/tool/info/refs?service=git-receive-pack', 'allow', undefined],
    ['other/tool', 'deny', 'repo_not_allowed'],
    ['/acme/tool.git/git-receive-pack?x', 'deny', 'non_canonical_path'],
    ['/acme/../tool/info/refs', 'deny', 'non_canonical_path'],
    ['/acme/tool.git/HEAD', 'deny', 'not_found'],
    ['/acme/tool.git/info/lfs/objects/batch', 'deny', 'lfs_not_allowed'],
  ])('%s: %s', (target, decision, code) => {
    const explained = ask(target);
    expect([explained.decision, explained.code]).toEqual([decision, code]);
  });

  test('the refs of a push', () => {
    const push = (ref: string, operation: 'create' | 'delete') =>
      ask('acme/tool', { refs: [{ ref, operation }] });
    expect(push('refs/heads/agent/x', 'create').decision).toBe('allow');
    expect(push('refs/heads/agent/x', 'delete').code).toBe('delete_not_allowed');
    expect(push('refs/heads/main', 'create')).toMatchObject({ code: 'ref_not_allowed', rule: 'pushRefs' });
  });

  test('a session that is over', () => {
    expect(explain({ ...session, revokedAt: 1 }, state, { target: 'acme/tool' }).code).toBe(
      'session_revoked',
    );
    expect(explain(session, { ...state, now: 1_000 }, { target: 'acme/tool' }).code).toBe('session_expired');
  });
});
