// Which lease folders there may be on this host: one small file each, written before the folder is made. It names the
// folder and the process, with the moment at which that process started, because process ids come again.

import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

export interface LeaseRecords {
  /** The folder of the records; made where it is missing. */
  readonly dir: string;
}

export interface FolderRecord {
  readonly folder: string;
  readonly pid: number;
  /** From /proc, in the kernel's ticks since boot; empty where there is no /proc. */
  readonly started: string;
}

/** `$XDG_STATE_HOME/postern/lease-folders`: it survives a restart of the process, which is the case that matters. */
export function defaultRecords(env: NodeJS.ProcessEnv = process.env): LeaseRecords {
  const state =
    env.XDG_STATE_HOME && isAbsolute(env.XDG_STATE_HOME)
      ? env.XDG_STATE_HOME
      : join(homedir(), '.local/state');
  return { dir: join(state, 'postern', 'lease-folders') };
}

export async function remember({ dir }: LeaseRecords, folder: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const record: FolderRecord = { folder, pid: process.pid, started: await startOf(process.pid) };
  await writeFile(fileOf(dir, folder), JSON.stringify(record), { mode: 0o600, flush: true });
}

export async function forget({ dir }: LeaseRecords, folder: string): Promise<void> {
  await rm(fileOf(dir, folder), { force: true });
}

/** Those that can be read. A half-written one is of a process that was killed before it made its folder. */
export async function recorded({ dir }: LeaseRecords): Promise<FolderRecord[]> {
  const found: FolderRecord[] = [];
  for (const name of await readdir(dir).catch(() => [])) {
    if (!name.endsWith('.json')) continue;
    const record = await readRecord(join(dir, name));
    if (record) found.push(record);
  }
  return found;
}

async function readRecord(path: string): Promise<FolderRecord | undefined> {
  try {
    const { folder, pid, started } = JSON.parse(await readFile(path, 'utf8')) as FolderRecord;
    const fits = typeof folder === 'string' && Number.isSafeInteger(pid) && typeof started === 'string';
    return fits ? { folder, pid, started } : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the process that made the record is the one that has its id now. */
export async function isAlive({ pid, started }: FolderRecord): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  return started === '' || (await startOf(pid)) === started;
}

/** Field 22 of /proc/PID/stat (proc(5)); the second field may hold anything, so it is counted from its last bracket. */
async function startOf(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}

function fileOf(dir: string, folder: string): string {
  return join(dir, `${createHash('sha256').update(folder).digest('hex').slice(0, 32)}.json`);
}
