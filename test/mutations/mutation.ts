/** One rule, and the edit that breaks it. */
export interface Mutation {
  /** From the root of the repository. */
  readonly file: string;
  /** What holds while it is not broken, in words. */
  readonly rule: string;
  /** Text of the file; it must be there exactly once. */
  readonly find: string;
  readonly replace: string;
  /** The files of tests of which at least one test has to fail. */
  readonly tests: readonly string[];
}

/** A list for one file: most rules of a file are held by the same tests. */
export function breaking(
  file: string,
  tests: readonly string[],
  edits: readonly (readonly [rule: string, find: string, replace: string, tests?: readonly string[]])[],
): Mutation[] {
  return edits.map(([rule, find, replace, own]) => ({ file, rule, find, replace, tests: own ?? tests }));
}
