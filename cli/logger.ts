// The log: JSON lines by pino, one serializer. Everything that a line holds, message included, passes through the
// redactor by value: an error with its causes, a dump of headers, a string. pino's own redaction works by path and
// would let a credential in a message through.

import { type DestinationStream, destination, pino } from 'pino';
import { rfc3339 } from '../common/clock.ts';
import type { Log } from '../common/log.ts';
import type { Redactor } from '../common/redact.ts';
import type { LogLevel } from './config.ts';

export interface Logger extends Log {
  /** An info line that no level leaves out: whoever started the server waits for it. */
  announce(fields: object, message: string): void;
  /** Resolves when what was logged is with the operating system. */
  flush(): Promise<void>;
}

export interface LoggerOptions {
  readonly level: LogLevel;
  readonly redactor: Pick<Redactor, 'text' | 'value'>;
  /** `serve` logs to its standard output; a command keeps that for its answer and logs to standard error. */
  readonly to: 'stdout' | 'stderr' | DestinationStream;
}

/** What waits for a reader that does not read; beyond it lines are dropped, so that a stuck pipe cannot eat the memory. */
const MAX_WAITING = 16 * 1024 * 1024;

// Names that pino writes itself; a second one in a line would be read or not as the reader likes.
const TAKEN = new Set(['level', 'time', 'msg', 'pid', 'hostname']);

export function createLogger({ level, redactor, to }: LoggerOptions): Logger {
  // Asynchronous: a slow reader of the log must not stop the thread that moves bytes. Flushed when the process exits.
  const stream =
    typeof to === 'string'
      ? destination({ dest: to === 'stdout' ? 1 : 2, sync: false, maxLength: MAX_WAITING })
      : to;
  const lines = pino(
    {
      level: 'debug',
      base: null,
      timestamp: () => `,"time":"${rfc3339(Date.now())}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: (plain: unknown) => plain }, // pino has one of its own under this name
    },
    stream,
  );
  const write = (at: LogLevel) => (fields: object, message: string) =>
    lines[at](clean(fields, redactor), redactor.text(message));
  const filtered = (at: LogLevel) => (lines.levels.values[at] ?? 0) >= (lines.levels.values[level] ?? 0);
  const leveled = (at: LogLevel) => (filtered(at) ? write(at) : () => {});
  return {
    debug: leveled('debug'),
    info: leveled('info'),
    warn: leveled('warn'),
    error: leveled('error'),
    announce: write('info'),
    flush: () =>
      new Promise((resolve, reject) => lines.flush((error) => (error ? reject(error) : resolve()))),
  };
}

function clean(fields: object, redactor: Pick<Redactor, 'value'>): object {
  // An Error in place of fields is a slip that happens; its message must not be the thing that gets lost.
  const plain = redactor.value(fields instanceof Error ? { err: fields } : fields);
  if (plain === null || typeof plain !== 'object' || Array.isArray(plain)) return { fields: plain };
  return Object.fromEntries(
    Object.entries(plain).map(([name, value]) => [TAKEN.has(name) ? `${name}_` : name, value]),
  );
}
