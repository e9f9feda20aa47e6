// Who this deployment is: an id and a signing key pair, both made once and kept in the store. Every replica over one
// store is the same deployment; a token of another one has another issuer and another signature.

import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { PosternError } from '../common/errors.ts';
import { newId } from '../common/ids.ts';
import type { Keyring, RowName } from '../keyring/keyring.ts';
import { KEY_SET, type Row, type Store } from '../store/store.ts';

export interface Deployment {
  readonly id: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

const IDENTITY: RowName = { set: 'meta', id: 'deployment' };
const SIGNING_KEY: RowName = { set: KEY_SET, id: 'session-signing' };

/** @throws PosternError what `Keyring.open` throws: without its key a deployment can't serve, and makes no other */
export async function openDeployment(store: Store, keyring: Keyring): Promise<Deployment> {
  const identity = await getOrMake(store, IDENTITY, () => ({ body: { id: newId('dep') } }));
  const signing = await getOrMake(store, SIGNING_KEY, () => {
    const der = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'der' });
    const sealed = keyring.seal(SIGNING_KEY, der);
    der.fill(0);
    return { body: { alg: 'EdDSA' }, sealed };
  });
  const { id } = identity.body;
  if (typeof id !== 'string' || !signing.sealed)
    throw new PosternError('sealed_data_tampered', "the deployment's id or signing key is damaged", {
      key: 'store',
      remedy: 'restore the database from a backup',
    });
  const der = keyring.open(SIGNING_KEY, signing.sealed);
  const privateKey = createPrivateKey({ key: der, type: 'pkcs8', format: 'der' });
  der.fill(0);
  return { id, privateKey, publicKey: createPublicKey(privateKey) };
}

/** Of two processes that start over an empty store, the second takes what the first one made. */
async function getOrMake(
  store: Store,
  { set, id }: RowName,
  make: () => Pick<Row, 'body' | 'sealed'>,
): Promise<Row> {
  const there = await store.get(set, id);
  if (there) return there;
  await store.commit([{ op: 'put', set, row: { id, index: {}, ...make() }, expect: 0 }]);
  const made = await store.get(set, id);
  if (!made) throw new PosternError('store_unavailable', `the store does not keep ${set}/${id}`);
  return made;
}
