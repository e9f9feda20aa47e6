// `lease create|list|show|renew|release`. The folder is made or checked before anything is leased, and a lease whose files
// can't be written is released again.

import { rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { query } from '../../control/client.ts';
import type { LeaseDelivery, LeaseView } from '../../control/lease-schemas.ts';
import { openLeaseOut } from '../../delivery/lease-out.ts';
import { shellWord } from '../../delivery/quote.ts';
import type { Context } from '../command.ts';
import { readLabels } from '../labels.ts';
import { facts, jsonText, table } from '../output.ts';
import { configHome, privateFolder } from './issue.ts';

/** Whom the flags say that a lease is for. */
export function requesterOf(context: Context) {
  const members = { projectId: 'project', executorId: 'executor', runId: 'run', taskId: 'task' };
  const given = Object.entries(members)
    .map(([member, flag]) => [member, context.flag(flag)] as const)
    .filter(([, value]) => value !== undefined);
  const labels = context.all('label');
  return { ...Object.fromEntries(given), ...(labels.length > 0 && { labels: readLabels(labels) }) };
}

export async function create(context: Context): Promise<number> {
  const client = await context.client();
  const wanted = context.flag('out') ?? (context.json ? undefined : (await privateFolder(context.env)).dir);
  const out = wanted === undefined ? undefined : await openLeaseOut(wanted);
  const body = {
    ...requesterOf(context),
    ...terms(context),
    ...(out && { dir: out.dir, ...configHome(context.env) }),
  };
  const answer = await client
    .call<LeaseDelivery>('POST', '/v1/leases', body)
    .catch(async (error: unknown) => {
      // The private one was made for this, and is empty.
      if (out && context.flag('out') === undefined) await rmdir(out.dir).catch(() => {});
      await out?.discard();
      throw error;
    });
  try {
    await out?.write(answer);
  } catch (error) {
    await client.call('DELETE', at(answer.leaseId));
    await out?.wipe();
    throw error;
  }
  if (context.json) context.out(jsonText(out ? { ...answer, out: out.dir } : answer));
  else context.out(`${facts(describe(answer))}\n. ${shellWord(join(out?.dir ?? '', 'env'))}\n`);
  return 0;
}

export async function list(context: Context): Promise<number> {
  const filter = {
    projectId: context.flag('project'),
    executorId: context.flag('executor'),
    runId: context.flag('run'),
  };
  const answer = await (await context.client()).call<{ leases: LeaseView[] }>(
    'GET',
    `/v1/leases${query(filter)}`,
  );
  if (context.json) context.out(jsonText(answer));
  else if (answer.leases.length === 0) context.out('There are no leases.\n');
  else
    context.out(
      table(
        ['LEASE', 'PROJECT', 'EXECUTOR', 'RUN', 'SECRETS', 'EXPIRES', 'BY'],
        answer.leases.map((one) => [
          one.leaseId,
          one.projectId ?? '',
          one.executorId ?? '',
          one.runId ?? '',
          [...new Set(one.grants.map((grant) => grant.secretName))].join(','),
          one.expiresAt,
          one.actor,
        ]),
      ),
    );
  return 0;
}

export async function show(context: Context): Promise<number> {
  const lease = await (await context.client()).call<LeaseView>('GET', at(context.args[0] ?? ''));
  if (context.json) context.out(jsonText(lease));
  else
    context.out(
      facts([
        ...whom(lease),
        ['state', lease.state],
        ['issued', `${lease.issuedAt} by ${lease.actor}`],
        ['renewed', lease.renewedAt],
        ['expires', lease.expiresAt],
        ...lease.grants.map((one) => ['grant', `${one.grantId} of ${one.secretName} (${one.kind})`] as const),
        ...lease.sessions.map(
          (one) => [`${one.guard} session`, `${one.sessionId}, ${one.state}: ${one.summary}`] as const,
        ),
        ...lease.denied.map((one) => ['denied', `${one.grantId}: ${one.reason}`] as const),
        ['outstanding', lease.outstanding.join(' ') || undefined],
      ]),
    );
  return 0;
}

export async function renew(context: Context): Promise<number> {
  const id = context.args[0] ?? '';
  const client = await context.client();
  const wanted = context.flag('out');
  const out = wanted === undefined ? undefined : await openLeaseOut(wanted, id);
  const body = { ...terms(context), ...(out && { dir: out.dir, ...configHome(context.env) }) };
  const answer = await client.call<LeaseDelivery>('POST', `${at(id)}/renew`, body);
  await out?.write(answer);
  if (context.json) context.out(jsonText(out ? { ...answer, out: out.dir } : answer));
  else context.out(facts(describe(answer)));
  return 0;
}

export async function release(context: Context): Promise<number> {
  const id = context.args[0] ?? '';
  const wanted = context.flag('out');
  const out = wanted === undefined ? undefined : await openLeaseOut(wanted, id);
  const answer = await (await context.client()).call<{ released: boolean }>('DELETE', at(id));
  await out?.wipe();
  if (context.json) context.out(jsonText(answer));
  else context.out(answer.released ? `${id} is released\n` : `${id} had ended already\n`);
  return 0;
}

function terms(context: Context): { ttl?: string } {
  const ttl = context.flag('ttl');
  return ttl === undefined ? {} : { ttl };
}

const at = (id: string): string => `/v1/leases/${encodeURIComponent(id)}`;

function whom(lease: Pick<LeaseView, 'leaseId' | 'projectId' | 'executorId' | 'runId'>) {
  return [
    ['lease', lease.leaseId],
    ['project', lease.projectId],
    ['executor', lease.executorId],
    ['run', lease.runId],
  ] as const;
}

function describe(answer: LeaseDelivery): (readonly [string, string | undefined])[] {
  return [
    ...whom(answer),
    ['expires', answer.expiresAt],
    ['access', answer.empty ? 'none: no grant matches' : undefined],
    ...answer.summary.map(({ text }) => ['access', text] as const),
    ...answer.mounts.map((one) => ['mount', `${one.source} at ${one.target}`] as const),
    ...answer.devices.map((one) => ['device', `${one.source} at ${one.target}`] as const),
    ...answer.denied.map((one) => ['denied', `${one.secretName ?? one.grantId}: ${one.reason}`] as const),
    ['revoked', answer.revoked.join(' ') || undefined],
    ['files', answer.dir],
  ];
}
