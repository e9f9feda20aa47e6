import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  chooseGrant,
  describePush,
  type GitGrant,
  judgePush,
  type PushCeiling,
} from '../../gitproxy/policy.ts';
import type { RefCommand } from '../../gitproxy/receive-pack.ts';

const zero = '0'.repeat(40);
const one = '1'.repeat(40);
const two = '2'.repeat(40);

function grant(credentialId: string, repos: string[], rest: Partial<GitGrant> = {}): GitGrant {
  return {
    credentialId,
    upstream: 'https://github.com',
    username: 'x-access-token',
    repos,
    write: false,
    pushRefs: rest.write ? ['refs/heads/**'] : [],
    allowDelete: false,
    ...rest,
  };
}

const session = (...grants: GitGrant[]) => ({
  policy: { grants },
  credentials: grants.map(({ credentialId }) => ({ id: credentialId })),
});

function chosen(grants: GitGrant[], repo: string, operation: 'read' | 'write'): string {
  const choice = chooseGrant(session(...grants), repo, operation);
  return choice.ok ? choice.grant.credentialId : choice.refusal.code;
}

describe('which credential is used', () => {
  test.each<[string, GitGrant[], string, 'read' | 'write', string]>([
    ['the one that covers it', [grant('a', ['acme/tool'])], 'acme/tool', 'read', 'a'],
    ['none for another repository', [grant('a', ['acme/tool'])], 'acme/toolkit', 'read', 'repo_not_allowed'],
    ['none for a longer path', [grant('a', ['acme/*'])], 'acme/a/b', 'read', 'repo_not_allowed'],
    ['none for another owner', [grant('a', ['acme/*'])], 'acmeco/tool', 'read', 'repo_not_allowed'],
    ['case does not matter', [grant('a', ['acme/tool'])], 'acme/tool', 'read', 'a'],
    ['exact before owner/*', [grant('a', ['acme/*']), grant('b', ['acme/tool'])], 'acme/tool', 'read', 'b'],
    ['owner/* before a pattern', [grant('a', ['acme/t*']), grant('b', ['acme/*'])], 'acme/tool', 'read', 'b'],
    ['a pattern before *', [grant('a', ['*']), grant('b', ['*/tool'])], 'acme/tool', 'read', 'b'],
    ['* for every other', [grant('a', ['*']), grant('b', ['*/tool'])], 'x/y', 'read', 'a'],
    ['the first among equals', [grant('a', ['acme/*']), grant('b', ['acme/*'])], 'acme/tool', 'read', 'a'],
    [
      'the best pattern of a grant counts',
      [grant('a', ['acme/*']), grant('b', ['*', 'acme/tool'])],
      'acme/tool',
      'read',
      'b',
    ],
    ['reading only', [grant('a', ['acme/*'])], 'acme/tool', 'write', 'push_not_allowed'],
    ['writing includes reading', [grant('a', ['acme/*'], { write: true })], 'acme/tool', 'read', 'a'],
    [
      'grants add up: a less specific one that may push',
      [grant('a', ['acme/tool']), grant('b', ['acme/*'], { write: true })],
      'acme/tool',
      'write',
      'b',
    ],
    [
      'and the more specific one still reads',
      [grant('a', ['acme/tool']), grant('b', ['acme/*'], { write: true })],
      'acme/tool',
      'read',
      'a',
    ],
    [
      'equally specific at two upstreams',
      [grant('a', ['acme/*']), grant('b', ['acme/*'], { upstream: 'https://ghe.example.com' })],
      'acme/tool',
      'read',
      'repo_not_allowed',
    ],
    [
      'more specific at one of two upstreams',
      [grant('a', ['acme/*']), grant('b', ['acme/tool'], { upstream: 'https://ghe.example.com' })],
      'acme/tool',
      'read',
      'b',
    ],
    [
      'never fetches from one upstream and pushes to another',
      [grant('a', ['acme/tool']), grant('b', ['*'], { write: true, upstream: 'https://ghe.example.com' })],
      'acme/tool',
      'write',
      'push_not_allowed',
    ],
    ['no grants at all', [], 'acme/tool', 'read', 'repo_not_allowed'],
  ])('%s', (_what, grants, repo, operation, expected) => {
    expect(chosen(grants, repo, operation)).toBe(expected);
  });

  test('not one whose grant was taken out of the session', () => {
    const both = session(grant('a', ['acme/tool']), grant('b', ['acme/*']));
    const left = { ...both, credentials: both.credentials.filter(({ id }) => id !== 'a') };
    expect(chooseGrant(left, 'acme/tool', 'read')).toMatchObject({ ok: true, grant: { credentialId: 'b' } });
    expect(chooseGrant({ ...both, credentials: [] }, 'acme/tool', 'read').ok).toBe(false);
  });

  test('whatever it is, it covers the repository and permits the operation', () => {
    const repo = fc.constantFrom('acme/tool', 'acme/toolkit', 'acme/lib', 'other/tool', 'other/x');
    const pattern = fc.constantFrom('acme/tool', 'acme/*', 'acme/t*', '*/tool', 'other/?', '*', 'other/tool');
    const covers = (patterns: readonly string[], name: string): boolean =>
      patterns.some((each) =>
        new RegExp(`^${each === '*' ? '.*' : each.replaceAll('*', '[^/]*').replaceAll('?', '[^/]')}$`).test(
          name,
        ),
      );
    const anyGrant = fc.record({
      repos: fc.array(pattern, { minLength: 1, maxLength: 3 }),
      write: fc.boolean(),
      upstream: fc.constantFrom('https://github.com', 'https://ghe.example.com'),
    });
    fc.assert(
      fc.property(
        fc.array(anyGrant, { maxLength: 4 }),
        repo,
        fc.constantFrom('read', 'write'),
        (list, name, operation) => {
          const grants = list.map((each, i) => grant(`c${i}`, each.repos, each));
          const choice = chooseGrant(session(...grants), name, operation);
          if (!choice.ok) return;
          expect(covers(choice.grant.repos, name)).toBe(true);
          if (operation === 'write') expect(choice.grant.write).toBe(true);
        },
      ),
    );
  });
});

