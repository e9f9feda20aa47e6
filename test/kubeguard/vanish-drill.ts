// Clients that connect and vanish, at every point of what they came for: `npm run check:vanish` for 10,000 rounds; the
// suite does a smaller number. Guard, cluster and clients are one process, so that what any side leaves behind is seen:
// sockets and timers that are still held, memory after a collection, and exchanges that the session still counts (it may
// have few under way, so a forgotten one would soon cost it everything).

import type { AddressInfo, Socket } from 'node:net';
import { createServer } from 'node:tls';
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { testCertificates, tlsOf } from '../support/certificates.ts';
import { rawConnect } from '../support/raw-client.ts';
import { waitFor } from '../support/wait.ts';
import { ask, closeAll, kubeconfigFor, type Session, startGuard } from './harness.ts';

export interface Vanished {
  readonly rounds: number;
  readonly seconds: number;
  readonly before: Held;
  readonly after: Held;
  /** Connections that the cluster saw, of all rounds. */
  readonly upstream: number;
  /** Milliseconds from the last client's end until the cluster was left, but for kept connections. */
  readonly quietMs: number;
}

interface Held {
  readonly sockets: number;
  readonly timers: number;
  /** Of the cluster's side: beyond the kept ones. */
  readonly busy: number;
  /** MiB, after a collection. */
  readonly heap: number;
}

const AT_ONCE = 16;
const PODS = '/api/v1/namespaces/team-a/pods';
const SWITCH = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n';
const CHUNKED = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
const EVENT = '{"type":"BOOKMARK","object":{}}\n';

/** A cluster that never ends anything by itself: a watch or a log begins, an exec opens, a body is waited for. */
async function patientCluster() {
  const busy = new Set<Socket>();
  let seen = 0;
  const certificates = testCertificates();
  const server = createServer(tlsOf(certificates).contextOptions(), (socket) => {
    seen++;
    socket.on('error', () => {});
    socket.on('close', () => busy.delete(socket));
    socket.on('data', (chunk: Buffer) => {
      const [line = ''] = chunk.toString('latin1').split('\r\n', 1);
      if (line.startsWith('GET') && line.includes('/configmaps ')) {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
        return;
      }
      busy.add(socket);
      if (line.includes('/exec?')) socket.write(SWITCH);
      else if (/[?&](?:watch|follow)=/.test(line))
        socket.write(`${CHUNKED}${EVENT.length.toString(16)}\r\n${EVENT}\r\n`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    kubeconfig: kubeconfigFor(`https://127.0.0.1:${(server.address() as AddressInfo).port}`, undefined, {
      'certificate-authority-data': Buffer.from(certificates.ca).toString('base64'),
    }),
    busy: () => busy.size,
    seen: () => seen,
    close: () => new Promise<void>((resolve) => void server.close(() => resolve())),
  };
}

/** What a round sends, and what it waits for before it goes; nothing: it goes at once. */
function errands(session: Session, port: number): { send: string; until?: string }[] {
  const head = (line: string, ...more: string[]): string =>
    [line, `Host: 127.0.0.1:${port}`, `Authorization: Bearer ${session.token}`, ...more, '', ''].join('\r\n');
  const get = (path: string): string => head(`GET ${session.prefix}${path} HTTP/1.1`);
  const exec = head(
    `POST ${session.prefix}${PODS}/x/exec?command=sh HTTP/1.1`,
    'Connection: Upgrade',
    'Upgrade: SPDY/3.1',
  );
  const body = head(
    `POST ${session.prefix}${PODS} HTTP/1.1`,
    'Content-Type: application/json',
    'Content-Length: 90',
  );
  return [
    { send: '' },
    { send: get(PODS).slice(0, 40) },
    { send: get(PODS) },
    { send: get(`${PODS}?watch=1`) },
    { send: get(`${PODS}?watch=1`), until: 'BOOKMARK' },
    { send: get('/api/v1/namespaces?watch=1'), until: '200 OK' },
    { send: get(`${PODS}/x/log?follow=true`), until: 'BOOKMARK' },
    { send: exec },
    { send: `${exec}and some input`, until: '101 Switching' },
    { send: `${body}{"kind":` },
    { send: get('/api/v1/namespaces/team-a/configmaps') },
  ];
}

async function round(
  port: number,
  ca: string,
  { send, until }: { send: string; until?: string },
): Promise<void> {
  const socket = await rawConnect(port, ca);
  const gone = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  if (until !== undefined) {
    let heard = '';
    await new Promise<void>((resolve) => {
      socket.on('data', (chunk: Buffer) => {
        heard += chunk.toString('latin1');
        if (heard.includes(until)) resolve();
      });
      socket.once('close', () => resolve());
      socket.write(send);
    });
    if (!heard.includes(until)) throw new Error(`${JSON.stringify(heard.slice(0, 300))} holds no ${until}`);
  } else if (send !== '') await new Promise<void>((resolve) => void socket.write(send, () => resolve()));
  // What a killed process does: the kernel closes, or resets where something was left unread.
  socket.destroy();
  await gone;
}

export async function vanish(rounds: number, say: (text: string) => void = () => {}): Promise<Vanished> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const cluster = await patientCluster();
  const held = await startGuard({}, {}, { maxConcurrent: 2 * AT_ONCE });
  const session = await held.issue({
    kubeconfig: cluster.kubeconfig,
    namespaces: ['team-a', 'team-b'],
    verbs: ['*'],
    resources: ['*', 'pods/exec'],
  });
  const all = errands(session, held.port);

  const run = async (count: number): Promise<void> => {
    let next = 0;
    const client = async (): Promise<void> => {
      for (let n = next++; n < count; n = next++) {
        await round(held.port, held.ca, all[n % all.length] ?? { send: '' });
        if (n % 1_000 === 999) say(`${n + 1} rounds`);
        if (n % 100 === 0) held.trail.events.length = 0; // the trail of the tests keeps everything
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, client));
  };
  const settle = async (): Promise<number> => {
    const started = performance.now();
    await waitFor('the cluster to be left', () => cluster.busy() === 0);
    const quietMs = performance.now() - started;
    // Connections that linger are given a second, and those that are kept are used once more and counted.
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    const answer = await ask(held, session, 'GET', '/api/v1/namespaces/team-a/configmaps');
    if (answer.status !== 200) throw new Error(`the session is no use any more: ${answer.body}`);
    held.trail.events.length = 0;
    return quietMs;
  };
  const look = (): Held => {
    for (let i = 0; i < 3; i++) collect();
    const kinds = process.getActiveResourcesInfo();
    return {
      sockets: kinds.filter((kind) => /TCP|TLS|Pipe/.test(kind)).length,
      timers: kinds.filter((kind) => kind === 'Timeout').length,
      busy: cluster.busy(),
      heap: Math.round((process.memoryUsage().heapUsed / 1024 / 1024) * 10) / 10,
    };
  };

  try {
    await run(Math.min(rounds, 550)); // what is made once
    await settle();
    const before = look();
    const seenBefore = cluster.seen();
    const started = performance.now();
    await run(rounds);
    const seconds = Math.round((performance.now() - started) / 100) / 10;
    const quietMs = Math.round(await settle());
    return { rounds, seconds, before, after: look(), upstream: cluster.seen() - seenBefore, quietMs };
  } finally {
    await closeAll();
    await cluster.close();
  }
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { rounds: { type: 'string', default: '10000' } } });
  const result = await vanish(Number(values.rounds), (text) => process.stderr.write(`${text}\n`));
  process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
}
