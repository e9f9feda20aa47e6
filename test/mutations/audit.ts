// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is found and put in is source text
import { breaking, type Mutation } from './mutation.ts';

const VERIFY = ['test/audit/verify.test.ts'];

export const mutations: readonly Mutation[] = [
  ...breaking('audit/verify.ts', VERIFY, [
    ['a record names the one before it', ' && link.prev === last.hash;', ';'],
    ['records are numbered without a gap', 'link.seq === last.seq + 1 && ', ''],
    [
      'a record is what its hash says',
      'link?.intact === true && place.whole',
      'link !== undefined && place.whole',
    ],
    ['a record that is cut in the middle is torn', '=== true && place.whole &&', '=== true &&'],
    [
      'a chain that was rewritten is not the one that was signed for',
      'known !== undefined && known !== link.hash',
      'false',
    ],
    ['a tail that was cut is found', '!found && signedUpTo > walk.last.seq', 'false'],
    ['a checkpoint that cannot be trusted is a break', 'found ??= bad;', ''],
    ['an anchor stands for what was removed and nothing more', 'link.seq <= anchored)', 'true)'],
    ['a key that was kept elsewhere is the one that counts', 'if (pem === undefined) return', 'return'],
    [
      'a checkpoint that was kept elsewhere is looked for',
      'of options.checkpoints ?? []',
      'of [] as string[]',
    ],
  ]),
  ...breaking('audit/checkpoint.ts', VERIFY, [
    ['a checkpoint has a right signature', 'return good ? {', 'return true ? {'],
  ]),
  ...breaking('audit/seal.ts', VERIFY, [
    ['the hash is over every byte of the record', 'intact: actual === digest', 'intact: true'],
    ['the hash names the record before', '"prev":"${tail.hash}"', '"prev":"${GENESIS.hash}"'],
    [
      'time never runs backward',
      'return one < other ? other : one',
      'return one',
      ['test/audit/record.test.ts'],
    ],
  ]),
];
