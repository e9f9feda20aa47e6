// The folder that `lease create --out DIR` fills: one that a person names, for a sandbox that outlives the command. A list
// of its own in it says which lease it is for and which files are of that lease, so that a renewal takes away what is no
// longer delivered, and a release everything, and neither touches what somebody else put there.

import { rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import { type Folder, holds, openFolder, placeFile, readOwn } from './folder.ts';
import { answeredFiles, type LeaseAnswer } from './lease-answer.ts';
import { wipeFile } from './lease-folder.ts';

const LIST = '.postern-lease';
const MAX_LIST_BYTES = 64 * 1024;

interface List {
  readonly leaseId: string;
  readonly files: readonly string[];
}

export interface LeaseOut {
  readonly dir: string;
  write(answer: Pick<LeaseAnswer, 'leaseId' | 'files' | 'keep'>): Promise<void>;
  /** Overwrites and removes the files of the lease, then the folder where nothing else is in it. */
  wipe(): Promise<void>;
  /** Takes the folder away again where it was made for this. */
  discard(): Promise<void>;
}

/**
 * @param leaseId of the lease whose folder it must be; absent: a new lease, and a folder with nothing of another
 * @throws PosternError `conflict`, `invalid_input` naming --out
 */
export async function openLeaseOut(path: string, leaseId?: string): Promise<LeaseOut> {
  const folder: Folder = await openFolder(path);
  let list = await readList(folder.dir);
  const other = Object.keys(folder.env).length > 0 || list !== undefined;
  if (leaseId === undefined ? other : list?.leaseId !== leaseId)
    throw new PosternError(
      'conflict',
      leaseId === undefined
        ? `--out: ${folder.dir} holds another session or lease.`
        : `--out: ${folder.dir} is not the folder of this lease.`,
      { key: '--out', remedy: 'Name a folder that does not exist yet, or the one of the lease.' },
    );
  return {
    dir: folder.dir,
    async write({ leaseId: of, files, keep }) {
      const contents = answeredFiles({ files });
      const now = [...new Set([...Object.keys(contents), ...keep])];
      // Listed before they are there: what a kill leaves half-written is known too.
      await note({ leaseId: of, files: [...new Set([...now, ...(list?.files ?? [])])] });
      // `env` last: who waits for it finds the others in place.
      const { env, ...others } = contents;
      for (const [name, content] of Object.entries(others)) await put(name, content);
      if (env) await put('env', env);
      for (const name of list?.files ?? []) if (!now.includes(name)) await wipeFile(join(folder.dir, name));
      await note({ leaseId: of, files: now });
    },
    async wipe() {
      for (const name of list?.files ?? []) await wipeFile(join(folder.dir, name));
      await wipeFile(join(folder.dir, LIST));
      await rmdir(folder.dir).catch(() => {});
    },
    discard: () => folder.discard(),
  };

  async function put(name: string, content: Credential): Promise<void> {
    if (!(await holds(join(folder.dir, name), content))) await placeFile(folder.dir, name, content);
  }

  async function note(next: List): Promise<void> {
    await placeFile(folder.dir, LIST, new Credential(JSON.stringify(next)));
    list = next;
  }
}

async function readList(dir: string): Promise<List | undefined> {
  try {
    const { leaseId, files } = JSON.parse(await readOwn(join(dir, LIST), MAX_LIST_BYTES)) as List;
    const bare = files.every((name) => /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(name));
    return typeof leaseId === 'string' && bare ? { leaseId, files } : undefined;
  } catch {
    return undefined;
  }
}
