// Links between pages lead somewhere, and no page is left out of the map.

import { existsSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, test } from 'vitest';
import { allPages, anchors, links, readPage, root } from './pages.ts';

const pages = allPages();

test.each(pages.map((page) => [page.path, page] as const))('%s links to what is there', (path, page) => {
  const broken = links(page).filter(({ target, anchor }) => {
    const file = target === '' ? path : normalize(join(dirname(path), target));
    if (!existsSync(join(root, file))) return true;
    if (anchor === '' || statSync(join(root, file)).isDirectory()) return anchor !== '';
    return !anchors(readPage(file)).has(anchor);
  });
  expect(broken).toEqual([]);
});

test('the map names every page', () => {
  const map = readPage('docs/index.md');
  const named = new Set(links(map).map(({ target }) => normalize(join('docs', target))));
  const missing = pages
    .map(({ path }) => path)
    .filter((path) => path.startsWith('docs/') && path !== 'docs/index.md' && !named.has(path));
  expect(missing).toEqual([]);
});

test('decisions are numbered without a hole', () => {
  const numbers = pages
    .map(({ path }) => /^docs\/decisions\/(\d{4})-[a-z0-9-]+\.md$/.exec(path)?.[1])
    .filter((number) => number !== undefined)
    .map(Number);
  expect(numbers).toEqual(numbers.map((_, i) => i + 1));
});

test('a decision says its context, itself and what follows', () => {
  for (const page of pages.filter(({ path }) => path.startsWith('docs/decisions/')))
    expect([...anchors(page)].slice(1), page.path).toEqual(['context', 'decision', 'consequences']);
});
