// npm run bench:kube: the Kubernetes guard beside `kubectl proxy`, nginx and no proxy at all, in one run.
//
// Small reads and the large list come from nginx as a static upstream with TLS, so that the proxies are measured and not
// an API server; watches come from the test API server in a process of its own. `kubectl proxy --disable-filter` has no
// TLS in front, nginx has TLS on both sides and buffering off, the guard runs as `postern serve` with its audit on.
// Ratios count; absolute times belong to the machine.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type ClientRequest, Agent as PlainAgent, get as plainGet } from 'node:http';
import { Agent, get, request } from 'node:https';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parse } from 'yaml';
import { serve } from './support/guard.ts';
import { revokeKubectls } from './support/kube-revocation.ts';
import {
  certificate,
  cleanUp,
  freePort,
  listening,
  median,
  need,
  nginx,
  nginxProxy,
  peakRss,
  percentile,
  scratch,
  start,
  stop,
  table,
  wrk,
} from './support/tools.ts';

const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 1 : 3;
const SECONDS = quick ? 2 : 4;
const LIST_MB = quick ? 10 : 50;
const WATCHES = quick ? 200 : 1000;
const BUSY = 10;
const EVENTS = quick ? 20 : 100;

interface Way {
  readonly name: string;
  readonly base: string;
  readonly headers: Record<string, string>;
  readonly ca: string;
  readonly pid: number;
}

const log = (text: string): void => void process.stderr.write(`${text}\n`);

function kubeconfig(server: string, caFile: string, token: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'c',
        cluster: { server, 'certificate-authority-data': readFileSync(caFile).toString('base64') },
      },
    ],
    users: [{ name: 'u', user: { token } }],
    contexts: [{ name: 'bench', context: { cluster: 'c', user: 'u', namespace: 'team-a' } }],
    'current-context': 'bench',
  });
}

/** What a sandbox reads out of its kubeconfig. */
function sandboxAccess(text: string): { base: string; authorization: string } {
  const document = parse(text) as {
    clusters: { cluster: { server: string } }[];
    users: { user: { token: string } }[];
  };
  return {
    base: document.clusters[0]?.cluster.server ?? '',
    authorization: `Bearer ${document.users[0]?.user.token}`,
  };
}

async function kubectlProxy(config: string): Promise<{ child: ChildProcess; port: number }> {
  const port = await freePort();
  const child = start('kubectl', [
    '--kubeconfig',
    config,
    'proxy',
    '--disable-filter',
    '--port',
    String(port),
  ]);
  await listening(port);
  return { child, port };
}

/** The process that does the work, where a program starts another. */
function worker(pid: number): number {
  try {
    const [first] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
    return first ? worker(Number(first)) : pid;
  } catch {
    return pid;
  }
}

function rssMb(pid: number): number {
  if (pid === 0) return Number.NaN;
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
}

function download(way: Way, path: string): { firstMs: number; totalMs: number } {
  const args = [
    '-s',
    '-o',
    '/dev/null',
    '-w',
    '%{http_code} %{time_starttransfer} %{time_total}',
    '--cacert',
    way.ca,
  ];
  for (const [name, value] of Object.entries(way.headers)) args.push('-H', `${name}: ${value}`);
  const env = { PATH: process.env.PATH };
  const out = execFileSync('curl', [...args, `${way.base}${path}`], { encoding: 'utf8', env })
    .split(' ')
    .map(Number);
  if (out[0] !== 200) throw new Error(`${way.name}: status ${out[0]}`);
  return { firstMs: (out[1] ?? 0) * 1000, totalMs: (out[2] ?? 0) * 1000 };
}

/** Watches of a namespace's config maps; `seen` is called with the name of each new one. */
function watch(
  way: Way,
  namespace: string,
  agent: Agent | PlainAgent,
  seen: (name: string) => void,
): Promise<ClientRequest> {
  return new Promise((resolve, reject) => {
    const url = `${way.base}/api/v1/namespaces/${namespace}/configmaps?watch=true`;
    const open = url.startsWith('https:') ? get : plainGet;
    const req = open(url, { headers: way.headers, agent }, (res) => {
      if (res.statusCode !== 200) return reject(new Error(`${way.name}: watch answered ${res.statusCode}`));
      let rest = '';
      res.on('data', (chunk: Buffer) => {
        rest += chunk;
        for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n')) {
          const name = /"name":"(event-[^"]+)"/.exec(rest.slice(0, end))?.[1];
          if (name) seen(name);
          rest = rest.slice(end + 1);
        }
      });
      res.on('error', () => {});
      resolve(req);
    });
    req.on('error', reject);
  });
}

