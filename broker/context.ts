// What the parts of the broker share: its dependencies, the limits in force, and two small habits: a record for every
// decision, and every opened payload announced to whoever keeps credentials out of logs.

import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { AuditEvent } from '../audit/event.ts';
import type { Durability } from '../audit/log.ts';
import { type BrokerDeps, DEFAULT_LIMITS, type Limits } from './deps.ts';
import { type AppTokens, appTokens } from './github-app/tokens.ts';

export interface Context {
  readonly deps: BrokerDeps;
  readonly limits: Limits;
  readonly appTokens: AppTokens;
  /** Secret → digest of what its reference held when it was last followed. */
  readonly lastSeen: LRUCache<string, string>;
  now(): number;
  record(event: AuditEvent, durability?: Durability): Promise<void>;
  /** Tells the redactor what is a credential in `payload`, once; of its successor's instead when it was replaced. */
  announce(of: string, payload: Uint8Array, credentials: () => readonly string[]): void;
}

export function createContext(deps: BrokerDeps): Context {
  const { redactor } = deps;
  const known = new LRUCache<string, { readonly digest: string; readonly values: readonly string[] }>({
    max: 5000,
    dispose({ values }) {
      for (const value of values) redactor?.remove(value);
    },
  });
  const base: Omit<Context, 'appTokens'> = {
    deps,
    limits: { ...DEFAULT_LIMITS, ...deps.limits },
    lastSeen: new LRUCache({ max: 5000 }),
    now: () => deps.clock.now(),
    record: (event, durability = 'durable') => deps.audit.append(event, durability),
    announce(of, payload, credentials) {
      const digest = hash('sha256', payload);
      if (!redactor || known.get(of)?.digest === digest) return;
      const values = credentials();
      for (const value of values) redactor.add(value);
      known.set(of, { digest, values });
    },
  };
  return { ...base, appTokens: appTokens(base) };
}
