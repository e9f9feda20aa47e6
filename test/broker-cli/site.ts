// A whole installation: a forge with three repositories, two clusters, `postern serve` with tokens, and what an operator
// stores and grants for one project. Everything is used from outside, through the command line and the API.

import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { Credential } from '../../common/credential.ts';
import { type ControlClient, createClient } from '../../control/client.ts';
import { type ApiServer, startApiServer } from '../apiserver/server.ts';
import { openSite, type Site, seed } from '../cli/support.ts';
import { launcher, type Ran, run } from '../system/harness.ts';

export const PROJECT = '/srv/app';
const ROLES = {
  'hub-1': 'hub',
  'operator-1': 'operator',
  alice: 'requester',
  bob: 'approver',
  carol: 'auditor',
};

export const ENV = {
  DEPLOY_KEY: 'deploy-key-value-0123',
  API_KEY: 'api-key-value-45678',
  OTHER_KEY: 'other-key-value-9',
};
export const LOGIN = Buffer.from('robot:registry-password-1').toString('base64');

export interface BrokerSite extends Site {
  readonly clusters: { readonly prod: ApiServer; readonly stage: ApiServer };
  /** The control API over TLS, with the token of that name. */
  as(name: string): Promise<ControlClient>;
  /** What the command line needs to speak to the server from elsewhere. */
  remote(name: string): { readonly [name: string]: string };
  /** The command line, whose standard input is `input`. */
  fed(input: string, ...args: string[]): Promise<Ran>;
}

const value = (name: string): string => `control-token-of-${name}-0123456789`;

export async function openBrokerSite(
  name: string,
  settings: { [key: string]: unknown } = {},
): Promise<BrokerSite> {
  const site = await openSite(name, {
    kube: { listen: '127.0.0.1:0' },
    control: {
      listen: '127.0.0.1:0',
      tokens: Object.entries(ROLES).map(([who, role]) => ({
        name: who,
        role,
        sha256: createHash('sha256').update(value(who)).digest('hex'),
      })),
    },
    ...settings,
  });
  for (const path of ['acme/lib', 'acme/app', 'acme/other']) await seed(site, path);
  const [prod, stage] = await Promise.all([cluster('prod'), cluster('stage')]);
  return {
    ...site,
    clusters: { prod, stage },
    async as(who) {
      const socket = createClient({ socket: join(site.folder, 'var/control.sock'), user: 'root' });
      const { pem } = await socket.ca();
      return createClient({
        server: `https://${site.server.ready.control}`,
        token: new Credential(value(who)),
        ca: pem,
      });
    },
    remote(who) {
      const home = join(site.folder, `remote-${who}`);
      mkdirSync(home, { recursive: true });
      writeFileSync(join(home, 'token'), value(who), { mode: 0o600 });
      return {
        PATH: process.env.PATH ?? '',
        HOME: home,
        POSTERN_SERVER: `https://${site.server.ready.control}`,
        POSTERN_TOKEN_FILE: join(home, 'token'),
        POSTERN_CA_FILE: join(site.folder, 'var/ca.pem'),
      };
    },
    fed: (input, ...args) => run(process.execPath, [launcher, ...args, '--config', site.config], { input }),
    async close() {
      await site.close();
      await Promise.all([prod.close(), stage.close()]);
    },
  };
}

function cluster(name: string): Promise<ApiServer> {
  const pod = (namespace: string) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: `web-${name}`, namespace },
    spec: { containers: [{ name: 'c', image: 'x' }] },
  });
  return startApiServer({ namespaces: ['team-a', 'team-b'], objects: [pod('team-a'), pod('team-b')] });
}

/** One document with a context for each cluster. */
function kubeconfigOf({ prod, stage }: BrokerSite['clusters']): string {
  const [a, b] = Object.entries({ prod, stage }).map(([name, server]) => {
    const document = parse(server.kubeconfig({ contexts: [name], namespace: 'team-a' }));
    document.clusters[0].name = name;
    document.users[0].name = name;
    document.contexts[0].context = { ...document.contexts[0].context, cluster: name, user: name };
    return document;
  });
  const all = (key: string) => [...a[key], ...b[key]];
  return stringify({ ...a, clusters: all('clusters'), users: all('users'), contexts: all('contexts') });
}

/** Secrets and grants of the project. @returns what was granted, by secret or purpose */
export async function fill(site: BrokerSite): Promise<{ [what: string]: string }> {
  const must = async (ran: Promise<Ran>): Promise<Ran> => {
    const done = await ran;
    if (done.code !== 0) throw new Error(`${done.code}: ${done.err}`);
    return done;
  };
  const auths = { 'registry.example.com': { auth: LOGIN }, 'other.example.com': { auth: LOGIN } };
  await must(site.fed(site.token, 'secret', 'mint', 'forge-pat', '--kind', 'github_pat'));
  await must(
    site.fed(
      kubeconfigOf(site.clusters),
      'secret',
      'mint',
      'clusters',
      '--kind',
      'kubeconfig',
      '--file',
      '-',
    ),
  );
  await must(site.fed(JSON.stringify({ auths }), 'secret', 'mint', 'registries', '--kind', 'registry'));
  await must(site.fed(JSON.stringify(ENV), 'secret', 'mint', 'keys', '--kind', 'env'));
  const grant = async (secret: string, ...more: string[]): Promise<string> => {
    const to = ['--to', `project:${PROJECT}/`, '--ttl', '2h', '--json'];
    return JSON.parse((await must(site.postern('grant', 'create', secret, ...to, ...more))).out).grantId;
  };
  return {
    read: await grant('forge-pat', '--repo', 'acme/lib'),
    write: await grant(
      'forge-pat',
      ...['--repo', 'Acme/App', '--permission', 'contents:write', '--push-ref', 'refs/heads/agent/**'],
    ),
    kube: await grant('clusters', '--context', 'prod', '--context', 'stage', '--namespace', 'team-a'),
    registry: await grant('registries', '--registry', 'registry.example.com'),
    env: await grant('keys', '--env-key', 'DEPLOY_KEY', '--env-key', 'API_KEY'),
  };
}
