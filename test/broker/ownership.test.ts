import { afterEach, describe, expect, it } from 'vitest';
import { type Caller, identities, normaliseOwner, privileged } from '../../broker/caller.ts';
import { deletableBy, isPersonal, ownedBy, spendableBy, visibleTo } from '../../broker/secrets/ownership.ts';
import {
  ADMIN,
  ALICE,
  BOB,
  closeBenches,
  grant,
  lease,
  mint,
  OPERATOR,
  openBench,
  PAT,
  PROJECT,
} from './bench.ts';

afterEach(closeBenches);

describe('who may what', () => {
  const SHARED = {};
  const PERSONAL = { owner: 'alice@corp.example' };
  const subjects: [string, Caller, boolean, boolean, boolean][] = [
    // caller, sees, spends, deletes (of the personal one)
    ['its owner', ALICE, true, true, true],
    ['its owner in another case', { actor: 'ALICE@Corp.example' }, true, true, true],
    ['its owner by an alias', { actor: 'sub:9', aliases: ['alice@corp.example'] }, true, true, true],
    ['an owner who is an admin', { ...ALICE, admin: true }, true, true, true],
    ['an admin', ADMIN, true, false, true],
    ['the server itself', privileged('postern'), true, false, true],
    ['somebody else', BOB, false, false, false],
    ['the same local part', { actor: 'alice' }, false, false, false],
    ['the owner of another domain', { actor: 'alice@other.example' }, false, false, false],
    ['a login of the same name', { actor: 'cli:alice@corp.example' }, false, false, false],
    ['nobody', { actor: '' }, false, false, false],
    ['blanks', { actor: '  ' }, false, false, false],
  ];
  it.each(subjects)('%s', (_, caller, sees, spends, deletes) => {
    expect(visibleTo(PERSONAL, caller)).toBe(sees);
    expect(spendableBy(PERSONAL, caller)).toBe(spends);
    expect(deletableBy(PERSONAL, caller)).toBe(deletes);
    expect([visibleTo, spendableBy, deletableBy].map((may) => may(SHARED, caller))).toEqual([
      true,
      true,
      true,
    ]);
    expect(ownedBy(SHARED, caller)).toBe(false);
  });

  it('an empty owner owns nothing and is nobody', () => {
    expect(isPersonal(SHARED)).toBe(false);
    expect(ownedBy({ owner: '' }, { actor: '' })).toBe(false);
    expect(identities({ actor: ' ', aliases: [''] })).toEqual([]);
  });

  it.each([
    [' Alice@Corp.Example ', 'alice@corp.example'],
    ['sub:AbC', 'sub:AbC'],
    ['SUB:AbC', 'sub:AbC'],
    ['Bob', 'bob'],
  ])('%j is stored as %j', (given, stored) => {
    expect(normaliseOwner(given)).toBe(stored);
  });

  it('a subject of an issuer keeps its case: two people', () => {
    expect(ownedBy({ owner: 'sub:AbC' }, { actor: 'sub:abc' })).toBe(false);
    expect(ownedBy({ owner: 'sub:AbC' }, { actor: 'sub:AbC' })).toBe(true);
  });
});

