import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ACTIONS } from '../../audit/event.ts';
import { KINDS } from '../../broker/kind.ts';
import { rulesOf } from '../../broker/kinds/kinds.ts';
import { ERROR_CODES } from '../../common/errors.ts';

const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const page = read('docs/reference/broker.md');

const rows = page
  .slice(page.indexOf('\n## Names'))
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) =>
    line
      .slice(1, -1)
      .split(' | ')
      .map((cell) => cell.trim()),
  );

describe('the reference page', () => {
  it('has a row for every name, none blank', () => {
    const names = rows.flatMap(([name = '']) => [...name.matchAll(/`([^`]+)`/g)].map(([, one]) => one));
    expect(new Set(names).size).toBe(names.length);
    expect(names.length).toBeGreaterThanOrEqual(320);
    for (const row of rows) {
      expect(row).toHaveLength(3);
      for (const cell of row) expect(cell).not.toBe('');
    }
  });

  it('points at code and tests that are there', () => {
    const wrong: string[] = [];
    for (const [name = '', here = '', test = ''] of rows) {
      const [, path = '', exported = ''] = /^`([\w./-]+\.ts)`((?: `\w+`)+)/.exec(here) ?? [];
      const text = existsSync(join(root, path)) && path !== '' ? read(path) : '';
      for (const [, word] of exported.matchAll(/`(\w+)`/g))
        if (!new RegExp(`\\b${word}\\b`).test(text)) wrong.push(`${name}: ${path} has no ${word}`);
      if (text === '' || exported === '') wrong.push(`${name}: ${here}`);
      if (!existsSync(join(root, test.replaceAll('`', '')))) wrong.push(`${name}: ${test}`);
    }
    expect(wrong).toEqual([]);
  });

  it('names codes and actions that exist', () => {
    const cells = rows.map(([, here = '']) => here);
    for (const here of cells) {
      const code = /`ERROR_CODES`: `(\w+)`/.exec(here)?.[1];
      if (code) expect(Object.keys(ERROR_CODES)).toContain(code);
      const action = /`ACTIONS`: `([\w.]+)`/.exec(here)?.[1];
      if (action) expect(ACTIONS).toContain(action);
    }
  });

  it('lists every kind with its constraints', () => {
    for (const kind of KINDS) {
      const line = page.split('\n').find((one) => one.startsWith(`| \`${kind}\``)) ?? '';
      expect(line).toContain(`\`${rulesOf(kind).constraints[0]}\``);
    }
  });
});
