// Writes the parts of the reference that the code knows better: `node docs/reference/generate.ts`, then `npm run fix`.
// Pages are written by hand; a table between `<!-- NAME -->` and `<!-- /NAME -->` is not. A test compares them.

import { readFileSync, writeFileSync } from 'node:fs';
import { commandSections, globalFlagTable } from '../../cli/command-reference.ts';
import { configJsonSchema, configTable } from '../../cli/config-reference.ts';
import { ERROR_CODES } from '../../common/errors.ts';
import { REASONS } from '../../common/reason.ts';
import { apiSections } from '../../control/api-reference.ts';
import { labelsTable, metricsTable } from '../../ops/catalogue.ts';

const here = (name: string): URL => new URL(name, import.meta.url);

/** File name → what it should hold. */
export function referencePages(): { readonly [file: string]: string } {
  return {
    'postern.schema.json': `${JSON.stringify(configJsonSchema(), null, 2)}\n`,
    'configuration.md': fill(readPage('configuration.md'), { keys: configTable() }),
    'cli.md': fill(readPage('cli.md'), { global: globalFlagTable(), commands: commandSections() }),
    'api.md': fill(readPage('api.md'), { calls: apiSections() }),
    'errors.md': fill(readPage('errors.md'), { reasons: reasonTable(), errors: errorTable() }),
    'metrics.md': fill(readPage('metrics.md'), { metrics: metricsTable(), labels: labelsTable() }),
  };
}

function reasonTable(): string {
  const rows = Object.entries(REASONS).map(
    ([code, { status, meaning }]) => `| \`${code}\` | ${status} | ${meaning} |`,
  );
  return ['| code | status | meaning |', '| --- | --- | --- |', ...rows].join('\n');
}

function errorTable(): string {
  const rows = Object.entries(ERROR_CODES).map(
    ([code, { status, title, exit }]) => `| \`${code}\` | ${status} | ${title} | ${exit} |`,
  );
  return ['| code | status | title | exit |', '| --- | --- | --- | --- |', ...rows].join('\n');
}

export function readPage(file: string): string {
  return readFileSync(here(file), 'utf8');
}

function fill(page: string, tables: { readonly [name: string]: string }): string {
  return Object.entries(tables).reduce((text, [name, table]) => {
    const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
    const [from, to] = [text.indexOf(begin), text.indexOf(end)];
    if (from < 0 || to < from) throw new Error(`the page has no place for a table: ${begin} … ${end}`);
    return `${text.slice(0, from + begin.length)}\n${table}\n${text.slice(to)}`;
  }, page);
}

if (import.meta.main)
  for (const [file, text] of Object.entries(referencePages())) writeFileSync(here(file), text);
