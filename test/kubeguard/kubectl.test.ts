// Real kubectl of two generations through the guard: what must work, what is refused in its words, and how it ends.
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ApiServer, startApiServer } from '../apiserver/server.ts';
import { waitFor } from '../support/wait.ts';
import {
  closeAll,
  type Held,
  kubectl,
  onClose,
  type Ran,
  type Session,
  startGuard,
  startKubectl,
} from './harness.ts';
import { oldKubectl } from './old-kubectl.ts';

const pod = (name: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'team-a' },
  spec: { containers: [{ name: 'c', image: 'x' }] },
});
const configMap = (name: string, value: string) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { a: value } });
const deployment = JSON.stringify({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'web' },
  spec: {
    replicas: 1,
    selector: { matchLabels: { app: 'web' } },
    template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image: 'x' }] } },
  },
});

let api: ApiServer;
let held: Held;
let writer: Session;
let reader: Session;
let folder: string;

beforeAll(async () => {
  api = await startApiServer({ namespaces: ['team-a', 'team-b'] });
  held = await startGuard();
  const kubeconfig = api.kubeconfig({ namespace: 'team-a' });
  writer = await held.issue({ kubeconfig, namespaces: ['team-a'], verbs: ['*'], resources: ['*', '*/*'] });
  reader = await held.issue({ kubeconfig, namespaces: ['team-*', 'team-a'] });
  folder = mkdtempSync(join(tmpdir(), 'postern-kubectl-'));
  onClose(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of ['busy', 'web-0']) api.create(pod(name));
  await waitFor(
    'the pods to run',
    async () => (await kubectl(writer, ['get', 'pods'])).stdout.match(/Running/g)?.length === 2,
  );
});
afterAll(async () => {
  await closeAll();
  await api.close();
});

const generations = [
  ['the system kubectl', () => 'kubectl', {}],
  [
    'the system kubectl by SPDY',
    () => 'kubectl',
    { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: 'false', KUBECTL_PORT_FORWARD_WEBSOCKETS: 'false' },
  ],
  ['an old kubectl', oldKubectl, {}],
] as const;

