// Runs a credential plugin (client.authentication.k8s.io/v1 and v1beta1). Which program, its arguments and its variables
// come from custody, and the program is one that the deployment allows by its absolute path; nothing of a request gets
// here. It runs without a shell, without input, with a small environment and for a bounded time. What it prints on
// standard error is dropped: it may quote what it was given.

import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { basename } from 'node:path';
import { PosternError } from '../common/errors.ts';
import { type ClusterAccess, type ExecAccess, HEADER_SAFE } from './cluster-access.ts';

export interface Obtained {
  readonly token?: string;
  /** PEM */
  readonly cert?: string;
  readonly key?: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt?: number;
}

const TIMEOUT_MS = 30_000;
const MAX_OUTPUT = 1024 * 1024;

/** @throws PosternError `unreachable`, without anything that the plugin printed */
export function runPlugin(exec: ExecAccess, access: ClusterAccess): Promise<Obtained> {
  const env = {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: process.env.HOME ?? '/',
    LANG: 'C',
    ...Object.fromEntries(exec.env.map(({ name, value }) => [name, value])),
    KUBERNETES_EXEC_INFO: JSON.stringify(execInfo(exec, access)),
  };
  return new Promise((resolve, reject) => {
    const options = {
      env,
      cwd: '/',
      timeout: TIMEOUT_MS,
      killSignal: 'SIGKILL',
      maxBuffer: MAX_OUTPUT,
      shell: false,
    } as const;
    const child = execFile(exec.command, exec.args, options, (error, stdout) => {
      try {
        if (error)
          throw failed(
            exec,
            error.killed ? 'did not end in time' : `failed (${error.code ?? error.signal ?? 'not started'})`,
          );
        resolve(readCredential(exec, stdout));
      } catch (problem) {
        reject(problem);
      }
    });
    child.stdin?.end();
  });
}

function execInfo({ apiVersion, provideClusterInfo }: ExecAccess, access: ClusterAccess): object {
  const cluster = {
    server: access.origin + access.basePath,
    ...(access.servername === undefined ? {} : { 'tls-server-name': access.servername }),
    ...(access.ca === undefined
      ? {}
      : { 'certificate-authority-data': Buffer.from(access.ca).toString('base64') }),
  };
  return {
    apiVersion,
    kind: 'ExecCredential',
    spec: { interactive: false, ...(provideClusterInfo ? { cluster } : {}) },
  };
}

function readCredential(exec: ExecAccess, stdout: string): Obtained {
  let answer: { apiVersion?: unknown; kind?: unknown; status?: { [key: string]: unknown } | null };
  try {
    answer = JSON.parse(stdout);
  } catch {
    throw failed(exec, 'printed no ExecCredential');
  }
  if (answer?.kind !== 'ExecCredential' || answer.apiVersion !== exec.apiVersion)
    throw failed(exec, `printed no ExecCredential of ${exec.apiVersion}`);
  const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp } = answer.status ?? {};
  const hasToken = typeof token === 'string' && token !== '';
  const hasPair = typeof cert === 'string' && typeof key === 'string' && cert !== '' && key !== '';
  if (!hasToken && !hasPair) throw failed(exec, 'gave neither a token nor a certificate with its key');
  if (hasToken && !HEADER_SAFE.test(token)) throw failed(exec, 'gave a token that cannot be sent');
  const told = typeof expirationTimestamp === 'string' ? Date.parse(expirationTimestamp) : undefined;
  if (told !== undefined && Number.isNaN(told))
    throw failed(exec, 'gave an expirationTimestamp that is no time');
  const ends = [told, hasPair ? certificateEnd(exec, cert) : undefined].filter((end) => end !== undefined);
  return {
    ...(hasToken ? { token } : {}),
    ...(hasPair ? { cert, key } : {}),
    ...(ends.length > 0 ? { expiresAt: Math.min(...ends) } : {}),
  };
}

function certificateEnd(exec: ExecAccess, pem: string): number {
  try {
    return new X509Certificate(pem).validToDate.getTime();
  } catch {
    throw failed(exec, 'gave a certificate that cannot be read');
  }
}

function failed({ command }: ExecAccess, what: string): PosternError {
  return new PosternError('unreachable', `the credential plugin ${basename(command)} ${what}`);
}
