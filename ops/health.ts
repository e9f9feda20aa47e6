// Whether the process serves: a few named checks, asked together, each with a time limit. An answer names what fails
// and why, in words that hold no credential; the whole error goes to the log.

import { PosternError } from '../common/errors.ts';
import type { Log } from '../common/log.ts';

export interface CheckResult {
  readonly ok: boolean;
  /** With `ok`: it serves, and somebody should look at it. */
  readonly degraded?: true;
  readonly reason?: string;
}

export type Check = () => CheckResult | Promise<CheckResult>;

export interface Report {
  readonly ok: boolean;
  /** For a person: `not ready: audit (the disk is full)`. */
  readonly message: string;
  readonly checks: { readonly [name: string]: CheckResult };
}

export interface Health {
  ready(): Promise<Report>;
  /** From now on not ready, whatever the checks say. */
  drain(): void;
}

/**
 * @param checks by name: `store`, `audit`, `certificates`, `listeners`
 * @param timeoutMs how long one check may take before it counts as failed; a slow one is not asked again meanwhile
 */
export function createHealth(
  checks: { readonly [name: string]: Check },
  log: Log,
  timeoutMs = 2_000,
): Health {
  const running = new Map<string, Promise<CheckResult>>();
  let draining = false;

  function ask(name: string, check: Check): Promise<CheckResult> {
    const known = running.get(name);
    if (known) return known;
    const answer = (async () => {
      try {
        return await check();
      } catch (error) {
        log.warn({ err: error, check: name }, 'a readiness check failed');
        return {
          ok: false,
          reason: error instanceof PosternError ? error.message : 'it failed; see the log',
        };
      } finally {
        running.delete(name);
      }
    })();
    running.set(name, answer);
    return answer;
  }

  return {
    async ready() {
      const results = await Promise.all(
        Object.entries(checks).map(
          async ([name, check]) => [name, await within(timeoutMs, ask(name, check))] as const,
        ),
      );
      if (draining) results.push(['shutdown', { ok: false, reason: 'the server is stopping' }]);
      return report(Object.fromEntries(results));
    },
    drain() {
      draining = true;
    },
  };
}

function report(checks: { readonly [name: string]: CheckResult }): Report {
  const failing = Object.entries(checks).filter(([, { ok }]) => !ok);
  const list = failing.map(([name, { reason }]) => (reason === undefined ? name : `${name} (${reason})`));
  if (failing.length > 0) return { ok: false, message: `not ready: ${list.join(', ')}`, checks };
  const degraded = Object.keys(checks).filter((name) => checks[name]?.degraded);
  const message = degraded.length === 0 ? 'ready' : `ready, degraded: ${degraded.join(', ')}`;
  return { ok: true, message, checks };
}

function within(ms: number, answer: Promise<CheckResult>): Promise<CheckResult> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve({ ok: false, reason: `no answer within ${ms} ms` }), ms);
    void answer.then((result) => {
      clearTimeout(timer);
      resolve(result);
    });
  });
}
