// Issuing: the session's row, its credentials sealed, both in one commit, and the token that is kept nowhere.

import type { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import { newId } from '../common/ids.ts';
import type { Keyring } from '../keyring/keyring.ts';
import type { Core } from './core.ts';
import { checkTtl, firstExpiry } from './expiry.ts';
import { putSession, type SessionRecord } from './record.ts';
import type { CredentialRef, NewSession, Session } from './session.ts';

/**
 * @param check called at the last moment before the session is stored; what it throws is thrown
 * @throws PosternError `invalid_input`, `ttl_too_long`, `store_unavailable`, what sealing meets
 */
export async function issueSession<P>(
  core: Core,
  keyring: Keyring,
  input: NewSession<P>,
  check: () => void,
): Promise<{ session: Session<P>; token: Credential }> {
  const { store, clock, tokens, custody, settings } = core;
  checkText('leaseId', input.leaseId);
  checkCredentials(input.credentials);
  const ttl = checkTtl(input.ttl, settings);
  const createdAt = clock.now();
  const session: Session<P> = {
    id: newId('ses', createdAt),
    guard: input.guard,
    leaseId: input.leaseId,
    labels: Object.fromEntries(Object.entries(input.labels).filter(([, value]) => value !== undefined)),
    credentials: input.credentials.map(refOf),
    policy: input.policy,
    createdAt,
    ...firstExpiry(createdAt, ttl, settings.maxTtl),
  };
  const record: SessionRecord = { session, ttl, rev: 0 };
  const token = await tokens.issue(session);
  check();
  const write = () =>
    store.commit([
      putSession(record),
      ...custody.take(session.id, input.credentials, input.managedBy === 'broker'),
    ]);
  const stored = await write().catch(async (error: unknown) => {
    // The key was retired between the seal and the write, by another process: seal again under the present one.
    if (!(error instanceof PosternError) || error.code !== 'key_unknown') throw error;
    await keyring.reload();
    return write();
  });
  if (!stored) throw new PosternError('internal', `the session id ${session.id} was there already`);
  core.open.set(session.id, { guard: session.guard, leaseId: session.leaseId, expiresAt: session.expiresAt });
  return { session, token };
}

function refOf({ id, secretId, secretName, grantId }: CredentialRef): CredentialRef {
  return {
    id,
    ...(secretId === undefined ? {} : { secretId }),
    ...(secretName === undefined ? {} : { secretName }),
    ...(grantId === undefined ? {} : { grantId }),
  };
}

// Index values, and fields of the records: text that reads in one way only. The lease is the token's subject as well.
function checkText(key: string, text: string): void {
  if (text === '' || text.length > 253 || /\p{C}/u.test(text))
    throw new PosternError('invalid_input', `${key}: ${JSON.stringify(text.slice(0, 64))} is not usable`, {
      key,
      remedy: 'give 1 to 253 printable characters',
    });
}

function checkCredentials(credentials: readonly CredentialRef[]): void {
  const ids = new Set(credentials.map(({ id }) => id));
  if (credentials.length === 0 || ids.size < credentials.length)
    throw new PosternError(
      'invalid_input',
      'credentials: a session needs at least one, each with its own id',
      {
        key: 'credentials',
      },
    );
  for (const id of ids)
    if (!/^[A-Za-z0-9._-]{1,64}$/.test(id))
      throw new TypeError(`sessions: ${JSON.stringify(id)} is no credential id`);
  for (const { secretId, grantId } of credentials) {
    if (secretId !== undefined) checkText('secretId', secretId);
    if (grantId !== undefined) checkText('grantId', grantId);
  }
}
