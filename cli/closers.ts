/** What was opened, closed in reverse: at the end of a server, and halfway through a start that fails. */
export interface Closers {
  /** Notes how the thing is closed and gives it back. */
  keep<T>(thing: T, close: (thing: T) => unknown): T;
  /** Everything once; a close that fails is told and does not stop the others. */
  closeAll(onError: (error: unknown) => void): Promise<void>;
}

export function createClosers(): Closers {
  const steps: (() => unknown)[] = [];
  return {
    keep(thing, close) {
      steps.push(() => close(thing));
      return thing;
    },
    async closeAll(onError) {
      for (let step = steps.pop(); step; step = steps.pop()) {
        try {
          await step();
        } catch (error) {
          onError(error);
        }
      }
    },
  };
}
