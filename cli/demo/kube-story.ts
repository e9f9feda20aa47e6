// The Kubernetes half of the demo: an API server (the one of the tests, or the cluster of KUBECONFIG with --kube), a
// session that is confined to one namespace, and what the real kubectl prints.

import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openSandbox } from './git-story.ts';
import { NotAsTold, type Stage } from './stage.ts';

const run = promisify(execFile);

export interface DemoCluster {
  readonly name: string;
  readonly kubeconfig: string;
  readonly namespace: string;
  /** What the cluster got, where it is ours to ask; undefined for a real one. */
  seen?(): number;
}

/** @returns undefined where there is no kubectl on this machine */
export async function openCluster(stage: Stage, own: string | undefined): Promise<DemoCluster | undefined> {
  const found = await run('kubectl', ['version', '--client']).catch(() => undefined);
  if (!found) return undefined;
  if (own !== undefined) return realCluster(own);
  const { startApiServer } = await import('../../test/apiserver/server.ts').catch(() => {
    throw new NotAsTold('the test API server is not part of this installation; use a checkout, or --kube');
  });
  const namespace = 'team-a';
  const server = await startApiServer({
    namespaces: [namespace, 'team-b'],
    objects: [namespace, 'team-b'].map((at) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web', namespace: at },
      spec: { containers: [{ name: 'web', image: 'web' }] },
    })),
  });
  stage.onEnd(() => server.close());
  const kubeconfig = join(stage.folder, 'cluster-admin.kubeconfig');
  await writeFile(kubeconfig, server.kubeconfig(), { mode: 0o600 });
  return {
    name: server.url,
    kubeconfig,
    namespace, // Some kubectls ask for the version before anything else.
    seen: () => server.requests.filter(({ target }) => !target.startsWith('/version')).length,
  };
}

async function realCluster(kubeconfig: string): Promise<DemoCluster> {
  const read = async (path: string): Promise<string> =>
    (
      await run('kubectl', [
        '--kubeconfig',
        kubeconfig,
        'config',
        'view',
        '--minify',
        '-o',
        `jsonpath=${path}`,
      ])
    ).stdout.trim();
  return {
    name: await read('{.clusters[0].cluster.server}'),
    kubeconfig,
    namespace: (await read('{..namespace}')) || 'default',
  };
}

export async function kubeStory(stage: Stage, cluster: DemoCluster, config: string): Promise<void> {
  const { home, env } = await openSandbox(stage);
  const files = join(stage.folder, 'kube-session');
  const sandbox = (line: string) => stage.shell(`. ${files}/env; ${line}`, { env, cwd: home });
  const { namespace } = cluster;
  const silent = (what: string, seen: number | undefined): void => {
    if (cluster.seen) stage.expect(cluster.seen() === seen, what);
  };
  let sessionId = '';

  await stage.step(`A Kubernetes session for ${cluster.name}: read-only, in one namespace`, async () => {
    const ran = await stage.postern(
      // biome-ignore format: pairs
      ['session', 'issue', 'kube', '--kubeconfig', cluster.kubeconfig, '--namespace', namespace,
       '--lease', 'demo-kube', '--out', files],
      config,
    );
    stage.expect(ran.code === 0, 'the session was issued');
    sessionId = /POSTERN_KUBE_SESSION='([^']+)'/.exec(await readFile(join(files, 'env'), 'utf8'))?.[1] ?? '';
    const [theirs, ours] = await Promise.all([
      readFile(cluster.kubeconfig, 'utf8'),
      readFile(join(files, 'kubeconfig'), 'utf8'),
    ]);
    const secrets = [...theirs.matchAll(/(?:token|client-key-data|password): *"?([^"\s]{12,})/g)].map(
      ([, value]) => value ?? '',
    );
    stage.expect(
      !secrets.some((value) => ours.includes(value)),
      "its kubeconfig holds nothing of the cluster's",
    );
  });

  await stage.step('In the sandbox, kubectl reads its namespace', async () => {
    const ran = await sandbox('kubectl get pods && kubectl get namespaces -o name');
    stage.expect(ran.code === 0, 'the pods are listed, and of the namespaces only the granted one');
    stage.expect(
      ran.out.trim().endsWith(`namespace/${namespace}`),
      'kubectl get namespaces is narrowed, not refused',
    );
  });

  await stage.step('Everything else is refused, and the person sees why', async () => {
    await sandbox('kubectl api-resources >/dev/null');
    const seen = cluster.seen?.();
    for (const [line, code] of [
      ['kubectl get --raw /api/v1/namespaces/kube-system/configmaps', 'namespace_not_allowed'],
      [`kubectl get --raw /api/v1/namespaces/${namespace}/secrets`, 'resource_not_allowed'],
      [`kubectl delete --raw /api/v1/namespaces/${namespace}/pods/web`, 'verb_not_allowed'],
      ['kubectl get --raw /api/v1/pods', 'cluster_scope'],
    ] as const) {
      const ran = await sandbox(line);
      stage.expect(ran.code !== 0 && ran.err.includes(`(${code}`), `refused: ${code}`);
    }
    silent('the cluster saw nothing of them', seen);
    const can = await sandbox('kubectl auth can-i delete pods');
    stage.expect(can.code !== 0 && can.out.includes('no'), 'kubectl auth can-i tells the truth');
  });

  await stage.step('The session is revoked while a watch runs', async () => {
    const watch = stage.begin(`. ${files}/env; kubectl get pods -w`, { env, cwd: home });
    let over = false;
    void watch.done.then(() => {
      over = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    stage.expect(!over, 'the watch is under way');
    const revoked = await stage.postern(['session', 'revoke', sessionId], config);
    const ran = await watch.done;
    for (const line of (ran.out + ran.err).trim().split('\n')) stage.say(`     ${line}`);
    stage.expect(revoked.code === 0, 'the watch ended with the session');
    const denied = await sandbox('kubectl get pods');
    stage.expect(denied.code !== 0, 'and the session opens nothing any more');
  });

  await stage.step('These decisions are on record too', async () => {
    const list = await stage.postern(['audit', 'list', '--session', sessionId, '--decision', 'deny'], config);
    stage.expect(list.out.includes('kube.request_denied'), 'refusals included');
    const verified = await stage.postern(['audit', 'verify'], config);
    stage.expect(verified.code === 0, 'the chain is whole');
  });
}
