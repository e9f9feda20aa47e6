// The authority in the store: its certificate for everyone to read, its key sealed. Made by whoever comes first; of
// replicas that start at once one wins the row, and the others take what it wrote.

import type { Clock } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import type { Keyring } from '../keyring/keyring.ts';
import type { Row, Store } from '../store/store.ts';
import { type Authority, createAuthority, readAuthority } from './issue.ts';

export const AUTHORITY_ROW = { set: 'certs', id: 'ca' } as const;

export interface StoredAuthority extends Authority {
  readonly rev: number;
  /** PEM: this authority, then others that clients are to trust while one replaces the other. */
  readonly bundle: string;
  /** Whether this call made it. */
  readonly created: boolean;
}

/** @throws PosternError as `Keyring.open` does, `store_unavailable`, `sealed_data_tampered` */
export async function loadAuthority(options: {
  readonly store: Store;
  readonly keyring: Keyring;
  readonly clock: Clock;
}): Promise<StoredAuthority> {
  const { store, keyring, clock } = options;
  const row = await store.get(AUTHORITY_ROW.set, AUTHORITY_ROW.id);
  if (row) return open(row, keyring, false);

  const made = await createAuthority(clock.now());
  try {
    const body = { certificate: made.pem, trusted: [], createdAt: clock.now() };
    const sealed = keyring.seal(AUTHORITY_ROW, made.key);
    const put = { id: AUTHORITY_ROW.id, body, sealed, index: {} };
    const created = await store.commit([{ op: 'put', set: AUTHORITY_ROW.set, row: put, expect: 0 }]);
    const written = await store.get(AUTHORITY_ROW.set, AUTHORITY_ROW.id);
    if (written) return await open(written, keyring, created);
  } finally {
    made.key.fill(0);
  }
  throw new PosternError(
    'store_unavailable',
    'the certificate authority was written and is not there; try again',
  );
}

async function open(row: Row, keyring: Keyring, created: boolean): Promise<StoredAuthority> {
  const { certificate, trusted } = row.body;
  if (typeof certificate !== 'string' || !row.sealed) throw damaged();
  const key = keyring.open(AUTHORITY_ROW, row.sealed);
  try {
    const authority = await readAuthority(certificate, new Uint8Array(key));
    const others = Array.isArray(trusted) ? trusted.filter((pem) => typeof pem === 'string') : [];
    return { ...authority, rev: row.rev, bundle: [certificate, ...others].join(''), created };
  } catch (cause) {
    throw damaged(cause);
  } finally {
    key.fill(0);
  }
}

function damaged(cause?: unknown): PosternError {
  const remedy = 'restore the store from a backup';
  return new PosternError('sealed_data_tampered', `the certificate authority cannot be read; ${remedy}`, {
    remedy,
    cause,
  });
}
