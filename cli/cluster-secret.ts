// `secretKeyRef`: one key of a Secret in the server's own namespace, read with the service account that the kubelet
// mounts into the Pod. Outside a cluster there is no such thing, and a reference to one is an error.

import { readFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';

const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
const MAX_BYTES = 4 * 1024 * 1024;
const PATIENCE = 10_000;

export type ReadSecret = (ref: { name: string; key: string }) => Promise<Uint8Array | undefined>;

/** `undefined` where this process does not run in a Pod. @param folder where the service account is mounted */
export function clusterSecrets(
  env: { readonly [name: string]: string | undefined },
  folder: string = ACCOUNT,
): ReadSecret | undefined {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = env;
  if (!host || !port) return undefined;
  return async ({ name, key }) => {
    // Read each time: the kubelet replaces the token long before it expires.
    const [token, ca, namespace] = await Promise.all(
      ['token', 'ca.crt', 'namespace'].map((file) => readFile(join(folder, file), 'utf8')),
    );
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace?.trim() ?? '')}/secrets/${encodeURIComponent(name)}`;
    const secret = await get({ host, port, ca: ca ?? '', token: token?.trim() ?? '', path });
    const value = secret?.data?.[key];
    return value === undefined ? undefined : Buffer.from(value, 'base64');
  };
}

interface Secret {
  readonly data?: { readonly [key: string]: string };
}

/** `undefined` for 404. No error quotes the answer. */
function get(target: {
  host: string;
  port: string;
  ca: string;
  token: string;
  path: string;
}): Promise<Secret | undefined> {
  const { host, port, ca, token, path } = target;
  const headers = { authorization: `Bearer ${token}`, accept: 'application/json' };
  return new Promise((resolve, reject) => {
    const call = request({ host, port, ca, path, headers, agent: false, timeout: PATIENCE }, (response) => {
      const chunks: Buffer[] = [];
      let size = 0;
      response.on('data', (chunk: Buffer) => {
        size += chunk.length;
        if (size > MAX_BYTES) response.destroy(new Error('the Secret is too large'));
        else chunks.push(chunk);
      });
      response.on('error', reject);
      response.on('end', () => {
        if (response.statusCode === 404) return resolve(undefined);
        if (response.statusCode !== 200)
          return reject(new Error(`the API server answered ${response.statusCode}`));
        try {
          resolve(JSON.parse(Buffer.concat(chunks).toString('utf8')));
        } catch {
          reject(new Error('the API server answered something else than a Secret'));
        }
      });
    });
    call.on('timeout', () => call.destroy(new Error('the API server does not answer')));
    call.on('error', reject);
    call.end();
  });
}
