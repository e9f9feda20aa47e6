// Who may do what at the control API. A route asks for one right; this table says which roles hold it. `admin` holds
// every right and is the only role that may point at files and variables of the server's host.

import { PosternError } from '../common/errors.ts';

export const ROLES = ['admin', 'hub', 'operator', 'approver', 'requester', 'auditor'] as const;
export type Role = (typeof ROLES)[number];

const RIGHTS = {
  /** Issue, renew and revoke sessions. */
  'sessions:write': ['hub'],
  'sessions:read': ['hub', 'operator', 'auditor'],
  /** Mint, replace, import and delete credentials; a personal secret is its owner's, whatever the role. */
  'secrets:write': ['operator'],
  /** Names, kinds and owners; no call answers a payload. */
  'secrets:read': ['operator', 'approver', 'requester', 'auditor'],
  'grants:write': ['operator'],
  'grants:read': ['operator', 'approver', 'auditor'],
  'leases:write': ['hub'],
  'leases:read': ['hub', 'operator', 'auditor'],
  /** Open and withdraw; whoever only asks sees their own requests. */
  'requests:open': ['requester'],
  'requests:read': ['requester', 'approver', 'operator', 'auditor'],
  'requests:decide': ['approver'],
  'keys:write': [],
  'keys:read': ['operator', 'auditor'],
  'audit:read': ['auditor'],
  /** What runs, the CA that guards are trusted by, the description of the API. */
  'server:read': ['hub', 'operator', 'approver', 'requester', 'auditor'],
  /** Replace the CA. */
  'server:write': [],
  /** References that are resolved on the server's host. */
  'host:read': [],
} as const satisfies Record<string, readonly Role[]>;

export type Right = keyof typeof RIGHTS;

/** Who calls, as it goes on record. */
export interface Caller {
  /** The token's name, or `cli:<user>` at the socket. */
  readonly actor: string;
  readonly role: Role;
}

export function holders(right: Right): Role[] {
  return ['admin', ...RIGHTS[right]];
}

export function may(caller: Caller, right: Right): boolean {
  return holders(right).includes(caller.role);
}

/** @throws PosternError `forbidden` */
export function demand(caller: Caller, right: Right): void {
  if (!may(caller, right))
    throw new PosternError('forbidden', `The role ${caller.role} does not hold the right ${right}.`, {
      key: right,
      remedy: `Use a token of the role ${holders(right).join(' or ')}.`,
    });
}
