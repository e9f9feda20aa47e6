// What a context of a kubeconfig comes to: where the cluster is, whom to trust there, and what to spend. It is read off
// when a session is issued and again when the document is taken out of custody (a secret can be replaced meanwhile), and
// everything that would let the document do more than hold a credential is refused: a program to run (unless the deployment allows that very one), a file of this host, a
// proxy, a cluster that is not verified. Private keys and certificates are tried, so that a broken one fails here.

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { basename, isAbsolute, normalize } from 'node:path';
import { PosternError } from '../common/errors.ts';
import { type Cluster, type ExecPlugin, type User, unusable } from './kubeconfig.ts';

/** Plain JSON. Exactly one of `token`, `tokenFile`, `basic`, `exec`, or a client certificate (alone or beside a token). */
export interface ClusterAccess {
  /** `https://host[:port]` */
  readonly origin: string;
  /** `/k8s/clusters/c-1`, or empty. */
  readonly basePath: string;
  /** PEM. Absent: the public authorities. */
  readonly ca?: string;
  readonly servername?: string;
  /** PEM */
  readonly cert?: string;
  readonly key?: string;
  readonly token?: string;
  readonly tokenFile?: string;
  readonly basic?: { readonly username: string; readonly password: string };
  readonly exec?: ExecAccess;
  /** The kubeconfig's own `as`: whom the cluster is to take the credential for. */
  readonly as?: Impersonation;
}

export interface ExecAccess {
  readonly apiVersion: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly provideClusterInfo: boolean;
}

export interface Impersonation {
  readonly user: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra: { readonly [key: string]: readonly string[] };
}

/** What the deployment lets a kubeconfig do on this host. */
export interface HostPermissions {
  /** Absolute paths of credential plugins. */
  readonly execPlugins: readonly string[];
  /** Absolute paths of token files. */
  readonly tokenFiles?: readonly string[] | undefined;
  /** Origins of the API servers that a kubeconfig may lead to. Empty or absent: any. */
  readonly upstreams?: readonly string[] | undefined;
}

export const EXEC_VERSIONS = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1'];
/** What can be a header value without being two. */
export const HEADER_SAFE = /^[\x21-\x7e]+$/;
const HEADER_TEXT = /^[\x20-\x7e]+$/;

/**
 * @param name of the context, for messages
 * @throws PosternError `invalid_input` naming the key, the place and the remedy, never a value; `upstream_not_listed`
 */
export function clusterAccess(
  name: string,
  cluster: Cluster,
  user: User,
  host: HostPermissions,
): ClusterAccess {
  const of = `context ${JSON.stringify(name)}: `;
  const inline = 'inline it (kubectl config view --raw --flatten writes such a document)';
  for (const key of ['certificate-authority', 'client-certificate', 'client-key'] as const)
    if (key === 'certificate-authority' ? cluster[key] : user[key])
      throw unusable(`${of}${key} names a file on the host of whoever wrote it`, inline);
  if (cluster['insecure-skip-tls-verify'])
    throw unusable(
      `${of}insecure-skip-tls-verify is set, so anyone could take the credential`,
      "give the cluster's certificate-authority-data",
    );
  if (cluster['proxy-url'] !== undefined)
    throw unusable(`${of}proxy-url is set; the guard connects directly`, 'leave it out');
  if (user['auth-provider'])
    throw unusable(
      `${of}auth-provider is not supported any more by Kubernetes itself`,
      'use a token or an exec plugin',
    );
  const servername = cluster['tls-server-name'];
  if (servername && !/^[A-Za-z0-9.:_-]{1,253}$/.test(servername))
    throw unusable(`${of}tls-server-name is no host name`);
  const ca = decodePem(`${of}certificate-authority-data`, cluster['certificate-authority-data']);
  if (ca !== undefined) checkCertificates(`${of}certificate-authority-data`, ca);
  return {
    ...readServer(of, cluster.server, host.upstreams ?? []),
    ...(ca === undefined ? {} : { ca }),
    ...(servername ? { servername } : {}),
    ...readUser(of, user, host),
    ...readImpersonation(of, user),
  };
}

