// The installation tokens that grants of a GitHub App live on. One token a grant, shared by all of its leases, sealed in
// a row of its own so that a restart forgets none. A lease takes hold of it with a write to that row in the very commit
// that stores the lease; letting go is a write that fails where a lease came in between. So a token is destroyed when its
// last lease has ended, and never under another one's feet.
//
// GitHub's tokens last an hour and a session may last twelve: a token that would end before the lease is minted anew, at
// the scope of the first one, and put into custody for every live session of the grant. The old one is destroyed a little
// later, when the requests that it began are through.

import { Credential } from '../../common/credential.ts';
import { PosternError } from '../../common/errors.ts';
import { newId } from '../../common/ids.ts';
import type { Write } from '../../store/store.ts';
import type { Context } from '../context.ts';
import { ATTEMPTS, busy } from '../failure.ts';
import type { GrantOf } from '../material.ts';
import { SETS } from '../sets.ts';
import { destroyTokens, endingRow } from './destroy.ts';
import { mintToken } from './mint.ts';
import type { AppCredential } from './payload.ts';
import { readToken, type StoredToken, tokenRow } from './token-row.ts';

/** A token that ends sooner than this after the lease is not worth handing out. */
export const MARGIN = 60_000;
/** How long a replaced token outlives its successor's arrival in custody. */
export const GRACE = 2 * 60_000;

export interface AppToken {
  /** Changes with every token that is minted. */
  readonly tokenId: string;
  readonly token: Credential;
  readonly expiresAt: number;
}

export interface AppTokens {
  /**
   * The grant's token, good until `until` at least where GitHub gives it that long. `load` opens the app's credential
   * and is called only to mint.
   * @throws PosternError `github_app_failed`, `policy_refused`
   */
  obtain(grant: GrantOf, until: number, load: () => Promise<AppCredential>): Promise<AppToken>;
  /** Mints anew whatever happens, after the app's key was replaced. */
  renew(grant: GrantOf, load: () => Promise<AppCredential>): Promise<void>;
  /** The writes by which a lease takes hold; `undefined` where a token has changed since it was obtained. */
  hold(tokens: ReadonlyMap<string, string>): Promise<Write[] | undefined>;
  /** Destroys the grant's token unless a lease holds it. */
  letGo(grantId: string, actor: string): Promise<void>;
  /** Grants of a secret that have a token now. */
  grantsOf(secretId: string): Promise<string[]>;
  /** Destroys what is due, and lets go of what nobody holds. */
  sweep(actor: string): Promise<void>;
}

