// docs/security.md names, for each guarantee, the test that holds it. A test that is renamed or gone fails here.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readPage, root } from './pages.ts';

const page = readPage('docs/security.md');

/** Rows of tables whose last cell names tests: `file`: "name"; "name" … */
const rows = page.prose.split('\n').filter((line) => /^\| .*`test\/[^`]+\.test\.ts`/.test(line));

const named = rows.flatMap((row) => {
  const cell = row.split(/(?<!\\)\|/).at(-2) ?? '';
  const parts = cell.split(/(?=`test\/)/);
  return parts.flatMap((part) => {
    const file = /^`(test\/[^`]+)`/.exec(part)?.[1];
    return file === undefined
      ? []
      : [...part.matchAll(/“([^”]+)”/g)].map(([, name = '']) => [file, name] as const);
  });
});

/** The first argument of a call whose second is a function: the name of a test, a table of tests or a group. */
const NAME =
  /\(\s*('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`)\s*,\s*(?:\{[^}]*\}\s*,\s*)?(?:async\b|\(|function\b|\w+\s*=>)/g;

function namesIn(file: string): Set<string> {
  const text = readFileSync(join(root, file), 'utf8');
  return new Set(
    [...text.matchAll(NAME)].map(([, literal = '']) => literal.slice(1, -1).replace(/\\(.)/g, '$1')),
  );
}

describe('the tests that docs/security.md names', () => {
  test.each(named)('%s: %s', (file, name) => {
    expect(existsSync(join(root, file))).toBe(true);
    expect([...namesIn(file)]).toContain(name);
  });

  test('every row of a table of guarantees names one', () => {
    expect(named.length).toBeGreaterThanOrEqual(rows.length);
    expect(rows.length).toBeGreaterThan(40);
    for (const row of rows) expect(row).toMatch(/“[^”]+”/);
  });
});
