// YAML to plain values, with less of YAML than there is: one document, string keys, each once, no aliases (an alias
// bomb is a few hundred bytes), no tags. The parser's own messages quote the source, and the source may hold a
// credential that somebody put in the wrong place; so its codes are told in our words, with line and column.

import { type Document, isAlias, isNode, LineCounter, parseDocument, visit, type YAMLError } from 'yaml';
import { ConfigError, type ConfigProblem } from './config-problems.ts';

/** 1 MiB. */
export const MAX_CONFIG_BYTES = 1024 * 1024;

const WORDS: { readonly [code: string]: string } = {
  DUPLICATE_KEY: 'the key stands twice in one block',
  NON_STRING_KEY: 'a key must be a plain name',
  MULTIPLE_DOCS: 'there is more than one document; only one is read',
  TAB_AS_INDENT: 'a tab indents the line; use spaces',
  BAD_INDENT: 'the indentation does not fit, or a bracket is not closed',
  TAG_RESOLVE_FAILED: 'tags (!name) are not read',
  MISSING_CHAR:
    'a quote, a bracket or a colon is missing here or before; put quotes around a value with special characters',
  BLOCK_AS_IMPLICIT_KEY: 'there is a second key in one line; put quotes around a value that holds a colon',
  UNEXPECTED_TOKEN:
    'it is not YAML from here on; put quotes around a value with special characters, as in "[::1]:8443"',
};

/** What is YAML, only not the YAML that is read: all of it can be told at once. */
const READABLE: readonly string[] = [
  'DUPLICATE_KEY',
  'NON_STRING_KEY',
  'MULTIPLE_DOCS',
  'TAG_RESOLVE_FAILED',
];

/**
 * @param where what messages name: the file
 * @throws ConfigError with every problem
 */
export function readYaml(text: string, where: string): unknown {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    version: '1.2',
    schema: 'core',
    strict: true,
    stringKeys: true,
    uniqueKeys: true,
    prettyErrors: false,
    logLevel: 'error',
    lineCounter: lines,
  });
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `line ${line}, column ${col}`;
  };
  const say = (error: YAMLError): ConfigProblem => ({
    key: '',
    message: `${at(error.pos[0])}: ${WORDS[error.code] ?? `it is not YAML (${error.code})`}`,
  });
  // After the first place that is not YAML the parser guesses, and what it says of the rest is about its guess.
  const broken = document.errors.find(({ code }) => !READABLE.includes(code));
  const found = broken ? [broken] : [...document.errors, ...document.warnings];
  const denied = broken ? [] : forbidden(document, at);
  const problems = found.filter(({ code }) => denied.length === 0 || code !== 'TAG_RESOLVE_FAILED').map(say);
  problems.push(...denied);
  if (problems.length > 0) throw new ConfigError(where, problems);
  return document.toJS({ maxAliasCount: 0 });
}

function forbidden(document: Document, at: (offset: number) => string): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  visit(document, {
    Node(_key, node) {
      if (!isNode(node)) return;
      const place = at(node.range?.[0] ?? 0);
      if (isAlias(node))
        problems.push({ key: '', message: `${place}: aliases (*name) are not read; write the value out` });
      else if (node.tag !== undefined)
        problems.push({ key: '', message: `${place}: tags (!name) are not read` });
    },
  });
  return problems;
}
