// The result as a Markdown table, room by room: the rule, the file, what became of it, and the test that found it.

import type { Mutation } from './mutation.ts';

export type Verdict = 'killed' | 'survived' | 'did not apply' | 'not judged';

export interface Result {
  readonly room: string;
  readonly mutation: Mutation;
  readonly verdict: Verdict;
  /** The test that failed, or what kept it from being judged. */
  readonly note: string;
}

export function table(results: readonly Result[]): string {
  const rooms = [...new Set(results.map(({ room }) => room))];
  const lines = rooms.flatMap((room) => [
    '',
    `### ${room}`,
    '',
    '| broken rule | file | result | test |',
    '| --- | --- | --- | --- |',
    ...results
      .filter((result) => result.room === room)
      .map(({ mutation: { rule, file }, verdict, note }) => row([rule, `\`${file}\``, verdict, note])),
  ]);
  return [...lines, '', summary(results)].join('\n');
}

export function summary(results: readonly Result[]): string {
  const of = (verdict: Verdict): number => results.filter((result) => result.verdict === verdict).length;
  return (
    `${results.length} rules broken: ${of('killed')} killed, ${of('survived')} survived, ` +
    `${of('did not apply')} did not apply, ${of('not judged')} not judged`
  );
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll(/[\r\n]+/g, ' ').replaceAll('|', '\\|')).join(' | ')} |`;
}
