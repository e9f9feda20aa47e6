// Rotation while serving, killed at random moments: `npm run check:rotation` for 10,000 rows and 50 kills; the suite does a
// smaller one. Thousands of secrets are sealed, a key is added, and a rotation runs in a `postern serve` that is used all
// the while and killed (kill -9) at a random moment; the next start goes on, and is killed in its turn. When a rotation
// got through, the old key is retired and the next one begins. In the end every row of every set has to open.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Credential } from '../../common/credential.ts';
import { PosternError } from '../../common/errors.ts';
import { type ControlClient, createClient } from '../../control/client.ts';
import type { LeaseDelivery } from '../../control/lease-schemas.ts';
import { openKeyring } from '../../keyring/keyring.ts';
import { openStore } from '../../store/open.ts';
import { configure, type Server, scratch, serve } from '../system/harness.ts';

export interface Drill {
  readonly rows: number;
  readonly kills: number;
  /** Calls at once while the rows are made. */
  readonly atOnce?: number;
  say?(text: string): void;
}

export interface Drilled {
  /** Kills that met a rotation under way. */
  readonly kills: number;
  /** Rotations that got through. */
  readonly rotations: number;
  readonly keysRetired: number;
  /** Sealed rows at the end, all of which opened. */
  readonly opened: number;
  /** Secrets that were made, all of which had what was sealed in them. */
  readonly right: number;
  /** Leases that were had meanwhile, each with the right value. */
  readonly leases: number;
  readonly seconds: number;
}

const PASSPHRASE = 'a passphrase for the drill of rotations';
const nameOf = (n: number): string => `s-${String(n).padStart(5, '0')}`;
const sealedIn = (name: string): string => `value of ${name}`;

/** @throws Error where a row does not open, or does not hold what was sealed in it */
export async function drill({ rows, kills, atOnce = 32, say = () => {} }: Drill): Promise<Drilled> {
  const started = performance.now();
  const { folder, remove } = scratch('rotation');
  mkdirSync(join(folder, 'keys'), { mode: 0o700 });
  const secretKey = join(folder, 'keys/passphrase');
  writeFileSync(secretKey, PASSPHRASE, { mode: 0o600 });
  const config = configure(folder, {
    secretKey: { file: secretKey },
    git: { enabled: false },
    log: { level: 'warn' },
  });
  const client = createClient({ socket: join(folder, 'var/control.sock'), user: 'drill' });
  let server: Server = await serve(config);
  const using = useIt(client);
  let [done, rotations, keysRetired] = [0, 0, 0];
  try {
    await each(rows, atOnce, async (n) => {
      const name = nameOf(n);
      await client.call('POST', '/v1/secrets', { name, kind: 'env', payload: { VALUE: sealedIn(name) } });
    });
    for (const secret of [nameOf(0), nameOf(1)])
      await client.call('POST', '/v1/grants', { secret, subject: `project:${secret}` });
    say(`${rows} rows after ${((performance.now() - started) / 1000).toFixed(0)} s`);
    using.begin();
    await client.call('POST', '/v1/keys');
    for (;;) {
      const last = done >= kills;
      const rotation = client
        .call<{ complete: boolean }>('POST', '/v1/keys/rotate')
        .then(({ complete }) => complete)
        .catch((error: unknown) => {
          if (error instanceof PosternError && error.code === 'unreachable') return false;
          throw error;
        });
      if (!last) {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * (rows / 14 + 60)));
        const killed = await Promise.race([rotation, undefined]);
        await server.kill('SIGKILL');
        if (killed === undefined) done++;
      }
      const complete = await rotation;
      if (!last) server = await serve(config);
      if (!complete) continue;
      rotations++;
      const { keys } = await client.call<{ keys: { id: string; state: string }[] }>('GET', '/v1/keys');
      for (const { id, state } of keys)
        if (state === 'active') {
          // A row that was sealed under it a moment before is moved by the next rotation.
          const retired = await client.call('POST', `/v1/keys/${id}/retire`).then(
            () => true,
            () => false,
          );
          if (retired) keysRetired++;
        }
      say(`${done} kills, ${rotations} rotations, ${using.leases()} leases`);
      if (last) break;
      await client.call('POST', '/v1/keys');
    }
    await using.end();
    await server.kill();
    const { opened, right } = await verify(folder, rows);
    return {
      kills: done,
      rotations,
      keysRetired,
      opened,
      right,
      leases: using.leases(),
      seconds: (performance.now() - started) / 1000,
    };
  } finally {
    await using.end();
    await server.kill('SIGKILL');
    remove();
  }
}

/** Leases and payloads replaced, one after the other, whenever the server is there. */
function useIt(client: ControlClient) {
  let [leases, going] = [0, false];
  let work = Promise.resolve();
  let wrong: Error | undefined;
  const once = async (): Promise<void> => {
    const name = nameOf(leases % 2);
    await client.call('POST', `/v1/secrets/${name}/payload`, { payload: { VALUE: sealedIn(name) } });
    const lease = await client.call<LeaseDelivery>('POST', '/v1/leases', { projectId: name });
    if (lease.env.VALUE !== sealedIn(name)) wrong = new Error(`a lease of ${name} had ${lease.env.VALUE}`);
    leases++;
    await client.call('DELETE', `/v1/leases/${lease.leaseId}`);
  };
  return {
    leases: () => leases,
    begin() {
      going = true;
      work = (async () => {
        while (going) {
          await once().catch((error: unknown) => {
            const away = error instanceof PosternError && error.code === 'unreachable';
            if (!away) wrong ??= error as Error;
          });
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      })();
    },
    async end() {
      going = false;
      await work;
      if (wrong) throw wrong;
    },
  };
}

async function verify(folder: string, rows: number): Promise<{ opened: number; right: number }> {
  const store = await openStore({ sqlite: join(folder, 'var/postern.db') });
  const keyring = await openKeyring({ store, passphrase: new Credential(PASSPHRASE), create: false });
  try {
    let [opened, right] = [0, 0];
    for (const set of Object.keys(await store.countSealed()))
      for (const row of await store.list(set)) {
        if (!row.sealed) continue;
        const text = keyring.open({ set, id: row.id }, row.sealed).toString();
        opened++;
        const { name } = row.body;
        if (set === 'secrets' && text === JSON.stringify({ VALUE: sealedIn(String(name)) })) right++;
      }
    if (right !== rows) throw new Error(`${right} of ${rows} secrets hold what was sealed in them`);
    return { opened, right };
  } finally {
    keyring.close();
    await store.close();
  }
}

async function each(count: number, atOnce: number, work: (n: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let n = next++; n < count; n = next++) await work(n);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { rows: { type: 'string', default: '10000' }, kills: { type: 'string', default: '50' } },
  });
  const result = await drill({
    rows: Number(values.rows),
    kills: Number(values.kills),
    say: (text) => process.stderr.write(`${text}\n`),
  });
  process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
}
