// Quoting for the two languages that a delivered path passes through: sh and git's configuration syntax.

/** One word for sh: single quotes, in which nothing but the quote itself is special. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * The value of a git configuration entry, in double quotes (git-config, "Syntax"): backslash, quote, newline and tab
 * are escaped, and `#`, `;` and outer spaces lose their meaning.
 */
export function gitValue(text: string): string {
  const escaped = text
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"')
    .replaceAll('\n', '\\n')
    .replaceAll('\t', '\\t');
  return `"${escaped}"`;
}

/** `[section "subsection"]`; a subsection knows the escapes `\\` and `\"` only and can't hold a newline. */
export function gitSection(section: string, subsection?: string): string {
  if (subsection === undefined) return `[${section}]`;
  return `[${section} "${subsection.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"]`;
}
