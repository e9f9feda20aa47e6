// The key that seals TLS session tickets, the same for every server, worker and replica, so that a client resumes its
// session wherever it comes out: 48 random bytes (name, HMAC key, AES key) sealed in the store.
//
// Whoever holds it can read TLS 1.2 sessions that were resumed under it, so it is replaced once a day and the old one
// is gone. Node takes one key at a time: a ticket of yesterday costs its client a full handshake, nothing else; the
// same while one replica has heard of the new key and another has not, at most the interval of the checks.

import { randomBytes } from 'node:crypto';
import type { Clock } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import type { Log } from '../common/log.ts';
import type { Keyring } from '../keyring/keyring.ts';
import type { Row, Store } from '../store/store.ts';

const NAME = { set: 'certs', id: 'ticket-keys' } as const;
const LIFE = 86_400_000;
const ATTEMPTS = 10;

export interface TicketKeys {
  current(): Buffer;
  onChange(listener: () => void): () => void;
  /** Takes over a newer key, or makes one where this one is a day old. */
  check(): Promise<void>;
}

export interface TicketKeysOptions {
  readonly store: Store;
  readonly keyring: Keyring;
  readonly clock: Clock;
  readonly log: Log;
}

/** @throws PosternError as `Keyring.open` does, `store_unavailable` */
export async function openTicketKeys(options: TicketKeysOptions): Promise<TicketKeys> {
  const { clock, log } = options;
  const listeners = new Set<() => void>();
  let { rev, key } = await loadOrReplace(options);
  return {
    current: () => key,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async check() {
      try {
        const next = await loadOrReplace(options, { rev, key });
        if (next.rev === rev) return;
        ({ rev, key } = next);
        for (const listener of listeners) listener();
        log.debug({ at: clock.now() }, 'new TLS ticket keys');
      } catch (error) {
        log.warn({ err: error }, 'the TLS ticket keys could not be renewed; the ones in use stay');
      }
    },
  };
}

interface Loaded {
  readonly rev: number;
  readonly key: Buffer;
}

async function loadOrReplace(options: TicketKeysOptions, known?: Loaded): Promise<Loaded> {
  const { store, keyring, clock } = options;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const row = await store.get(NAME.set, NAME.id);
    const age = row === undefined ? Number.POSITIVE_INFINITY : clock.now() - createdAt(row);
    // An age below zero is a clock that was set back: the key is as good as new.
    if (row?.sealed && age < LIFE)
      return row.rev === known?.rev ? known : { rev: row.rev, key: keyring.open(NAME, row.sealed) };
    const key = randomBytes(48);
    const body = { createdAt: clock.now() };
    const next = { id: NAME.id, body, sealed: keyring.seal(NAME, key), index: {} };
    const rev = row?.rev ?? 0;
    if (await store.commit([{ op: 'put', set: NAME.set, row: next, expect: rev }]))
      return { rev: rev + 1, key };
  }
  throw new PosternError(
    'store_unavailable',
    'the TLS ticket keys change faster than they can be read; try again',
  );
}

function createdAt(row: Row): number {
  return typeof row.body.createdAt === 'number' ? row.body.createdAt : 0;
}
