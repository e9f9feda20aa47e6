// One person under two names, one access by two ways: what the broker says about somebody must hold for all of them.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { couldBeSamePerson } from '../../../broker/caller.ts';
import { loadConfig } from '../../../cli/config.ts';
import { closeBenches, HOUR, MINUTE, OPERATOR, openBench } from '../../broker/bench.ts';

afterEach(closeBenches);

describe('a session is not renewed around its lease', () => {
  test.each([
    ['expired', async () => {}],
    ['revoked', async (revoke: () => Promise<unknown>) => void (await revoke())],
  ] as const)('by the call that renews sessions, where its grant is %s', async (_, end) => {
    const bench = await openBench();
    await bench.broker.secrets.mint(
      { name: 'pat', kind: 'github_pat', payload: Buffer.from(`ghp_${'a'.repeat(36)}`) },
      OPERATOR,
    );
    const grant = await bench.broker.grants.create(
      { secret: 'pat', subject: 'project:/srv/app', constraints: { repos: ['acme/tool'] }, ttl: 10 * MINUTE },
      OPERATOR,
    );
    const lease = await bench.broker.leases.create({ projectId: '/srv/app' }, OPERATOR);
    const [material] = lease.materials;
    if (material?.type !== 'session') throw new Error('no session');
    await bench.sessions.renew(material.sessionId, 11 * HOUR);
    await end(() => bench.broker.grants.revoke(grant.id, OPERATOR));
    bench.clock.advance(10 * MINUTE);
    await bench.broker.sweep();
    const { session } = (await bench.sessions.get(material.sessionId)) ?? {};
    expect(session?.revokedAt).toBeDefined();
  });
});

describe('two people are not one under two spellings', () => {
  test.each([
    ['alice', 'Alice'],
    ['alice', 'cli:alice'],
    ['token:cli:alice', 'alice'],
    ['alice@corp.example', 'alice'],
    ['alice@corp.example', 'ALICE@CORP.EXAMPLE'],
    ['alice+ci@corp.example', 'alice@corp.example'],
    ['mailto:alice@corp.example', 'alice@corp.example'],
    ['alice', '\uff41lice'],
    ['alice', 'al\u200bice'],
    ['alice', 'alice\u00a0'],
    ['alice', 'ali\u00adce'],
  ])('%j and %j', (a, b) => {
    expect(couldBeSamePerson({ actor: a }, { actor: b })).toBe(true);
    expect(couldBeSamePerson({ actor: 'x1', aliases: [a] }, { actor: 'x2', aliases: [b] })).toBe(true);
  });

  test.each(['', ' ', '\u200b', 'cli:', 'oidc:sub:'])(
    'a name that says nothing, %j, is everybody',
    (name) => {
      expect(couldBeSamePerson({ actor: name }, { actor: 'bob' })).toBe(true);
      expect(couldBeSamePerson({ actor: 'bob' }, { actor: name })).toBe(true);
    },
  );

  // The broker takes owners without regard to case: a second token of the same letters would own what the first stores.
  test('two control tokens are not told apart by the case of their names alone', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'postern-attack-'));
    const file = join(dir, 'postern.yaml');
    const token = (name: string, digit: string): string =>
      `{ name: ${name}, role: operator, sha256: "${digit.repeat(64)}" }`;
    await writeFile(
      file,
      `control: { listen: "127.0.0.1:0", tokens: [${token('alice', '1')}, ${token('Alice', '2')}] }\n`,
    );
    expect(() => loadConfig({ file, env: {}, cwd: dir })).toThrow(/control\.tokens\[1\]\.name/);
    await rm(dir, { recursive: true });
  });
});