export function appTokens(context: Omit<Context, 'appTokens'>): AppTokens {
  const { deps } = context;
  const minting = new Map<string, Promise<AppToken>>();

  const read = async (grantId: string): Promise<StoredToken | undefined> => {
    const row = await deps.store.get(SETS.appTokens, grantId);
    return row && readToken(row);
  };

  function open(stored: StoredToken): AppToken {
    const bytes = deps.keyring.open({ set: SETS.appTokens, id: stored.grantId }, stored.sealed);
    try {
      const token = new Credential(bytes.toString('utf8'));
      context.announce(stored.tokenId, bytes, () => [token.reveal()]);
      return { tokenId: stored.tokenId, token, expiresAt: stored.expiresAt };
    } finally {
      bytes.fill(0);
    }
  }

  /** One at a time for each grant in this process; across processes the row's revision decides. */
  function single(grantId: string, work: () => Promise<AppToken>): Promise<AppToken> {
    const running = minting.get(grantId);
    if (running) return running;
    const next = work().finally(() => minting.delete(grantId));
    minting.set(grantId, next);
    return next;
  }

  async function obtain(
    grant: GrantOf,
    until: number,
    load: () => Promise<AppCredential>,
  ): Promise<AppToken> {
    const { grantId } = grant.ref;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const stored = await read(grantId);
      if (stored && !stored.applied) await apply(stored);
      else if (stored && stored.expiresAt >= until + MARGIN) return open(stored);
      else {
        try {
          return await single(grantId, () => swap(grant, stored, load));
        } catch (error) {
          // GitHub is away, the token of now is still good: the lease gets that, and ends with it.
          if (
            stored &&
            error instanceof PosternError &&
            error.code === 'github_app_failed' &&
            stored.expiresAt > context.now() + MARGIN
          )
            return open(stored);
          throw error;
        }
      }
    }
    throw busy('The installation token');
  }

  async function swap(
    grant: GrantOf,
    before: StoredToken | undefined,
    load: () => Promise<AppCredential>,
    scope: 'same' | 'anew' = 'same',
  ): Promise<AppToken> {
    const app = await load();
    const minted = await mintToken(
      context,
      app,
      grant.constraints,
      scope === 'same' ? before?.scope : undefined,
    );
    const tokenId = newId('ght', context.now());
    const bytes = Buffer.from(minted.token.reveal());
    const next: StoredToken = {
      grantId: grant.ref.grantId,
      secretId: grant.ref.secretId,
      secretName: grant.ref.secretName,
      tokenId,
      apiUrl: app.apiUrl,
      scope: minted.scope,
      mintedAt: context.now(),
      expiresAt: minted.expiresAt,
      applied: before === undefined,
      uses: 0,
      rev: 0,
      sealed: deps.keyring.seal({ set: SETS.appTokens, id: grant.ref.grantId }, bytes),
    };
    context.announce(tokenId, bytes, () => [minted.token.reveal()]);
    const writes: Write[] = [tokenRow(next, before?.rev ?? 0)];
    if (before) writes.push(endingRow(context, before, open(before).token, context.now() + GRACE));
    if (!(await deps.store.commit(writes))) {
      // Another process was faster. Ours is in nobody's hands yet.
      await deps.store.commit([endingRow(context, next, minted.token, 0)]);
      await destroyTokens(context, 'postern');
      const theirs = await read(grant.ref.grantId);
      if (!theirs) throw busy('The installation token');
      return open(theirs);
    }
    if (before) await apply({ ...next, rev: before.rev + 1 });
    return { tokenId, token: minted.token, expiresAt: minted.expiresAt };
  }

  /** Into custody, then noted: a crash in between is made good by whoever asks next. */
  async function apply(stored: StoredToken): Promise<void> {
    await deps.sessions.replaceGrant(stored.grantId, open(stored).token);
    await deps.store.commit([tokenRow({ ...stored, applied: true }, stored.rev)]);
  }

  async function letGo(grantId: string, actor: string): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const stored = await read(grantId);
      if (!stored) return;
      const holders = await deps.store.list(SETS.leases, {
        where: { index: 'app', value: grantId },
        limit: 1,
      });
      if (holders.length > 0) return;
      const writes: Write[] = [
        { op: 'delete', set: SETS.appTokens, id: grantId, expect: stored.rev },
        endingRow(context, stored, open(stored).token, 0),
      ];
      if (await deps.store.commit(writes)) return destroyTokens(context, actor);
    }
    throw busy('The installation token');
  }

  return {
    obtain,
    letGo,
    async renew(grant, load) {
      const stored = await read(grant.ref.grantId);
      if (stored) await single(grant.ref.grantId, () => swap(grant, stored, load, 'anew'));
    },
    async hold(tokens) {
      const writes: Write[] = [];
      for (const [grantId, tokenId] of tokens) {
        const stored = await read(grantId);
        if (stored?.tokenId !== tokenId) return undefined;
        writes.push(tokenRow({ ...stored, uses: stored.uses + 1 }, stored.rev));
      }
      return writes;
    },
    async grantsOf(secretId) {
      const rows = await deps.store.list(SETS.appTokens, { where: { index: 'secret', value: secretId } });
      return rows.map(({ id }) => id);
    },
    async sweep(actor) {
      for (const row of await deps.store.list(SETS.appTokens))
        if (idle(readToken(row))) await letGo(row.id, actor);
      await destroyTokens(context, actor);
    },
  };

  /** Minted for a lease that never came to be: old enough that none can be under way. */
  function idle({ mintedAt }: StoredToken): boolean {
    return context.now() - mintedAt > 60_000;
  }
}
