// npm run bench:audit: what the audit trail carries. Rates of append (written, durable), what 30,000 records a second
// cost the thread that appends, and queries and verification over 1,000,000 records. One process, one disk (that of the
// system's temporary folder; give another with `--dir`).

import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { AuditEvent } from '../audit/event.ts';
import type { AuditLog, Durability } from '../audit/log.ts';
import { openAuditLog } from '../audit/open.ts';
import { type AuditQuery, exportAudit, queryAudit } from '../audit/query.ts';
import { verifyAudit } from '../audit/verify.ts';
import { createRedactor } from '../common/redact.ts';

const { values } = parseArgs({ options: { quick: { type: 'boolean' }, dir: { type: 'string' } } });
const RECORDS = values.quick ? 100_000 : 1_000_000;
const SECONDS = values.quick ? 2 : 10;
const RATE = 30_000;

const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const redactor = createRedactor();
for (let i = 0; i < 1000; i++) redactor.add(`ghp_${randomBytes(27).toString('base64url')}`);

/** A record of the usual size: about 800 bytes. Ids differ as they do in service. */
function event(n: number): AuditEvent {
  return {
    action: n % 2 === 0 ? 'git.fetch' : 'git.fetch_result',
    decision: n % 100 === 0 ? 'deny' : 'allow',
    exchangeId: `exch_01hq3v5kz2${String(n >> 1).padStart(16, '0')}`,
    sessionId: `sess_01hq3v5kz2${String(n % 5000).padStart(16, '0')}`,
    leaseId: `lease_01hq3v5kz2${String(n % 5000).padStart(16, '0')}`,
    secretId: 'sec_01hq3v5kz2x8j4m6n7p9r0s1t2',
    secretName: 'github-acme',
    kind: 'github_pat',
    grantId: 'grant_01hq3v5kz2x8j4m6n7p9r0s1t2',
    executorId: 'runner-7',
    projectId: '/srv/app',
    runId: `run-${n % 5000}`,
    host: 'github.com',
    port: 443,
    bytesUp: 400 + (n % 100),
    bytesDown: 12_000 + n,
    guard: 'git',
    method: 'POST',
    repo: `acme/tool-${n % 40}`,
    service: 'git-upload-pack',
    status: 200,
    durationMs: n % 90,
    sourceIp: '10.20.30.40',
    userAgent: 'git/2.39.2',
  };
}

const row = (name: string, value: string): void => console.log(`${name.padEnd(64)} ${value}`);
const perSecond = (count: number, ms: number): string =>
  `${Math.round((count / ms) * 1000).toLocaleString('en')}/s`;
const percentile = (sorted: readonly number[], part: number): string =>
  `${(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0).toFixed(2)} ms`;

async function timed(work: () => Promise<number>): Promise<{ count: number; ms: number }> {
  const started = performance.now();
  const count = await work();
  return { count, ms: performance.now() - started };
}

/** `width` callers, each with its next append when the last is answered. */
async function closedLoop(
  log: AuditLog,
  durability: Durability,
  width: number,
  count: number,
): Promise<void> {
  const latencies: number[] = [];
  let n = 0;
  const caller = async (): Promise<void> => {
    while (n < count) {
      const started = performance.now();
      await log.append(event(n++), durability);
      latencies.push(performance.now() - started);
    }
  };
  const { ms } = await timed(async () => {
    await Promise.all(Array.from({ length: width }, caller));
    return count;
  });
  latencies.sort((a, b) => a - b);
  const spread = `p50 ${percentile(latencies, 0.5)}, p99 ${percentile(latencies, 0.99)}`;
  row(`append ${durability}, ${width} at once`, `${perSecond(count, ms)}  ${spread}`);
}

