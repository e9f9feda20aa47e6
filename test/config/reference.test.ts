import { describe, expect, it } from 'vitest';
import { configLeaves } from '../../cli/config-reference.ts';
import { readPage, referencePages } from '../../docs/reference/generate.ts';

describe('the reference', () => {
  // Biome lays out both kinds of file; what counts is what they say.
  const plain = (file: string, text: string): unknown =>
    file.endsWith('.json') ? JSON.parse(text) : text.replace(/[ \t]+/g, ' ').replace(/-{3,}/g, '---');

  it.each(Object.entries(referencePages()))(
    '%s is what the code says (node docs/reference/generate.ts)',
    (file, text) => {
      expect(plain(file, readPage(file))).toEqual(plain(file, text));
    },
  );

  it('every key has a meaning', () => {
    expect(
      configLeaves()
        .filter((leaf) => leaf.description === '')
        .map((leaf) => leaf.key),
    ).toEqual([]);
  });
});
