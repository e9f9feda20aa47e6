// One run of the test runner in a copy, as a process group of its own, ended after its time. What counts is a test that
// failed: a file that can't be loaded any more proves nothing about a rule.

import { spawn } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { Copy } from './copy.ts';

export const RUN_MS = 120_000;

export type Outcome =
  | { readonly kind: 'passed' }
  /** The first test that failed. */
  | { readonly kind: 'failed'; readonly by: string }
  /** No test failed, and yet the run did: the sources do not load, or something broke outside of a test. */
  | { readonly kind: 'broken'; readonly why: string }
  | { readonly kind: 'timed_out' };

interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly message?: string;
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}

export async function runTests(
  copy: Copy,
  files: readonly string[],
  signal: AbortSignal,
  extra: readonly string[] = [],
): Promise<Outcome> {
  const report = join(copy.reports, 'report.json');
  rmSync(report, { force: true });
  const child = spawn(
    process.execPath,
    [
      join(copy.dir, 'node_modules/vitest/vitest.mjs'),
      'run',
      ...files,
      ...extra,
      '--maxWorkers=1',
      '--reporter=json',
      `--outputFile=${report}`,
    ],
    {
      cwd: copy.dir,
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
      env: {
        ...process.env,
        PATH: `${join(copy.dir, 'node_modules/.bin')}${delimiter}${process.env.PATH ?? ''}`,
        NO_COLOR: '1',
      },
    },
  );
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString('utf8')).slice(-2000);
  });
  let timedOut = false;
  const end = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {} // gone already
  };
  const timer = setTimeout(() => {
    timedOut = true;
    end();
  }, RUN_MS);
  signal.addEventListener('abort', end, { once: true });
  const code = await new Promise<number | null>((resolve) => {
    child.on('error', () => resolve(null));
    child.on('exit', resolve);
  });
  clearTimeout(timer);
  signal.removeEventListener('abort', end);
  end(); // whatever the tests left running in the group
  if (timedOut) return { kind: 'timed_out' };
  if (code === 0) return { kind: 'passed' };
  return readOutcome(report, said);
}

function readOutcome(path: string, said: string): Outcome {
  try {
    const { testResults } = JSON.parse(readFileSync(path, 'utf8')) as Report;
    const failed = testResults.flatMap(({ assertionResults }) =>
      assertionResults.filter(({ status }) => status === 'failed'),
    );
    if (failed[0]) return { kind: 'failed', by: failed[0].fullName };
    const message = testResults.map((each) => each.message ?? '').find((text) => text !== '');
    return { kind: 'broken', why: firstLine(message ?? said) };
  } catch {
    return { kind: 'broken', why: firstLine(said) };
  }
}

function firstLine(text: string): string {
  return text.split('\n').find((line) => line.trim() !== '') ?? 'the run failed without a word';
}
