import type { z } from 'zod';
import { PosternError } from '../common/errors.ts';
import type { Log } from '../common/log.ts';
import type { Row } from '../store/store.ts';

/** A row's body, from a value that is plain data already. */
export function toBody(value: object): Row['body'] {
  return value as Row['body'];
}

/**
 * Reads a row's body back. A row that is not what it should be is an error: nothing is granted on a guess.
 * @throws PosternError `sealed_data_tampered`
 */
export function fromBody<T extends z.ZodType>(schema: T, row: Row, what: string): z.output<T> {
  const result = schema.safeParse(row.body);
  if (result.success) return result.data;
  const path = result.error.issues[0]?.path.join('.') ?? '';
  throw new PosternError('sealed_data_tampered', `The row of ${what} ${row.id} cannot be read (${path}).`);
}

/** Those of the rows that can be read. One that can't is in the log and keeps nobody from the others. */
export function readRows<T>(rows: readonly Row[], read: (row: Row) => T, log: Log): T[] {
  return rows.flatMap((row) => {
    try {
      return [read(row)];
    } catch (error) {
      log.error({ err: error, row: row.id }, 'a row cannot be read and is left out');
      return [];
    }
  });
}