function readServer(
  of: string,
  server: string,
  upstreams: readonly string[],
): Pick<ClusterAccess, 'origin' | 'basePath'> {
  const url = URL.canParse(server) ? new URL(server) : undefined;
  if (!url || (url.protocol !== 'https:' && url.protocol !== 'http:'))
    throw unusable(`${of}server is not an https:// URL`);
  if (url.username || url.password || url.search || url.hash || server.includes('?') || server.includes('#'))
    throw unusable(`${of}server holds more than an address and a path`);
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    throw unusable(
      `${of}server is an http:// URL, and the credential would travel in the open`,
      'use https://',
    );
  const basePath = url.pathname.replace(/\/+$/, '');
  if (!/^(?:\/[A-Za-z0-9._~:@-]+)*$/.test(basePath) || /\/\.{1,2}(?:\/|$)/.test(server.slice(8)))
    throw unusable(`${of}the path of server has more than one spelling`);
  if (upstreams.length > 0 && !upstreams.includes(url.origin))
    throw new PosternError(
      'upstream_not_listed',
      `kubeconfig: ${of}server leads to ${url.origin}, which this deployment does not list`,
      { key: 'kubeconfig', remedy: 'use a listed API server, or have kube.upstreams name this one' },
    );
  return { origin: url.origin, basePath };
}

export function hostAndPort(origin: string): { host: string; port: number } {
  const url = new URL(origin);
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
  };
}

/**
 * An API server without TLS is one on this very host (a cluster for tests), and beside it listen others that trust
 * whoever reaches them: paths outside the API are not opened there by a wildcard.
 * @throws PosternError `invalid_input`
 */
export function checkPlainPaths(origin: string, nonResourcePaths: readonly string[]): void {
  const wildcard = nonResourcePaths.find((path) => path.endsWith('*'));
  if (wildcard === undefined || !origin.startsWith('http:')) return;
  throw new PosternError(
    'invalid_input',
    `nonResourcePaths: ${JSON.stringify(wildcard)} is not granted at an http:// API server`,
    { key: 'nonResourcePaths', remedy: 'name the paths whole, or use https://' },
  );
}

export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}

function readUser(of: string, user: User, host: HostPermissions): Partial<ClusterAccess> {
  const { token, tokenFile, username, password, exec } = user;
  const cert = decodePem(`${of}client-certificate-data`, user['client-certificate-data']);
  const key = decodePem(`${of}client-key-data`, user['client-key-data']);
  const kinds = [
    ...(token ? ['token'] : []),
    ...(tokenFile ? ['tokenFile'] : []),
    ...(username || password ? ['username'] : []),
    ...(exec ? ['exec'] : []),
  ];
  // kubectl lets a token file win over the token beside it.
  if (kinds.length === 2 && kinds[0] === 'token' && kinds[1] === 'tokenFile') kinds.shift();
  if (kinds.length > 1)
    throw unusable(`${of}the user has more than one credential (${kinds.join(', ')})`, 'keep one');
  if (kinds.length === 0 && cert === undefined) throw unusable(`${of}the user has no credential`);
  if ((cert === undefined) !== (key === undefined))
    throw unusable(`${of}client-certificate-data and client-key-data belong together, and one is missing`);
  const tls = cert === undefined || key === undefined ? {} : checkKeyPair(of, cert, key);
  switch (kinds[0]) {
    case 'token':
      if (!HEADER_SAFE.test(token ?? ''))
        throw unusable(`${of}token holds a character that no token has (a line break at its end?)`);
      return { ...tls, token: token as string };
    case 'tokenFile':
      if (!host.tokenFiles?.includes(tokenFile ?? ''))
        throw unusable(
          `${of}tokenFile names a file on the guard's host`,
          'put the token itself in, or have the deployment allow that very file',
        );
      return { ...tls, tokenFile: tokenFile as string };
    case 'username':
      if (
        !username ||
        !HEADER_TEXT.test(username) ||
        username.includes(':') ||
        !HEADER_TEXT.test(password ?? '')
      )
        throw unusable(`${of}username and password cannot be sent as they are`);
      return { ...tls, basic: { username, password: password as string } };
    case 'exec':
      return { ...tls, exec: readExec(of, exec as ExecPlugin, host) };
    default:
      return tls;
  }
}

