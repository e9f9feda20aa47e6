// Every piece of configuration on the pages is one that the loader takes.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../cli/config.ts';
import { configLeaves, knownKeys } from '../../cli/config-reference.ts';
import { allPages } from './pages.ts';

const tops = new Set(knownKeys(configLeaves()).filter((key) => !key.includes('.')));

function isConfiguration(text: string): boolean {
  const first = /^([A-Za-z]+):/.exec(text.replace(/^(?:#.*\n)+/, ''))?.[1];
  return first !== undefined && tops.has(first);
}

const snippets = allPages().flatMap((page) =>
  page.blocks
    .filter(({ language, text }) => ['yaml', 'indented'].includes(language) && isConfiguration(text))
    .map(({ text, line }) => [`${page.path}:${line}`, text] as const),
);

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'postern-docs-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('configuration', () => {
  test.each(snippets)('%s loads', (_where, text) => {
    const file = join(folder, 'postern.yaml');
    writeFileSync(file, text);
    expect(() => loadConfig({ file, env: {}, cwd: folder })).not.toThrow();
  });

  test('there is some', () => {
    expect(snippets.length).toBeGreaterThan(5);
  });
});

test('every other block of YAML is one document or more that can be read', () => {
  const others = allPages().flatMap((page) =>
    page.blocks
      .filter(({ language, text }) => language === 'yaml' && !isConfiguration(text))
      .flatMap(({ text }) => text.split(/^---$/m)),
  );
  for (const text of others) expect(parse(text)).toMatchObject({ kind: expect.any(String) });
});
