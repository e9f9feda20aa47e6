// The passphrase of the store, from wherever the configuration says that it is.

import type { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import { resolveValueFrom } from '../common/value-from.ts';
import { hasKeys } from '../keyring/keyring.ts';
import { MIN_PASSPHRASE_LENGTH, readPassphrase } from '../keyring/passphrase.ts';
import type { Store } from '../store/store.ts';
import type { ReadSecret } from './cluster-secret.ts';
import type { Config } from './config.ts';

export interface Opened {
  readonly passphrase: Credential;
  /** For `status`: env, file, key file or Secret. */
  readonly from: string;
}

/** @throws PosternError `key_missing`, `invalid_config` */
export async function openPassphrase(
  config: Pick<Config, 'secretKey' | 'dataDir'>,
  store: Store,
  env: NodeJS.ProcessEnv,
  readSecret: ReadSecret | undefined,
): Promise<Opened> {
  const { secretKey, dataDir } = config;
  if (!secretKey || !('secretKeyRef' in secretKey))
    return readPassphrase(secretKey, { dataDir, storeHasKeys: await hasKeys(store), env });
  const key = 'secretKey';
  const passphrase = await resolveValueFrom(secretKey, { key, ...(readSecret && { readSecret }) }).catch(
    (cause: unknown) => {
      if (!(cause instanceof PosternError)) throw cause;
      throw new PosternError('key_missing', cause.message, { key, cause });
    },
  );
  if ([...passphrase.reveal()].length < MIN_PASSPHRASE_LENGTH)
    throw new PosternError(
      'invalid_config',
      `${key}: the passphrase is shorter than ${MIN_PASSPHRASE_LENGTH} characters.`,
      {
        key,
        remedy: 'Make one with `openssl rand -base64 32`.',
      },
    );
  return { passphrase, from: 'Secret' };
}