function readExec(of: string, exec: ExecPlugin, host: HostPermissions): ExecAccess {
  const { command, apiVersion } = exec;
  const shown = JSON.stringify(basename(command).slice(0, 60));
  if (!isAbsolute(command) || normalize(command) !== command || !host.execPlugins.includes(command))
    throw unusable(
      `${of}exec runs the program ${shown} on the guard's host`,
      'use a token, or have the deployment allow that very program by its absolute path (kube.execPlugins) and name it so here',
    );
  if (!EXEC_VERSIONS.includes(apiVersion))
    throw unusable(`${of}exec.apiVersion must be one of ${EXEC_VERSIONS.join(', ')}`);
  if (exec.interactiveMode === 'Always')
    throw unusable(`${of}exec.interactiveMode is Always, and nobody is there to answer`);
  const env = exec.env ?? [];
  for (const { name, value } of env)
    if (!PLUGIN_VARIABLES.has(name) || !/^[\x20-\x7e]*$/.test(value))
      throw unusable(
        `${of}exec.env sets the variable ${JSON.stringify(name.slice(0, 60))}, which cannot be set`,
        `leave it out, or set it for the server itself; ${[...PLUGIN_VARIABLES].join(', ')} can be set`,
      );
  return {
    apiVersion,
    command,
    args: exec.args ?? [],
    env,
    provideClusterInfo: exec.provideClusterInfo ?? false,
  };
}

/**
 * Which account, which place and with what key: names of the clouds' own plugins that only select. Of the others too many
 * name a file, an address or code to load, and allowing a program does not allow that.
 */
const PLUGIN_VARIABLES: ReadonlySet<string> = new Set(
  `AWS_PROFILE AWS_DEFAULT_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_STS_REGIONAL_ENDPOINTS AWS_ROLE_ARN
   AWS_ROLE_SESSION_NAME AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN
   AZURE_TENANT_ID AZURE_CLIENT_ID AZURE_SUBSCRIPTION_ID AZURE_CLIENT_SECRET
   AAD_SERVICE_PRINCIPAL_CLIENT_ID AAD_SERVICE_PRINCIPAL_CLIENT_SECRET
   GOOGLE_CLOUD_PROJECT CLOUDSDK_CORE_ACCOUNT CLOUDSDK_CORE_PROJECT
   CLOUDSDK_COMPUTE_REGION CLOUDSDK_COMPUTE_ZONE`.split(/\s+/),
);

/** Values of those variables that are credentials, for whoever keeps them out of the logs. */
export function pluginSecrets({ env }: ExecAccess): string[] {
  return env.filter(({ name }) => /SECRET|TOKEN/.test(name)).map(({ value }) => value);
}

function readImpersonation(of: string, user: User): Pick<ClusterAccess, 'as'> {
  const { as, 'as-uid': uid, 'as-groups': groups = [], 'as-user-extra': extra = {} } = user;
  if (!as) {
    if (uid || groups.length > 0 || Object.keys(extra).length > 0)
      throw unusable(`${of}as-uid, as-groups and as-user-extra need as`);
    return {};
  }
  const values = [as, ...(uid ? [uid] : []), ...groups, ...Object.values(extra).flat()];
  if (
    !values.every((value) => HEADER_TEXT.test(value)) ||
    !Object.keys(extra).every((key) => /^[A-Za-z0-9._~/%-]+$/.test(key))
  )
    throw unusable(`${of}as and its kind hold a character that cannot be sent`);
  return { as: { user: as, ...(uid ? { uid } : {}), groups, extra } };
}

function decodePem(at: string, data: string | undefined): string | undefined {
  if (!data) return undefined;
  const compact = data.replace(/\s+/g, '');
  const pem = Buffer.from(compact, 'base64');
  if (pem.length === 0 || pem.toString('base64').replace(/=+$/, '') !== compact.replace(/=+$/, ''))
    throw unusable(`${at} is not base64`);
  return pem.toString('latin1');
}

function checkCertificates(at: string, pem: string): void {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  try {
    for (const block of blocks) new X509Certificate(block);
  } catch {
    throw unusable(`${at} holds a certificate that cannot be read`);
  }
  if (blocks.length === 0) throw unusable(`${at} holds no certificate`);
}

function checkKeyPair(of: string, cert: string, key: string): Pick<ClusterAccess, 'cert' | 'key'> {
  checkCertificates(`${of}client-certificate-data`, cert);
  try {
    if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) return { cert, key };
  } catch {
    throw unusable(`${of}client-key-data is no private key that can be read without a passphrase`);
  }
  throw unusable(`${of}client-key-data is not the key of client-certificate-data`);
}
