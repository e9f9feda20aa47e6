// From the words of the command line to a command, its flags and its arguments. Pure. Whatever is wrong is wrong usage
// (exit 2), and no word that a person typed is repeated unless it can't be a credential: people paste a token where a
// file name or an id belongs.

import { parseArgs } from 'node:util';
import { PosternError } from '../common/errors.ts';
import type { Command, Flag } from './command.ts';

export const GLOBAL_FLAGS: readonly Flag[] = [
  { name: 'config', value: 'FILE', help: 'the configuration (default: ./postern.yaml where it exists)' },
  { name: 'json', help: 'print JSON' },
  { name: 'help', help: 'say how the command is used' },
];

export const REMOTE_FLAGS: readonly Flag[] = [
  {
    name: 'server',
    value: 'URL',
    help: 'the control API to speak to, in place of the socket (POSTERN_SERVER; with POSTERN_TOKEN_FILE, POSTERN_CA_FILE)',
  },
];

export type Parsed =
  | { readonly kind: 'help'; readonly words: readonly string[] }
  | { readonly kind: 'version' }
  | {
      readonly kind: 'command';
      readonly command: Command;
      readonly args: readonly string[];
      readonly values: ReadonlyMap<string, readonly string[]>;
    };

export function flagsOf(command: Command): readonly Flag[] {
  return [...command.flags, ...(command.remote ? REMOTE_FLAGS : []), ...GLOBAL_FLAGS];
}

/** @throws PosternError `invalid_input` */
export function parse(argv: readonly string[], commands: readonly Command[]): Parsed {
  const { words, rest } = splitWords(argv, commands);
  const command = commands.find((one) => one.words.join(' ') === words.join(' '));
  if (!command) {
    if (rest.some((word) => word === '--help' || word === '-h') || (words.length === 0 && rest[0] === 'help'))
      return { kind: 'help', words };
    if (words.length === 0 && rest[0] === '--version') return { kind: 'version' };
    throw unknownCommand(words, rest, commands);
  }
  const flags = flagsOf(command);
  const options = Object.fromEntries(
    flags.map((flag) => [
      flag.name,
      { type: flag.value ? ('string' as const) : ('boolean' as const), multiple: true },
    ]),
  );
  const { tokens } = parseArgs({
    args: [...rest],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, string[]>();
  const args: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') args.push(token.value);
    if (token.kind !== 'option') continue;
    if (token.rawName === '-h') return { kind: 'help', words: command.words };
    const flag = flags.find((one) => one.name === token.name && token.rawName.startsWith('--'));
    if (!flag) throw unknownFlag(token.rawName, command, flags);
    if (!flag.value && token.value !== undefined) throw usage(command, `--${flag.name}`, 'takes no value');
    if (flag.value && (token.value === undefined || token.value === ''))
      throw usage(command, `--${flag.name}`, `needs a value: ${flag.value}`);
    const given = values.get(flag.name) ?? [];
    values.set(flag.name, [...given, token.value ?? '']);
    if (given.length > 0 && flag.value && !flag.repeat)
      throw usage(command, `--${flag.name}`, 'is given twice');
  }
  if (values.has('help')) return { kind: 'help', words: command.words };
  for (const flag of command.flags)
    if (flag.required && !values.has(flag.name)) throw usage(command, `--${flag.name}`, 'is missing');
  checkArgs(command, args);
  return { kind: 'command', command, args, values };
}

/** The longest run of words at the head, global flags aside, that some command begins with. */
function splitWords(
  argv: readonly string[],
  commands: readonly Command[],
): { words: readonly string[]; rest: readonly string[] } {
  const words: string[] = [];
  const rest: string[] = [];
  let i = 0;
  for (; i < argv.length; i++) {
    const word = argv[i] ?? '';
    if (word === '--config' || word === '--server') rest.push(word, argv[++i] ?? '');
    else if (word === '--json' || /^--(config|server)=/.test(word)) rest.push(word);
    else if (commands.some((one) => [...words, word].every((part, at) => one.words[at] === part)))
      words.push(word);
    else break;
  }
  return { words, rest: [...rest, ...argv.slice(i)] };
}

function checkArgs(command: Command, args: readonly string[]): void {
  const names = command.args ?? [];
  const least = names.filter((name) => !name.startsWith('[')).length;
  if (args.length < least) throw usage(command, names[args.length] ?? '', 'is missing');
  if (args.length > names.length && !names.at(-1)?.endsWith('…'))
    throw usage(
      command,
      names.at(-1) ?? command.words.join(' '),
      names.length === 0
        ? 'takes no argument (a credential is never given as one: write it to a file)'
        : 'is the last argument, and more were given',
    );
}

export function usageLine(command: Command): string {
  const parts = command.flags.map((flag) => {
    const text = `--${flag.name}${flag.value ? ` ${flag.value}` : ''}${flag.repeat ? '…' : ''}`;
    return flag.required ? text : `[${text}]`;
  });
  const { words, args = [] } = command;
  const rest = args.at(-1)?.endsWith('…');
  return ['postern', ...words, ...(rest ? [...parts, '--', ...args] : [...args, ...parts])].join(' ');
}

function usage(command: Command, key: string, problem: string): PosternError {
  return new PosternError('invalid_input', `${key} ${problem}.`, {
    key,
    remedy: `Usage: ${usageLine(command)}`,
  });
}

const SECRET_WORDS = /token|password|passphrase|secret|key|kubeconfig|credential|pat\b/i;

function unknownFlag(raw: string, command: Command, flags: readonly Flag[]): PosternError {
  const name = /^--?[a-z][a-z-]{0,30}$/.test(raw) ? raw : 'one of the flags';
  const file = flags.find((flag) => flag.name.endsWith('-file'));
  if (SECRET_WORDS.test(raw) && file)
    return new PosternError(
      'invalid_input',
      `${name} is not taken: a credential is never given as an argument.`,
      {
        key: name,
        remedy: `Write it to a file and name it with --${file.name}, or give --${file.name} - and pipe it in.`,
      },
    );
  return new PosternError('invalid_input', `${name} is not a flag of this command.`, {
    key: name,
    remedy: `Usage: ${usageLine(command)}`,
  });
}

function unknownCommand(
  words: readonly string[],
  rest: readonly string[],
  commands: readonly Command[],
): PosternError {
  const next = [
    ...new Set(
      commands
        .filter((one) => words.every((word, i) => one.words[i] === word))
        .map((one) => one.words[words.length] ?? ''),
    ),
  ];
  const typed = rest.find((word) => !word.startsWith('-'));
  const shown = typed !== undefined && /^[a-z]{1,16}$/.test(typed) ? ` ${typed}` : '';
  const what =
    typed === undefined
      ? `${['postern', ...words].join(' ')} needs one word more.`
      : `There is no command ${['postern', ...words].join(' ')}${shown || ' with such a word'}.`;
  return new PosternError('invalid_input', what, {
    key: 'command',
    remedy: `After "${['postern', ...words].join(' ')}" comes one of: ${next.join(', ')}. See postern --help.`,
  });
}
