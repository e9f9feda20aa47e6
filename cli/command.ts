// What a command is: its words, flags and arguments, as data, and a function that is loaded when it is called. The
// parser, `--help` and docs/reference/cli.md are all read off the one table in commands.ts.

import type { ControlClient } from '../control/client.ts';
import type { Config } from './config.ts';

export interface Flag {
  /** Without the dashes. */
  readonly name: string;
  /** What stands for the value in the help; absent: the flag takes none. */
  readonly value?: string;
  readonly required?: true;
  readonly repeat?: true;
  readonly help: string;
}

export interface Command {
  /** `['session', 'issue', 'git']` */
  readonly words: readonly string[];
  /** Arguments by name; one in brackets may be left out, and one that ends in … stands for itself and all that follow. */
  readonly args?: readonly string[];
  readonly summary: string;
  /** More for `--help`, in whole lines. */
  readonly notes?: string;
  readonly flags: readonly Flag[];
  /** Whether it talks to a server, and so takes --server. */
  readonly remote?: true;
  load(): Promise<Run>;
}

/** @returns the exit status: 0 done, 1 failed; wrong usage and refusals are thrown as PosternError */
export type Run = (context: Context) => Promise<number>;

export interface Context {
  readonly args: readonly string[];
  /** The value of a flag that is given once. */
  flag(name: string): string | undefined;
  /** The values of a repeated flag; empty where it is absent. */
  all(name: string): readonly string[];
  has(name: string): boolean;
  readonly json: boolean;
  readonly env: { readonly [name: string]: string | undefined };
  readonly cwd: string;
  readonly stdin: NodeJS.ReadableStream;
  /** Writes to standard output; ends no line. */
  out(text: string): void;
  err(text: string): void;
  /** @throws PosternError `invalid_config` */
  config(): Promise<Config>;
  /** Whether --server or POSTERN_SERVER names a server; else commands use the socket and the data folder. */
  readonly remote: boolean;
  client(): Promise<ControlClient>;
}
