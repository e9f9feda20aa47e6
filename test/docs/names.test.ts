// Names in the prose are names in the code: reason codes, error codes, metrics, actions, keys, variables.

import { describe, expect, test } from 'vitest';
import { ACTIONS, GAP_CAUSES } from '../../audit/event.ts';
import { BREAK_KINDS } from '../../audit/verify.ts';
import { KINDS } from '../../broker/kind.ts';
import { OTHER_VARIABLES } from '../../cli/config-env.ts';
import { configLeaves, knownKeys } from '../../cli/config-reference.ts';
import { ERROR_CODES } from '../../common/errors.ts';
import { REASONS } from '../../common/reason.ts';
import { CATALOGUE, OPEN_FAILURES, RESULTS, STREAM_KINDS } from '../../ops/catalogue.ts';
import { allPages, codeSpans, readPage } from './pages.ts';

const leaves = configLeaves();
const pages = allPages();
const spans = pages.flatMap((page) => codeSpans(page).map((code) => [page.path, code] as const));
const where = (wrong: readonly (readonly [string, string])[]): string[] =>
  [...new Set(wrong.map(([path, code]) => `${path}: ${code}`))].sort();

describe('names in prose', () => {
  test('words with underscores are codes, kinds or labels', () => {
    const known = new Set<string>([
      ...Object.keys(REASONS),
      ...Object.keys(ERROR_CODES),
      ...Object.keys(CATALOGUE),
      ...KINDS,
      ...BREAK_KINDS,
      ...GAP_CAUSES,
      ...OPEN_FAILURES,
      ...RESULTS,
      ...STREAM_KINDS,
      // Members of payloads, a set of the store, a pragma of SQLite.
      ...['app_id', 'installation_id', 'private_key', 'app_tokens', 'secure_delete'],
    ]);
    expect(where(spans.filter(([, code]) => /^[a-z]+(?:_[a-z]+)+$/.test(code) && !known.has(code)))).toEqual(
      [],
    );
  });

  test('metrics exist, also within expressions and blocks', () => {
    const known = new Set<string>(Object.keys(CATALOGUE));
    const used = pages.flatMap(({ path, text }) =>
      [...text.matchAll(/\bpostern_[a-z]+(?:_[a-z]+)+\b/g)].map(([name]) => [path, name] as const),
    );
    expect(used.length).toBeGreaterThan(10);
    expect(where(used.filter(([, name]) => !known.has(name.replace(/_(?:bucket|sum|count)$/, ''))))).toEqual(
      [],
    );
  });

  test('dotted names are actions of the record or keys of the configuration', () => {
    const rooms = [
      'git',
      'kube',
      'audit',
      'control',
      'ops',
      'sessions',
      'log',
      'store',
      'secret',
      'server',
      'lease',
      'ca',
    ];
    const known = new Set<string>([
      ...ACTIONS,
      ...knownKeys(leaves),
      ...knownKeys(leaves).map((k) => k.replaceAll('[]', '')),
    ]);
    const files = /\.(?:ts|md|pem|yaml|json|db|sock|key|jsonl|lock|pid)$/;
    const wrong = spans.filter(([, code]) => {
      const [, room, rest] = /^([a-z]+)\.([A-Za-z_.[\]]+)$/.exec(code) ?? [];
      return (
        room !== undefined &&
        rest !== undefined &&
        rooms.includes(room) &&
        !files.test(code) &&
        !known.has(code)
      );
    });
    expect(where(wrong)).toEqual([]);
  });

  test('variables are overrides, or those of commands and workloads', () => {
    const known = new Set<string>([
      ...leaves.flatMap(({ env }) => env ?? []),
      ...OTHER_VARIABLES,
      ...['POSTERN_EGRESS_HOSTS', 'POSTERN_TEST_KUBECONFIG'],
      // What configuration.md shows as a misspelling.
      'POSTERN_GIT_LISTN',
    ]);
    const used = pages.flatMap(({ path, text }) =>
      [...text.matchAll(/\bPOSTERN_[A-Z]+(?:_[A-Z]+)*\b(?![_…])/g)].map(([name]) => [path, name] as const),
    );
    expect(where(used.filter(([, name]) => !known.has(name)))).toEqual([]);
  });
});

describe('troubleshooting', () => {
  // Only the first cells: a failure should not print the page.
  const rows = readPage('docs/guides/troubleshooting.md')
    .text.split('\n')
    .map((line) => line.slice(0, 40))
    .join('\n');

  test.each(Object.keys(REASONS))('says what %s looks like and what to do', (code) => {
    expect(rows).toMatch(new RegExp(`^\\| \`${code}\` +\\|`, 'm'));
  });
});
