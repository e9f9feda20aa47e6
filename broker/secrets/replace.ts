// A new payload under the same name and the same grants. Sessions that live spend it from their next request on; what
// was delivered directly follows with the next renewal of each lease.

import { PosternError } from '../../common/errors.ts';
import type { ValueFrom } from '../../common/value-from.ts';
import { type Caller, requireActor } from '../caller.ts';
import { compact } from '../compact.ts';
import type { Context } from '../context.ts';
import { ATTEMPTS, busy } from '../failure.ts';
import { rulesOf } from '../kinds/kinds.ts';
import { SETS } from '../sets.ts';
import { findSpendable } from './find.ts';
import { payloadOf } from './mint.ts';
import { withPayload } from './payload.ts';
import { refreshSessions } from './refresh.ts';
import { type Secret, type StoredSecret, writeSecret } from './secret.ts';

export interface ReplaceInput {
  readonly secret: string;
  /** Zeroed on return. Exactly one of `payload` and `reference`. */
  readonly payload?: Buffer | undefined;
  readonly reference?: ValueFrom | undefined;
}

/** @throws PosternError `not_found`, `not_owner`, `invalid_input`, `audit_unavailable` */
export async function replaceSecret(context: Context, input: ReplaceInput, caller: Caller): Promise<Secret> {
  let payload: Buffer | undefined;
  try {
    const actor = requireActor(caller);
    payload = await payloadOf(context, input);
    let stored = await findSpendable(context, input.secret, caller, 'secret.replace');
    const { id, kind, name } = stored.secret;
    const rules = rulesOf(kind);
    const bytes = payload;
    const names = await rules.inspect(bytes, name);
    if (rules.destination?.(bytes) !== (await oldDestination(context, stored)))
      throw new PosternError('invalid_input', 'payload: it is for another forge than the one before.', {
        key: 'payload',
        remedy: 'Mint a secret of its own, so that no session takes one forge the token of another.',
      });
    context.announce(id, bytes, () => rules.credentials(bytes, name));
    await context.record({
      action: 'secret.replace',
      decision: 'allow',
      actor,
      secretId: id,
      secretName: name,
      kind,
    });
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const { reference: _, ...kept } = stored.secret;
      const secret: Secret = {
        ...kept,
        ...compact({ reference: input.reference }),
        names,
        updatedAt: context.now(),
        updatedBy: actor,
      };
      const sealed = input.reference
        ? undefined
        : context.deps.keyring.seal({ set: SETS.secrets, id }, bytes);
      const next: StoredSecret = { secret, rev: stored.rev + 1, ...compact({ sealed }) };
      if (await context.deps.store.commit([writeSecret(next, stored.rev)])) {
        await refreshSessions(context, next, caller);
        return secret;
      }
      stored = await findSpendable(context, id, caller, 'secret.replace');
    }
    throw busy(`The secret ${name}`);
  } finally {
    input.payload?.fill(0);
    payload?.fill(0);
  }
}

async function oldDestination(context: Context, stored: StoredSecret): Promise<string | undefined> {
  const { destination } = rulesOf(stored.secret.kind);
  return destination && withPayload(context, stored, destination);
}
