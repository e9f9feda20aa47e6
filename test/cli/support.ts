// The command line as a process before a real server, with a small forge behind it.

import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Forge, type ForgeOptions, startForge } from '../../cli/demo/forge.ts';
import { configure, launcher, type Ran, run, type Server, scratch, serve } from '../system/harness.ts';

export {
  configure,
  launcher,
  type Ran,
  run,
  type Server,
  sandbox,
  scratch,
  serve,
} from '../system/harness.ts';

export interface Site {
  readonly folder: string;
  readonly config: string;
  readonly forge: Forge;
  readonly token: string;
  readonly tokenFile: string;
  readonly server: Server;
  /** `session issue git` for this forge, with more behind it. */
  issue(...more: string[]): Promise<Ran>;
  postern(...args: string[]): Promise<Ran>;
  close(): Promise<void>;
}

/** @param slow bytes a second for some answers of the forge */
export async function openSite(
  name: string,
  settings: { [key: string]: unknown } = {},
  slow?: ForgeOptions['slow'],
): Promise<Site> {
  const { folder, remove } = scratch(name);
  const token = `ghp_${randomBytes(24).toString('hex')}`;
  const tokenFile = join(folder, 'token');
  writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 });
  const forge = await startForge({ root: join(folder, 'forge'), token, ...(slow && { slow }) });
  const config = configure(folder, {
    git: { listen: '127.0.0.1:0', upstreams: [{ url: forge.url }] },
    ...settings,
  });
  const server = await serve(config);
  const postern = (...args: string[]) => run(process.execPath, [launcher, ...args, '--config', config]);
  return {
    folder,
    config,
    forge,
    token,
    tokenFile,
    server,
    postern,
    issue: (...more) =>
      postern('session', 'issue', 'git', '--upstream', forge.url, '--token-file', tokenFile, ...more),
    async close() {
      await server.kill();
      await forge.close();
      remove();
    },
  };
}

/** A repository at the forge with one commit and, if wanted, other files. */
export async function seed(
  site: Site,
  path: string,
  files: { [name: string]: string | Buffer } = {},
): Promise<void> {
  const bare = await site.forge.createRepository(path);
  const work = join(site.folder, 'seed', path);
  mkdirSync(work, { recursive: true });
  for (const [file, text] of Object.entries({ README: `${path}\n`, ...files }))
    writeFileSync(join(work, file), text);
  const script = `git init -q -b main && git add . && git -c user.name=s -c user.email=s@localhost commit -qm one && git push -q '${bare}' main`;
  const ran = await run('sh', ['-ec', script], { cwd: work });
  if (ran.code !== 0) throw new Error(ran.err);
}

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
export const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);
export const readAll = (dir: string): string =>
  readdirSync(dir)
    .map((name) => readFileSync(join(dir, name), 'utf8'))
    .join('\n');

/** Starts the command line and leaves it running. */
export function start(args: readonly string[], options: { node?: readonly string[] } = {}) {
  const child = spawn(process.execPath, [...(options.node ?? []), launcher, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    err += chunk.toString();
  });
  const exit = new Promise<number | NodeJS.Signals | null>((resolve) =>
    child.once('close', (code, signal) => resolve(code ?? signal)),
  );
  return { child, exit, out: () => out, err: () => err };
}
