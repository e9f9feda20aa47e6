/** A type whose members that may be `undefined` are optional instead: the two are told apart here. */
export type Compact<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** The object without the members that are `undefined`. */
export function compact<T extends object>(object: T): Compact<T> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as Compact<T>;
}
