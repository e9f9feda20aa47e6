// How access ends. In memory first, so that in this step requests are refused and what is under way is told to stop;
// then in the store; done when both are. A store that fails does not give access back: the mark in memory stays, the
// caller hears of the failure, and the sweep writes it down when the store works again.

import { PosternError } from '../common/errors.ts';
import type { Write } from '../store/store.ts';
import type { Core, Mark } from './core.ts';
import {
  hasEnded,
  putSession,
  readSession,
  SESSION_INDEX,
  SESSION_SET,
  type SessionRecord,
} from './record.ts';
import type { Session } from './session.ts';

const ATTEMPTS = 50;

export interface Change {
  readonly next: SessionRecord;
  /** In the same commit. */
  readonly writes?: readonly Write[];
}

/** Reads, decides and writes a session until no other writer comes between. `decide` may say that there is nothing to do. */
export async function changeSession(
  { store }: Pick<Core, 'store'>,
  id: string,
  decide: (record: SessionRecord) => Change | undefined,
): Promise<{ record: SessionRecord; changed: boolean } | undefined> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const row = await store.get(SESSION_SET, id);
    if (!row) return undefined;
    const record = readSession(row);
    const change = decide(record);
    if (!change) return { record, changed: false };
    if (await store.commit([putSession(change.next), ...(change.writes ?? [])])) {
      return { record: { ...change.next, rev: record.rev + 1 }, changed: true };
    }
  }
  throw new PosternError('conflict', `the session ${id} keeps changing`, { remedy: 'try again' });
}

export async function revoke(core: Core, id: string, because: string): Promise<Session | undefined> {
  return (await revokeOnce(core, id, because))?.session;
}

async function revokeOnce(
  core: Core,
  id: string,
  because: string,
): Promise<{ session: Session; changed: boolean } | undefined> {
  const startedAt = performance.now();
  const mark: Mark = core.marks.revoked.get(id) ?? { because, stored: false };
  core.marks.revoked.set(id, mark);
  const [stored] = await Promise.allSettled([
    storeRevocation(core, id, mark.because),
    core.live.end(id, 'revoked'),
  ]);
  if (stored.status === 'rejected') throw stored.reason;
  mark.stored = true;
  core.sessions.drop(id);
  core.open.delete(id);
  const done = stored.value;
  if (done?.record.session.revokedAt === undefined) core.marks.revoked.delete(id); // never was, or was past its time
  if (!done) return undefined;
  core.metrics.revocation((performance.now() - startedAt) / 1000);
  return { session: done.record.session, changed: done.changed };
}

async function storeRevocation(core: Core, id: string, because: string) {
  const now = core.clock.now();
  const done = await changeSession(core, id, (record) => {
    const { session } = record;
    if (hasEnded(record)) return undefined;
    const writes = core.custody.release(id, session.credentials);
    if (now >= session.expiresAt) return { next: { ...record, closedAt: now }, writes };
    return { next: { ...record, session: { ...session, revokedAt: now, revokedBecause: because } }, writes };
  });
  if (done?.changed) {
    const { session, closedAt } = done.record;
    if (closedAt === undefined) core.emit({ what: 'revoked', session, because });
    else core.emit({ what: 'expired', session });
  }
  return done;
}

export async function revokeLease(core: Core, leaseId: string, because: string): Promise<Session[]> {
  // Those that are known here end before the store was asked which there are.
  const known = [...core.open].filter(([, session]) => session.leaseId === leaseId).map(([id]) => id);
  const first = Promise.allSettled(known.map((id) => revokeOnce(core, id, because)));
  const { rows, done } = await core.leases.revoke(leaseId, async () => {
    const listed = core.store.list(SESSION_SET, { where: { index: SESSION_INDEX.lease, value: leaseId } });
    const [rows] = await Promise.allSettled([listed, first]);
    const rest =
      rows.status === 'fulfilled' ? rows.value.map(({ id }) => id).filter((id) => !known.includes(id)) : [];
    const others = await Promise.allSettled(rest.map((id) => revokeOnce(core, id, because)));
    return { rows, done: [...(await first), ...others] };
  });
  const failed = [rows, ...done].find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
  return done.flatMap((one) => (one.status === 'fulfilled' && one.value?.changed ? [one.value.session] : []));
}

export async function removeGrant(
  core: Core,
  id: string,
  grantId: string,
  because: string,
): Promise<Session | undefined> {
  const marked = core.marks.removed.get(id) ?? new Map<string, Mark>();
  const mark: Mark = marked.get(grantId) ?? { because, stored: false };
  core.marks.removed.set(id, marked.set(grantId, mark));
  const [stored] = await Promise.allSettled([
    changeSession(core, id, (record) => {
      const { session } = record;
      const gone = session.credentials.filter((credential) => credential.grantId === grantId);
      if (hasEnded(record) || gone.length === 0) return undefined;
      const credentials = session.credentials.filter((credential) => !gone.includes(credential));
      return {
        next: { ...record, session: { ...session, credentials } },
        writes: core.custody.release(id, gone),
      };
    }),
    core.live.end(id, 'grant_removed', grantId),
  ]);
  if (stored.status === 'rejected') throw stored.reason;
  mark.stored = true;
  core.sessions.drop(id);
  if (!stored.value) return undefined;
  const { record, changed } = stored.value;
  if (changed) core.emit({ what: 'grant_removed', session: record.session, because, grantId });
  if (record.session.credentials.length === 0 && !hasEnded(record)) return revoke(core, id, because);
  return record.session;
}

/** Ends a session whose time is over, unless it was renewed meanwhile. */
export async function closeExpired(core: Core, id: string): Promise<void> {
  const done = await changeSession(core, id, (record) => {
    const now = core.clock.now();
    if (hasEnded(record) || now < record.session.expiresAt) return undefined;
    return {
      next: { ...record, closedAt: now },
      writes: core.custody.release(id, record.session.credentials),
    };
  });
  if (!done?.changed) return;
  core.open.delete(id);
  core.emit({ what: 'expired', session: done.record.session });
}

/** Writes down what could not be written when it happened, and forgets what is written. */
export async function settleMarks(core: Core): Promise<void> {
  const { revoked, removed } = core.marks;
  for (const [id, mark] of revoked) {
    if (mark.stored) revoked.delete(id);
    else await revoke(core, id, mark.because);
  }
  for (const [id, grants] of removed) {
    for (const [grantId, mark] of grants) {
      if (mark.stored) grants.delete(grantId);
      else await removeGrant(core, id, grantId, mark.because);
    }
    if (grants.size === 0) removed.delete(id);
  }
}
