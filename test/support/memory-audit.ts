// An audit log that keeps its events in memory and can be told to fail. `durable` and `written` are kept apart, so that
// a test sees what was promised to be on disk.

import type { AuditEvent } from '../../audit/event.ts';
import type { AuditLog, Durability } from '../../audit/log.ts';
import { PosternError } from '../../common/errors.ts';

export interface MemoryAudit extends AuditLog {
  readonly events: (AuditEvent & { readonly durability: Durability })[];
  /** Of one action, oldest first. */
  of(action: AuditEvent['action']): AuditEvent[];
  /** From now on `append` throws `audit_unavailable` (for these actions, or for all), or works again. */
  fail(actions: readonly AuditEvent['action'][] | boolean): void;
  /** Called as each event is kept. */
  watch(what: (event: AuditEvent) => void): void;
}

export function memoryAudit(): MemoryAudit {
  const events: MemoryAudit['events'] = [];
  let failing: readonly AuditEvent['action'][] | boolean = false;
  const watchers: ((event: AuditEvent) => void)[] = [];
  return {
    events,
    of: (action) => events.filter((event) => event.action === action),
    fail(actions) {
      failing = actions;
    },
    watch: (what) => void watchers.push(what),
    async append(event, durability) {
      await new Promise((resolve) => setImmediate(resolve));
      if (failing === true || (Array.isArray(failing) && failing.includes(event.action)))
        throw new PosternError('audit_unavailable', 'the test said so');
      events.push({ ...event, durability });
      for (const watcher of watchers) watcher(event);
    },
    health: () => ({ ok: failing === false }),
    close: async () => {},
  } as MemoryAudit;
}
