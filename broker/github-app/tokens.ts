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
import { readRows } from '../body.ts';
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
  /** Destroys what is due, and lets go of what nobody holds. */
  sweep(actor: string): Promise<void>;
}

export function appTokens(context: Omit<Context, 'appTokens'>): AppTokens {
  const { deps } = context;
  const minting = new Map<string, Promise<AppToken | undefined>>();

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
  function single(
    grant: GrantOf,
    stored: StoredToken | undefined,
    load: () => Promise<AppCredential>,
    scope: 'same' | 'anew',
  ): Promise<AppToken | undefined> {
    const key = `${scope} ${grant.ref.grantId}`;
    const running = minting.get(key);
    if (running) return running;
    const next = swap(grant, stored, load, scope).finally(() => minting.delete(key));
    minting.set(key, next);
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
          const minted = await single(grant, stored, load, 'same');
          if (minted) return minted;
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

  /** `undefined` where another process put a token in place meanwhile; ours is destroyed then. */
  async function swap(
    grant: GrantOf,
    before: StoredToken | undefined,
    load: () => Promise<AppCredential>,
    scope: 'same' | 'anew',
  ): Promise<AppToken | undefined> {
    const app = await load();
    const minted = await mintToken(
      context,
      app,
      grant.constraints,
      scope === 'same' ? before?.scope : undefined,
    );
    const { grantId, secretId, secretName } = grant.ref;
    const tokenId = newId('ght', context.now());
    const bytes = Buffer.from(minted.token.reveal());
    context.announce(tokenId, bytes, () => [minted.token.reveal()]);
    const next: StoredToken = {
      grantId,
      secretId,
      secretName,
      tokenId,
      apiUrl: app.apiUrl,
      scope: minted.scope,
      mintedAt: context.now(),
      expiresAt: minted.expiresAt,
      applied: before === undefined,
      uses: 0,
      rev: 0,
      sealed: deps.keyring.seal({ set: SETS.appTokens, id: grantId }, bytes),
    };
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      // A lease that takes hold moves the row and changes nothing of it that matters here.
      const current = await read(grantId);
      if (current?.tokenId !== before?.tokenId) break;
      const rev = current?.rev ?? 0;
      const old = current && endingRow(context, current, open(current).token, context.now() + GRACE);
      if (!(await deps.store.commit([tokenRow(next, rev), ...(old ? [old] : [])]))) continue;
      if (current) await apply({ ...next, rev: rev + 1 });
      return { tokenId, token: minted.token, expiresAt: minted.expiresAt };
    }
    const ending = endingRow(context, next, minted.token, 0);
    await deps.store.commit([ending]);
    await destroyTokens(context, 'postern', ending.row.id);
    return undefined;
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
      const ending = endingRow(context, stored, open(stored).token, 0);
      const taken: Write = { op: 'delete', set: SETS.appTokens, id: grantId, expect: stored.rev };
      if (await deps.store.commit([taken, ending])) return destroyTokens(context, actor, ending.row.id);
    }
    throw busy('The installation token');
  }

  return {
    obtain,
    letGo,
    async renew(grant, load) {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const stored = await read(grant.ref.grantId);
        if (!stored || (await single(grant, stored, load, 'anew'))) return;
      }
      throw busy('The installation token');
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
    async sweep(actor) {
      for (const stored of readRows(await deps.store.list(SETS.appTokens), readToken, deps.log))
        if (idle(stored)) await letGo(stored.grantId, actor);
      await destroyTokens(context, actor);
    },
  };

  /** Minted for a lease that never came to be: old enough that none can be under way. */
  function idle({ mintedAt }: StoredToken): boolean {
    return context.now() - mintedAt > 60_000;
  }
}
