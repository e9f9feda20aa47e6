// Issuing for a lease beside the revocation of all that the lease has. A session that is stored just after the revocation
// looked which there are would outlive it. So what is being issued at that moment is told, waited for and refused; what is
// asked for meanwhile waits, and is a new session of a lease that goes on. Nothing is remembered afterwards: a lease's id
// may be used again.

import { PosternError } from '../common/errors.ts';

export interface LeaseGate {
  /**
   * @param work stores the session; it calls `check` at the last moment before
   * @throws PosternError `conflict` where the lease was revoked meanwhile; a session that was stored by then is among those
   *   that the revocation ends
   */
  issue<T>(leaseId: string, work: (check: () => void) => Promise<T>): Promise<T>;
  /** Runs `rest` when nothing that began earlier is being issued for the lease. */
  revoke<T>(leaseId: string, rest: () => Promise<T>): Promise<T>;
}

interface Issue {
  cut: boolean;
  readonly done: Promise<unknown>;
}

export function leaseGate(): LeaseGate {
  const issuing = new Map<string, Set<Issue>>();
  const revoking = new Map<string, Set<Promise<unknown>>>();

  return {
    async issue(leaseId, work) {
      for (let busy = revoking.get(leaseId); busy; busy = revoking.get(leaseId))
        await Promise.allSettled(busy);
      const { promise, resolve } = Promise.withResolvers<void>();
      const issue: Issue = { cut: false, done: promise };
      const check = (): void => {
        if (issue.cut)
          throw new PosternError('conflict', `The sessions of the lease ${leaseId} were revoked meanwhile.`, {
            key: 'leaseId',
            remedy: 'Ask again if the lease goes on.',
          });
      };
      const leave = enter(issuing, leaseId, issue);
      try {
        const made = await work(check);
        check();
        return made;
      } finally {
        leave();
        resolve();
      }
    },

    async revoke(leaseId, rest) {
      const under = [...(issuing.get(leaseId) ?? [])];
      for (const issue of under) issue.cut = true;
      const done = Promise.all(under.map((issue) => issue.done)).then(rest);
      const leave = enter(revoking, leaseId, done);
      try {
        return await done;
      } finally {
        leave();
      }
    },
  };
}

function enter<T>(map: Map<string, Set<T>>, key: string, entry: T): () => void {
  const entries = map.get(key) ?? new Set<T>();
  map.set(key, entries.add(entry));
  return () => {
    entries.delete(entry);
    if (entries.size === 0) map.delete(key);
  };
}
