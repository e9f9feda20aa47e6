// `npm run check:mutations`: breaks the rules of the lists beside this file one after the other, each alone, in a private
// copy of the working tree, and runs the tests that are named for it. A test has to fail. First the same tests run
// unbroken, or their failing would prove nothing. Words after `--` choose: a room, or text of a rule or a file's name.
//
// Exit status 0 only where every rule could be broken and every break was found. Two runs at a time, 120 seconds each.

import { join } from 'node:path';
import * as audit from './audit.ts';
import * as broker from './broker.ts';
import * as constraints from './constraints.ts';
import { applyTo, type Copy, makeCopy, occurrences } from './copy.ts';
import * as gitproxy from './gitproxy.ts';
import * as keyring from './keyring.ts';
import * as kubeguard from './kubeguard.ts';
import * as leases from './leases.ts';
import type { Mutation } from './mutation.ts';
import * as requests from './requests.ts';
import * as sessions from './sessions.ts';
import { type Result, summary, table } from './table.ts';
import { type Outcome, RUN_MS, runTests } from './vitest.ts';

const ROOMS: { readonly [room: string]: readonly Mutation[] } = {
  'constraints and subjects': constraints.mutations,
  'secrets, ownership and grants': broker.mutations,
  requests: requests.mutations,
  leases: leases.mutations,
  keyring: keyring.mutations,
  sessions: sessions.mutations,
  'git guard': gitproxy.mutations,
  'Kubernetes guard': kubeguard.mutations,
  audit: audit.mutations,
};

const AT_ONCE = 2;

interface Task {
  readonly room: string;
  readonly mutation: Mutation;
}

const root = join(import.meta.dirname, '../..');
const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.abort());

const words = process.argv.slice(2).map((word) => word.toLowerCase());
const tasks = Object.entries(ROOMS)
  .flatMap(([room, mutations]) => mutations.map((mutation): Task => ({ room, mutation })))
  .filter(({ room, mutation: { file, rule } }) => {
    const text = `${room} ${file} ${rule}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
if (tasks.length === 0) {
  console.error(`Nothing is called so; the rooms are ${Object.keys(ROOMS).join(', ')}.`);
  process.exit(2);
}

const copies: Copy[] = [];
try {
  for (let i = 0; i < AT_ONCE; i++) copies.push(await makeCopy(root));
  const results = await checkAll(tasks);
  console.log(stop.signal.aborted ? 'Stopped.' : table(results));
  process.exitCode = !stop.signal.aborted && results.every(({ verdict }) => verdict === 'killed') ? 0 : 1;
} finally {
  for (const copy of copies) await copy.remove();
}

async function checkAll(all: readonly Task[]): Promise<Result[]> {
  const lists = new Map(all.map(({ mutation: { tests } }) => [tests.join(' '), tests]));
  const unbroken = new Map<string, Outcome>();
  await inCopies([...lists], async (copy, [key, files]) => {
    const outcome = await runTests(copy, files, stop.signal);
    unbroken.set(key, outcome);
    console.error(`${outcome.kind === 'passed' ? 'passes' : outcome.kind} unbroken: ${key}`);
  });
  const results = new Map<Task, Result>();
  await inCopies(all, async (copy, task) => {
    const result = { ...task, ...(await judge(copy, task.mutation, unbroken)) };
    results.set(task, result);
    console.error(`${result.verdict}: ${task.mutation.file}: ${task.mutation.rule}`);
  });
  const inOrder = all.map((task) => results.get(task)).filter((result) => result !== undefined);
  console.error(summary(inOrder));
  return inOrder;
}

async function judge(
  copy: Copy,
  mutation: Mutation,
  unbroken: ReadonlyMap<string, Outcome>,
): Promise<Pick<Result, 'verdict' | 'note'>> {
  const found = occurrences(copy.dir, mutation);
  if (found !== 1)
    return {
      verdict: 'did not apply',
      note: found < 0 ? 'there is no such file' : `its text is there ${found} times`,
    };
  if (unbroken.get(mutation.tests.join(' '))?.kind !== 'passed')
    return { verdict: 'not judged', note: `${mutation.tests.join(', ')} does not pass unbroken` };
  const restore = applyTo(copy, mutation);
  try {
    const outcome = await runTests(copy, mutation.tests, stop.signal, ['--bail=1']);
    switch (outcome.kind) {
      case 'passed':
        return { verdict: 'survived', note: `${mutation.tests.join(', ')} passes` };
      case 'failed':
        return { verdict: 'killed', note: outcome.by };
      case 'timed_out':
        return { verdict: 'not judged', note: `no end within ${RUN_MS / 1000} s` };
      case 'broken':
        return { verdict: 'not judged', note: outcome.why };
    }
  } finally {
    restore();
  }
}

/** Each copy takes the next of the list as soon as it is free. */
async function inCopies<T>(list: readonly T[], work: (copy: Copy, item: T) => Promise<void>): Promise<void> {
  const left = [...list];
  await Promise.all(
    copies.map(async (copy) => {
      for (let item = left.shift(); item !== undefined && !stop.signal.aborted; item = left.shift())
        await work(copy, item);
    }),
  );
}
