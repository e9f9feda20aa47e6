// docs/reference/audit.md lists what the code has, and nothing else.

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ACTIONS, GAP_CAUSES } from '../../audit/event.ts';
import { LIMITS, RECORD_FIELDS } from '../../audit/record.ts';
import { BREAK_KINDS } from '../../audit/verify.ts';

const page = readFileSync(new URL('../../docs/reference/audit.md', import.meta.url), 'utf8');

/** The first cells of the table between two marks. */
function listed(mark: string): string[] {
  const [, table = ''] = page.split(new RegExp(`<!-- /?${mark} -->`));
  return [...table.matchAll(/^\| `([^`]+)`/gm)].map(([, name = '']) => name);
}

test.each([
  ['fields', [...RECORD_FIELDS].sort()],
  ['actions', [...ACTIONS].sort()],
  ['breaks', [...BREAK_KINDS].sort()],
  ['gaps', [...GAP_CAUSES].sort()],
])('the reference lists every one of %s', (mark, names) => {
  expect(
    listed(mark)
      .filter((name) => name !== 'gap.cause')
      .sort(),
  ).toEqual(names);
});

test('the reference states the limits', () => {
  for (const limit of [LIMITS.userAgent, LIMITS.reason, LIMITS.constraints, LIMITS.command, LIMITS.refs])
    expect(page).toContain(String(limit));
});