async function main(): Promise<void> {
  need('nginx', 'nginx-light');
  need('wrk', 'wrk');
  need('kubectl', 'kubernetes-client');
  const folder = scratch('kube');
  const tls = certificate(folder);
  const token = 'bench-cluster-token-of-the-upstream';

  // The static upstream.
  const pods = join(folder, 'www/api/v1/namespaces/team-a/pods');
  mkdirSync(pods, { recursive: true });
  const pod = {
    kind: 'Pod',
    apiVersion: 'v1',
    metadata: { name: 'web', namespace: 'team-a', uid: 'u', resourceVersion: '1' },
  };
  writeFileSync(join(pods, 'web'), JSON.stringify(pod));
  mkdirSync(join(folder, 'www/api/v1/namespaces/big'), { recursive: true });
  const item = JSON.stringify({
    ...pod,
    metadata: { ...pod.metadata, annotations: { padding: 'x'.repeat(4000) } },
  });
  const items = Array.from({ length: Math.floor((LIST_MB << 20) / (item.length + 1)) }, () => item).join(',');
  writeFileSync(
    join(folder, 'www/api/v1/namespaces/big/pods'),
    `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[${items}]}`,
  );
  const staticPort = await freePort();
  await nginx(
    folder,
    'upstream',
    `server { listen 127.0.0.1:${staticPort} ssl reuseport backlog=4096; root ${folder}/www; default_type application/json;
       ssl_certificate ${tls.cert}; ssl_certificate_key ${tls.key}; }`,
    staticPort,
  );
  const staticUrl = `https://127.0.0.1:${staticPort}`;

  // The API server for watches.
  const apiConfig = join(folder, 'api.kubeconfig');
  const api = spawn(
    process.execPath,
    [
      join(import.meta.dirname, '../test/apiserver/main.ts'),
      '--kubeconfig',
      apiConfig,
      '--namespace',
      'quiet',
      '--namespace',
      'busy',
    ],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  const apiUrl = await new Promise<string>((resolve, reject) => {
    api.once('exit', () => reject(new Error('the test API server ended')));
    createInterface({ input: api.stdout }).once('line', (line) =>
      resolve((JSON.parse(line) as { url: string }).url),
    );
  });
  const apiAccess = parse(readFileSync(apiConfig, 'utf8')) as {
    clusters: { cluster: Record<string, string> }[];
    users: { user: Record<string, string> }[];
  };
  const apiCa = join(folder, 'api-ca.pem');
  writeFileSync(
    apiCa,
    Buffer.from(apiAccess.clusters[0]?.cluster['certificate-authority-data'] ?? '', 'base64'),
  );
  const apiToken = apiAccess.users[0]?.user.token ?? '';

  const staticConfig = join(folder, 'static.kubeconfig');
  writeFileSync(staticConfig, kubeconfig(staticUrl, tls.ca, token), { mode: 0o600 });

  const guard = await serve(folder, {
    kube: { enabled: true },
    sessions: { maxConcurrent: 4096 },
    log: { level: 'warn' },
  });
  const issue = (config: string, ...more: string[]) =>
    guard.cli<{ sessionId: string; kubeconfig: string }>(
      ...[
        'session',
        'issue',
        'kube',
        '--kubeconfig',
        config,
        '--lease',
        'bench',
        '--namespace',
        '*',
        ...more,
      ],
    );

  async function ways(upstream: string, ca: string, bearer: string, config: string): Promise<Way[]> {
    const port = await freePort();
    const authorization = `Bearer ${bearer}`;
    const peer = await nginx(
      folder,
      `peer-${port}`,
      nginxProxy({ port, tls, upstream, upstreamCa: ca, authorization }),
      port,
    );
    const proxy = await kubectlProxy(config);
    const access = sandboxAccess(issue(config).kubeconfig);
    return [
      { name: 'direct', base: upstream, headers: { Authorization: authorization }, ca, pid: 0 },
      {
        name: 'kubectl proxy',
        base: `http://127.0.0.1:${proxy.port}`,
        headers: {},
        ca,
        pid: worker(proxy.child.pid ?? 0),
      },
      {
        name: 'nginx',
        base: `https://127.0.0.1:${port}`,
        headers: {},
        ca: tls.ca,
        pid: worker(peer.pid ?? 0),
      },
      {
        name: 'guard',
        base: access.base,
        headers: { Authorization: access.authorization },
        ca: guard.ca,
        pid: worker(guard.pid),
      },
    ];
  }

  const fast = await ways(staticUrl, tls.ca, token, staticConfig);
  const rows: string[][] = [
    ['what', 'unit', ...fast.map((way) => way.name), 'guard / kubectl proxy', 'guard / nginx'],
  ];
  const report = (what: string, unit: string, values: number[], digits = 2): void => {
    const [, proxy = Number.NaN, peer = Number.NaN, ours = Number.NaN] = values;
    const cells = values.map((value) => (Number.isNaN(value) ? '-' : value.toFixed(digits)));
    rows.push([what, unit, ...cells, (ours / proxy).toFixed(2), (ours / peer).toFixed(2)]);
    log(rows.at(-1)?.join('  ') ?? '');
  };

  const small = fast.map((): { rate: number; p50Ms: number; p99Ms: number }[] => []);
  for (let round = 0; round < ROUNDS; round++)
    for (const [i, way] of fast.entries()) {
      const found = wrk(`${way.base}/api/v1/namespaces/team-a/pods/web`, way.headers, 32, SECONDS);
      if (found.errors > 0) throw new Error(`${way.name}: ${found.errors} requests failed`);
      small[i]?.push(found);
    }
  const of = (key: 'rate' | 'p50Ms' | 'p99Ms') => small.map((list) => median(list.map((one) => one[key])));
  report('small GET, 32 connections', 'req/s', of('rate'), 0);
  report('small GET, p50', 'ms', of('p50Ms'));
  report('small GET, p99', 'ms', of('p99Ms'));

  const big = fast.map((): { firstMs: number; totalMs: number; peak: number }[] => []);
  for (let round = 0; round < ROUNDS; round++)
    for (const [i, way] of fast.entries()) {
      const memory = way.pid > 0 ? peakRss(way.pid) : undefined;
      memory?.reset();
      const before = rssMb(way.pid);
      const found = download(way, '/api/v1/namespaces/big/pods');
      big[i]?.push({ ...found, peak: memory ? memory.mb() - before : Number.NaN });
    }
  report(
    `list of ${LIST_MB} MB, first byte`,
    'ms',
    big.map((list) => median(list.map((one) => one.firstMs))),
  );
  report(
    `list of ${LIST_MB} MB, total`,
    'ms',
    big.map((list) => median(list.map((one) => one.totalMs))),
    0,
  );
  report(
    `list of ${LIST_MB} MB, memory above idle`,
    'MB',
    big.map((list) => Math.max(...list.map((one) => one.peak))),
    0,
  );
  for (const way of fast) if (way.name === 'kubectl proxy') log(`kubectl proxy is process ${way.pid}`);

  const live = await ways(apiUrl, apiCa, apiToken, apiConfig);
  const directAgent = new Agent({ ca: readFileSync(apiCa), keepAlive: true });
  const post = (name: string) =>
    new Promise<void>((resolve, reject) => {
      const body = JSON.stringify({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name, namespace: 'busy' },
      });
      request(
        `${apiUrl}/api/v1/namespaces/busy/configmaps`,
        {
          method: 'POST',
          agent: directAgent,
          headers: {
            authorization: `Bearer ${apiToken}`,
            'content-type': 'application/json',
            'content-length': body.length,
          },
        },
        (res) =>
          res
            .resume()
            .once('end', () => (res.statusCode === 201 ? resolve() : reject(new Error(`${res.statusCode}`)))),
      )
        .once('error', reject)
        .end(body);
    });
  const perWatch: number[] = [];
  const latency: number[] = [];
  const latency99: number[] = [];
  for (const way of live) {
    const agent = way.base.startsWith('https:')
      ? new Agent({ ca: readFileSync(way.ca), maxSockets: Number.POSITIVE_INFINITY })
      : new PlainAgent({ maxSockets: Number.POSITIVE_INFINITY });
    const sent = new Map<string, number>();
    const late: number[] = [];
    const before = rssMb(way.pid);
    const open: ClientRequest[] = [];
    for (let i = 0; i < WATCHES; i += 50) {
      const namespaceOf = (n: number) => (n < BUSY ? 'busy' : 'quiet');
      const some = Array.from({ length: 50 }, (_, n) =>
        watch(way, namespaceOf(i + n), agent, (name) => {
          const at = sent.get(name);
          if (at !== undefined) late.push(performance.now() - at);
        }),
      );
      open.push(...(await Promise.all(some)));
    }
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    perWatch.push(((rssMb(way.pid) - before) * 1024) / WATCHES);
    for (let n = 0; n < EVENTS; n++) {
      const name = `event-${way.name.replace(' ', '-')}-${n}`;
      sent.set(name, performance.now());
      await post(name);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
    if (late.length < EVENTS * BUSY)
      throw new Error(`${way.name}: ${late.length} of ${EVENTS * BUSY} events arrived`);
    latency.push(percentile(late, 50));
    latency99.push(percentile(late, 99));
    for (const req of open) req.on('error', () => {}).destroy();
    agent.destroy();
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
  report(`${WATCHES} watches, memory each`, 'KB', perWatch, 1);
  report('event to a watch, p50', 'ms', latency);
  report('event to a watch, p99', 'ms', latency99);
  directAgent.destroy();

  log('revocation');
  const cut = await revokeKubectls({
    folder,
    guard,
    apiConfig,
    issued: issue(apiConfig, '--resource', '*', '--resource', 'pods/exec', '--verb', '*'),
    watches: quick ? 20 : 200,
    logs: quick ? 5 : 50,
    execs: quick ? 4 : 20,
  });

  console.log(table(rows));
  console.log(`\nrevoke with ${cut.map(({ clients, kind }) => `${clients} ${kind}`).join(', ')}:`);
  console.log(
    table([
      ['kind', 'clients', 'ended', 'p50 ms after DELETE answered', 'p99 ms', 'exit', 'last line printed'],
      ...cut.map((one) => [
        one.kind,
        String(one.clients),
        String(one.ended),
        one.p50Ms.toFixed(0),
        one.p99Ms.toFixed(0),
        one.exits,
        one.printed,
      ]),
    ]),
  );
  api.kill();
  await stop(guard.process);
}

await main().finally(cleanUp);
