// A secret that is a reference changes where it lives, and nobody tells. A renewal looks: where the payload is another
// one than at the last look, live sessions get it. The first look of a process counts as a change, which costs one write.

import { hash } from 'node:crypto';
import type { Caller } from '../caller.ts';
import type { Context } from '../context.ts';
import { withPayload } from './payload.ts';
import { refreshSessions } from './refresh.ts';
import type { StoredSecret } from './secret.ts';

/** @throws PosternError where the reference can't be read now */
export async function followReference(context: Context, stored: StoredSecret, caller: Caller): Promise<void> {
  const { id, reference } = stored.secret;
  if (!reference) return;
  const digest = await withPayload(context, stored, (payload) => hash('sha256', payload));
  if (context.lastSeen.get(id) === digest) return;
  await refreshSessions(context, stored, caller);
  context.lastSeen.set(id, digest);
}
