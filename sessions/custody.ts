// Custody: one sealed row of the set `custody` for each credential of each session, `<session>/<credential>`, deleted
// when the session ends or the grant is taken out. Opened ones are kept for a moment (fresh.ts), known by their row's
// rev, and announced to the redactor.

import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';
import { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import type { Metrics } from '../common/metrics.ts';
import type { Redactor } from '../common/redact.ts';
import type { Keyring } from '../keyring/keyring.ts';
import type { Row, Store, Write } from '../store/store.ts';
import { freshCache } from './fresh.ts';
import type { CredentialRef, Session } from './session.ts';

export const CUSTODY_SET = 'custody';

export interface Custody {
  /** Seals what a new session may spend. */
  /** @param replaceable whether `replace` may find them by the secret's and the grant's id */
  take(
    sessionId: string,
    credentials: readonly (CredentialRef & { readonly secret: Credential })[],
    replaceable: boolean,
  ): Write[];
  /** Deletes what it may spend no longer. */
  release(sessionId: string, credentials: readonly CredentialRef[]): Write[];
  /** @throws PosternError `gone` where it is not there, what `Keyring.open` throws, `store_unavailable` */
  open(sessionId: string, credentialId: string): Promise<Credential>;
  /** Seals `secret` anew in every row of one secret or one grant whose session `counts`. @returns how many */
  replace(
    of: { readonly index: 'secret' | 'grant'; readonly value: string },
    secret: Credential,
    counts: (sessionId: string) => Promise<boolean>,
  ): Promise<number>;
  /** A row changed or went. */
  changed(rowId: string): void;
}

export interface CustodyDeps {
  readonly store: Store;
  readonly keyring: Keyring;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly redactor: Redactor;
  readonly recheck: number;
}

interface Opened {
  readonly rev: number;
  readonly credential: Credential;
}

const MAX_OPENED = 2000;
const MAX_ANNOUNCED = 5000;
const ATTEMPTS = 20;

export function openCustody({ store, keyring, clock, metrics, redactor, recheck }: CustodyDeps): Custody {
  const announce = announcer(redactor);
  const opened = freshCache<Opened>({ read, clock, maxAge: recheck, max: MAX_OPENED });

  async function read(id: string, before: Opened | undefined): Promise<Opened | undefined> {
    const row = await store.get(CUSTODY_SET, id);
    if (!row?.sealed) return undefined;
    if (before?.rev === row.rev) return before;
    const bytes = await openRow(row);
    const credential = new Credential(bytes.toString());
    bytes.fill(0);
    announce(credential);
    return { rev: row.rev, credential };
  }

  /** A key that another process has just made may not be known here yet. */
  async function openRow({ id, sealed }: Row): Promise<Buffer> {
    const name = { set: CUSTODY_SET, id };
    if (!sealed) throw missing();
    try {
      return keyring.open(name, sealed);
    } catch (error) {
      if (!(error instanceof PosternError) || error.code !== 'key_unknown') throw error;
      await keyring.reload();
      return keyring.open(name, sealed);
    }
  }

  function sealedRow(id: string, secret: Credential): Pick<Row, 'id' | 'sealed'> {
    const bytes = Buffer.from(secret.reveal());
    const sealed = keyring.seal({ set: CUSTODY_SET, id }, bytes);
    bytes.fill(0);
    announce(secret);
    return { id, sealed };
  }

  return {
    take: (sessionId, credentials, replaceable) =>
      credentials.map(({ id, secret, secretId, grantId }) => ({
        op: 'put',
        set: CUSTODY_SET,
        row: {
          ...sealedRow(rowId(sessionId, id), secret),
          body: { sessionId, ...(grantId === undefined ? {} : { grantId }) },
          index: {
            session: [sessionId],
            ...(!replaceable || secretId === undefined ? {} : { secret: [secretId] }),
            ...(!replaceable || grantId === undefined ? {} : { grant: [grantId] }),
          },
        },
        expect: 0,
      })),

    release: (sessionId, credentials) =>
      credentials.map(({ id }) => ({ op: 'delete', set: CUSTODY_SET, id: rowId(sessionId, id) })),

    open(sessionId, credentialId) {
      const id = rowId(sessionId, credentialId);
      const known = opened.peek(id);
      if (known) return Promise.resolve(known.credential);
      return opened.load(id).then((found) => {
        if (found) return found.credential;
        metrics.custodyOpenFailure('missing');
        throw missing();
      });
    },

    async replace(of, secret, counts) {
      let replaced = 0;
      const rows = await store.list(CUSTODY_SET, { where: of });
      await Promise.all(
        rows.map(async (first) => {
          if (!(await counts(String(first.body.sessionId)))) return;
          let row: Row | undefined = first;
          for (let attempt = 0; row && attempt < ATTEMPTS; attempt++) {
            const next = { body: row.body, index: row.index, ...sealedRow(row.id, secret) };
            if (await store.commit([{ op: 'put', set: CUSTODY_SET, row: next, expect: row.rev }])) {
              replaced++;
              return;
            }
            row = await store.get(CUSTODY_SET, row.id);
          }
          if (row)
            throw new PosternError('conflict', `the credential ${row.id} keeps changing`, {
              remedy: 'try again',
            });
        }),
      );
      return replaced;
    },

    changed: (id) => opened.drop(id),
  };
}

/** Session ids have no slash, and neither do the ids of their credentials. */
function rowId(sessionId: Session['id'], credentialId: CredentialRef['id']): string {
  return `${sessionId}/${credentialId}`;
}

function missing(): PosternError {
  return new PosternError('gone', 'the credential is no longer in custody');
}

/** The redactor knows the values that were last in use, after their end too: what ended is still written about. */
function announcer(redactor: Redactor): (secret: Credential) => void {
  const values = new LRUCache<string, true>({
    max: MAX_ANNOUNCED,
    dispose: (_, value) => redactor.remove(value),
  });
  return (secret) => {
    const value = secret.reveal();
    // A document of many lines appears whole in no log line; the guard that reads it announces what is in it.
    if (value.includes('\n') || values.get(value)) return;
    values.set(value, true);
    redactor.add(value);
  };
}
