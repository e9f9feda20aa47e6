// Writes the parts of the reference that the code knows better: `node docs/reference/generate.ts`,
// then `npm run fix`. Pages are written by
// hand; a table between `<!-- NAME -->` and `<!-- /NAME -->` is not. A test compares what is here with what is written.

import { readFileSync, writeFileSync } from 'node:fs';
import { configJsonSchema, configTable } from '../../cli/config-reference.ts';

const here = (name: string): URL => new URL(name, import.meta.url);

/** File name → what it should hold. */
export function referencePages(): { readonly [file: string]: string } {
  return {
    'postern.schema.json': `${JSON.stringify(configJsonSchema(), null, 2)}\n`,
    'configuration.md': fill('configuration.md', 'keys', configTable()),
  };
}

export function readPage(file: string): string {
  return readFileSync(here(file), 'utf8');
}

function fill(file: string, name: string, table: string): string {
  const page = readPage(file);
  const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${file} has no place for the table: ${begin} … ${end}`);
  return `${page.slice(0, from + begin.length)}\n${table}\n${page.slice(to)}`;
}

if (import.meta.main)
  for (const [file, text] of Object.entries(referencePages())) writeFileSync(here(file), text);