const ceiling: PushCeiling = { refs: ['refs/heads/**'], maxRefs: 4, maxPackBytes: 1_000 };
const command = (operation: 'create' | 'update' | 'delete' | 'nothing', ref: string): RefCommand => ({
  old: operation === 'create' || operation === 'nothing' ? zero : one,
  new: operation === 'delete' || operation === 'nothing' ? zero : two,
  ref,
});

function verdict(
  rules: Partial<GitGrant>,
  commands: readonly RefCommand[],
  limit: Partial<PushCeiling> = {},
): string {
  const judged = judgePush(grant('a', ['*'], { write: true, ...rules }), { ...ceiling, ...limit }, commands);
  return judged.ok ? 'ok' : judged.refusal.code;
}

describe('which refs may be pushed', () => {
  const agent = { pushRefs: ['refs/heads/agent/**'] };
  test.each<[string, Partial<GitGrant>, RefCommand[], Partial<PushCeiling>, string]>([
    ['creating within the rule', agent, [command('create', 'refs/heads/agent/1')], {}, 'ok'],
    ['updating within the rule', agent, [command('update', 'refs/heads/agent/a/b')], {}, 'ok'],
    ['outside of it', agent, [command('update', 'refs/heads/main')], {}, 'ref_not_allowed'],
    [
      'its own folder is not within it',
      agent,
      [command('create', 'refs/heads/agent')],
      {},
      'ref_not_allowed',
    ],
    ['another case of it', agent, [command('create', 'refs/heads/Agent/1')], {}, 'ref_not_allowed'],
    ['one that begins like it', agent, [command('create', 'refs/heads/agentx/1')], {}, 'ref_not_allowed'],
    ['any branch where none is named', {}, [command('create', 'refs/heads/x')], {}, 'ok'],
    ['a tag where none is named', {}, [command('create', 'refs/tags/x')], {}, 'ref_not_allowed'],
    ['deleting', agent, [command('delete', 'refs/heads/agent/1')], {}, 'delete_not_allowed'],
    ['deleting outside of the rule', agent, [command('delete', 'refs/heads/main')], {}, 'ref_not_allowed'],
    [
      'deleting where that is allowed',
      { ...agent, allowDelete: true },
      [command('delete', 'refs/heads/agent/1')],
      {},
      'ok',
    ],
    [
      'deleting where the deployment forbids it',
      { ...agent, allowDelete: true },
      [command('delete', 'refs/heads/agent/1')],
      { allowDelete: false },
      'delete_not_allowed',
    ],
    [
      'an entry for deleting',
      { pushRefs: ['delete:refs/heads/x'] },
      [command('delete', 'refs/heads/x')],
      {},
      'ok',
    ],
    [
      'and for nothing else',
      { pushRefs: ['delete:refs/heads/x'] },
      [command('update', 'refs/heads/x')],
      {},
      'ref_not_allowed',
    ],
    [
      'an entry for creating',
      { pushRefs: ['create:refs/heads/**'] },
      [command('create', 'refs/heads/x')],
      {},
      'ok',
    ],
    [
      'and not for updating',
      { pushRefs: ['create:refs/heads/**'] },
      [command('update', 'refs/heads/x')],
      {},
      'ref_not_allowed',
    ],
    [
      'not for deleting either',
      { pushRefs: ['create:refs/heads/**'], allowDelete: true },
      [command('delete', 'refs/heads/x')],
      {},
      'delete_not_allowed',
    ],
    [
      'an entry for two',
      { pushRefs: ['create,delete:refs/heads/**'] },
      [command('create', 'refs/heads/x'), command('delete', 'refs/heads/y')],
      {},
      'ok',
    ],
    [
      'entries add up',
      { pushRefs: ['create:refs/heads/**', 'update:refs/heads/a/*'] },
      [command('update', 'refs/heads/a/x'), command('create', 'refs/heads/b')],
      {},
      'ok',
    ],
    [
      'outside of the deployment',
      { pushRefs: ['refs/**'] },
      [command('create', 'refs/tags/x')],
      {},
      'ref_not_allowed',
    ],
    [
      'within a wider deployment',
      { pushRefs: ['refs/**'] },
      [command('create', 'refs/tags/x')],
      { refs: ['refs/**'] },
      'ok',
    ],
    [
      'nothing where the deployment names nothing',
      {},
      [command('create', 'refs/heads/x')],
      { refs: [] },
      'ref_not_allowed',
    ],
    [
      'all or nothing',
      agent,
      [command('create', 'refs/heads/agent/1'), command('create', 'refs/heads/x')],
      {},
      'ref_not_allowed',
    ],
    ['as many as the limit', {}, [1, 2, 3, 4].map((n) => command('create', `refs/heads/${n}`)), {}, 'ok'],
    [
      'more than the limit',
      {},
      [1, 2, 3, 4, 5].map((n) => command('create', `refs/heads/${n}`)),
      {},
      'too_many_refs',
    ],
    [
      'the same ref twice',
      {},
      [command('create', 'refs/heads/x'), command('update', 'refs/heads/x')],
      {},
      'malformed_request',
    ],
    ['zero to zero', {}, [command('nothing', 'refs/heads/x')], {}, 'malformed_request'],
    ['a name that git refuses', {}, [command('create', 'refs/heads/../x')], {}, 'ref_not_allowed'],
    ['a lock file', {}, [command('create', 'refs/heads/x.lock')], {}, 'ref_not_allowed'],
    [
      'HEAD',
      { pushRefs: ['refs/**'] },
      [command('update', 'HEAD')],
      { refs: ['refs/**'] },
      'ref_not_allowed',
    ],
  ])('%s', (_what, rules, commands, limit, expected) => {
    expect(verdict(rules, commands, limit)).toBe(expected);
  });

  test('each ref is told why, the innocent ones that they are', () => {
    const judged = judgePush(grant('a', ['*'], { write: true, ...agent }), ceiling, [
      command('create', 'refs/heads/agent/1'),
      command('delete', 'refs/heads/agent/2'),
      command('update', 'refs/heads/main'),
    ]);
    expect(judged).toMatchObject({
      ok: false,
      refusal: { code: 'delete_not_allowed', message: 'refs/heads/agent/2: this session may not delete it' },
      reasons: [
        'refused as a whole: another ref was (delete_not_allowed)',
        'delete_not_allowed: this session may not delete it',
        'ref_not_allowed: not among the refs that this session may push',
      ],
    });
  });

  test('whatever is allowed is within the grant, within the deployment and well formed', () => {
    const ref = fc.oneof(
      fc.constantFrom('refs/heads/main', 'refs/heads/agent/1', 'refs/tags/v1', 'refs/heads/a..b', 'HEAD'),
      fc.stringMatching(/^refs\/(heads|tags)\/(agent|x)(\/[a-z.]{1,4}){0,2}$/),
    );
    const glob = fc.constantFrom(
      'refs/heads/**',
      'refs/heads/agent/**',
      'refs/**',
      'refs/tags/v*',
      'refs/heads/main',
    );
    const matches = (pattern: string, text: string): boolean =>
      new RegExp(`^${pattern.replaceAll('**', '§').replaceAll('*', '[^/]*').replaceAll('§', '.+')}$`).test(
        text,
      );
    fc.assert(
      fc.property(
        fc.array(glob, { minLength: 1, maxLength: 3 }),
        fc.array(glob, { maxLength: 3 }),
        fc.boolean(),
        fc.array(fc.tuple(fc.constantFrom('create', 'update', 'delete', 'nothing'), ref), {
          minLength: 1,
          maxLength: 5,
        }),
        (pushRefs, refs, allowDelete, wanted) => {
          const commands = wanted.map(([operation, name]) => command(operation, name));
          if (verdict({ pushRefs, allowDelete }, commands, { refs }) !== 'ok') return;
          expect(commands.length).toBeLessThanOrEqual(ceiling.maxRefs);
          expect(new Set(commands.map((each) => each.ref)).size).toBe(commands.length);
          for (const [operation, name] of wanted) {
            expect(operation).not.toBe('nothing');
            if (operation === 'delete') expect(allowDelete).toBe(true);
            expect(pushRefs.some((pattern) => matches(pattern, name))).toBe(true);
            expect(refs.some((pattern) => matches(pattern, name))).toBe(true);
            expect(name).not.toMatch(/\.\.|\.$|\.lock|^HEAD/);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  test('are described to a person', () => {
    const writing = (rules: Partial<GitGrant>) => grant('a', ['*'], { write: true, ...rules });
    expect(describePush(writing(agent), ceiling)).toBe(
      "create and update refs/heads/agent/**; delete nothing; within the deployment's limit: refs/heads/**",
    );
    const rules = { pushRefs: ['create:refs/heads/**', 'update,delete:refs/heads/x'] };
    expect(describePush(writing(rules), { ...ceiling, refs: ['refs/**'] })).toBe(
      "create refs/heads/**; update refs/heads/x; delete refs/heads/x; within the deployment's limit: refs/**",
    );
    expect(describePush(writing({ allowDelete: true }), { ...ceiling, allowDelete: false })).toContain(
      'delete nothing',
    );
  });
});
