// The one way from a stored secret to its bytes. They are lent to a function and zeroed when it is done, whatever
// happens; what that function makes of them (strings, in a language whose strings can't be zeroed) lives as short as it
// can and is a Credential.

import { PosternError } from '../../common/errors.ts';
import { describeValueFrom, type ValueFrom } from '../../common/value-from.ts';
import type { Envelope } from '../../keyring/envelope.ts';
import type { Context } from '../context.ts';
import { rulesOf } from '../kinds/kinds.ts';
import { SETS } from '../sets.ts';
import type { StoredSecret } from './secret.ts';

/** 1 MiB, as a Kubernetes Secret. */
export const MAX_PAYLOAD = 1024 * 1024;

/** @throws PosternError as the keyring or the reference says; and whatever `use` throws */
export async function withPayload<T>(
  context: Context,
  { secret, sealed }: StoredSecret,
  use: (payload: Buffer) => Promise<T> | T,
): Promise<T> {
  const payload = secret.reference
    ? await readReference(context, secret.reference)
    : await openSealed(context, secret.id, sealed ?? missing());
  try {
    context.announce(secret.id, payload, () => rulesOf(secret.kind).credentials(payload, secret.name));
    return await use(payload);
  } finally {
    payload.fill(0);
  }
}

/** @throws PosternError `invalid_input` naming the reference and never what it holds */
export async function readReference({ deps }: Context, reference: ValueFrom): Promise<Buffer> {
  if (!deps.readReference)
    throw new PosternError('invalid_input', `This server cannot read ${describeValueFrom(reference)}.`);
  return Buffer.from((await deps.readReference(reference)).reveal(), 'utf8');
}

async function openSealed({ deps: { keyring } }: Context, id: string, sealed: Envelope): Promise<Buffer> {
  try {
    return keyring.open({ set: SETS.secrets, id }, sealed);
  } catch (error) {
    if (!(error instanceof PosternError) || error.code !== 'key_unknown') throw error;
    // Another process may have made a key a moment ago.
    await keyring.reload();
    return keyring.open({ set: SETS.secrets, id }, sealed);
  }
}

function missing(): never {
  throw new PosternError('sealed_data_tampered', 'The row of the secret has no payload.');
}
