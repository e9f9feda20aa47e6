// `key add|list|status|rotate|retire`. A rotation runs in the server; this command waits for it and says how far it is.

import { setTimeout as sleep } from 'node:timers/promises';
import type { z } from 'zod';
import type { keyAnswer, keyStatusAnswer, rotationAnswer } from '../../control/broker-schemas.ts';
import type { ControlClient } from '../../control/client.ts';
import type { Context } from '../command.ts';
import { facts, jsonText, table } from '../output.ts';

type Key = z.output<typeof keyAnswer>;
type Status = z.output<typeof keyStatusAnswer>;
type Rotation = z.output<typeof rotationAnswer>;

export async function add(context: Context): Promise<number> {
  const key = await (await context.client()).call<Key>('POST', '/v1/keys');
  context.out(
    context.json
      ? jsonText(key)
      : `${key.id} seals from now on; postern key rotate moves what older keys seal\n`,
  );
  return 0;
}

export async function list(context: Context): Promise<number> {
  const answer = await (await context.client()).call<{ keys: Key[] }>('GET', '/v1/keys');
  context.out(context.json ? jsonText(answer) : keyTable(answer.keys));
  return 0;
}

export async function status(context: Context): Promise<number> {
  const answer = await (await context.client()).call<Status>('GET', '/v1/keys/status');
  if (context.json) context.out(jsonText(answer));
  else {
    context.out(keyTable(answer.keys, answer.usage));
    context.out(`\n${facts([['rows to rotate', String(answer.unrotated)]])}`);
    if (answer.rotations.length > 0)
      context.out(
        `\n${table(
          ['ROTATION', 'TO', 'STATE', 'MOVED', 'OF', 'FAILED', 'STARTED', 'BY'],
          answer.rotations.map((one) => [
            one.id,
            one.to,
            one.state,
            String(one.rewrapped),
            String(one.total),
            String(one.failed),
            one.startedAt,
            one.startedBy,
          ]),
        )}`,
      );
  }
  return 0;
}

export async function rotate(context: Context): Promise<number> {
  const client = await context.client();
  const dryRun = context.has('dry-run');
  const body = { ...(context.has('new-key') && { newKey: true }), ...(dryRun && { dryRun }) };
  const done = new AbortController();
  const watching = context.json || dryRun ? undefined : progress(client, context, done.signal);
  try {
    const report = await client.call<Rotation>('POST', '/v1/keys/rotate', body);
    if (context.json) context.out(jsonText(report));
    else
      context.out(
        facts([
          ['key', report.to],
          [dryRun ? 'would move' : 'moved', `${report.rewrapped} rows`],
          ['do not open', report.failed > 0 ? `${report.failed} rows` : undefined],
          ...report.errors.map((error) => ['', error] as const),
          ['complete', report.complete ? 'yes' : 'no'],
        ]),
      );
    return report.complete ? 0 : 1;
  } finally {
    done.abort();
    await watching;
  }
}

/** A line a second on standard error while it runs. What can't be read is said by the call itself. */
async function progress(client: ControlClient, context: Context, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(1000, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const latest = await client.call<Status>('GET', '/v1/keys/status').then(
      ({ rotations }) => rotations[0],
      () => undefined,
    );
    if (latest?.state === 'running' && !signal.aborted)
      context.err(`${latest.rewrapped} of ${latest.total} rows moved\n`);
  }
}

export async function retire(context: Context): Promise<number> {
  const id = encodeURIComponent(context.args[0] ?? '');
  const key = await (await context.client()).call<Key>('POST', `/v1/keys/${id}/retire`);
  context.out(context.json ? jsonText(key) : `${key.id} is retired: nothing derives it again\n`);
  return 0;
}

function keyTable(keys: readonly Key[], usage?: Status['usage']): string {
  const rows = (id: string): string => String(usage?.find((one) => one.id === id)?.rows ?? 0);
  return table(
    ['KEY', 'STATE', ...(usage ? ['ROWS'] : []), 'OPENS', 'CREATED', 'BY', 'RETIRED'],
    keys.map((key) => [
      key.id,
      key.state,
      ...(usage ? [rows(key.id)] : []),
      key.state === 'retired' ? '' : key.openable ? 'yes' : 'no',
      key.createdAt,
      key.createdBy,
      key.retiredAt ?? '',
    ]),
  );
}
