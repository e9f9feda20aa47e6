// A keyring whose keys cost nothing to derive: 128 MiB and a third of a second a test would be too much.

import { Credential } from '../../common/credential.ts';
import { type Keyring, type KeyringOptions, openKeyring } from '../../keyring/keyring.ts';
import type { Store } from '../../store/store.ts';

export const CHEAP = { N: 2, r: 1, p: 1 };

export function cheapKeyring(
  store: Store,
  {
    passphrase = 'correct horse battery',
    ...more
  }: Partial<Omit<KeyringOptions, 'passphrase'>> & { passphrase?: string } = {},
): Promise<Keyring> {
  return openKeyring({ store, passphrase: new Credential(passphrase), cost: CHEAP, ...more });
}
