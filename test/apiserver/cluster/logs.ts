// What containers have written, and who follows it. Tests write lines themselves (`emit`), so that a log can be busy
// or silent for as long as a test wants.

import { badRequest, notFound } from '../objects/status.ts';
import { type KObject, obj, objects, text } from '../objects/values.ts';
import { type Call, param } from '../request/http.ts';
import { flag } from '../request/target.ts';

export interface LogLine {
  time: number;
  text: string;
}

export interface Logs {
  emit(pod: KObject, container: string, line: string): void;
  lines(pod: KObject, container: string): readonly LogLine[];
  /** @returns what stops following */
  follow(pod: KObject, container: string, onLine: (line: LogLine) => void, onEnd: () => void): () => void;
  /** The pod is gone: followers end, lines are forgotten. */
  drop(pod: KObject): void;
}

const KEEP = 200_000;

export function createLogs(now: () => number): Logs {
  interface Book {
    lines: LogLine[];
    followers: Set<{ onLine: (line: LogLine) => void; onEnd: () => void }>;
  }
  const books = new Map<string, Book>();
  const key = (pod: KObject, container: string): string => `${pod.metadata.uid}/${container}`;
  const book = (pod: KObject, container: string): Book => {
    const found = books.get(key(pod, container));
    if (found) return found;
    const made: Book = { lines: [], followers: new Set() };
    books.set(key(pod, container), made);
    return made;
  };
  return {
    emit(pod, container, line) {
      const { lines, followers } = book(pod, container);
      const entry = { time: now(), text: line };
      lines.push(entry);
      if (lines.length > KEEP) lines.splice(0, KEEP / 2);
      for (const { onLine } of followers) onLine(entry);
    },
    lines: (pod, container) => book(pod, container).lines,
    follow(pod, container, onLine, onEnd) {
      const follower = { onLine, onEnd };
      const { followers } = book(pod, container);
      followers.add(follower);
      return () => followers.delete(follower);
    },
    drop(pod) {
      for (const [id, { followers }] of books) {
        if (!id.startsWith(`${pod.metadata.uid}/`)) continue;
        for (const { onEnd } of [...followers]) onEnd();
        books.delete(id);
      }
    },
  };
}

/** The container that a request means. @throws ApiError 400 */
export function containerOf(pod: KObject, asked: string): string {
  const names = objects(obj(pod.spec).containers).map((one) => text(one.name));
  const others = ['initContainers', 'ephemeralContainers'].flatMap((list) =>
    objects(obj(pod.spec)[list]).map((one) => text(one.name)),
  );
  if (asked !== '') {
    if (names.includes(asked) || others.includes(asked)) return asked;
    throw badRequest(`container ${asked} is not valid for pod ${pod.metadata.name}`);
  }
  const marked = text(obj(pod.metadata.annotations)['kubectl.kubernetes.io/default-container']);
  if (names.includes(marked)) return marked;
  if (names.length > 1)
    throw badRequest(
      `a container name must be specified for pod ${pod.metadata.name}, choose one of: [${names.join(' ')}]`,
    );
  return names[0] ?? '';
}

interface LogOptions {
  follow: boolean;
  tail: number | undefined;
  since: number | undefined;
  timestamps: boolean;
  limitBytes: number | undefined;
}

function readOptions(call: Call, now: number): LogOptions {
  const integer = (key: string): number | undefined => {
    const raw = param(call, key);
    if (raw === '') return undefined;
    if (!/^-?\d+$/.test(raw))
      throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(raw)}: invalid syntax`);
    return Number(raw);
  };
  const seconds = integer('sinceSeconds');
  const sinceTime = param(call, 'sinceTime');
  return {
    follow: flag(call.target.query, 'follow'),
    tail: integer('tailLines'),
    since: seconds !== undefined ? now - seconds * 1000 : sinceTime ? Date.parse(sinceTime) : undefined,
    timestamps: flag(call.target.query, 'timestamps'),
    limitBytes: integer('limitBytes'),
  };
}

/** Answers pods/log. `opened` is told of a follower and called at its end. */
export function serveLog(call: Call, pod: KObject, logs: Logs, now: number, opened: () => () => void): void {
  const container = containerOf(pod, param(call, 'container'));
  const options = readOptions(call, now);
  if (flag(call.target.query, 'previous'))
    throw badRequest(`previous terminated container "${container}" in pod "${pod.metadata.name}" not found`);
  if (text(obj(pod.status).phase) === 'Pending')
    throw badRequest(
      `container "${container}" in pod "${pod.metadata.name}" is waiting to start: ContainerCreating`,
    );
  if (container === '') throw notFound({ group: '', resource: 'pods' }, pod.metadata.name);

  const { response } = call;
  response.statusCode = 200;
  response.setHeader('Content-Type', 'text/plain');
  let left = options.limitBytes ?? Number.POSITIVE_INFINITY;
  const format = (line: LogLine): string =>
    `${options.timestamps ? `${new Date(line.time).toISOString().replace('Z', '000000Z')} ` : ''}${line.text}\n`;
  const write = (line: LogLine): void => {
    const bytes = Buffer.from(format(line)).subarray(0, left);
    left -= bytes.length;
    if (bytes.length > 0) response.write(bytes);
    if (left <= 0) response.end();
  };
  let lines = logs
    .lines(pod, container)
    .filter((line) => options.since === undefined || line.time >= options.since);
  if (options.tail !== undefined && options.tail >= 0)
    lines = options.tail === 0 ? [] : lines.slice(-options.tail);
  if (!options.follow) {
    for (const line of lines) if (left > 0) write(line);
    response.end();
    return;
  }
  response.flushHeaders();
  for (const line of lines) write(line);
  const closed = opened();
  const stop = logs.follow(pod, container, write, () => response.end());
  response.on('close', () => {
    stop();
    closed();
  });
}
