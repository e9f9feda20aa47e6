// Kubeconfigs for the test server, with each way in which one can hold a credential.

import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { JsonObject } from '../objects/values.ts';
import type { KeyPair } from './pki.ts';

export type AuthKind = 'token' | 'cert' | 'basic' | 'tokenFile' | 'exec' | 'none';

export interface KubeconfigOptions {
  /** A user of the server's table; `admin` by default. */
  user?: string;
  auth?: AuthKind;
  /** Names of contexts, all for the same cluster and user; the first is current. `['test']` by default. */
  contexts?: readonly string[];
  namespace?: string;
  /** Where the files of `tokenFile` and `exec` go; needed for those two. */
  folder?: string;
  /** Client certificate and key as files in `folder` instead of inline. */
  files?: boolean;
  server?: string;
  tlsServerName?: string;
  insecure?: boolean;
}

export interface KubeconfigSource {
  url: string;
  ca: string;
  token(user: string): string;
  password(user: string): string;
  certificate(user: string): KeyPair;
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

export function writeKubeconfig(source: KubeconfigSource, options: KubeconfigOptions = {}): string {
  const { user = 'admin', auth = 'token', contexts = ['test'] } = options;
  const cluster: JsonObject = {
    server: options.server ?? source.url,
    ...(options.insecure
      ? { 'insecure-skip-tls-verify': true }
      : { 'certificate-authority-data': base64(source.ca) }),
    ...(options.tlsServerName ? { 'tls-server-name': options.tlsServerName } : {}),
  };
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'cluster', cluster }],
    users: [{ name: user, user: credential(source, user, auth, options) }],
    contexts: contexts.map((name) => ({
      name,
      context: { cluster: 'cluster', user, ...(options.namespace ? { namespace: options.namespace } : {}) },
    })),
    'current-context': contexts[0] ?? '',
  });
}

function credential(
  source: KubeconfigSource,
  user: string,
  auth: AuthKind,
  { folder, files }: KubeconfigOptions,
): JsonObject {
  const file = (name: string, content: string, mode = 0o600): string => {
    if (!folder) throw new Error(`auth ${auth} needs a folder for its files`);
    mkdirSync(folder, { recursive: true });
    const path = join(folder, name);
    writeFileSync(path, content, { mode });
    chmodSync(path, mode);
    return path;
  };
  switch (auth) {
    case 'none':
      return {};
    case 'token':
      return { token: source.token(user) };
    case 'basic':
      return { username: user, password: source.password(user) };
    case 'tokenFile':
      return { tokenFile: file(`${user}.token`, source.token(user)) };
    case 'cert': {
      const { cert, key } = source.certificate(user);
      return files
        ? { 'client-certificate': file(`${user}.crt`, cert), 'client-key': file(`${user}.key`, key) }
        : { 'client-certificate-data': base64(cert), 'client-key-data': base64(key) };
    }
    case 'exec':
      return { exec: plugin(file, user, source.token(user)) };
  }
}

/** A credential plugin: prints the token that is in a file beside it, and notes each time that it ran. */
function plugin(
  file: (name: string, content: string, mode?: number) => string,
  user: string,
  token: string,
): JsonObject {
  const tokenFile = file(`${user}.plugin-token`, token);
  const runs = file(`${user}.plugin-runs`, '');
  const script = [
    '#!/bin/sh',
    `echo run >> '${runs}'`,
    `token=$(cat '${tokenFile}')`,
    'expires=$(date -u -d "+3600 seconds" +%Y-%m-%dT%H:%M:%SZ)',
    `printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s",` +
      `"expirationTimestamp":"%s"}}' "$token" "$expires"`,
    '',
  ].join('\n');
  return {
    apiVersion: 'client.authentication.k8s.io/v1',
    command: file(`${user}.plugin`, script, 0o700),
    interactiveMode: 'Never',
  };
}
