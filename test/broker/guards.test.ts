import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { Forge } from '../../cli/demo/forge.ts';
import { deliverLease } from '../../delivery/lease.ts';
import { answeredFiles, leaseAnswer } from '../../delivery/lease-answer.ts';
import { type LeaseFolder, makeLeaseFolder, newLeaseFolderPath } from '../../delivery/lease-folder.ts';
import { createGitGuard, type RunningGitGuard } from '../../gitproxy/guard.ts';
import { createKubeGuard, type RunningKubeGuard } from '../../kubeguard/guard.ts';
import { type TestCertificates, testCertificates, tlsOf } from '../support/certificates.ts';
import { FORGE_TOKEN, fill, testForge } from '../support/forge.ts';
import { type Git, gitHome } from '../support/git.ts';
import { type Bench, closeBenches, grant, HUB, lease, mint, OPERATOR, openBench, PROJECT } from './bench.ts';

// One sandbox and one lease through the real guards: what each grant says works, what none says is refused, a revoked
// grant leaves the others, and the release ends everything.

let forge: Forge;
let cluster: Server;
let seen: { path: string; auth: string | undefined }[];
let certs: TestCertificates;
let git: RunningGitGuard;
let kube: RunningKubeGuard;
let bench: Bench;
let records: string;
const outside = gitHome();

const CLUSTER_TOKEN = 'cluster-token-0123456789abcdef';

beforeAll(async () => {
  forge = await testForge();
  for (const repo of ['acme/lib', 'acme/app', 'acme/other'])
    await fill(outside, await forge.createRepository(repo));
  seen = [];
  cluster = createServer((req, res) => {
    seen.push({ path: req.url ?? '', auth: req.headers.authorization });
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify({ kind: 'PodList', apiVersion: 'v1', metadata: {}, items: [] }));
  });
  await new Promise<void>((resolve) => cluster.listen(0, '127.0.0.1', resolve));
  certs = testCertificates();
  records = await mkdtemp(join(tmpdir(), 'postern-records-'));
  bench = await openBench({
    upstreams: [forge.url],
    async make({ sessions, audit, clock, log, redactor }) {
      const tls = tlsOf(certs);
      const push = { refs: ['refs/**'], maxRefs: 16, maxPackBytes: 2 ** 31 };
      git = createGitGuard({ upstreams: [{ url: forge.url }], push }, { sessions, audit, clock, tls, log });
      kube = createKubeGuard(
        { ceiling: { verbs: [], namespaces: [], resources: [] }, execPlugins: [], maxBodyBytes: 3e6 },
        { sessions, audit, clock, tls, log, redactor, trustBundle: () => certs.ca },
      );
      await git.listen('127.0.0.1', 0);
      await kube.listen('127.0.0.1', 0);
      return { git, kube };
    },
  });
  await mint(bench, 'forge', 'github_pat', FORGE_TOKEN);
  await mint(bench, 'forge-write', 'github_pat', { token: FORGE_TOKEN, upstream: forge.url });
  await mint(bench, 'cluster', 'kubeconfig', clusterConfig(['prod', 'stage', 'forbidden']));
  await mint(bench, 'ghcr', 'registry', {
    auths: { 'ghcr.io': { auth: 'YTpi' }, 'quay.io': { auth: 'Yzpk' } },
  });
  await mint(bench, 'vars', 'env', { API_KEY: 'canary-of-api-key', OTHER: 'canary-of-other', MORE: 'm' });
});

afterAll(async () => {
  await bench.sessions.endAll();
  await git.close(0);
  await kube.close(0);
  await closeBenches();
  await forge.close();
  cluster.closeAllConnections();
  cluster.close();
  await rm(records, { recursive: true });
});

function clusterConfig(contexts: string[]): object {
  const server = `http://127.0.0.1:${(cluster.address() as AddressInfo).port}`;
  return {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'prod',
    clusters: [{ name: 'c', cluster: { server } }],
    users: [{ name: 'u', user: { token: CLUSTER_TOKEN } }],
    contexts: contexts.map((name) => ({ name, context: { cluster: 'c', user: 'u' } })),
  };
}

