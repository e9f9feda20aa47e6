// The keyring seals and opens rows. It holds every key-encryption key that the passphrase derives: one is primary and
// seals, any number are active (they open what they sealed), retired ones are remembered by name only.
//
// Four things that can be wrong ask four things of an operator, so they are four errors: `key_wrong` (the passphrase is
// another one; the data is sound), `key_unknown` (the row came from another store), `key_retired` (the key was destroyed;
// mint the secret again), `sealed_data_tampered` (the row was changed or moved; restore it). None ever opens anything.
//
// Seal and open are synchronous and take microseconds; deriving takes a third of a second and happens when the keyring
// opens or hears of a new key, never within a request. Rotation and retirement are in rotate.ts and retire.ts.

import type { KeyObject } from 'node:crypto';
import { type Clock, systemClock } from '../common/clock.ts';
import type { Credential } from '../common/credential.ts';
import { type ErrorCode, PosternError } from '../common/errors.ts';
import { type Metrics, noMetrics, type OpenFailure } from '../common/metrics.ts';
import { KEY_SET, type Store } from '../store/store.ts';
import * as envelopes from './envelope.ts';
import { type Envelope, NotAuthentic, parseEnvelope, type RowName } from './envelope.ts';
import { deriveKey, SCRYPT_COST, type ScryptCost } from './kdf.ts';
import {
  checkHolds,
  isRetired,
  KEK_ROWS,
  type Kek,
  makeCheck,
  newKek,
  PRIMARY_ROW,
  promoteWrites,
  type RetiredKek,
  readKekRow,
  readPrimaryRow,
} from './kek.ts';

export type { Envelope, RowName } from './envelope.ts';

export interface KeyInfo {
  readonly id: string;
  readonly state: 'primary' | 'active' | 'retired';
  /** Whether the passphrase derives it. */
  readonly openable: boolean;
  readonly createdAt: number;
  readonly createdBy: string;
  readonly retiredAt?: number;
  readonly retiredBy?: string;
}

/** Seals and opens rows. Opening fails with key_wrong, key_unknown, key_retired or sealed_data_tampered. */
export interface Keyring {
  readonly primaryId: string;
  seal(name: RowName, plaintext: Uint8Array): Envelope;
  /** The caller zeroes the answer (`fill(0)`) when it is done with it. */
  open(name: RowName, envelope: Envelope): Buffer;
  /** The same payload under the primary key; fails as `open` does. */
  rewrap(name: RowName, envelope: Envelope): Envelope;
  /** Makes a key that seals from now on. The others keep opening what they sealed. */
  addKey(actor: string): Promise<KeyInfo>;
  /** Every key that there ever was, oldest first. */
  list(): Promise<KeyInfo[]>;
  /** Takes over what other processes did to the keys. Where the store can't be read, what is known stays. */
  reload(): Promise<void>;
  close(): void;
}

export interface KeyringOptions {
  readonly store: Store;
  readonly passphrase: Credential;
  readonly clock?: Clock;
  readonly metrics?: Metrics;
  /** `false`: an empty store is `key_missing` and stays empty; for commands that only look. */
  readonly create?: boolean;
  /** Of new keys. Tests lower it; nothing else has a reason to. */
  readonly cost?: ScryptCost;
}

/** How late another process's new key can be heard of when its notification is lost. */
const RELOAD_MS = 30_000;
const ATTEMPTS = 10;

interface State {
  readonly keks: ReadonlyMap<string, { readonly kek: Kek; readonly key: KeyObject | undefined }>;
  readonly retired: ReadonlyMap<string, RetiredKek>;
  readonly primary: { readonly id: string; readonly key: KeyObject };
}

