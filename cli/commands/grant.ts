// `grant create|list|show|revoke`.

import type { z } from 'zod';
import type { grantAnswer } from '../../control/broker-schemas.ts';
import { query } from '../../control/client.ts';
import type { Context } from '../command.ts';
import { readConstraints } from '../constraint-flags.ts';
import { readLabels } from '../labels.ts';
import { facts, jsonText, table } from '../output.ts';

export type Grant = z.output<typeof grantAnswer>;

/** What `grant create` and `request open` ask for. */
export function askOf(context: Context) {
  const [ttl, scope] = ['ttl', 'scope'].map(context.flag);
  const labels = context.all('label');
  return {
    secret: context.args[0] ?? '',
    subject: context.flag('to') ?? '',
    constraints: readConstraints(context),
    ...(ttl !== undefined && { ttl }),
    ...(scope !== undefined && { scope }),
    ...(labels.length > 0 && { labels: readLabels(labels) }),
  };
}

export async function create(context: Context): Promise<number> {
  return tell(context, await (await context.client()).call<Grant>('POST', '/v1/grants', askOf(context)));
}

export async function list(context: Context): Promise<number> {
  const filter = {
    secret: context.flag('secret'),
    subject: context.flag('to'),
    active: context.has('active') ? 'true' : undefined,
  };
  const answer = await (await context.client()).call<{ grants: Grant[] }>(
    'GET',
    `/v1/grants${query(filter)}`,
  );
  if (context.json) context.out(jsonText(answer));
  else if (answer.grants.length === 0) context.out('There are no grants.\n');
  else
    context.out(
      table(
        ['GRANT', 'SECRET', 'TO', 'CONSTRAINTS', 'STATE', 'EXPIRES'],
        answer.grants.map((one) => [
          one.grantId,
          one.secretName,
          one.subject,
          one.summary,
          one.state,
          one.expiresAt ?? 'never',
        ]),
      ),
    );
  return 0;
}

export async function show(context: Context): Promise<number> {
  return tell(context, await (await context.client()).call<Grant>('GET', at(context)));
}

export async function revoke(context: Context): Promise<number> {
  const grant = await (await context.client()).call<Grant>('DELETE', at(context));
  context.out(context.json ? jsonText(grant) : `${grant.grantId} of ${grant.secretName} is revoked\n`);
  return 0;
}

const at = (context: Context): string => `/v1/grants/${encodeURIComponent(context.args[0] ?? '')}`;

function tell(context: Context, grant: Grant): number {
  context.out(context.json ? jsonText(grant) : facts(describe(grant)));
  return 0;
}

/** `k=v, k=v` */
export function pairs(labels: { readonly [key: string]: string }): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(', ');
}

function describe(grant: Grant): (readonly [string, string | undefined])[] {
  return [
    ['grant', grant.grantId],
    ['secret', `${grant.secretName} (${grant.kind})`],
    ['owner', grant.owner],
    ['to', grant.subject],
    ['constraints', grant.summary],
    ['scope', grant.scope],
    ['labels', grant.labels && pairs(grant.labels)],
    ['state', grant.state],
    ['expires', grant.expiresAt ?? 'never'],
    ['created', `${grant.createdAt} by ${grant.createdBy}`],
    ['revoked', grant.revokedAt && `${grant.revokedAt} by ${grant.revokedBy ?? ''}`],
    ['request', grant.requestId],
  ];
}
