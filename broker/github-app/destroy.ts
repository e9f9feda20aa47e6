// Ending tokens at GitHub. A token that is to go moves into a set of its own in the commit that takes it out of use, and
// leaves that set when GitHub says that it is dead or when its hour is over: a crash or an outage in between forgets
// none. Each end is on the record as what it is, apart from the revocation of a grant.

import { z } from 'zod';
import { rfc3339 } from '../../common/clock.ts';
import { Credential } from '../../common/credential.ts';
import { newId } from '../../common/ids.ts';
import type { Row, Write } from '../../store/store.ts';
import { fromBody, readRows, toBody } from '../body.ts';
import type { Context } from '../context.ts';
import { reasonOf } from '../failure.ts';
import { SETS } from '../sets.ts';
import type { StoredToken } from './token-row.ts';

type Base = Omit<Context, 'appTokens'>;

const body = z.object({
  grantId: z.string(),
  secretId: z.string(),
  secretName: z.string(),
  apiUrl: z.string(),
  expiresAt: z.number(),
  destroyAfter: z.number(),
  failed: z.boolean(),
});

/** @param destroyAfter milliseconds; 0 is at once */
export function endingRow(
  { deps, now }: Base,
  stored: StoredToken,
  token: Credential,
  destroyAfter: number,
): Extract<Write, { op: 'put' }> {
  const id = newId('end', now());
  const { grantId, secretId, secretName, apiUrl, expiresAt } = stored;
  return {
    op: 'put',
    set: SETS.endingTokens,
    expect: 0,
    row: {
      id,
      body: toBody({ grantId, secretId, secretName, apiUrl, expiresAt, destroyAfter, failed: false }),
      sealed: deps.keyring.seal({ set: SETS.endingTokens, id }, Buffer.from(token.reveal())),
      index: {},
    },
  };
}

/**
 * Destroys the tokens that are due, each by itself: where GitHub hangs, one does not wait for another. A failure is on the
 * record once and is tried again by the next sweep.
 * @param only the row of one token; whoever releases a lease waits for its own and for no other
 */
export async function destroyTokens(context: Base, actor: string, only?: string): Promise<void> {
  const { store, log } = context.deps;
  const one = only === undefined ? undefined : await store.get(SETS.endingTokens, only);
  const rows = only === undefined ? await store.list(SETS.endingTokens) : one ? [one] : [];
  const endings = readRows(rows, (row) => ({ row, ending: fromBody(body, row, 'the ending token') }), log);
  const due = endings.filter(({ ending }) => ending.destroyAfter <= context.now());
  await Promise.all(due.map(({ row, ending }) => destroyOne(context, row, ending, actor)));
}

async function destroyOne(
  context: Base,
  row: Row,
  ending: z.output<typeof body>,
  actor: string,
): Promise<void> {
  const { deps, now } = context;
  const { grantId, secretId, secretName } = ending;
  const event = {
    action: 'github_app.token_destroy',
    actor,
    grantId,
    secretId,
    secretName,
    kind: 'github_app',
  } as const;
  const done: Write = { op: 'delete', set: SETS.endingTokens, id: row.id, expect: row.rev };
  if (ending.expiresAt <= now()) {
    if (await deps.store.commit([done]))
      await context.record({ ...event, decision: 'allow', reason: 'it ended by itself' });
    return;
  }
  try {
    await deps.github.destroyToken(ending.apiUrl, open(context, row));
  } catch (error) {
    const failed = { ...ending, failed: true };
    const { id, index, sealed } = row;
    const noted: Write = {
      op: 'put',
      set: SETS.endingTokens,
      expect: row.rev,
      row: { id, index, body: toBody(failed), ...(sealed && { sealed }) },
    };
    if (!ending.failed && (await deps.store.commit([noted])))
      await context.record({
        ...event,
        decision: 'error',
        reason: reasonOf(error),
        expiresAt: rfc3339(ending.expiresAt),
      });
    return;
  }
  if (await deps.store.commit([done])) await context.record({ ...event, decision: 'allow' });
}

function open({ deps }: Base, row: Row): Credential {
  if (!row.sealed) return new Credential('');
  const bytes = deps.keyring.open({ set: SETS.endingTokens, id: row.id }, row.sealed);
  try {
    return new Credential(bytes.toString('utf8'));
  } finally {
    bytes.fill(0);
  }
}
