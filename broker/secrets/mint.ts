// A new secret: checked for its kind, sealed, named. The caller's buffer is zeroed when this returns, so that a handler
// does not leave the plaintext in memory that nobody may touch for hours.

import { PosternError } from '../../common/errors.ts';
import { newId } from '../../common/ids.ts';
import type { ValueFrom } from '../../common/value-from.ts';
import type { Write } from '../../store/store.ts';
import { type Caller, normaliseOwner, requireActor } from '../caller.ts';
import { compact } from '../compact.ts';
import type { Context } from '../context.ts';
import { parseKind } from '../kind.ts';
import { rulesOf } from '../kinds/kinds.ts';
import { checkName } from '../name.ts';
import { looksSecret } from '../safe-ref.ts';
import { SETS } from '../sets.ts';
import { isPlain } from '../text.ts';
import { visibleTo } from './ownership.ts';
import { MAX_PAYLOAD, readReference } from './payload.ts';
import { nameRow, type Secret, writeSecret } from './secret.ts';

export interface MintInput {
  readonly name: string;
  readonly kind: string;
  /** Zeroed on return. Exactly one of `payload` and `reference`. */
  readonly payload?: Buffer | undefined;
  readonly reference?: ValueFrom | undefined;
  /** Makes it a personal secret of this identity. */
  readonly owner?: string | undefined;
  /**
   * Says that a personal secret is meant. With it an owner that turned out empty is an error, where otherwise
   * somebody's own credential would become everybody's.
   */
  readonly personal?: boolean | undefined;
  readonly metadata?: { readonly [key: string]: string } | undefined;
}

/** @throws PosternError `invalid_input`, `conflict` (the name is taken), `audit_unavailable` */
export async function mintSecret(context: Context, input: MintInput, caller: Caller): Promise<Secret> {
  try {
    const { secret, writes } = await prepareSecret(context, input, caller);
    await recordMint(context, secret, caller);
    if (!(await context.deps.store.commit(writes))) throw taken(secret);
    return secret;
  } finally {
    input.payload?.fill(0);
  }
}

export async function recordMint(context: Context, secret: Secret, caller: Caller): Promise<void> {
  await context.record({
    action: 'secret.mint',
    decision: 'allow',
    actor: caller.actor,
    secretId: secret.id,
    secretName: secret.name,
    kind: secret.kind,
    reason: secret.owner === undefined ? 'shared' : `personal, of ${secret.owner}`,
  });
}

/** Everything but the record and the commit. */
export async function prepareSecret(
  context: Context,
  input: MintInput,
  caller: Caller,
): Promise<{ secret: Secret; writes: Write[] }> {
  const actor = requireActor(caller);
  const kind = parseKind(input.kind);
  const now = context.now();
  const owner = readOwner(input, caller);
  const draft = {
    id: newId('sec', now),
    name: checkName(input.name),
    kind,
    ...compact({ owner, reference: input.reference }),
    metadata: checkMetadata(input.metadata ?? {}),
    createdAt: now,
    createdBy: actor,
    updatedAt: now,
    updatedBy: actor,
  };
  await refuseHidden(context, draft);
  const payload = await payloadOf(context, input);
  try {
    const secret: Secret = { ...draft, names: await rulesOf(kind).inspect(payload, draft.name) };
    context.announce(secret.id, payload, () => rulesOf(kind).credentials(payload, secret.name));
    const sealed = input.reference
      ? undefined
      : context.deps.keyring.seal({ set: SETS.secrets, id: secret.id }, payload);
    const writes: Write[] = [
      writeSecret({ secret, ...compact({ sealed }) }, 0),
      {
        op: 'put',
        set: SETS.names,
        expect: 0,
        row: { id: nameRow(secret).id, body: { secretId: secret.id }, index: {} },
      },
    ];
    return { secret, writes };
  } finally {
    if (payload !== input.payload) payload.fill(0);
  }
}

/** The bytes of what was given, checked to be one thing and not too large. */
export async function payloadOf(
  context: Context,
  input: Pick<MintInput, 'payload' | 'reference'>,
): Promise<Buffer> {
  if ((input.payload === undefined) === (input.reference === undefined))
    throw new PosternError('invalid_input', 'payload: give either a payload or a reference to where it is.', {
      key: 'payload',
    });
  const payload = input.payload ?? (await readReference(context, input.reference as ValueFrom));
  if (payload.length === 0 || payload.length > MAX_PAYLOAD)
    throw new PosternError('invalid_input', `payload: it is empty, or larger than ${MAX_PAYLOAD} bytes.`, {
      key: 'payload',
    });
  return payload;
}

function readOwner({ owner, personal }: MintInput, caller: Caller): string | undefined {
  const normal = normaliseOwner(owner ?? '');
  if (normal === '' && (personal || owner !== undefined))
    throw new PosternError('invalid_input', 'owner: a personal secret needs an identity that owns it.', {
      key: 'owner',
    });
  if (!isPlain(normal, 256) || /[\s*]/.test(normal) || looksSecret(normal))
    throw new PosternError('invalid_input', 'owner: it is not an identity.', { key: 'owner' });
  // Otherwise a name that is refused would tell what somebody else keeps.
  if (normal !== '' && !visibleTo({ owner: normal }, caller))
    throw new PosternError('not_owner', 'A personal secret is stored by its owner, or by an admin.', {
      key: 'owner',
    });
  return normal === '' ? undefined : normal;
}

function checkMetadata(metadata: { readonly [key: string]: string }): { readonly [key: string]: string } {
  const entries = Object.entries(metadata);
  const fits = entries.every(([key, value]) => /^[A-Za-z0-9._/-]{1,64}$/.test(key) && isPlain(value, 256));
  if (entries.length > 16 || !fits)
    throw new PosternError('invalid_input', 'metadata: at most 16 short entries of one line each.', {
      key: 'metadata',
    });
  if (entries.some(([key, value]) => looksSecret(value) || looksSecret(`${key}=${value}`)))
    throw new PosternError(
      'invalid_input',
      'metadata: an entry looks like a credential, and metadata goes to records.',
      {
        key: 'metadata',
      },
    );
  return Object.fromEntries(entries);
}

/** A personal name may not hide a shared one. What is taken by the same owner, the name row says in the commit. */
async function refuseHidden({ deps }: Context, secret: Pick<Secret, 'name' | 'owner'>): Promise<void> {
  if (await deps.store.get(SETS.names, nameRow({ name: secret.name }).id)) throw taken(secret);
}

function taken(secret: Pick<Secret, 'name'>): PosternError {
  return new PosternError('conflict', `A secret called ${secret.name} exists already.`, {
    key: 'name',
    remedy: 'Choose another name, replace its payload, or delete it.',
  });
}
