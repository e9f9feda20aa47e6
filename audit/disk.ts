// The file operations of the writer's thread, synchronous but for fsync. One small interface, so that a test can put a
// disk there that is full, slow or stuck. Nothing here follows a link or opens a device: a segment is a regular file.

import {
  closeSync,
  constants,
  fdatasync,
  fstatSync,
  fsync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';

export interface FileId {
  readonly dev: number;
  readonly ino: number;
  readonly size: number;
}

export interface Disk {
  makeFolder(path: string): void;
  list(dir: string): string[];
  /** For appending. `create`: fails where anything stands at the path. */
  open(path: string, create: boolean): number;
  close(fd: number): void;
  /** All of the bytes, at the end. Some may be in the file when it throws. */
  write(fd: number, bytes: Buffer): void;
  truncate(fd: number, size: number): void;
  sync(fd: number, done: (error: Error | null) => void): void;
  /** So that the names in a folder survive a crash too. */
  syncFolder(dir: string, done: (error: Error | null) => void): void;
  /** What the descriptor is; fails where it is not a regular file. */
  identify(fd: number): FileId;
  /** What stands at the path, not following links; undefined where nothing regular does. */
  look(path: string): FileId | undefined;
  /** Whether group or others may make and remove files in the folder. */
  isOpenToOthers(dir: string): boolean;
  readAll(path: string): Buffer;
  /** The last `length` bytes before `end`. */
  readTail(path: string, end: number, length: number): Buffer;
  /** Replaces the file as a whole. */
  replace(path: string, content: string | Buffer): void;
  move(from: string, to: string): void;
  remove(path: string): void;
}

const { O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

export const realDisk: Disk = {
  makeFolder: (path) => void mkdirSync(path, { recursive: true, mode: 0o700 }),
  list: (dir) => readdirSync(dir),
  open: (path, create) =>
    openSync(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | (create ? O_CREAT | O_EXCL : 0), 0o600),
  close: (fd) => closeSync(fd),
  write(fd, bytes) {
    for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done, bytes.length - done);
  },
  truncate: (fd, size) => ftruncateSync(fd, size),
  // The new size is part of the data that it waits for; times and owner are not.
  sync: (fd, done) => fdatasync(fd, done),
  syncFolder(dir, done) {
    let fd: number;
    try {
      fd = openSync(dir, O_RDONLY | O_DIRECTORY);
    } catch (error) {
      done(error as Error);
      return;
    }
    fsync(fd, (error) => {
      closeSync(fd);
      done(error);
    });
  },
  identify(fd) {
    const { dev, ino, size, isRegular } = regular(fstatSync(fd));
    if (!isRegular) throw new Error('it is not a regular file');
    return { dev, ino, size };
  },
  look(path) {
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat === undefined) return undefined;
    const { dev, ino, size, isRegular } = regular(stat);
    return isRegular ? { dev, ino, size } : undefined;
  },
  isOpenToOthers: (dir) => (statSync(dir).mode & 0o022) !== 0,
  readAll: (path) => readFileSync(path, { flag: O_RDONLY | O_NOFOLLOW | O_NONBLOCK }),
  readTail(path, end, length) {
    const fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      const bytes = Buffer.alloc(Math.min(length, end));
      const read = readSync(fd, bytes, 0, bytes.length, end - bytes.length);
      return bytes.subarray(0, read);
    } finally {
      closeSync(fd);
    }
  },
  replace(path, content) {
    const temporary = `${path}.new`;
    rmSync(temporary, { force: true });
    writeFileSync(temporary, content, { mode: 0o600, flag: 'wx', flush: true });
    renameSync(temporary, path);
  },
  move: (from, to) => renameSync(from, to),
  remove: (path) => unlinkSync(path),
};

function regular(stat: { dev: number; ino: number; size: number; isFile(): boolean }) {
  return { dev: stat.dev, ino: stat.ino, size: stat.size, isRegular: stat.isFile() };
}
