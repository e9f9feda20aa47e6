// npm run bench:broker: leases made, renewed and released each second, with 10,000 grants in the store and 1,000 leases
// alive, and what they cost in memory. Everything is real but the guards' listeners: the store on disk, the keyring, the
// audit trail with its fsyncs, sessions in custody. One process, the disk of the system's temporary folder.

import { generateKeyPairSync, sign } from 'node:crypto';
import { openAuditLog } from '../audit/open.ts';
import { createBroker } from '../broker/broker.ts';
import { githubApi } from '../broker/github-app/api.ts';
import { systemClock } from '../common/clock.ts';
import { Credential } from '../common/credential.ts';
import { silentLog } from '../common/log.ts';
import { noMetrics } from '../common/metrics.ts';
import { createRedactor } from '../common/redact.ts';
import { createGitGuard } from '../gitproxy/guard.ts';
import { openKeyring } from '../keyring/keyring.ts';
import { openSessions } from '../sessions/registry.ts';
import { openStore } from '../store/open.ts';
import { cleanUp, percentile, scratch, table } from './support/tools.ts';

const quick = process.argv.includes('--quick');
const GRANTS = quick ? 1000 : 10_000;
const LIVE = quick ? 200 : 1000;
const AT_ONCE = 32;
const PROJECTS = GRANTS / 5;

const dir = scratch('broker');
const redactor = createRedactor();
const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const store = await openStore({ sqlite: `${dir}/postern.db` });
const keyring = await openKeyring({ store, passphrase: new Credential('a passphrase of the benchmark') });
const audit = await openAuditLog({
  dir: `${dir}/audit`,
  onFailure: 'refuse',
  syncReads: false,
  retention: 86_400_000,
  signer: {
    publicKeyPem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    sign: (bytes) => sign(null, bytes, privateKey),
  },
  redactor,
});
const sessions = await openSessions({
  store,
  keyring,
  clock: systemClock,
  log: silentLog,
  metrics: noMetrics,
  redactor,
  settings: { ttl: 900_000, maxTtl: 43_200_000, recheck: 5000, maxConcurrent: 64 },
});
const gitGuard = createGitGuard(
  {
    upstreams: [{ url: 'https://github.com' }],
    push: { refs: ['refs/heads/**'], maxRefs: 16, maxPackBytes: 2 ** 31 },
    advertise: 'https://127.0.0.1:8443',
  },
  { sessions, audit, clock: systemClock, tls: { contextOptions: () => ({}), attach: () => () => {} } },
);
const github = githubApi();
const broker = createBroker({
  store,
  keyring,
  audit,
  gitGuard,
  kubeGuard: 'off',
  upstreams: ['https://github.com'],
  sessions,
  github,
  redactor,
  clock: systemClock,
  log: silentLog,
});

const OPERATOR = { actor: 'operator' };
const HUB = { actor: 'hub' };
const rows: string[][] = [['', 'a second', 'p50 ms', 'p99 ms']];

/** Runs `work` for 0…count-1, so many at once. */
async function measure(what: string, count: number, work: (i: number) => Promise<unknown>): Promise<void> {
  const times: number[] = [];
  let next = 0;
  const started = performance.now();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let i = next++; i < count; i = next++) {
        const begun = performance.now();
        await work(i);
        times.push(performance.now() - begun);
      }
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  rows.push([
    what,
    (count / seconds).toFixed(0),
    percentile(times, 50).toFixed(1),
    percentile(times, 99).toFixed(1),
  ]);
}

const mb = (): string => {
  globalThis.gc?.();
  return `${(process.memoryUsage().rss / 2 ** 20).toFixed(0)} MB`;
};

const memory: string[][] = [['memory (RSS)', mb()]];
for (let i = 0; i < 50; i++) {
  const token = `ghp_${String(i).padStart(36, '0')}`;
  await broker.secrets.mint({ name: `pat-${i}`, kind: 'github_pat', payload: Buffer.from(token) }, OPERATOR);
  await broker.secrets.mint(
    { name: `env-${i}`, kind: 'env', payload: Buffer.from(`KEY_${i}=value-${i}`) },
    OPERATOR,
  );
}
// Five grants for each project: two repositories, three variables.
await measure(`grants made (${GRANTS})`, GRANTS, (i) => {
  const git = i % 5 < 2;
  return broker.grants.create(
    {
      secret: git ? `pat-${i % 50}` : `env-${(i * 7 + (i % 5)) % 50}`,
      subject: `project:/srv/p${Math.floor(i / 5) % PROJECTS}`,
      constraints: git ? { repos: [`acme/r${i}`] } : {},
    },
    OPERATOR,
  );
});
memory.push([`with ${GRANTS} grants`, mb()]);

const leases: string[] = [];
await measure(`leases made (${LIVE}, 5 grants each)`, LIVE, async (i) => {
  const { id } = await broker.leases.create({ projectId: `/srv/p${i % PROJECTS}`, executorId: 'edge' }, HUB);
  leases.push(id);
});
memory.push([`with ${LIVE} live leases`, mb()]);
await measure('renewed', LIVE * 3, (i) => broker.leases.renew({ leaseId: leases[i % LIVE] ?? '' }, HUB));
memory.push(['after three renewals of each', mb()]);
await measure('released', LIVE, (i) => broker.leases.release(leases[i] ?? '', HUB));
memory.push(['with none', mb()]);

process.stdout.write(`${table(rows)}\n${table(memory)}\n`);
await github.close();
await sessions.close();
await audit.close();
keyring.close();
await store.close();
await cleanUp();