/** @throws PosternError `key_wrong`, `key_unknown`, `key_missing`, `sealed_data_tampered`, `store_unavailable` */
export async function openKeyring(options: KeyringOptions): Promise<Keyring> {
  const { store, passphrase, clock = systemClock, metrics = noMetrics, cost = SCRYPT_COST } = options;
  let state = await load();
  let reloading: Promise<void> | undefined;

  /** Reads the set and derives what is new. Makes the first key of an empty store. */
  async function load(known?: State): Promise<State> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const [rows, pointer] = await Promise.all([
        store.list(KEY_SET, { where: KEK_ROWS }),
        store.get(PRIMARY_ROW.set, PRIMARY_ROW.id),
      ]);
      const primary = readPrimaryRow(pointer);
      if (rows.length === 0 && primary.rev === 0) {
        await mint('postern', 0);
        continue;
      }
      const keks = new Map<string, { kek: Kek; key: KeyObject | undefined }>();
      const retired = new Map<string, RetiredKek>();
      for (const row of rows) {
        const kek = readKekRow(row);
        if (!kek) continue; // damaged: what it sealed answers `key_unknown`
        if (isRetired(kek)) retired.set(kek.id, kek);
        else keks.set(kek.id, { kek, key: known?.keks.get(kek.id)?.key ?? (await derive(kek)) });
      }
      const current = keks.get(primary.kek ?? '');
      if (!current) throw damaged();
      if (!current.key) throw wrongPassphrase();
      return { keks, retired, primary: { id: current.kek.id, key: current.key } };
    }
    throw busy();
  }

  // One after the other: each takes 128 MiB while it runs.
  async function derive(kek: Kek): Promise<KeyObject | undefined> {
    const key = await deriveKey(passphrase, kek.salt, kek.cost);
    return checkHolds(key, kek) ? key : undefined;
  }

  /** @returns the key's id, or `undefined` where another process changed the primary meanwhile */
  async function mint(actor: string, primaryRev: number): Promise<string | undefined> {
    if (primaryRev === 0) {
      if (options.create === false)
        throw new PosternError('key_missing', 'the store has no key yet', {
          remedy: 'start `postern serve` once; it makes the first key',
        });
      if (Object.keys(await store.countSealed()).length > 0) throw keysLost();
    }
    const kek = newKek(actor, cost, clock.now());
    const key = await deriveKey(passphrase, kek.salt, cost);
    const done = await store.commit(promoteWrites({ ...kek, check: makeCheck(key, kek.id) }, primaryRev));
    return done ? kek.id : undefined;
  }

  function reload(): Promise<void> {
    // A request during a reload waits for one that starts after it, or it could miss what it was told of.
    const next = (reloading ?? Promise.resolve()).then(async () => {
      state = await load(state);
    });
    const settled = next.catch(() => {});
    reloading = settled;
    return next;
  }

  function info(kek: Kek | RetiredKek): KeyInfo {
    const { id, createdAt, createdBy } = kek;
    if (isRetired(kek)) {
      const { retiredAt, retiredBy } = kek;
      return { id, state: 'retired', openable: false, createdAt, createdBy, retiredAt, retiredBy };
    }
    const openable = state.keks.get(id)?.key !== undefined;
    return { id, state: id === state.primary.id ? 'primary' : 'active', openable, createdAt, createdBy };
  }

  /** Runs `use` with the key of an envelope that can be read, and turns what fails into its error. */
  function withKey<T>(name: RowName, value: Envelope, use: (key: KeyObject, envelope: Envelope) => T): T {
    const envelope = parseEnvelope(value);
    if (!envelope) throw failed(name, 'tampered', '');
    const entry = state.keks.get(envelope.kek);
    if (!entry)
      throw failed(name, state.retired.has(envelope.kek) ? 'retired_key' : 'unknown_key', envelope.kek);
    if (!entry.key) throw failed(name, 'wrong_key', envelope.kek);
    try {
      return use(entry.key, envelope);
    } catch (error) {
      if (error instanceof NotAuthentic) throw failed(name, 'tampered', envelope.kek);
      throw error;
    }
  }

  function failed({ set, id }: RowName, failure: Exclude<OpenFailure, 'missing'>, kek: string): PosternError {
    metrics.custodyOpenFailure(failure);
    const { code, why, remedy } = FAILURES[failure];
    return new PosternError(code, `the row ${id} of ${set} does not open: ${why(kek)}`, { remedy });
  }

  const stopWatching = store.watch((changes) => {
    const ours = changes.some(
      ({ set, id }) => set === KEY_SET && (id === PRIMARY_ROW.id || id.startsWith('retired/')),
    );
    if (ours) reload().catch(() => {}); // the timer tries again
  });
  const timer = setInterval(() => void reload().catch(() => {}), RELOAD_MS).unref();

  return {
    get primaryId() {
      return state.primary.id;
    },

    seal: (name, plaintext) => envelopes.seal(state.primary.key, state.primary.id, name, plaintext),

    open: (name, envelope) => withKey(name, envelope, (key, parsed) => envelopes.open(key, name, parsed)),

    rewrap(name, envelope) {
      const { id, key: to } = state.primary;
      return withKey(name, envelope, (from, parsed) => envelopes.rewrap(from, to, id, name, parsed));
    },

    async addKey(actor) {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const { rev } = readPrimaryRow(await store.get(PRIMARY_ROW.set, PRIMARY_ROW.id));
        const id = await mint(actor, rev);
        if (id === undefined) continue;
        await reload();
        const added = state.keks.get(id);
        if (added) return info(added.kek);
      }
      throw busy();
    },

    async list() {
      await reload();
      const all = [...state.retired.values(), ...[...state.keks.values()].map(({ kek }) => kek)];
      return all.sort((a, b) => (a.id < b.id ? -1 : 1)).map(info);
    },

    reload,

    close() {
      stopWatching();
      clearInterval(timer);
    },
  };
}