describe.each(generations)('%s', (generation, program, env) => {
  const run = (
    args: string[],
    options: {
      input?: string | Buffer;
      as?: Session;
      timeout?: number;
      more?: { [name: string]: string };
    } = {},
  ): Promise<Ran> =>
    kubectl(options.as ?? writer, args, {
      program: program(),
      env: { ...env, ...options.more },
      timeout: options.timeout ?? 60_000,
      ...(options.input === undefined ? {} : { input: options.input }),
    });
  const ok = async (...args: Parameters<typeof run>): Promise<string> => {
    const ran = await run(...args);
    expect(ran, `${args[0].join(' ')}: ${ran.stderr}`).toMatchObject({ code: 0 });
    return ran.stdout;
  };
  const mine = `${generation.replace(/\W+/g, '-')}`.toLowerCase();

  test('reads: get, list, describe, explain, api-resources, versions, raw', async () => {
    expect(await ok(['get', 'pods'])).toMatch(/busy +1\/1 +Running/);
    expect(await ok(['get', 'pods', '-o', 'json'])).toContain('"kind": "Pod"');
    expect(await ok(['describe', 'pod', 'busy'])).toMatch(/Status: +Running/);
    expect(await ok(['explain', 'pods'])).toMatch(/KIND: +Pod/);
    expect(await ok(['api-resources'])).toMatch(/deployments/);
    expect(await ok(['version'])).toMatch(/Server/);
    expect(await ok(['get', '--raw', '/readyz'])).toBe('ok');
    expect(await ok(['get', 'pods', '--chunk-size=1'])).toMatch(/web-0/);
  });

  test('asks what it may do and gets the truth of both', async () => {
    expect(await ok(['auth', 'can-i', 'delete', 'pods'])).toMatch(/^yes/);
    const no = await run(['auth', 'can-i', 'delete', 'pods'], { as: reader });
    expect(no.code).toBe(1);
    expect(no.stdout + no.stderr).toMatch(/no - the guard refuses: the verb delete/);
    const elsewhere = await run(['auth', 'can-i', 'get', 'pods', '-n', 'kube-system'], { as: reader });
    expect(elsewhere.stdout).toMatch(/^no - the guard refuses: the namespace kube-system/);
    expect(await ok(['auth', 'can-i', '--list'], { as: reader })).toMatch(/selfsubject/);
  });

  test('sees the namespaces it may use, listed and watched', async () => {
    const names = (await ok(['get', 'namespaces', '-o', 'name'], { as: reader })).trim().split('\n').sort();
    expect(names.slice(0, 2)).toEqual(['namespace/team-a', 'namespace/team-b']);
    expect(names.filter((name) => !name.startsWith('namespace/team-'))).toEqual([]);
    expect(await ok(['get', 'namespaces'], { as: reader })).not.toMatch(/kube-system/);
    expect(await ok(['get', 'ns', 'team-a'], { as: writer })).toMatch(/Active/);
    expect((await ok(['get', 'ns', '-o', 'name'], { as: writer })).trim()).toBe('namespace/team-a');
    const watch = startKubectl(reader, ['get', 'namespaces', '-w'], { program: program(), env });
    await waitFor('the watch to show them', () => /team-b/.test(watch.out()));
    api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: `other-${mine}` } });
    api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: `team-${mine}` } });
    await waitFor('the new one', () => watch.out().includes(`team-${mine}`));
    watch.child.kill();
    const { stdout } = await watch.ended;
    expect(stdout).not.toMatch(/other-|kube-system/);
    expect(stdout).toMatch(/NAME/);
  });

  test('is refused in its own words', async () => {
    const refused = async (
      args: string[],
      message: RegExp,
      options: { as?: Session; input?: string } = { as: reader },
    ) => {
      const ran = await run(args, options);
      expect(ran.code).toBe(1);
      expect(ran.stderr).toMatch(message);
    };
    await refused(
      ['get', 'pods', '-A'],
      /Error from server \(Forbidden\): pods is forbidden: .*name a namespace with -n/,
    );
    await refused(['get', 'nodes'], /Error from server \(Forbidden\): nodes is forbidden: .*-n team-a/);
    await refused(
      ['get', 'secrets'],
      /\(Forbidden\): secrets is forbidden: .*only where the resources name them \(secrets\)/,
    );
    await refused(
      ['get', 'pods', '-n', 'kube-system'],
      /\(Forbidden\): pods is forbidden: the namespace kube-system is outside/,
    );
    await refused(
      ['delete', 'pod', 'busy'],
      /\(Forbidden\): pods "busy" is forbidden: the verb delete is outside .*get, list and watch/,
    );
    await refused(
      ['exec', 'busy', '--', 'id'],
      /pods "?busy"? is forbidden: pods\/exec is outside .*name it \(pods\/exec\)/,
    );
    await refused(['apply', '-f', '-'], /verb (create|patch) is outside/, {
      as: reader,
      input: configMap(`no-${mine}`, '1'),
    });
  });

  test('writes: apply, server-side apply, diff, patch, edit, scale, rollout, wait, delete', async () => {
    const name = `cm-${mine}`;
    expect(await ok(['apply', '-f', '-'], { input: configMap(name, '1') })).toMatch(/created/);
    expect(await ok(['apply', '-f', '-'], { input: configMap(name, '2') })).toMatch(/configured/);
    expect((await run(['diff', '-f', '-'], { input: configMap(name, '3') })).code).toBe(1);
    expect(
      await ok(['apply', '--server-side', '--force-conflicts', '-f', '-'], { input: configMap(name, '4') }),
    ).toMatch(/serverside-applied/);
    expect(await ok(['patch', 'configmap', name, '-p', '{"data":{"b":"x"}}'])).toMatch(/patched/);
    expect(await ok(['edit', 'configmap', name], { more: { KUBE_EDITOR: "sed -i 's/b: x/b: z/'" } })).toMatch(
      /edited/,
    );
    expect(await ok(['get', 'configmap', name, '-o', 'jsonpath={.data}'])).toMatch(/"b":"z"/);
    const web = deployment.replaceAll('"web"', `"web-${mine}"`);
    await ok(['apply', '-f', '-'], { input: web });
    await ok(['rollout', 'status', `deployment/web-${mine}`, '--timeout=30s']);
    expect(await ok(['scale', `deployment/web-${mine}`, '--replicas=2'])).toMatch(/scaled/);
    await ok(['wait', '--for=condition=Available', `deployment/web-${mine}`, '--timeout=30s']);
    expect(await ok(['delete', `deployment/web-${mine}`, `configmap/${name}`])).toMatch(/deleted/);
  });

  test('replaces nothing into being without the verb create, is told so, and edits all the same', async () => {
    const name = `svc-${mine}`;
    await ok(['create', 'service', 'clusterip', name, '--tcp=80:80']);
    const kubeconfig = api.kubeconfig({ namespace: 'team-a' });
    const as = await held.issue({
      kubeconfig,
      namespaces: ['team-a'],
      verbs: ['get', 'list', 'update', 'patch'],
    });
    const input = await ok(['get', 'service', name, '-o', 'json'], { as });
    const replaced = await run(['replace', '-f', '-'], { as, input });
    expect([replaced.code, replaced.stderr]).toEqual([
      1,
      expect.stringMatching(
        /\(Forbidden\).*replacing services creates what does not exist and so needs the verb create; a patch, as kubectl edit sends it, does not/,
      ),
    ]);
    const more = { KUBE_EDITOR: "sed -i 's/^metadata:/metadata:\\n  annotations: {note: edited}/'" };
    expect(await ok(['edit', 'service', name], { as, more })).toMatch(/edited/);
    expect((await run(['auth', 'can-i', 'update', 'services'], { as })).stdout).toMatch(/^no/);
    const edited = await ok(['get', 'service', name, '-o', 'json']);
    expect(await ok(['replace', '-f', '-'], { input: edited })).toMatch(/replaced/);
    await ok(['delete', 'service', name]);
  });

  test('watches, and follows logs', async () => {
    const watch = startKubectl(writer, ['get', 'configmaps', '-w', '-o', 'name'], {
      program: program(),
      env,
    });
    await ok(['create', 'configmap', `seen-${mine}`]);
    await waitFor('the watch to show it', () => watch.out().includes(`configmap/seen-${mine}`));
    watch.child.kill();
    const logs = startKubectl(writer, ['logs', '-f', 'busy'], { program: program(), env });
    await waitFor('the first line', () => /started/.test(logs.out()));
    api.log('team-a', 'busy', `line for ${mine}`);
    await waitFor('the next line', () => logs.out().includes(`line for ${mine}`));
    logs.child.kill();
  });

  test('execs: output, exit code, input, a terminal, a long command, two million lines', async () => {
    expect(await ok(['exec', 'busy', '--', 'echo', 'hi'])).toBe('hi\n');
    expect((await run(['exec', 'busy', '--', 'sh', '-c', 'exit 7'])).code).toBe(7);
    expect(await ok(['exec', '-i', 'busy', '--', 'cat'], { input: 'from here' })).toBe('from here');
    expect(await ok(['exec', '-i', '-t', 'busy', '--', 'echo', 'tty'])).toMatch(/tty/);
    const long = 'x'.repeat(40_000);
    expect((await ok(['exec', 'busy', '--', 'echo', long])).trim()).toBe(long);
    const lines = await ok(['exec', 'busy', '--', 'seq', '1', '2000000'], { timeout: 120_000 });
    expect(lines.length).toBe(14_888_896);
    expect(lines.endsWith('\n1999999\n2000000\n')).toBe(true);
    const [execed] = held.trail
      .of('kube.request_allowed')
      .filter(({ command }) => command?.[0] === 'echo' && command[1] === 'hi');
    expect(execed).toMatchObject({
      resource: 'pods',
      subresource: 'exec',
      name: 'busy',
      namespace: 'team-a',
      command: ['echo', 'hi'],
    });
  }, 180_000);

  test('attaches to what runs', async () => {
    const attached = startKubectl(writer, ['attach', 'busy'], { program: program(), env });
    let count = 0;
    await waitFor('what it says', () => {
      if (count++ % 20 === 0) api.log('team-a', 'busy', `said to ${mine}`);
      return attached.out().includes(`said to ${mine}`);
    });
    attached.child.kill();
    await attached.ended;
  });

  test('copies 100 MB both ways without loss', async () => {
    const there = join(folder, `there-${mine}`);
    const back = join(folder, `back-${mine}`);
    const bytes = randomBytes(100 * 1024 * 1024);
    writeFileSync(there, bytes);
    await ok(['cp', there, `busy:copied-${mine}`, '--no-preserve'], { timeout: 120_000 });
    await ok(['cp', `busy:copied-${mine}`, back], { timeout: 120_000 });
    const sum = (data: Buffer) => createHash('sha256').update(data).digest('hex');
    expect(sum(readFileSync(back))).toBe(sum(bytes));
    rmSync(there);
    rmSync(back);
    await ok(['exec', 'busy', '--', 'rm', `copied-${mine}`]);
  }, 240_000);

  test('forwards a port, with 10,000 lines both ways', async () => {
    const forward = startKubectl(writer, ['port-forward', 'pod/busy', ':8080'], { program: program(), env });
    await waitFor('the port', () => /127\.0\.0\.1:(\d+)/.test(forward.out()));
    const port = Number(/127\.0\.0\.1:(\d+)/.exec(forward.out())?.[1]);
    const lines = Array.from({ length: 10_000 }, (_, i) => `line ${i} of ${mine}\n`).join('');
    const echoed = await new Promise<string>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1');
      let text = '';
      socket.on('data', (chunk) => {
        text += chunk;
        if (text.length >= lines.length) socket.end();
      });
      socket.on('close', () => resolve(text)).on('error', reject);
      socket.write(lines);
    });
    expect(echoed).toBe(lines);
    const opened = held.trail
      .of('kube.request_allowed')
      .findLast(({ subresource }) => subresource === 'portforward');
    expect(opened?.method).toBe(generation === 'the system kubectl' ? 'GET' : 'POST');
    forward.child.kill();
    await forward.ended;
  });
});
