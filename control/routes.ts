// Every call of the control API, in the order in which the reference lists them.

import { type AuditDeps, auditRoutes } from './audit-routes.ts';
import type { Route } from './route.ts';
import { type ServerDeps, serverRoutes } from './server-routes.ts';
import { type SessionDeps, sessionRoutes } from './session-routes.ts';

export type ControlDeps = SessionDeps & AuditDeps & ServerDeps;

export function controlRoutes(deps: ControlDeps): Route[] {
  return [...sessionRoutes(deps), ...auditRoutes(deps), ...serverRoutes(deps)];
}
