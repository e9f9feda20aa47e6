// `audit list|tail|verify|export`: from the folder of the configuration, with or without a server running there; from a
// server's API where one is named. The trail is read where it lies, so that an auditor needs no running Postern.

import { readFile, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { ACTIONS, type AuditRecord } from '../../audit/event.ts';
import { type AuditQuery, exportAudit } from '../../audit/query.ts';
import { tailAudit } from '../../audit/tail.ts';
import { noChain, type VerifyResult, verifyAudit } from '../../audit/verify.ts';
import { safePath, safeRef } from '../../broker/safe-ref.ts';
import { PosternError } from '../../common/errors.ts';
import { page, readTime } from '../../control/audit-routes.ts';
import { query as queryText } from '../../control/client.ts';
import type { Context } from '../command.ts';
import { suggest } from '../config-problems.ts';
import { jsonText, printable, table } from '../output.ts';

const PAGE = 1000;
const DECISIONS = ['allow', 'deny', 'error'];

export async function list(context: Context): Promise<number> {
  const limit = readLimit(context.flag('limit'));
  const records = context.remote
    ? await fetchPage(context, { limit: String(limit) })
    : await page(await existing(context), readFilters(context), limit);
  if (context.json) context.out(jsonText({ records }));
  else if (records.length === 0) context.out('No record matches.\n');
  else context.out(table(HEAD, records.map(row)));
  return 0;
}

export async function tail(context: Context): Promise<number> {
  const filters = readFilters(context);
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort()).once('SIGTERM', () => stop.abort());
  const records = context.remote
    ? follow(context, stop.signal)
    : tailAudit(await existing(context), { ...filters, signal: stop.signal });
  for await (const record of records)
    context.out(
      context.json ? `${JSON.stringify(record)}\n` : `${row(record).map(printable).join('  ').trimEnd()}\n`,
    );
  return 0;
}

export async function verify(context: Context): Promise<number> {
  const result = context.remote
    ? await (await context.client()).call<VerifyResult>('GET', '/v1/audit/verify')
    : await verifyAudit(await auditDir(context), await kept(context));
  if (context.json) context.out(jsonText(result));
  else if (result.ok) context.out(describe(result));
  else {
    const { break: at } = result;
    const place = at && `(${at.file}, line ${at.line})`; // most messages end with it
    const where = at
      ? `record ${at.seq} ${place}: ${at.kind}, ${at.message.replace(` ${place}`, '')}`
      : 'the chain';
    context.out(`BROKEN at ${printable(where)}\n${result.records} records before it are linked.\n`);
  }
  return result.ok ? 0 : 1;
}

/** Lines as they stand in the chain, so that what was exported whole can be verified. */
export async function exportRecords(context: Context): Promise<number> {
  if (context.remote) {
    let after = 0;
    for (;;) {
      const records = await fetchPage(context, { after: String(after), limit: String(PAGE) });
      for (const record of records) context.out(`${JSON.stringify(record)}\n`);
      const last = records.at(-1);
      if (!last || records.length < PAGE) return 0;
      after = last.seq;
    }
  }
  for await (const line of exportAudit(await existing(context), readFilters(context)))
    await write(context, line);
  return 0;
}

async function auditDir(context: Context): Promise<string> {
  return (await context.config()).audit.dir;
}

/** The folder to read records from; one that is not there is no trail without records. */
async function existing(context: Context): Promise<string> {
  const dir = await auditDir(context);
  if (!(await stat(dir).catch(() => undefined))?.isDirectory()) throw noChain(dir);
  return dir;
}

