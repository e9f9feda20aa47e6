// Every call of the control API, in the order in which the reference lists them.

import { type AuditDeps, auditRoutes } from './audit-routes.ts';
import { type KeyDeps, keyRoutes } from './key-routes.ts';
import { type LeaseDeps, leaseRoutes } from './lease-routes.ts';
import { requestRoutes } from './request-routes.ts';
import type { Route } from './route.ts';
import { type BrokerDeps, grantRoutes, secretRoutes } from './secret-routes.ts';
import { type ServerDeps, serverRoutes } from './server-routes.ts';
import { type SessionDeps, sessionRoutes } from './session-routes.ts';

export type ControlDeps = SessionDeps & BrokerDeps & LeaseDeps & KeyDeps & AuditDeps & ServerDeps;

export function controlRoutes(deps: ControlDeps): Route[] {
  return [
    ...sessionRoutes(deps),
    ...secretRoutes(deps),
    ...grantRoutes(deps),
    ...leaseRoutes(deps),
    ...requestRoutes(deps),
    ...keyRoutes(deps),
    ...auditRoutes(deps),
    ...serverRoutes(deps),
  ];
}
