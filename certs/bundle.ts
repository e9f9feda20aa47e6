import { randomBytes } from 'node:crypto';
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Writes certificates for others to read (mode 0644): whole or not at all, and not at all where they are there already,
 * so that a watcher of the file is not woken for nothing.
 */
export async function writeBundle(file: string, pem: string): Promise<void> {
  if ((await readFile(file, 'utf8').catch(() => '')) === pem) return;
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    const handle = await open(draft, 'wx', 0o644);
    try {
      await handle.chmod(0o644); // whatever the umask
      await handle.writeFile(pem);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
