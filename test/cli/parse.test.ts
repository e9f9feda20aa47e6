import { describe, expect, test } from 'vitest';
import { commands } from '../../cli/commands.ts';
import { helpText } from '../../cli/help.ts';
import { readLabels } from '../../cli/labels.ts';
import { printable, table } from '../../cli/output.ts';
import { flagsOf, parse } from '../../cli/parse.ts';

const read = (line: string) => parse(line.split(' ').filter(Boolean), commands);
const issue = 'session issue git --upstream https://x --token-file f --repo a/b --lease L';
const error = (line: string): Error & { code?: string; key?: string; remedy?: string } => {
  try {
    read(line);
  } catch (thrown) {
    return thrown as Error;
  }
  throw new Error(`${line} was taken`);
};

describe('a command line', () => {
  test('is a command, its flags and its arguments, with global flags anywhere', () => {
    const parsed = read(`--config c.yaml --json session --server https://s renew ID1 --ttl 15m`);
    if (parsed.kind !== 'command') throw new Error('no command');
    expect(parsed.command.words).toEqual(['session', 'renew']);
    expect(parsed.args).toEqual(['ID1']);
    expect(Object.fromEntries(parsed.values)).toEqual({
      config: ['c.yaml'],
      json: [''],
      server: ['https://s'],
      ttl: ['15m'],
    });
  });

  test('takes repeated flags, =, a bare dash and words behind --', () => {
    const parsed = read(`${issue.replace('--token-file f', '--token-file -')} --repo=c/* --allow-delete`);
    if (parsed.kind !== 'command') throw new Error('no command');
    expect(parsed.values.get('repo')).toEqual(['a/b', 'c/*']);
    expect(parsed.values.get('token-file')).toEqual(['-']);
    const explained = read('explain git --session S -- --odd');
    expect(explained).toMatchObject({ kind: 'command', args: ['--odd'] });
  });

  test.each(['--help', 'help', 'session --help', 'session issue -h', `${issue} --help`, 'serve --help'])(
    '%s asks for help',
    (line) => expect(read(line).kind).toBe('help'),
  );

  test.each([
    ['', 'needs one word more'],
    ['session', 'needs one word more'],
    ['session issue', 'needs one word more'],
    ['sesion list', 'no command postern sesion'],
    ['session lst', 'no command postern session lst'],
    ['session show', 'ID is missing'],
    ['session show a b', 'more were given'],
    ['serve now', 'takes no argument'],
    ['session list --lease', 'needs a value'],
    ['session list --lease= ', 'needs a value'],
    ['session list --lease a --lease b', 'given twice'],
    ['session list --json=yes', 'takes no value'],
    ['session list --colour', '--colour is not a flag'],
    ['session list -l', 'is not a flag'],
    [issue.replace('--lease L', ''), '--lease is missing'],
    [issue.replace('--repo a/b', ''), '--repo is missing'],
    ['serve --server https://x', '--server is not a flag'],
  ])('%j is wrong usage: %s', (line, message) => {
    expect(error(line).message).toContain(message);
    expect(error(line).code).toBe('invalid_input');
  });
});

describe('a credential as an argument is refused and not repeated', () => {
  const token = 'ghp_0123456789abcdefghijABCDEFGHIJ012345';
  test.each([
    `${issue} --token ${token}`,
    `${issue} --token=${token}`,
    `${issue} --password ${token}`,
    `${issue} ${token}`,
    `${issue} --${token}`,
    `${issue} -p${token}`,
    `${token}`,
    `session ${token}`,
    `session issue ${token}`,
    `session issue git --token ${token}`,
    `session show a ${token}`,
  ])('%s', (line) => {
    const { message, key, remedy } = error(line);
    expect(`${message} ${key} ${remedy}`).not.toContain('ghp_');
  });

  test('the remedy names the flag that reads a file', () => {
    expect(error(`${issue} --token ${token}`).remedy).toContain('--token-file -');
  });
});

describe('help', () => {
  test('lists every command, and each with every flag', () => {
    const all = helpText([], commands);
    for (const command of commands) {
      expect(all).toContain(command.words.join(' '));
      const one = helpText(command.words, commands);
      for (const flag of flagsOf(command)) expect(one).toContain(`--${flag.name}`);
    }
  });

  test('of a noun lists its verbs only', () => {
    expect(helpText(['audit'], commands)).toContain('audit verify');
    expect(helpText(['audit'], commands)).not.toContain('session list');
  });

  test('no two commands share their words', () => {
    const names = commands.map((command) => command.words.join(' '));
    expect(new Set(names).size).toBe(names.length);
  });
});

test('labels are name=value, each once', () => {
  expect(readLabels(['projectId=p', 'a=b=c', 'e='])).toEqual({ projectId: 'p', a: 'b=c', e: '' });
  for (const wrong of [['p'], ['=v'], ['a=1', 'a=2'], ['1=2']])
    expect(() => readLabels(wrong)).toThrow('--label');
});

test('what a sandbox chose can not steer the terminal', () => {
  const shown = table(['A'], [['x\x1b[2Jy\u202ez\n']]);
  expect(shown.split('\n')).toHaveLength(3);
  expect(shown).not.toMatch(/[\x1b\u202e]/);
  expect(printable('plain ü')).toBe('plain ü');
});
