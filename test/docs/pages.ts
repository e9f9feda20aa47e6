// The pages as the tests of this folder read them: README and everything under docs/, taken apart into fenced blocks,
// indented blocks, inline code, links and headings. Markdown as these pages use it, and no more of it.

import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

export const root = join(import.meta.dirname, '..', '..');

export interface Block {
  /** The word after the fence, '' where there is none; `indented` for a block by indentation. */
  readonly language: string;
  readonly text: string;
  readonly line: number;
}

export interface Page {
  /** From the root of the project. */
  readonly path: string;
  readonly text: string;
  /** Without blocks of code; what is taken out leaves empty lines. */
  readonly prose: string;
  readonly blocks: readonly Block[];
}

interface Open {
  readonly language: string;
  readonly fence: string;
  readonly line: number;
  readonly lines: string[];
}

export function readPage(path: string): Page {
  const text = readFileSync(join(root, path), 'utf8');
  const blocks: Block[] = [];
  const prose: string[] = [];
  let open: Open | undefined;
  const close = ({ language, line, lines }: Open): void => {
    blocks.push({ language, line, text: lines.join('\n').trimEnd() });
    open = undefined;
  };
  let before = '';
  for (const [i, line] of text.split('\n').entries()) {
    const [, fence, language = ''] = /^\s*(`{3,})([\w-]*)/.exec(line) ?? [];
    if (open?.language === 'indented' && line !== '' && !line.startsWith('    ')) close(open);
    let isProse = false;
    if (open && open.fence !== '' && fence === open.fence) close(open);
    else if (open) open.lines.push(open.fence === '' ? line.slice(4) : line);
    else if (fence) open = { language, fence, line: i + 2, lines: [] };
    else if (line.startsWith('    ') && before === '')
      open = { language: 'indented', fence: '', line: i + 1, lines: [line.slice(4)] };
    else isProse = true;
    prose.push(isProse ? line : '');
    before = line.trim();
  }
  if (open) close(open);
  return { path, text, prose: prose.join('\n'), blocks };
}

/** README.md, AGENTS.md and every page under docs/. */
export function allPages(): Page[] {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => relative(root, join(root, 'docs', name)))
    .sort();
  return ['README.md', 'AGENTS.md', ...docs].map(readPage);
}

/** What stands between single backquotes in the prose; a code span in a table counts too. */
export function codeSpans(page: Page): string[] {
  return [...page.prose.matchAll(/(?<!`)`([^`\n]+)`(?!`)/g)].map(([, code = '']) => code);
}

/** As GitHub makes them: lower case, spaces to dashes, what is not a word taken out; a second one gets `-1`. */
export function anchors(page: Page): Set<string> {
  const seen = new Map<string, number>();
  const found = new Set<string>();
  for (const [, title = ''] of page.prose.matchAll(/^#{1,6} +(.+?) *$/gm)) {
    const slug = title
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-');
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    found.add(count === 0 ? slug : `${slug}-${count}`);
  }
  return found;
}

export interface Link {
  readonly target: string;
  readonly anchor: string;
}

/** Relative ones only. */
export function links(page: Page): Link[] {
  const prose = page.prose.replace(/`[^`\n]*`/g, (code) => ' '.repeat(code.length));
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, href = '']) => href)
    .filter((href) => !/^[a-z]+:/.test(href))
    .map((href) => {
      const [target = '', anchor = ''] = href.split('#');
      return { target, anchor };
    });
}
