// Whether `serve` could open what is sealed: it opens the store and the keyring as `serve` does, makes nothing and tells
// what goes wrong in the same words. Where a server holds the folder it has opened both, and they are left alone.

import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { PosternError } from '../../common/errors.ts';
import { hasKeys, openKeyring } from '../../keyring/keyring.ts';
import { readPassphrase } from '../../keyring/passphrase.ts';
import { openStore } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import { clusterSecrets } from '../cluster-secret.ts';
import type { Config } from '../config.ts';
import { lockHolder } from '../lock.ts';
import { openPassphrase } from '../passphrase.ts';
import { type Check, fail, ok, warn } from './check.ts';

export async function storeChecks(config: Config, env: NodeJS.ProcessEnv): Promise<Check[]> {
  return [...(await keyFile(config)), ...(await sealed(config, env))];
}

/** Our own key file; one that the configuration names is looked at with the other files. */
async function keyFile({ secretKey, dataDir }: Config): Promise<Check[]> {
  if (secretKey) return [];
  const path = join(dataDir, 'secret.key');
  const found = await stat(path).catch(() => undefined);
  return !found || (found.mode & 0o077) === 0
    ? []
    : [warn('secretKey', `${path} is open to other users.`, `chmod 600 ${path}`)];
}

async function sealed(config: Config, env: NodeJS.ProcessEnv): Promise<Check[]> {
  const { dataDir, secretKey, store: where } = config;
  if (!('sqlite' in where) || lockHolder(dataDir)) return [];
  let store: Store | undefined;
  try {
    const there = await stat(where.sqlite).catch(() => undefined);
    store = there && (await openStore(where));
    if (!store || !(await hasKeys(store))) {
      // A first start: the passphrase has to be there all the same; a key file would be made.
      if (secretKey && !('secretKeyRef' in secretKey))
        await readPassphrase(secretKey, { dataDir, storeHasKeys: true, env });
      return [];
    }
    const { passphrase } = await openPassphrase(config, store, env, clusterSecrets(env));
    const keyring = await openKeyring({ store, passphrase, create: false });
    keyring.close();
    return [ok('store', 'the passphrase opens it')];
  } catch (error) {
    if (!(error instanceof PosternError)) throw error;
    const name = error.key ?? 'store';
    const message = error.message.startsWith(`${name}: `)
      ? error.message.slice(name.length + 2)
      : error.message;
    return [fail(name, message, error.remedy ?? 'postern serve would say the same.')];
  } finally {
    await store?.close();
  }
}
