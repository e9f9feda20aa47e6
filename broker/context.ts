// What the parts of the broker share: its dependencies, the limits in force, and two small habits: a record for every
// decision, and every opened payload announced to whoever keeps credentials out of logs.

import { LRUCache } from 'lru-cache';
import type { AuditEvent } from '../audit/event.ts';
import type { Durability } from '../audit/log.ts';
import { PosternError } from '../common/errors.ts';
import { type BrokerDeps, DEFAULT_LIMITS, type Limits } from './deps.ts';
import { type AppTokens, appTokens } from './github-app/tokens.ts';

/** Names of sets are part of what a sealed row is bound to: changing one makes its rows unopenable. */
export const SETS = {
  secrets: 'secrets',
  names: 'secret_names',
  grants: 'grants',
  leases: 'leases',
  requests: 'requests',
  uses: 'request_uses',
  appTokens: 'app_tokens',
  endingTokens: 'app_tokens_ending',
} as const;

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

/** How often a commit is tried again when somebody else was faster. */
export const ATTEMPTS = 8;

export function busy(what: string): PosternError {
  return new PosternError('conflict', `${what} was being changed by others all the time; nothing was done.`, {
    remedy: 'Try again.',
  });
}

/** A message for the record. An error that is not ours says only that it happened: its text may quote anything. */
export function reasonOf(error: unknown): string {
  return error instanceof PosternError ? error.message : 'an internal error, see the log';
}