describe('a personal secret', () => {
  const withMine = async () => {
    const bench = await openBench();
    const secret = await mint(bench, 'mine', 'github_pat', PAT, {
      owner: 'Alice@corp.example',
      caller: ALICE,
    });
    return { bench, secret };
  };

  it('does not exist for others, by name or id', async () => {
    const { bench, secret } = await withMine();
    for (const ref of ['mine', secret.id]) {
      await expect(bench.broker.secrets.show(ref, BOB)).rejects.toMatchObject({ code: 'not_found' });
      await expect(bench.broker.secrets.delete(ref, BOB)).rejects.toMatchObject({ code: 'not_found' });
      await expect(
        grant(bench, ref, `project:${PROJECT}`, { repos: ['*'] }, { caller: BOB }),
      ).rejects.toMatchObject({
        code: 'not_found',
      });
      await expect(
        bench.broker.secrets.replace({ secret: ref, payload: Buffer.from('x') }, BOB),
      ).rejects.toMatchObject({ code: 'not_found' });
    }
    expect(await bench.broker.secrets.list(BOB)).toEqual([]);
    expect(await bench.broker.secrets.list(ALICE)).toHaveLength(1);
    expect(await bench.broker.secrets.list(ADMIN)).toHaveLength(1);
  });

  it('does not show in the errors of somebody who takes its name', async () => {
    const { bench } = await withMine();
    await mint(bench, 'mine', 'github_pat', PAT); // a shared one of the same name
    const hiding = mint(bench, 'MINE', 'github_pat', PAT, { owner: BOB.actor, caller: BOB });
    await expect(hiding).rejects.toMatchObject({ code: 'conflict' });
    expect((await bench.broker.secrets.show('mine', BOB)).owner).toBeUndefined();
    await expect(bench.broker.secrets.show('mine', ALICE)).rejects.toMatchObject({ code: 'conflict' });
    await expect(
      mint(bench, 'theirs', 'github_pat', PAT, { owner: ALICE.actor, caller: BOB }),
    ).rejects.toMatchObject({ code: 'not_owner' });
  });

  it('is granted by its owner alone, not by an admin', async () => {
    const { bench } = await withMine();
    await expect(
      grant(bench, 'mine', `project:${PROJECT}`, { repos: ['*'] }, { caller: ADMIN }),
    ).rejects.toMatchObject({
      code: 'not_owner',
    });
    expect(bench.audit.of('secret.grant')).toMatchObject([{ decision: 'deny', actor: 'cli:root' }]);
    const made = await grant(bench, 'mine', `project:${PROJECT}`, { repos: ['*'] }, { caller: ALICE });
    expect(made.owner).toBe('alice@corp.example');
  });

  it.each(['any', '*', 'project:*', 'executor:*'])('never goes to %s', async (subject) => {
    const { bench } = await withMine();
    await expect(grant(bench, 'mine', subject, { repos: ['*'] }, { caller: ALICE })).rejects.toMatchObject({
      code: 'personal_wildcard',
    });
  });

  it('goes to machines that somebody labelled', async () => {
    const { bench } = await withMine();
    expect(await grant(bench, 'mine', 'label:desk=alice', { repos: ['*'] }, { caller: ALICE })).toBeDefined();
  });

  it('hides its grants, and names its owner to the guard', async () => {
    const { bench } = await withMine();
    const made = await grant(bench, 'mine', `project:${PROJECT}`, { repos: ['*'] }, { caller: ALICE });
    expect(await bench.broker.grants.list({}, BOB)).toEqual([]);
    expect(await bench.broker.grants.list({}, ALICE)).toHaveLength(1);
    await expect(bench.broker.grants.revoke(made.id, BOB)).rejects.toMatchObject({ code: 'not_found' });
    await lease(bench);
    const [session] = await bench.sessions.list();
    expect(session?.session.labels.owner).toBe('alice@corp.example');
  });

  it('is deleted by an admin, on the record, and its grants still say whose it was', async () => {
    const { bench } = await withMine();
    const made = await grant(bench, 'mine', `project:${PROJECT}`, { repos: ['*'] }, { caller: ALICE });
    await bench.broker.secrets.delete('mine', ADMIN);
    expect(bench.audit.of('secret.delete')).toMatchObject([
      { actor: 'cli:root', reason: 'personal, of alice@corp.example' },
    ]);
    const [left] = await bench.broker.grants.list({}, ADMIN);
    expect(left).toMatchObject({ id: made.id, owner: 'alice@corp.example', revokedBy: 'cli:root' });
  });

  it('needs an owner where one is meant', async () => {
    const bench = await openBench();
    const input = { name: 'p', kind: 'env' };
    for (const more of [{ personal: true }, { personal: true, owner: ' ' }, { owner: '' }])
      await expect(
        bench.broker.secrets.mint({ ...input, payload: Buffer.from('A=1'), ...more }, OPERATOR),
      ).rejects.toMatchObject({ code: 'invalid_input', key: 'owner' });
    expect(await bench.broker.secrets.list(ADMIN)).toEqual([]);
  });
});
