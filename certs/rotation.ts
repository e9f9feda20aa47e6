// Replacing the authority without a sandbox that stops trusting its guard. First the new certificate goes out beside the
// old one, in `ca.pem` and in whatever is delivered from then on, while the old key still signs. Once everything that
// was delivered before has ended (no session outlives sessions.maxTtl), the new key signs. A little later the old
// certificate leaves the bundle. Each step is one commit, and whichever process comes first takes it; a restart in
// between changes nothing.
//
// A key that is in wrong hands can't wait: `now` takes the steps at once, and who trusts only the old one has to be
// given the new bundle.

import type { Clock } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import type { Keyring } from '../keyring/keyring.ts';
import type { Row, Store, Write } from '../store/store.ts';
import { createAuthority } from './issue.ts';
import { AUTHORITY_ROW } from './stored-authority.ts';

const NEXT_ROW = { set: AUTHORITY_ROW.set, id: 'ca-next' } as const;
/** For other processes to serve with the new one: they look once a minute. */
const OLD_STAYS_MS = 10 * 60_000;
const ATTEMPTS = 20;

interface Parts {
  readonly store: Store;
  readonly keyring: Keyring;
  readonly clock: Clock;
}

export interface Rotation {
  /** When the new authority signs; milliseconds. */
  readonly takesOverAt: number;
  /** Whether one was under way already: then this is that one. */
  readonly underWay: boolean;
}

/**
 * Begins a rotation, or tells of the one that is under way.
 * @param overlap how long the new certificate is out before it signs, in milliseconds
 * @param now takes over at once, and leaves the old one out of the bundle
 * @throws PosternError `not_found` where there is no authority yet, `conflict`, as the store and the keyring do
 */
export async function beginRotation(parts: Parts, overlap: number, now: boolean): Promise<Rotation> {
  const { store, keyring, clock } = parts;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const { current, next } = await rows(store);
    if (!current) throw new PosternError('not_found', 'there is no certificate authority yet');
    if (next && !now) return { takesOverAt: Number(next.body.takesOverAt), underWay: true };
    const at = clock.now();
    const made = await createAuthority(at);
    try {
      const certificate = made.pem;
      if (now) {
        const sealed = keyring.seal(AUTHORITY_ROW, made.key);
        const row = {
          id: AUTHORITY_ROW.id,
          body: { certificate, trusted: [], createdAt: at },
          sealed,
          index: {},
        };
        const writes: Write[] = [{ op: 'put', set: AUTHORITY_ROW.set, row, expect: current.rev }];
        // Whoever reads keys may have read that one too.
        if (next) writes.push({ op: 'delete', set: NEXT_ROW.set, id: NEXT_ROW.id, expect: next.rev });
        if (await store.commit(writes)) return { takesOverAt: at, underWay: false };
        continue;
      }
      const takesOverAt = at + overlap;
      const sealed = keyring.seal(NEXT_ROW, made.key);
      const body = { certificate, takesOverAt, createdAt: at };
      const done = await store.commit([
        { op: 'put', set: NEXT_ROW.set, row: { id: NEXT_ROW.id, body, sealed, index: {} }, expect: 0 },
        trusting(current, [...trustedOf(current), certificate]),
      ]);
      if (done) return { takesOverAt, underWay: false };
    } finally {
      made.key.fill(0);
    }
  }
  throw new PosternError('conflict', 'the certificate authority keeps changing', { remedy: 'try again' });
}

/**
 * The steps that are due.
 * @returns whether the authority that signs is another one now
 */
export async function advanceRotation({ store, keyring, clock }: Parts): Promise<boolean> {
  const { current, next } = await rows(store);
  const now = clock.now();
  if (!current) return false;
  if (next?.sealed && now >= Number(next.body.takesOverAt)) {
    const key = keyring.open(NEXT_ROW, next.sealed);
    try {
      const body = {
        certificate: String(next.body.certificate),
        trusted: [String(current.body.certificate)],
        createdAt: Number(next.body.createdAt),
        oldUntil: now + OLD_STAYS_MS,
      };
      const row = { id: AUTHORITY_ROW.id, body, sealed: keyring.seal(AUTHORITY_ROW, key), index: {} };
      return await store.commit([
        { op: 'put', set: AUTHORITY_ROW.set, row, expect: current.rev },
        { op: 'delete', set: NEXT_ROW.set, id: NEXT_ROW.id, expect: next.rev },
      ]);
    } finally {
      key.fill(0);
    }
  }
  const { oldUntil } = current.body;
  if (typeof oldUntil === 'number' && now >= oldUntil)
    await store.commit([trusting(current, next ? [String(next.body.certificate)] : [], true)]);
  return false;
}

async function rows(store: Store): Promise<{ current: Row | undefined; next: Row | undefined }> {
  const [current, next] = await Promise.all([
    store.get(AUTHORITY_ROW.set, AUTHORITY_ROW.id),
    store.get(NEXT_ROW.set, NEXT_ROW.id),
  ]);
  return { current, next };
}

function trustedOf({ body }: Row): string[] {
  return Array.isArray(body.trusted) ? body.trusted.filter((pem) => typeof pem === 'string') : [];
}

/** The same authority with others beside it. */
function trusting({ rev, ...row }: Row, trusted: string[], oldIsGone = false): Write {
  const { oldUntil, ...body } = row.body;
  const kept = oldIsGone || oldUntil === undefined ? {} : { oldUntil };
  return {
    op: 'put',
    set: AUTHORITY_ROW.set,
    row: { ...row, body: { ...body, ...kept, trusted } },
    expect: rev,
  };
}