/** Whether a store ever had a key; without opening one. */
export async function hasKeys(store: Store): Promise<boolean> {
  return (await store.get(PRIMARY_ROW.set, PRIMARY_ROW.id)) !== undefined;
}

const FAILURES: {
  [failure in Exclude<OpenFailure, 'missing'>]: {
    code: ErrorCode;
    why: (kek: string) => string;
    remedy: string;
  };
} = {
  wrong_key: {
    code: 'key_wrong',
    why: (kek) => `the passphrase does not derive its key ${kek}`,
    remedy: 'start with the passphrase that sealed it (`secretKey`); the data itself is sound',
  },
  unknown_key: {
    code: 'key_unknown',
    why: (kek) => `the store has no key ${kek}`,
    remedy: 'the row comes from another store or a partial restore: restore the database as a whole',
  },
  retired_key: {
    code: 'key_retired',
    why: (kek) => `its key ${kek} was retired`,
    remedy: 'the payload is gone for good: delete the row and mint the secret again',
  },
  tampered: {
    code: 'sealed_data_tampered',
    why: () => 'it was changed, or copied from another row',
    remedy:
      'restore the row from a backup, or delete it and mint the secret again; find out who writes to the database',
  },
};

function wrongPassphrase(): PosternError {
  return new PosternError('key_wrong', 'the passphrase is not the one that this store was made with', {
    key: 'secretKey',
    remedy: 'give the passphrase, or the key file, that it was made with; nothing was changed',
  });
}

function keysLost(): PosternError {
  return new PosternError('key_unknown', 'the store holds sealed rows and none of the keys that they name', {
    key: 'store',
    remedy: 'restore the database as a whole, its keys included',
  });
}

function damaged(): PosternError {
  return new PosternError('sealed_data_tampered', 'the row of the primary key was changed or is gone', {
    key: 'store',
    remedy: 'restore the database as a whole from a backup',
  });
}

function busy(): PosternError {
  return new PosternError('conflict', 'other processes keep changing the keys', { remedy: 'try again' });
}