function sandbox(env: { readonly [name: string]: string }): Git {
  const home = gitHome();
  const inside = (args: readonly string[], options: { cwd?: string } = {}) => home(args, { ...options, env });
  return Object.assign(inside, {
    folder: home.folder,
    ok: (args: readonly string[], options: { cwd?: string } = {}) => home.ok(args, { ...options, env }),
  });
}

/** What kubectl would ask, by the delivered kubeconfig. */
async function ask(kubeconfig: string, context: string, path: string): Promise<number> {
  const config = parse(kubeconfig);
  const of = config.contexts.find((entry: { name: string }) => entry.name === context).context;
  const { server } = config.clusters.find((entry: { name: string }) => entry.name === of.cluster).cluster;
  const { token } = config.users.find((entry: { name: string }) => entry.name === of.user).user;
  return new Promise((resolve, reject) => {
    const call = request(
      `${server}${path}`,
      { ca: certs.ca, headers: { authorization: `Bearer ${token}` } },
      (res) => {
        res.resume();
        resolve(res.statusCode ?? 0);
      },
    );
    call.on('error', reject);
    call.end();
  });
}

describe('one sandbox, one lease', () => {
  it('works as granted, is refused otherwise, loses one grant and keeps the others, and ends at its release', async () => {
    const lib = await grant(bench, 'forge', `project:${PROJECT}`, { repos: ['acme/lib'] });
    await grant(bench, 'forge-write', `project:${PROJECT}`, {
      repos: ['acme/app'],
      permissions: ['contents:write'],
      pushRefs: ['refs/heads/agent/**'],
    });
    await grant(bench, 'cluster', `project:${PROJECT}`, {
      contexts: ['prod', 'stage'],
      namespaces: ['team-a'],
    });
    await grant(bench, 'ghcr', `project:${PROJECT}`, { registries: ['ghcr.io'] });
    await grant(bench, 'vars', `project:${PROJECT}`, { envKeys: ['API_KEY', 'OTHER'] });
    const made = await lease(bench);
    expect(made.denied).toEqual([]);
    const folder: LeaseFolder = await makeLeaseFolder(await newLeaseFolderPath(), { dir: records });
    try {
      const answer = leaseAnswer(made, deliverLease(made, { dir: folder.dir, ca: certs.ca }));
      await folder.write(answeredFiles(answer));
      const everything = JSON.stringify(answer);
      for (const secret of [FORGE_TOKEN, CLUSTER_TOKEN, 'Yzpk', `"MORE"`])
        expect(everything).not.toContain(secret);
      expect(answer.env).toMatchObject({ API_KEY: 'canary-of-api-key', OTHER: 'canary-of-other' });
      expect(answer.sensitiveEnv.toSorted()).toEqual(['API_KEY', 'OTHER']);

      // git: read on one, write on the other's branches, nothing else
      const inside = sandbox(answer.env);
      const at = (repo: string) => `${forge.url}/${repo}.git`;
      await inside.ok(['clone', '-q', at('acme/lib'), 'lib']);
      await inside.ok(['clone', '-q', at('acme/app'), 'app']);
      expect((await inside(['clone', '-q', at('acme/other'), 'other'])).code).not.toBe(0);
      const app = { cwd: join(inside.folder, 'app') };
      await writeFile(join(app.cwd, 'new'), 'x');
      await inside.ok(['add', 'new'], app);
      await inside.ok(['commit', '-qm', 'new'], app);
      await inside.ok(['push', '-q', 'origin', 'HEAD:refs/heads/agent/one'], app);
      const refused = await inside(['push', 'origin', 'HEAD:refs/heads/main'], app);
      expect(refused.code).not.toBe(0);
      expect(
        (await inside(['push', 'origin', 'HEAD:refs/heads/agent/x'], { cwd: join(inside.folder, 'lib') }))
          .code,
      ).not.toBe(0);

      // the cluster: two contexts, one namespace, reading
      const { kubeconfig = '' } = Object.fromEntries(
        answer.files.map(({ name, content }) => [name, content]),
      );
      expect(await ask(kubeconfig, 'prod', '/api/v1/namespaces/team-a/pods')).toBe(200);
      expect(await ask(kubeconfig, 'stage', '/api/v1/namespaces/team-a/pods')).toBe(200);
      expect(await ask(kubeconfig, 'prod', '/api/v1/namespaces/kube-system/pods')).toBe(403);
      expect(kubeconfig).not.toContain('forbidden');
      expect(seen.map(({ path }) => path)).toEqual(Array(2).fill('/api/v1/namespaces/team-a/pods'));
      expect(seen.every(({ auth }) => auth === `Bearer ${CLUSTER_TOKEN}`)).toBe(true);

      // one grant less
      await bench.broker.grants.revoke(lib.id, OPERATOR);
      expect((await inside(['fetch'], { cwd: join(inside.folder, 'lib') })).code).not.toBe(0);
      await inside.ok(['fetch', '-q'], app);
      expect(await ask(kubeconfig, 'prod', '/api/v1/namespaces/team-a/pods')).toBe(200);

      // renewed: the same files, the same tokens
      const again = await bench.broker.leases.renew({ leaseId: made.id }, HUB);
      const renewed = leaseAnswer(again, deliverLease(again, { dir: folder.dir }));
      expect(renewed.files.map(({ name }) => name).toSorted()).toEqual(['config.json', 'env']);
      expect(renewed.env).toEqual(answer.env);
      await folder.write(answeredFiles(renewed), renewed.keep);
      await inside.ok(['fetch', '-q'], app);

      // and over
      await bench.broker.leases.release(made.id, HUB);
      expect((await inside(['fetch'], app)).code).not.toBe(0);
      expect(await ask(kubeconfig, 'prod', '/api/v1/namespaces/team-a/pods')).toBe(401);
    } finally {
      await folder.wipe();
    }
    for (const text of [JSON.stringify(bench.audit.events), bench.logged.join('\n')])
      for (const secret of [FORGE_TOKEN, CLUSTER_TOKEN, 'canary-of']) expect(text).not.toContain(secret);
  });

  it('whose forge or ceiling does not allow a grant is denied that grant alone', async () => {
    await mint(bench, 'elsewhere', 'github_pat', {
      token: 'x-token',
      upstream: 'https://not.configured.example',
    });
    await grant(bench, 'elsewhere', 'project:/srv/two', { repos: ['*'] });
    await grant(bench, 'forge', 'project:/srv/two', { repos: ['acme/lib'] });
    await mint(bench, 'runs-a-program', 'kubeconfig', {
      ...clusterConfig(['x']),
      users: [
        { name: 'u', user: { exec: { apiVersion: 'client.authentication.k8s.io/v1', command: '/bin/x' } } },
      ],
    });
    await grant(bench, 'runs-a-program', 'project:/srv/two', { namespaces: ['team-a'] });
    await grant(bench, 'cluster', 'project:/srv/two', { namespaces: ['team-a'] });
    const made = await lease(bench, { projectId: '/srv/two' });
    expect(made.denied.map(({ secretName }) => secretName).toSorted()).toEqual([
      'elsewhere',
      'runs-a-program',
    ]);
    expect(
      made.materials.flatMap(({ grants }) => grants.map(({ secretName }) => secretName)).toSorted(),
    ).toEqual(['cluster', 'forge']);
    await bench.broker.leases.release(made.id, HUB);
  });

  it('gives live sessions the new payload from the next request on', async () => {
    await grant(bench, 'cluster', 'project:/srv/three', { contexts: ['prod'] });
    const made = await lease(bench, { projectId: '/srv/three' });
    const { files } = leaseAnswer(made, deliverLease(made, { dir: '/run/x', ca: certs.ca }));
    const kubeconfig = files.find(({ name }) => name === 'kubeconfig')?.content ?? '';
    await ask(kubeconfig, 'prod', '/version');
    expect(seen.at(-1)?.auth).toBe(`Bearer ${CLUSTER_TOKEN}`);
    const next = JSON.stringify(clusterConfig(['prod'])).replace(CLUSTER_TOKEN, 'the-next-token-0123456789');
    await bench.broker.secrets.replace({ secret: 'cluster', payload: Buffer.from(next) }, OPERATOR);
    expect(await ask(kubeconfig, 'prod', '/version')).toBe(200);
    expect(seen.at(-1)?.auth).toBe('Bearer the-next-token-0123456789');
  });
});
