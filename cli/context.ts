// What a command sees of the world: its flags, the streams, the configuration and a client, each made when asked for.

import { userName } from '../control/auth.ts';
import { type ControlClient, createClient, serverTarget } from '../control/client.ts';
import type { Context } from './command.ts';
import type { Config } from './config.ts';
import type { Parsed } from './parse.ts';

export function createContext(parsed: Parsed & { kind: 'command' }): Context {
  const { values, args } = parsed;
  const { env } = process;
  const flag = (name: string): string | undefined => values.get(name)?.[0];
  let config: Promise<Config> | undefined;
  const loaded = (): Promise<Config> => {
    config ??= import('./config.ts').then(({ loadConfig }) => {
      const file = flag('config');
      return loadConfig({ env, cwd: process.cwd(), ...(file === undefined ? {} : { file }) });
    });
    return config;
  };
  const server = flag('server') ?? (env.POSTERN_SERVER || undefined);
  return {
    args,
    flag,
    all: (name) => values.get(name) ?? [],
    has: (name) => values.has(name),
    json: values.has('json'),
    env,
    cwd: process.cwd(),
    stdin: process.stdin,
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
    config: loaded,
    remote: server !== undefined,
    async client(): Promise<ControlClient> {
      if (server === undefined)
        return createClient({ socket: (await loaded()).control.socket, user: userName() });
      const { POSTERN_TOKEN_FILE: tokenFile, POSTERN_CA_FILE: caFile } = env;
      return createClient(await serverTarget({ server, tokenFile, caFile }));
    },
  };
}
