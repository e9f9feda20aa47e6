import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openStore } from '../../store/open.ts';
import { closeBenches, mustEnter, newSession, openBench, verdict } from './setup.ts';

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postern-sessions-'));
  file = join(folder, 'postern.db');
});
afterEach(async () => {
  await closeBenches();
  await rm(folder, { recursive: true, force: true });
});

const open = async () =>
  openBench({ store: await openStore({ sqlite: file }), clock: { now: () => Date.now() } });

describe('a restart', () => {
  it('after kill -9 while sessions are issued: every one that was answered works with the token it has', async () => {
    for (let round = 0; round < 2; round++) {
      const child = spawn(process.execPath, [new URL('./issuer.ts', import.meta.url).pathname, file], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const issued: { id: string; token: string; secret: string }[] = [];
      for await (const line of createInterface({ input: child.stdout })) {
        issued.push(JSON.parse(line));
        if (issued.length === 40 + round * 11) child.kill('SIGKILL');
      }
      const { sessions, store } = await open();
      for (const { id, token, secret } of issued) {
        const live = await mustEnter(sessions, token, { id });
        expect((await live.credential('c1')).reveal()).toBe(secret);
        live.done({ denied: false, bytesUp: 0, bytesDown: 0 });
      }
      expect(sessions.liveCount('git')).toBeGreaterThanOrEqual(issued.length);
      // What was under way is there whole or not at all.
      const known = (await sessions.list()).map(({ session }) => session.id);
      const sealed = (await store.list('custody')).map(({ id }) => id.split('/')[0]);
      expect(sealed).toEqual(known.sort());
      await closeBenches();
    }
  });

  it('keeps revocations, renewals and who the deployment is', async () => {
    const first = await open();
    const revoked = await first.sessions.issue(newSession());
    const renewed = await first.sessions.issue(newSession({ ttl: 1000 }));
    await first.sessions.revoke(revoked.session.id, 'x');
    const { expiresAt } = await first.sessions.renew(renewed.session.id, 60_000);
    await closeBenches();
    const { sessions } = await open();
    expect(await verdict(sessions, revoked.token)).toBe('revoked');
    expect((await mustEnter(sessions, renewed.token)).session.expiresAt).toBe(expiresAt);
  });
});
