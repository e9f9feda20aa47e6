// Every command line of the pages parses against the table of commands, with the flags that it needs and no other.

import { describe, expect, test } from 'vitest';
import { commands } from '../../cli/commands.ts';
import { flagsOf, parse } from '../../cli/parse.ts';
import { allPages, codeSpans, type Page } from './pages.ts';

const pages = allPages();

/** Words as a shell would split them; what ends a command ends here too. */
function words(line: string): string[] {
  const found: string[] = [];
  let word: string | undefined;
  for (let i = 0; i < line.length; i++) {
    const c = line[i] ?? '';
    if (c === "'" || c === '"') {
      const end = line.indexOf(c, i + 1);
      if (end < 0) throw new Error(`a quote is left open in: ${line}`);
      word = (word ?? '') + line.slice(i + 1, end);
      i = end;
    } else if (/\s/.test(c)) {
      if (word !== undefined) found.push(word);
      word = undefined;
    } else if (/[|;&<>)]/.test(c) || (c === '#' && word === undefined)) break;
    else word = (word ?? '') + c;
  }
  return word === undefined ? found : [...found, word];
}

/** `npx postern …` or `postern …`, also behind a prompt, a variable or an opening of `$(`. */
function commandLines(text: string): string[][] {
  const joined = text.replace(/\\\n\s*/g, ' ');
  return joined
    .split('\n')
    .flatMap((line) => {
      const starts = [...line.matchAll(/(?:^|[\s($])(?:npx )?postern(?= )/g)];
      return starts
        .filter(({ index }) => !line.slice(0, index).includes('#') && !/^\s*(?:FROM|image:)/.test(line))
        .map((start) => words(line.slice(start.index + start[0].length)));
    })
    .filter((argv) => argv.length > 0);
}

function fromBlocks(page: Page): string[][] {
  return page.blocks
    .filter(({ language }) => ['sh', 'console', 'indented', ''].includes(language))
    .flatMap(({ text }) => commandLines(text))
    .filter((argv) => /^[a-z]+$/.test(argv[0] ?? '') && argv[0] !== 'NOUN');
}

describe('command lines in blocks', () => {
  const lines = pages.flatMap((page) =>
    fromBlocks(page).map((argv) => [page.path, argv.join(' '), argv] as const),
  );

  test.each(lines)('%s: postern %s', (_path, _line, argv) => {
    expect(parse(argv, commands)).toMatchObject({ kind: 'command' });
  });

  test('there are some', () => {
    expect(lines.length).toBeGreaterThan(50);
  });
});

/** In prose a command may stand without what it needs, but its words and flags are real ones. */
describe('commands in prose', () => {
  const spans = pages.flatMap((page) =>
    codeSpans(page)
      .filter((code) => /^(?:npx )?postern [a-z]/.test(code))
      .map((code) => [page.path, code] as const),
  );

  test.each(spans)('%s: %s', (_path, code) => {
    const argv = words(code.replace(/^(?:npx )?postern /, ''));
    const named = argv.filter((word, i) => /^[a-z]+$/.test(word) && !argv[i - 1]?.startsWith('--'));
    const matching = commands.filter((one) => {
      const own = one.words.join(' ');
      const typed = named.slice(0, one.words.length).join(' ');
      return typed === own || (own.startsWith(`${named.join(' ')} `) && named.length < one.words.length);
    });
    expect(matching.map(({ words }) => words.join(' '))).not.toEqual([]);
    const flags = new Set(matching.flatMap((one) => flagsOf(one).map(({ name }) => `--${name}`)));
    expect(
      argv.filter((word) => word.startsWith('--') && !flags.has(word.replace(/=.*/, '')) && word !== '--'),
    ).toEqual([]);
  });
});
