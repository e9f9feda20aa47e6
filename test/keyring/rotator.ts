// A program that rotates the keys of a store onto its primary one and prints a line a batch. Started and killed by the
// test.

import { rotateKeys } from '../../keyring/rotate.ts';
import { openStore } from '../../store/open.ts';
import { cheapKeyring } from './cheap.ts';

const [file = ''] = process.argv.slice(2);
const store = await openStore({ sqlite: file });
const keyring = await cheapKeyring(store);
const { complete } = await rotateKeys(
  { store, keyring },
  {
    actor: 'child',
    batch: 8,
    onProgress: ({ rewrapped }) => process.stdout.write(`${rewrapped}\n`),
  },
);
keyring.close();
await store.close();
process.exitCode = complete ? 0 : 1;
