// Keeps a lease alive while a command runs, and its files up to date. A renewal that fails is tried again until the lease
// ends: a server that is restarted, or a network that is away for a minute, costs the command nothing. What the server
// says is over is over. Times are counted from when an answer was asked for, by this host's clock: the server's may differ.

import { setTimeout as sleep } from 'node:timers/promises';
import { PosternError } from '../../common/errors.ts';
import type { ControlClient } from '../../control/client.ts';
import type { LeaseDelivery, LeaseView } from '../../control/lease-schemas.ts';
import { answeredFiles } from '../../delivery/lease-answer.ts';
import type { LeaseFolder } from '../../delivery/lease-folder.ts';

export interface KeeperOptions {
  readonly client: ControlClient;
  readonly folder: LeaseFolder;
  readonly first: LeaseDelivery;
  /** When `first` was asked for, by `performance.now()`. */
  readonly askedAt: number;
  /** Members of a renewal: where the files are, for how long. */
  readonly place: object;
  /** Look for revocations between renewals; `over` is called at the first. */
  readonly watch: boolean;
  /** Once: the lease has ended, or with `watch` something of it was revoked. */
  over(why: string): void;
  say(text: string): void;
}

export interface Keeper {
  /** Resolves when nothing of it is under way. */
  stop(): Promise<void>;
}

const WATCH_MS = 1_000;
const RETRY_MS = 2_000;
const LEAST_MS = 250;
/** Files of sessions: worthless after the lease, and without them git and kubectl would fail in unclear ways. */
const SESSION_FILES = ['gitconfig', 'git-credential', 'kubeconfig', 'ca.pem'];

export function keepLease(options: KeeperOptions): Keeper {
  const { client, folder, first, place, over, say } = options;
  const path = `/v1/leases/${encodeURIComponent(first.leaseId)}`;
  const stopping = new AbortController();
  const { signal } = stopping;
  const acknowledged = new Set<string>();
  let bindings = first.bindings;
  let ended = false;

  const end = async (why: string): Promise<void> => {
    if (ended || signal.aborted) return;
    ended = true;
    over(why);
    // What was delivered as it is must not stay where the lease is gone.
    await folder.write({}, SESSION_FILES).catch(() => {});
  };

  async function renewing(): Promise<void> {
    let until = options.askedAt + first.secondsLeft * 1000;
    for (;;) {
      await wait(Math.max(LEAST_MS, (until - performance.now()) / 2));
      for (let told = false; ; ) {
        if (signal.aborted || ended) return;
        const asked = performance.now();
        try {
          const answer = await client.call<LeaseDelivery>('POST', `${path}/renew`, place);
          until = asked + answer.secondsLeft * 1000;
          if (signal.aborted) return;
          await folder.write(answeredFiles(answer), answer.keep);
          await acknowledge(answer);
          break;
        } catch (error) {
          if (isOver(error)) return end(messageOf(error));
          if (performance.now() >= until) return end(`it could not be renewed in time: ${messageOf(error)}`);
          if (!told) say(`the lease could not be renewed and is tried again: ${messageOf(error)}`);
          told = true;
          await wait(Math.min(RETRY_MS, Math.max(LEAST_MS, (until - performance.now()) / 4)));
        }
      }
    }
  }

  /** The files are gone with the write before; a variable of a running process can't be taken back. */
  async function acknowledge(answer: LeaseDelivery): Promise<void> {
    for (const grantId of answer.revoked) {
      if (acknowledged.has(grantId)) continue;
      acknowledged.add(grantId);
      const held = bindings.find((one) => one.grantId === grantId);
      const inside = held?.env.some((name) => first.sensitiveEnv.includes(name)) || held?.mounts.length !== 0;
      const scrubbed = !inside;
      await client
        .call('POST', `${path}/acknowledge`, {
          grantId,
          scrubbed,
          ...(!scrubbed && { reason: 'a running process has it' }),
        })
        .catch(() => {});
    }
    bindings = [...bindings.filter((one) => answer.revoked.includes(one.grantId)), ...answer.bindings];
  }

  async function watching(): Promise<void> {
    const had = new Set(first.bindings.map(({ grantId }) => grantId));
    const sessions = new Set(first.sessions.map(({ sessionId }) => sessionId));
    while (!signal.aborted && !ended) {
      await wait(WATCH_MS);
      if (signal.aborted || ended) return;
      try {
        const now = await client.call<LeaseView>('GET', path);
        const gone = [...had].find((id) => !now.grants.some(({ grantId }) => grantId === id));
        if (gone !== undefined) return end(`the grant ${gone} does not stand any more`);
        const cut = now.sessions.find(
          ({ sessionId, state }) => sessions.has(sessionId) && state === 'revoked',
        );
        if (cut) return end(`the session ${cut.sessionId} was revoked`);
        if (now.state === 'expired') return end('it was not renewed in time');
      } catch (error) {
        if (isOver(error)) return end(messageOf(error));
      }
    }
  }

  const wait = (ms: number): Promise<void> => sleep(ms, undefined, { signal }).catch(() => {});
  const work = Promise.all([renewing(), ...(options.watch ? [watching()] : [])]);
  return {
    async stop() {
      stopping.abort();
      await work;
    },
  };
}

const OVER = ['not_found', 'lease_expired', 'gone'];

function isOver(error: unknown): boolean {
  return error instanceof PosternError && OVER.includes(error.code);
}

function messageOf(error: unknown): string {
  return error instanceof PosternError ? error.message : 'an unforeseen error';
}
