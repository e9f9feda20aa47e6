// The command line's entry: words → command → run → exit status. What goes wrong is one line that says what and one
// that says what to do, on standard error; with --json the same as a problem document. Exit: 0 done, 1 failed,
// 2 wrong usage, 3 refused by policy.

import { ERROR_CODES, PosternError } from '../common/errors.ts';
import { commands } from './commands.ts';
import { createContext } from './context.ts';
import { inFlags } from './flag-names.ts';
import { helpText } from './help.ts';
import { jsonText, printable } from './output.ts';
import { flagsOf, type Parsed, parse } from './parse.ts';
import { VERSION } from './version.ts';

async function main(argv: readonly string[]): Promise<number> {
  let parsed: Parsed | undefined;
  try {
    parsed = parse(argv, commands);
    if (parsed.kind === 'version') return print(`${VERSION}\n`);
    if (parsed.kind === 'help') return print(helpText(parsed.words, commands));
    const run = await parsed.command.load();
    return await run(createContext(parsed));
  } catch (error) {
    const known = error instanceof PosternError ? error : unforeseen(error);
    const json = parsed?.kind === 'command' ? parsed.values.has('json') : argv.includes('--json');
    process.stderr.write(json ? await problemText(known) : sentence(known, parsed));
    return ERROR_CODES[known.code].exit;
  }
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

function sentence(error: PosternError, parsed: Parsed | undefined): string {
  const flags = parsed?.kind === 'command' ? flagsOf(parsed.command) : [];
  const lines = inFlags(error.message, flags).split('\n').map(printable).join('\n');
  // Some rooms say the remedy in the message itself.
  const remedy =
    error.remedy !== undefined && !error.message.includes(error.remedy) ? error.remedy : undefined;
  return `postern: ${lines}\n${remedy ? `  ${printable(remedy)}\n` : ''}`;
}

async function problemText(error: PosternError): Promise<string> {
  const { problemOf } = await import('../control/problem.ts');
  return jsonText(problemOf(error));
}

/** Its message may quote what it was working on, so only its kind and its place are told. */
function unforeseen(error: unknown): PosternError {
  const kind = error instanceof Error ? ('code' in error ? String(error.code) : error.name) : typeof error;
  const place =
    error instanceof Error
      ? /^ +at .*?([\w.-]+\/[\w.-]+:\d+):\d+\)?$/m.exec(error.stack ?? '')?.[1]
      : undefined;
  return new PosternError('internal', `The command failed: ${kind}${place ? ` at ${place}` : ''}.`, {
    cause: error,
  });
}

// `postern audit list | head`: the reader has enough, which is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));
// Started by the launcher, this process lives no longer than it: a launcher that was killed must not leave a server.
if (process.channel) {
  process.channel.unref();
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
}

process.exitCode = await main(process.argv.slice(2));
