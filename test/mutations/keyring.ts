// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is found and put in is source text
import { breaking, type Mutation } from './mutation.ts';

const ENVELOPE = ['test/keyring/envelope.test.ts'];
const KEYRING = ['test/keyring/keyring.test.ts'];
const ROTATE = ['test/keyring/rotate.test.ts'];
const KDF = ['test/keyring/kdf.test.ts'];
const PASSPHRASE = ['test/keyring/passphrase.test.ts'];

export const mutations: readonly Mutation[] = [
  ...breaking('keyring/envelope.ts', ENVELOPE, [
    [
      'a payload that was moved to another row does not open',
      'Buffer.from(`${set}/${id}`)',
      'Buffer.from(set)',
    ],
    [
      'a payload that was moved to another set does not open',
      'Buffer.from(`${set}/${id}`)',
      'Buffer.from(id)',
    ],
    ['two places have no one spelling', "set === '' || set.includes('/')", 'false'],
    [
      'a damaged row is not carried on by a rotation',
      'decrypt(dek, envelope.iv, envelope.data, aad).fill(0);',
      '',
    ],
    ['bytes are read in one spelling', "return bytes.toString('base64url') === value", 'return true'],
    [
      'an envelope has its fields and no other',
      'if (Object.keys(value).sort().join() !== FIELDS) return undefined;',
      '',
    ],
  ]),
  ...breaking('keyring/kdf.ts', KDF, [
    ['a changed row cannot ask for all the memory', 'memory({ N, r, p }) <= MAX_MEMORY', 'true'],
    ['one passphrase is one, however its accents were typed', ".normalize('NFC')", ''],
  ]),
  ...breaking('keyring/kek.ts', KEYRING, [
    [
      'a wrong passphrase is noticed',
      'instanceof NotAuthentic) return false',
      'instanceof NotAuthentic) return true',
    ],
    ['two new keys at once leave one primary', 'row: primary, expect: primaryRev', 'row: primary'],
    [
      'retiring destroys the salt',
      "    { op: 'delete', set: KEY_SET, id: kek.id, expect: kek.rev },\n",
      '',
      ROTATE,
    ],
  ]),
  ...breaking('keyring/keyring.ts', KEYRING, [
    [
      'a wrong passphrase is key_wrong',
      'if (!current.key) throw wrongPassphrase();',
      'if (!current.key) throw damaged();',
    ],
    [
      'a primary key that was taken out is noticed',
      'if (!current) throw damaged();',
      'if (!current) throw keysLost();',
    ],
    [
      'sealed rows without keys are not given a new key',
      'if (Object.keys(await store.countSealed()).length > 0) throw keysLost();',
      '',
    ],
    ['who only looks makes no key', 'if (options.create === false)', 'if (false)'],
    [
      'a retired key is told from an unknown one',
      "? 'retired_key' : 'unknown_key'",
      "? 'unknown_key' : 'unknown_key'",
      ROTATE,
    ],
    [
      'an unknown key is told from a retired one',
      "? 'retired_key' : 'unknown_key'",
      "? 'retired_key' : 'retired_key'",
    ],
    [
      'a key of another passphrase is told from damage',
      "throw failed(name, 'wrong_key'",
      "throw failed(name, 'tampered'",
    ],
    [
      'damage is told from a wrong passphrase',
      "throw failed(name, 'tampered', envelope.kek)",
      "throw failed(name, 'wrong_key', envelope.kek)",
    ],
  ]),
  ...breaking('keyring/retire.ts', ROTATE, [
    ['the primary key is not retired', 'if (primary.kek === id) throw isPrimary(id);', ''],
    [
      'a key that rows need is not retired, and they are counted',
      'await refuseWhileUsed(store, id);\n    const done',
      'const done',
    ],
  ]),
  ...breaking('keyring/rotate.ts', ROTATE, [
    [
      'a rotation takes nothing back that was written meanwhile',
      'row: { ...row, sealed }, expect: rev }',
      'row: { ...row, sealed } }',
    ],
    ['a dry run writes nothing', 'dryRun || (await store.commit', '(await store.commit'],
    ['a rotation that left a row says so', '(await stale()).length === 0', 'true'],
    ['every row that is not under the primary key is moved', 'kek !== keyring.primaryId', 'false'],
  ]),
  ...breaking('keyring/passphrase.ts', PASSPHRASE, [
    ['a passphrase has a least length', '>= MIN_PASSPHRASE_LENGTH', '>= 1'],
    [
      'a lost key file is not replaced by a new one',
      '(storeHasKeys ? undefined : await makeKeyFile(path))',
      '(await makeKeyFile(path))',
    ],
    ['the key file is for its owner alone', 'mode: 0o600', 'mode: 0o644'],
  ]),
  ...breaking('store/sqlite-db.ts', ROTATE, [
    [
      'nothing is stored under a key that was retired',
      '=== undefined) return keyGone',
      '=== null) return keyGone',
    ],
    ['a key goes only when no row needs it', 'sealsAny.get(write.id)) return', 'false) return'],
  ]),
];
