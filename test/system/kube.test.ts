import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiServer, startApiServer } from '../apiserver/server.ts';
import {
  configure,
  freePort,
  postern,
  type Ran,
  run,
  type Server,
  sandbox,
  scratch,
  serve,
} from './harness.ts';

// The Kubernetes guard as a user has it: killed in the middle of its work, and with a cluster credential of a known value
// that is afterwards in nothing that the product wrote or said.

const ROUNDS = 6;
const { folder, remove } = scratch('kube');
const said: { from: string; text: string }[] = [];
let api: ApiServer;
let server: Server | undefined;

beforeAll(async () => {
  api = await startApiServer({
    namespaces: ['team-a', 'team-b'],
    objects: [
      {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'one', namespace: 'team-a' },
        data: { a: '1' },
      },
    ],
  });
});

afterAll(async () => {
  await server?.kill();
  await api.close();
  remove();
});

test('kill -9 under reads and watches: the kubeconfig still works, the chain is whole, the credential is nowhere', async () => {
  const canary = `cluster-${randomBytes(24).toString('hex')}`;
  api.users.issue('admin', ['system:masters'], canary);
  const outside = join(folder, 'outside.kubeconfig');
  const own = api.kubeconfig({ user: 'admin' }).replace(/token: .*/, `token: ${canary}`);
  writeFileSync(outside, own, { mode: 0o600 });
  const port = await freePort();
  const config = configure(join(folder, 'server'), {
    git: { enabled: false },
    kube: { listen: `127.0.0.1:${port}`, advertise: `https://127.0.0.1:${port}` },
    log: { level: 'debug' },
  });
  const start = async (): Promise<void> => {
    server = await serve(config);
  };
  await start();
  const files = join(folder, 'session');
  // biome-ignore format: pairs
  const issued = await postern(config, 'session', 'issue', 'kube', '--kubeconfig', outside, '--namespace', 'team-a',
    '--verb', '*', '--lease', 'kill-kube', '--ttl', '1h', '--out', files);
  expect(issued).toMatchObject({ code: 0 });
  const env = sandbox(folder, files);
  const kubectl = (...args: string[]): Promise<Ran> => run('kubectl', args, { env, cwd: folder });
  const note = (from: string, ran: Ran): Ran => {
    said.push({ from, text: ran.out + ran.err });
    return ran;
  };

  for (let round = 0; round < ROUNDS; round++) {
    const under = [
      kubectl('get', 'configmaps', '-w', '--request-timeout=20s'),
      ...Array.from({ length: 5 }, () => kubectl('get', 'configmaps', '-o', 'name')),
      kubectl('create', 'configmap', `round-${round}`, '--from-literal=a=b'),
    ];
    await new Promise((resolve) => setTimeout(resolve, 40 + round * 150));
    await server?.kill('SIGKILL');
    said.push({ from: "the server's log", text: server?.output() ?? '' });
    for (const ran of await Promise.all(under)) note('a client of a killed server', ran);
    await start();
    const next = note('the next request', await kubectl('get', 'configmaps', 'one', '-o', 'name'));
    expect(next, `round ${round}`).toMatchObject({ code: 0, out: 'configmap/one\n' });
  }
  expect(note('refused', await kubectl('get', 'pods', '-n', 'team-b')).err).toContain('(Forbidden)');
  expect(note('verify', await postern(config, 'audit', 'verify'))).toMatchObject({ code: 0 });
  // What changed something at the cluster was on record before it left.
  const records = note(
    'records',
    await postern(config, 'audit', 'export', '--action', 'kube.request_allowed'),
  );
  const arrived = api.requests.filter(
    ({ method, target }) => method === 'POST' && target.includes('/team-a/configmaps'),
  );
  expect(arrived.length).toBeGreaterThan(0);
  expect(records.out.split('"verb":"create"').length - 1).toBeGreaterThanOrEqual(arrived.length);
  for (const args of [
    ['session', 'list', '--json'],
    ['status', '--json'],
    ['doctor', '--json'],
    ['audit', 'export'],
  ])
    note(args.join(' '), await postern(config, ...args));
  note('revoke', await postern(config, 'session', 'revoke', env.POSTERN_KUBE_SESSION ?? ''));
  expect(note('after the end', await kubectl('get', 'configmaps')).err).toContain('You must be logged in');
  await server?.kill();
  said.push({ from: "the server's log", text: server?.output() ?? '' });
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true }))
    if (entry.isFile() && entry.name !== 'outside.kubeconfig') {
      const file = join(entry.parentPath, entry.name);
      said.push({ from: file, text: readFileSync(file, 'latin1') });
    }
  const forms = [canary, Buffer.from(canary).toString('base64').replace(/=+$/, ''), canary.slice(8, 40)];
  expect(
    said.filter(({ text }) => forms.some((form) => text.includes(form))).map(({ from }) => from),
  ).toEqual([]);
  expect(api.requests.some((request) => request.header('authorization').includes(`Bearer ${canary}`))).toBe(
    true,
  );
}, 240_000);
