// The key that signs checkpoints: Ed25519, made at the first start, sealed in the store. Whoever can only write the
// audit folder cannot sign.

import { createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import { PosternError } from '../common/errors.ts';
import type { Keyring } from '../keyring/keyring.ts';
import type { Store } from '../store/store.ts';
import type { CheckpointSigner } from './checkpoint.ts';

const NAME = { set: 'meta', id: 'audit-checkpoint-key' } as const;

/** @throws PosternError of the store or the keyring; `internal` where two starts raced and neither row is there */
export async function openCheckpointSigner(parts: {
  store: Store;
  keyring: Keyring;
}): Promise<CheckpointSigner> {
  const { store, keyring } = parts;
  const row = (await store.get(NAME.set, NAME.id)) ?? (await create(store, keyring));
  if (!row.sealed)
    throw new PosternError('sealed_data_tampered', 'The audit checkpoint key has lost its sealed part.', {
      remedy:
        'Restore the store from a backup, or delete the row meta/audit-checkpoint-key to start with a new key.',
    });
  const der = keyring.open(NAME, row.sealed);
  const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  der.fill(0);
  return {
    publicKeyPem: createPublicKey(key).export({ type: 'spki', format: 'pem' }).toString(),
    sign: (bytes) => sign(null, bytes, key),
  };
}

async function create(store: Store, keyring: Keyring) {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const der = privateKey.export({ type: 'pkcs8', format: 'der' });
  const sealed = keyring.seal(NAME, der);
  der.fill(0);
  const body = { publicKey: publicKey.export({ type: 'spki', format: 'pem' }).toString() };
  await store.commit([
    { op: 'put', set: NAME.set, row: { id: NAME.id, body, sealed, index: {} }, expect: 0 },
  ]);
  // Whether this commit or another process's was first: one row is there now.
  const row = await store.get(NAME.set, NAME.id);
  if (!row) throw new PosternError('internal', 'The audit checkpoint key could not be stored.');
  return row;
}
