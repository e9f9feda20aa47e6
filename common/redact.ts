// PLACEHOLDER INTERFACE: the owner of audit/ completes this file.

/** Removes credentials from text: by value what is in custody, by pattern what is not. */
export interface Redactor {
  /** Everything in custody is announced here when it is opened or taken, in every form that could appear. */
  add(value: string): void;
  remove(value: string): void;
  text(text: string): string;
  /** The same for every string inside a value; error causes, headers and URLs with user information included. */
  value(value: unknown): unknown;
}
