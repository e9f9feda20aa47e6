// The Kubernetes half of the command line, as far as it needs no cluster: what is delivered, shown, explained, recorded.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSite, readAll, run, type Site } from './support.ts';

let site: Site;
let kubeconfig: string;
const clusterToken = 'cluster-token-value-0123456789';
const json = (ran: { out: string }) => JSON.parse(ran.out);

beforeAll(async () => {
  site = await openSite('cli-kube', { kube: { listen: '127.0.0.1:0' } });
  kubeconfig = join(site.folder, 'kubeconfig');
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'prod',
      clusters: [{ name: 'c', cluster: { server: 'https://cluster.example.com:6443' } }],
      users: [{ name: 'u', user: { token: clusterToken } }],
      contexts: [
        { name: 'prod', context: { cluster: 'c', user: 'u', namespace: 'team-a' } },
        { name: 'other', context: { cluster: 'c', user: 'u' } },
      ],
    }),
    { mode: 0o600 },
  );
});
afterAll(() => site.close());
const issue = (...more: string[]) =>
  site.postern('session', 'issue', 'kube', '--kubeconfig', kubeconfig, ...more);

test('a git and a kube session share one folder, one env, and nothing of the cluster is in it', async () => {
  const out = join(site.folder, 'out');
  expect((await site.issue('--repo', 'acme/*', '--lease', 'L1', '--out', out)).code).toBe(0);
  const ran = await issue('--context', 'prod', '--namespace', 'team-a', '--lease', 'L1', '--out', out);
  expect(ran).toMatchObject({ code: 0, err: '' });
  const env = readFileSync(join(out, 'env'), 'utf8');
  for (const line of [
    "GIT_CONFIG_GLOBAL='",
    "KUBECONFIG='",
    "POSTERN_GIT_REPOS='acme/*'",
    "POSTERN_KUBE_NAMESPACES='team-a'",
    "POSTERN_KUBE_VERBS='get,list,watch'",
  ])
    expect(env).toContain(line);
  const all = readAll(out);
  for (const secret of [clusterToken, site.token, 'cluster.example.com']) expect(all).not.toContain(secret);
  const seen = await run('sh', [
    '-c',
    `. '${out}/env' && kubectl config view -o jsonpath='{.contexts[*].name} {.clusters[0].cluster.server}'`,
  ]);
  expect(seen.out).toBe(`prod https://${site.server.ready.kube}/c/prod`);
  const listed = json(await site.postern('session', 'list', '--lease', 'L1', '--json')).sessions;
  expect(listed.map((one: { guard: string }) => one.guard).sort()).toEqual(['git', 'kube']);
});

test('the answer has the kubeconfig once; explain says what would be decided', async () => {
  const issued = await issue(
    '--namespace',
    'team-a',
    '--verb',
    'get',
    '--resource',
    'pods',
    '--lease',
    'L2',
    '--json',
  );
  const { sessionId, contexts, readOnly } = json(issued);
  expect({ contexts, readOnly }).toEqual({ contexts: ['prod', 'other'], readOnly: true });
  expect(issued.out).not.toContain(clusterToken);
  const shown = await site.postern('session', 'show', sessionId, '--json');
  expect(shown.out).not.toContain(clusterToken);
  const ask = async (...args: string[]) =>
    json(await site.postern('explain', 'kube', ...args, '--session', sessionId, '--json'));
  expect(await ask('GET', '/c/prod/api/v1/namespaces/team-a/pods/x')).toMatchObject({
    decision: 'allow',
    request: { verb: 'get', resource: 'pods', namespace: 'team-a', name: 'x' },
  });
  expect(await ask('get', '/c/prod/api/v1/namespaces/team-b/pods/x')).toMatchObject({
    decision: 'deny',
    code: 'namespace_not_allowed',
  });
  // Two contexts: a path of neither is not one of this session.
  expect(await ask('GET', '/api/v1/namespaces/team-a/pods/x')).toMatchObject({
    decision: 'deny',
    code: 'not_found',
    rule: 'context',
  });
  expect(await ask('DELETE', '/c/prod/api/v1/namespaces/team-a/pods/x')).toMatchObject({
    decision: 'deny',
    code: 'verb_not_allowed',
  });
});

test('the end is on record once, with who asked for it', async () => {
  await issue('--lease', 'L3', '--namespace', 'team-a', '--json');
  await site.postern('session', 'revoke', '--lease', 'L3');
  const { records } = json(await site.postern('audit', 'list', '--lease', 'L3', '--json'));
  expect(
    records.map((one: { action: string; actor: string }) => [one.action, one.actor.startsWith('cli:')]),
  ).toEqual([
    ['kube.session_minted', true],
    ['kube.session_closed', true],
  ]);
});

test.each([
  [
    'a kubeconfig that runs a program',
    {
      users: [
        {
          name: 'u',
          user: { exec: { apiVersion: 'client.authentication.k8s.io/v1', command: '/bin/true' } },
        },
      ],
    },
    [2, 3],
  ],
  ['a context that is not there', { contexts: [] }, [2]],
  ['a document that is none', 'hello', [2]],
])('%s is refused, and nothing of it is repeated', async (_name, change, codes) => {
  const document = JSON.parse(readFileSync(kubeconfig, 'utf8'));
  const file = join(site.folder, 'odd');
  writeFileSync(
    file,
    typeof change === 'string' ? `${change} ${clusterToken}` : JSON.stringify({ ...document, ...change }),
  );
  const ran = await site.postern('session', 'issue', 'kube', '--kubeconfig', file, '--lease', 'L4', '--json');
  expect(codes).toContain(ran.code);
  expect(ran.out).toBe('');
  expect(ran.err).not.toContain(clusterToken);
});
