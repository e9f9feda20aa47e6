import { PosternError } from '../../common/errors.ts';
import { readRows } from '../body.ts';
import type { Caller } from '../caller.ts';
import type { Context } from '../context.ts';
import { safeRef } from '../safe-ref.ts';
import { findSecret } from '../secrets/find.ts';
import { visibleTo } from '../secrets/ownership.ts';
import { SETS } from '../sets.ts';
import { formatSubject, parseSubject } from '../subject.ts';
import { rowKey } from '../text.ts';
import { endedBecause, type Grant, readGrant, type StoredGrant } from './grant.ts';

export interface GrantFilter {
  /** As `--to` takes it. */
  readonly subject?: string | undefined;
  /** Id or name of a secret. */
  readonly secret?: string | undefined;
  /** Leaves out the revoked and the expired. */
  readonly activeOnly?: boolean | undefined;
}

/** Newest first. Grants over personal secrets are seen by those who see the secret. */
export async function listGrants(context: Context, filter: GrantFilter, caller: Caller): Promise<Grant[]> {
  const { deps } = context;
  const secret =
    filter.secret === undefined ? undefined : (await findSecret(context, filter.secret, caller)).secret;
  const rows = await deps.store.list(
    SETS.grants,
    secret ? { where: { index: 'secret', value: secret.id } } : {},
  );
  const subject = filter.subject === undefined ? undefined : formatSubject(parseSubject(filter.subject));
  return readRows(rows, readGrant, deps.log)
    .map(({ grant }) => grant)
    .filter((grant) => visibleTo(grant, caller))
    .filter((grant) => subject === undefined || formatSubject(grant.subject) === subject)
    .filter((grant) => !filter.activeOnly || endedBecause(grant, context.now()) === undefined)
    .reverse();
}

/** @throws PosternError `not_found` also for a grant of a personal secret that the caller may not see */
export async function findGrant({ deps }: Context, id: string, caller: Caller): Promise<StoredGrant> {
  const row = await deps.store.get(SETS.grants, rowKey(id));
  const stored = row && readGrant(row);
  if (stored && visibleTo(stored.grant, caller)) return stored;
  throw new PosternError('not_found', `There is no grant ${safeRef(id)}.`, {
    key: 'grant',
    remedy: 'postern grant list shows those that you can see.',
  });
}
