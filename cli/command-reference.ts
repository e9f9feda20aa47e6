// The tables of docs/reference/cli.md, made from the table of commands.

import type { Command } from './command.ts';
import { commands } from './commands.ts';
import { flagText } from './help.ts';
import { GLOBAL_FLAGS, REMOTE_FLAGS } from './parse.ts';

export function commandSections(): string {
  return commands.map(section).join('\n\n');
}

export function globalFlagTable(): string {
  return flagTable([...GLOBAL_FLAGS, ...REMOTE_FLAGS]);
}

function section(command: Command): string {
  const title = ['postern', ...command.words, ...(command.args ?? [])].join(' ');
  const parts = [`### \`${title}\``, `${command.summary}.${command.remote ? ' Takes `--server`.' : ''}`];
  if (command.notes) parts.push(command.notes);
  if (command.flags.length > 0) parts.push(flagTable(command.flags));
  return parts.join('\n\n');
}

function flagTable(flags: Command['flags']): string {
  return [
    '| flag | meaning |',
    '| --- | --- |',
    ...flags.map((flag) => `| \`${flagText(flag)}\` | ${flag.help}${flag.required ? ' (required)' : ''} |`),
  ].join('\n');
}
