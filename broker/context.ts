// What the parts of the broker share: its dependencies, the limits in force, and two small habits: a record for every
// decision, and every opened payload announced to whoever keeps credentials out of logs.

import { LRUCache } from 'lru-cache';
import type { AuditEvent } from '../audit/event.ts';
import type { Durability } from '../audit/log.ts';
import { type BrokerDeps, DEFAULT_LIMITS, type Limits } from './deps.ts';
import { type AppTokens, appTokens } from './github-app/tokens.ts';

export interface Context {
  readonly deps: BrokerDeps;
  readonly limits: Limits;
  readonly appTokens: AppTokens;
  now(): number;
  record(event: AuditEvent, durability?: Durability): Promise<void>;
  /** Tells the redactor of what was opened, once; of its successor instead when it was replaced. */
  announce(of: string, payload: string): void;
}

export function createContext(deps: BrokerDeps): Context {
  const known = new LRUCache<string, string>({
    max: 5000,
    dispose: (payload) => deps.redactor?.remove(payload),
  });
  const base: Omit<Context, 'appTokens'> = {
    deps,
    limits: { ...DEFAULT_LIMITS, ...deps.limits },
    now: () => deps.clock.now(),
    record: (event, durability = 'durable') => deps.audit.append(event, durability),
    announce(of, payload) {
      if (known.get(of) === payload) return;
      deps.redactor?.add(payload);
      known.set(of, payload);
    },
  };
  return { ...base, appTokens: appTokens(base) };
}
