import { inspect } from 'node:util';

const HIDDEN = '[redacted]';

/**
 * A value that is a credential. It has no string, JSON or inspect form but `[redacted]`; `reveal()` is the one way
 * to the value, so that a search for it lists every place where a credential can leave.
 */
export class Credential {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return HIDDEN;
  }

  toJSON(): string {
    return HIDDEN;
  }

  [inspect.custom](): string {
    return HIDDEN;
  }
}
