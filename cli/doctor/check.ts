/** One thing that doctor looked at. `fail` makes the command exit 1; `warn` works, but probably not as meant. */
export interface Check {
  readonly name: string;
  readonly state: 'ok' | 'warn' | 'fail';
  readonly message: string;
  readonly remedy?: string;
}

export const ok = (name: string, message: string): Check => ({ name, state: 'ok', message });
export const warn = (name: string, message: string, remedy: string): Check => ({
  name,
  state: 'warn',
  message,
  remedy,
});
export const fail = (name: string, message: string, remedy?: string): Check => ({
  name,
  state: 'fail',
  message,
  ...(remedy !== undefined && { remedy }),
});
