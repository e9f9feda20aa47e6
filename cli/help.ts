// `--help`, read off the table of commands: the whole list, the commands that begin with some words, or one of them.

import type { Command, Flag } from './command.ts';
import { flagsOf, usageLine } from './parse.ts';

export function helpText(words: readonly string[], commands: readonly Command[]): string {
  const matching = commands.filter((command) => words.every((word, i) => command.words[i] === word));
  const exact = matching.find((command) => command.words.length === words.length);
  return exact ? oneCommand(exact) : listing(matching);
}

function oneCommand(command: Command): string {
  const lines = [command.summary, '', `Usage: ${usageLine(command)}`, ''];
  lines.push(...columns(flagsOf(command).map((flag) => [flagText(flag), flag.help])));
  if (command.notes) lines.push('', command.notes);
  return `${lines.join('\n')}\n`;
}

function listing(commands: readonly Command[]): string {
  const lines = [
    'Postern stands between a sandbox and what it must not own: a guard for git and one for Kubernetes.',
    '',
    'Usage: postern NOUN VERB [flags]',
    '',
    ...columns(
      commands.map((command) => [[...command.words, ...(command.args ?? [])].join(' '), command.summary]),
    ),
    '',
    'postern COMMAND --help says more about each. Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused by policy.',
  ];
  return `${lines.join('\n')}\n`;
}

export function flagText(flag: Flag): string {
  return `--${flag.name}${flag.value ? ` ${flag.value}` : ''}${flag.repeat ? '…' : ''}`;
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(0, ...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}