/** `RATE` appends a second, whatever the answers do. */
async function openLoop(log: AuditLog): Promise<void> {
  const latencies: number[] = [];
  const before = process.threadCpuUsage();
  const started = performance.now();
  let n = 0;
  for (let now = started; now - started < SECONDS * 1000; now = performance.now()) {
    for (const due = ((now - started) * RATE) / 1000; n < due; n++) {
      const answered = log.append(event(n), 'written');
      if (n % 50 === 0) {
        const at = performance.now();
        void answered.then(() => latencies.push(performance.now() - at));
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const { user, system } = process.threadCpuUsage(before);
  latencies.sort((a, b) => a - b);
  row(
    `append written, ${RATE.toLocaleString('en')} a second for ${SECONDS} s`,
    perSecond(n, performance.now() - started),
  );
  row('  answered after', `p50 ${percentile(latencies, 0.5)}, p99 ${percentile(latencies, 0.99)}`);
  row(
    '  the appending thread, this loop and its events included',
    `${((user + system) / SECONDS / 10_000).toFixed(1)} % of a core`,
  );
}

async function fill(log: AuditLog, count: number): Promise<number> {
  let last: Promise<void> = Promise.resolve();
  for (let n = 0; n < count; n++) {
    last = log.append(event(n), 'written');
    if (n % 2000 === 0) await last;
  }
  await last;
  return count;
}

async function query(name: string, dir: string, asked: AuditQuery): Promise<void> {
  const { count, ms } = await timed(async () => {
    let found = 0;
    for await (const _ of queryAudit(dir, asked)) found++;
    return found;
  });
  row(`query, ${name}`, `${ms.toFixed(0)} ms for ${count.toLocaleString('en')} records`);
}

const base = mkdtempSync(join(values.dir ?? tmpdir(), 'postern-bench-audit-'));
const open = (name: string): Promise<AuditLog> =>
  openAuditLog({
    dir: join(base, name),
    onFailure: 'refuse',
    syncReads: false,
    retention: 90 * 86_400_000,
    redactor,
    signer: {
      publicKeyPem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
      sign: (bytes) => sign(null, bytes, privateKey),
    },
  });
try {
  const rates = await open('rates');
  await fill(rates, 20_000);
  await closedLoop(rates, 'written', 1, 2000);
  await closedLoop(rates, 'written', 64, 50_000);
  await closedLoop(rates, 'durable', 1, 500);
  await closedLoop(rates, 'durable', 64, 10_000);
  await openLoop(rates);
  await rates.close();

  const dir = join(base, 'million');
  const big = await open('million');
  const filled = await timed(() => fill(big, RECORDS));
  row(
    `append written, ${RECORDS.toLocaleString('en')} as fast as it goes`,
    perSecond(filled.count, filled.ms),
  );
  await big.close();
  await query('the newest 50', dir, { order: 'newest', limit: 50 });
  await query('one session, all of it', dir, { sessionId: event(1234).sessionId ?? '' });
  await query('one session, the newest 50', dir, {
    sessionId: event(1234).sessionId ?? '',
    order: 'newest',
    limit: 50,
  });
  await query('a session that is not there', dir, { sessionId: 'sess_nobody' });
  await query('the newest 50 denials of one action', dir, {
    action: 'git.fetch',
    decision: 'deny',
    order: 'newest',
    limit: 50,
  });
  await query('the middle tenth, by seq', dir, { after: RECORDS / 2, limit: RECORDS / 10 });
  await query('everything', dir, {});
  const exported = await timed(async () => {
    let lines = 0;
    for await (const _ of exportAudit(dir)) lines++;
    return lines;
  });
  row('export, everything', perSecond(exported.count, exported.ms));
  const verified = await timed(async () => {
    const result = await verifyAudit(dir);
    if (!result.ok) throw new Error(result.break?.message);
    return result.records;
  });
  row('verify', `${verified.ms.toFixed(0)} ms, ${perSecond(verified.count, verified.ms)}`);
  row('peak memory', `${Math.round(process.resourceUsage().maxRSS / 1024)} MiB`);
} finally {
  rmSync(base, { recursive: true, force: true });
}