function readFilters(context: Context): AuditQuery {
  const now = Date.now();
  const [sessionId, leaseId, action, decision] = ['session', 'lease', 'action', 'decision'].map(context.flag);
  if (decision !== undefined && !DECISIONS.includes(decision))
    throw new PosternError('invalid_input', `--decision must be one of ${DECISIONS.join(', ')}.`, {
      key: '--decision',
    });
  if (action !== undefined && !(ACTIONS as readonly string[]).includes(action)) throw noAction(action);
  const [since, until] = (['since', 'until'] as const).map((name) => {
    const text = context.flag(name);
    return text === undefined ? undefined : readTime(text, `--${name}`, now);
  });
  return {
    ...(sessionId !== undefined && { sessionId }),
    ...(leaseId !== undefined && { leaseId }),
    ...(action !== undefined && { action }),
    ...(decision !== undefined && { decision }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
  };
}

function noAction(action: string): PosternError {
  const near = suggest(action, ACTIONS) || '.';
  return new PosternError('invalid_input', `--action: there is no action ${safeRef(action)}${near}`, {
    key: '--action',
    remedy: `The actions are ${ACTIONS.join(', ')}.`,
  });
}

/** A checkpoint and a key that were kept elsewhere: only they tell a chain that was rewritten as a whole. */
async function kept(context: Context): Promise<{ publicKey?: string; checkpoints?: string[] }> {
  const read = async (name: string): Promise<string | undefined> => {
    const path = context.flag(name);
    if (path === undefined) return undefined;
    return readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
      throw new PosternError(
        'invalid_input',
        `--${name}: ${safePath(path)} can't be read (${cause.code ?? 'failed'}).`,
        {
          key: `--${name}`,
          cause,
        },
      );
    });
  };
  const publicKey = await read('public-key');
  const checkpoints = await read('checkpoints');
  return {
    ...(publicKey !== undefined && { publicKey }),
    ...(checkpoints !== undefined && {
      checkpoints: checkpoints.split('\n').filter((line) => line.trim() !== ''),
    }),
  };
}

async function fetchPage(context: Context, more: { [name: string]: string }): Promise<AuditRecord[]> {
  readFilters(context); // the same complaints as from the folder, before anything is asked
  const members = {
    sessionId: context.flag('session'),
    leaseId: context.flag('lease'),
    action: context.flag('action'),
    decision: context.flag('decision'),
    since: context.flag('since'),
    until: context.flag('until'),
    ...more,
  };
  const client = await context.client();
  return (await client.call<{ records: AuditRecord[] }>('GET', `/v1/audit${queryText(members)}`)).records;
}

async function* follow(context: Context, signal: AbortSignal): AsyncGenerator<AuditRecord> {
  let records = await fetchPage(context, { limit: '10' });
  let after = 0;
  while (!signal.aborted) {
    yield* records;
    after = records.at(-1)?.seq ?? after;
    await sleep(1000, undefined, { signal }).catch(() => {});
    if (!signal.aborted) records = await fetchPage(context, { after: String(after), limit: String(PAGE) });
  }
}

function readLimit(text: string | undefined): number {
  if (text === undefined) return PAGE;
  if (/^[1-9]\d{0,6}$/.test(text)) return Number(text);
  throw new PosternError('invalid_input', '--limit must be a whole number from 1.', { key: '--limit' });
}

const HEAD = ['SEQ', 'TIME', 'ACTION', 'DECISION', 'ACTOR', 'SESSION', 'WHAT', 'CODE', 'REASON'];

function row(record: AuditRecord): string[] {
  return [
    String(record.seq),
    record.time,
    record.action,
    record.decision,
    record.actor ?? '',
    record.sessionId ?? '',
    what(record),
    record.code ?? '',
    record.reason ?? '',
  ];
}

/** What it was about, in a word or two: a repository and its refs, or a verb, a resource and its place. */
function what({ repo, refs, verb, resource, subresource, namespace, name }: AuditRecord): string {
  if (repo !== undefined)
    return [repo, ...(refs ?? []).slice(0, 3).map((ref) => `${ref.op} ${ref.ref}`)].join(' ');
  const kind = [resource, subresource].filter(Boolean).join('/');
  return [verb, kind, [namespace, name].filter(Boolean).join('/')].filter(Boolean).join(' ');
}

function describe({ records, first, last, checkpoints, signedUpTo }: VerifyResult): string {
  if (records === 0) return 'The trail is empty.\n';
  const signed = signedUpTo === undefined ? 'none is signed yet' : `signed up to record ${signedUpTo}`;
  return `The chain is whole: ${records} records, ${first} to ${last}, ${checkpoints} checkpoints, ${signed}.\n`;
}

/** Waits where the reader is slower: a trail is larger than memory. */
async function write(context: Context, text: string): Promise<void> {
  context.out(text);
  if (process.stdout.writableNeedDrain) await new Promise((resolve) => process.stdout.once('drain', resolve));
}
