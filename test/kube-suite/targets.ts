// What the suite runs against without a guard: the test API server, and the cluster of POSTERN_TEST_KUBECONFIG.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ApiServer, type ApiServerOptions, startApiServer } from '../apiserver/server.ts';
import { createKubectl } from './kubectl.ts';
import type { Need, SuiteContext } from './suite.ts';
import type { SuiteTarget } from './vitest.ts';

export const EVERYTHING: ReadonlySet<Need> = new Set<Need>(['cluster', 'secrets', 'streams', 'echo', 'logs']);
/** Pods of a cluster that isn't ours may run no commands at all; what they can is found out by nobody here. */
export const PLAIN: ReadonlySet<Need> = new Set<Need>(['cluster', 'secrets']);

export interface TargetOptions {
  binary?: string;
  minor: number;
  env?: Record<string, string>;
}

export const NAMESPACE = 'suite';

/** `kubeconfig` turns the server's own into what kubectl is given: through a guard, say. */
export async function bundledTarget(
  { binary, minor, env }: TargetOptions,
  serverOptions: ApiServerOptions = {},
  kubeconfig: (server: ApiServer) => Promise<string> | string = (server) =>
    server.kubeconfig({ namespace: NAMESPACE }),
): Promise<SuiteTarget & { server: ApiServer }> {
  const server = await startApiServer({
    ...serverOptions,
    namespaces: [NAMESPACE, ...(serverOptions.namespaces ?? [])],
  });
  const folder = mkdtempSync(join(tmpdir(), 'kube-suite-'));
  const file = join(folder, 'kubeconfig');
  writeFileSync(file, await kubeconfig(server), { mode: 0o600 });
  return {
    server,
    context: {
      kubectl: createKubectl({
        kubeconfig: file,
        folder,
        ...(binary ? { binary } : {}),
        ...(env ? { env } : {}),
      }),
      minor,
      namespace: NAMESPACE,
      folder,
      has: EVERYTHING,
      image: 'busybox',
      idleSeconds: 0.2,
      emitLog: (pod, line) => server.log(NAMESPACE, pod, line),
    },
    async end() {
      await server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A namespace of its own in the cluster that a kubeconfig's current context names. */
export async function clusterTarget(
  kubeconfig: string,
  { binary, minor, env }: TargetOptions,
): Promise<SuiteTarget> {
  const folder = mkdtempSync(join(tmpdir(), 'kube-suite-'));
  const namespace = `postern-suite-${process.pid}`;
  const plain = createKubectl({ kubeconfig, folder, ...(binary ? { binary } : {}) });
  await plain.ok(['create', 'namespace', namespace]);
  const file = join(folder, 'kubeconfig');
  writeFileSync(file, await plain.ok(['config', 'view', '--raw', '--flatten', '--minify']), { mode: 0o600 });
  const kubectl = createKubectl({
    kubeconfig: file,
    folder,
    ...(binary ? { binary } : {}),
    ...(env ? { env } : {}),
  });
  await kubectl.ok(['config', 'set-context', '--current', `--namespace=${namespace}`]);
  const context: SuiteContext = {
    kubectl,
    minor,
    namespace,
    folder,
    has: PLAIN,
    image: 'busybox',
    idleSeconds: 0.2,
  };
  return {
    context,
    async end() {
      await plain.run(['delete', 'namespace', namespace, '--wait=false']);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
