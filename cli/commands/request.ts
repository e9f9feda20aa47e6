// `request open|list|show|approve|deny|withdraw`. A decision names the hash of what was read: with --hash that of the page
// that a person has before them, without it that of what the command read a moment before, and then shows.

import type { z } from 'zod';
import type { requestAnswer, useAnswer } from '../../control/broker-schemas.ts';
import { query } from '../../control/client.ts';
import type { Context } from '../command.ts';
import { facts, jsonText, table } from '../output.ts';
import { askOf, type Grant, pairs } from './grant.ts';

type Request = z.output<typeof requestAnswer>;
type Shown = Request & { readonly uses: readonly z.output<typeof useAnswer>[] };

export async function open(context: Context): Promise<number> {
  const wait = context.flag('wait');
  const body = {
    ...askOf(context),
    justification: context.flag('justification') ?? '',
    ...(wait !== undefined && { requestTtl: wait }),
  };
  return tell(context, await (await context.client()).call<Request>('POST', '/v1/requests', body));
}

export async function list(context: Context): Promise<number> {
  const filter = { state: context.flag('state'), secret: context.flag('secret') };
  const client = await context.client();
  const answer = await client.call<{ requests: Request[] }>('GET', `/v1/requests${query(filter)}`);
  if (context.json) context.out(jsonText(answer));
  else if (answer.requests.length === 0) context.out('There are no requests.\n');
  else
    context.out(
      table(
        ['REQUEST', 'BY', 'SECRET', 'TO', 'FOR', 'STATE', 'LAPSES', 'WHY'],
        answer.requests.map((one) => [
          one.requestId,
          one.requestedBy,
          one.secretName,
          one.subject,
          one.ttl,
          one.state,
          one.expiresAt,
          short(one.justification),
        ]),
      ),
    );
  return 0;
}

export async function show(context: Context): Promise<number> {
  const request = await (await context.client()).call<Shown>('GET', at(context));
  if (context.json) context.out(jsonText(request));
  else {
    context.out(facts(describe(request)));
    if (request.uses.length > 0)
      context.out(
        `\n${table(
          ['USED BY LEASE', 'PROJECT', 'EXECUTOR', 'RUN', 'FIRST', 'LAST'],
          request.uses.map((use) => [
            use.leaseId,
            use.projectId ?? '',
            use.executorId ?? '',
            use.runId ?? '',
            use.firstSeen,
            use.lastSeen,
          ]),
        )}`,
      );
  }
  return 0;
}

export async function approve(context: Context): Promise<number> {
  const ttl = context.flag('ttl');
  const client = await context.client();
  const answer = await client.call<Request & { grant: Grant }>('POST', `${at(context)}/approve`, {
    ...(await decision(context)),
    ...(ttl !== undefined && { ttl }),
  });
  context.out(context.json ? jsonText(answer) : facts(describe(answer)));
  return 0;
}

export async function deny(context: Context): Promise<number> {
  const client = await context.client();
  return tell(context, await client.call<Request>('POST', `${at(context)}/deny`, await decision(context)));
}

export async function withdraw(context: Context): Promise<number> {
  return tell(context, await (await context.client()).call<Request>('POST', `${at(context)}/withdraw`));
}

async function decision(context: Context): Promise<{ contentHash: string; note?: string }> {
  const note = context.flag('note');
  const contentHash =
    context.flag('hash') ?? (await (await context.client()).call<Request>('GET', at(context))).contentHash;
  return { contentHash, ...(note !== undefined && { note }) };
}

const at = (context: Context): string => `/v1/requests/${encodeURIComponent(context.args[0] ?? '')}`;

function tell(context: Context, request: Request): number {
  context.out(context.json ? jsonText(request) : facts(describe(request)));
  return 0;
}

function describe(request: Request): (readonly [string, string | undefined])[] {
  const decided = request.decidedBy && `${request.decidedAt ?? ''} by ${request.decidedBy}`;
  return [
    ['request', request.requestId],
    ['state', request.state],
    ['by', request.requestedBy],
    ['secret', `${request.secretName} (${request.kind})`],
    ['to', request.subject],
    ['constraints', request.summary],
    ['labels', request.labels && pairs(request.labels)],
    ['for', request.ttl],
    ['why', request.justification],
    ['lapses', request.state === 'pending' ? request.expiresAt : undefined],
    ['hash', request.contentHash],
    ['decided', decided],
    ['note', request.decisionNote],
    ['grant', request.grantId && `${request.grantId} until ${request.grantExpiresAt ?? ''}`],
  ];
}

function short(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ');
  return line.length > 60 ? `${line.slice(0, 59)}…` : line;
}
