// Whose a secret is. Shared secrets pass: who may handle those is the question of roles, which the control API asks. A
// personal one is seen by its owner and by an admin, spent by its owner alone, deleted by either (somebody who left can't
// come back to do it). To everybody else it does not exist. A caller without a name owns nothing.

import { type Caller, identities, normaliseOwner } from '../caller.ts';
import type { Secret } from './secret.ts';

type Owned = Pick<Secret, 'owner'>;

export function isPersonal(secret: Owned): boolean {
  return secret.owner !== undefined;
}

/** Both sides are brought to the stored form and compared whole. */
export function ownedBy(secret: Owned, caller: Caller): boolean {
  return secret.owner !== undefined && identities(caller).includes(normaliseOwner(secret.owner));
}

export function visibleTo(secret: Owned, caller: Caller): boolean {
  return !isPersonal(secret) || ownedBy(secret, caller) || caller.admin === true;
}

/** Whether the caller may put it to work. The one place where being an admin buys nothing. */
export function spendableBy(secret: Owned, caller: Caller): boolean {
  return !isPersonal(secret) || ownedBy(secret, caller);
}

export function deletableBy(secret: Owned, caller: Caller): boolean {
  return visibleTo(secret, caller);
}
