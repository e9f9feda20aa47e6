// `secret mint|replace|import|list|show|delete`.

import type { z } from 'zod';
import type { importAnswer, secretAnswer } from '../../control/broker-schemas.ts';
import type { Context } from '../command.ts';
import { readLabels } from '../labels.ts';
import { facts, jsonText, table } from '../output.ts';
import { payloadInput } from '../payload-input.ts';
import { secretInput } from '../secret-input.ts';

type Secret = z.output<typeof secretAnswer>;

const at = (context: Context): string => `/v1/secrets/${encodeURIComponent(context.args[0] ?? '')}`;

export async function mint(context: Context): Promise<number> {
  const owner = context.flag('owner');
  const meta = context.all('meta');
  const body = {
    name: context.args[0] ?? '',
    kind: context.flag('kind') ?? '',
    ...(await payloadInput(context)),
    ...(owner !== undefined && { owner }),
    ...(meta.length > 0 && { metadata: readLabels(meta, '--meta') }),
  };
  return tell(context, await (await context.client()).call<Secret>('POST', '/v1/secrets', body));
}

export async function replace(context: Context): Promise<number> {
  const body = await payloadInput(context);
  return tell(context, await (await context.client()).call<Secret>('POST', `${at(context)}/payload`, body));
}

export async function importFlat(context: Context): Promise<number> {
  const payload = await secretInput('--file', context.flag('file') ?? '', context.stdin, 'many');
  const client = await context.client();
  const answer = await client.call<z.output<typeof importAnswer>>('POST', '/v1/secrets/import', {
    payload: payload.reveal(),
  });
  if (context.json) context.out(jsonText(answer));
  else
    context.out(
      facts([
        ['imported', answer.imported.join(' ') || 'nothing'],
        ['there already', answer.skipped.join(' ') || undefined],
      ]),
    );
  return 0;
}

export async function list(context: Context): Promise<number> {
  const answer = await (await context.client()).call<{ secrets: Secret[] }>('GET', '/v1/secrets');
  if (context.json) context.out(jsonText(answer));
  else if (answer.secrets.length === 0) context.out('There are no secrets.\n');
  else
    context.out(
      table(
        ['NAME', 'KIND', 'OWNER', 'HOLDS', 'UPDATED', 'ID'],
        answer.secrets.map((one) => [
          one.name,
          one.kind,
          one.owner ?? '',
          one.reference === undefined ? one.names.join(',') : `by reference ${one.names.join(',')}`.trim(),
          one.updatedAt,
          one.secretId,
        ]),
      ),
    );
  return 0;
}

export async function show(context: Context): Promise<number> {
  return tell(context, await (await context.client()).call<Secret>('GET', at(context)));
}

export async function remove(context: Context): Promise<number> {
  const client = await context.client();
  const answer = await client.call<{ secretId: string; name: string }>('DELETE', at(context));
  context.out(context.json ? jsonText(answer) : `${answer.name} is deleted, and its grants are revoked\n`);
  return 0;
}

function tell(context: Context, secret: Secret): number {
  const metadata = Object.entries(secret.metadata).map(([key, value]) => `${key}=${value}`);
  context.out(
    context.json
      ? jsonText(secret)
      : facts([
          ['secret', secret.name],
          ['id', secret.secretId],
          ['kind', secret.kind],
          ['owner', secret.owner],
          ['holds', secret.names.join(' ') || undefined],
          ['reference', secret.reference === undefined ? undefined : JSON.stringify(secret.reference)],
          ['notes', metadata.join(' ') || undefined],
          ['created', `${secret.createdAt} by ${secret.createdBy}`],
          ['updated', `${secret.updatedAt} by ${secret.updatedBy}`],
        ]),
  );
  return 0;
}
