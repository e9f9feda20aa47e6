// From a kubeconfig in custody to what one request spends: where it goes, whom it trusts, the headers and the client
// certificate that the cluster knows, and the forms in which none of that may come back. Reading the document costs more
// than a request, so it is kept as long as the opened credential itself is. Tokens that are fetched (files, plugins) are
// shared between the sessions that hold the same source, so that one renewal serves all.

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';
import type { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import type { Redactor } from '../common/redact.ts';
import { formsOf, type Needles, needlesOf } from '../relay/echo.ts';
import type { UpstreamTarget } from '../relay/upstreams.ts';
import {
  type ClusterAccess,
  clusterAccess,
  HEADER_SAFE,
  type HostPermissions,
  hostAndPort,
  pluginSecrets,
} from './cluster-access.ts';
import { type Obtained, runPlugin } from './exec-plugin.ts';
import { parseKubeconfig } from './kubeconfig.ts';
import { createRenewing, type Renewing } from './renewing.ts';

/** What one request spends. */
export interface Spend {
  readonly target: UpstreamTarget;
  /** Of the target, for the record. */
  readonly host: string;
  readonly port: number;
  readonly basePath: string;
  /** Flat list; the only headers that say who asks. */
  readonly headers: readonly string[];
  /** Forms in which the credential must not come back. */
  readonly needles: Needles;
}

export interface Source {
  /** @throws PosternError `unreachable` where it cannot be fetched */
  get(): Promise<Spend>;
  /** After a 401. @returns another one, or undefined: there is none */
  renew(refused: Spend): Promise<Spend | undefined>;
}

export interface CredentialsDeps {
  readonly host: HostPermissions;
  readonly clock: Clock;
  readonly redactor?: Pick<Redactor, 'add' | 'remove'> | undefined;
}

export interface Credentials {
  /** @throws PosternError `invalid_input` where the document in custody cannot be used */
  open(document: Credential, context: string): Source;
}

const FILE_MS = 60_000;

export function createCredentials({ host, clock, redactor }: CredentialsDeps): Credentials {
  const opened = new WeakMap<Credential, Map<string, Source>>();
  const shared = new LRUCache<string, Renewing<Obtained>>({ max: 500 });
  const announced = new LRUCache<string, true>({
    max: 2_000,
    dispose: (_, value) => redactor?.remove(value),
  });
  const announce = (value: string | undefined): void => {
    if (!redactor || value === undefined || announced.get(value)) return;
    announced.set(value, true);
    redactor.add(value);
  };

  function sourceOf(access: ClusterAccess): Source {
    const { token, basic, cert, key, exec } = access;
    announce(token);
    for (const secret of exec ? pluginSecrets(exec) : []) announce(secret);
    announce(basic?.password);
    announce(key);
    const renewing = fetched(access);
    if (!renewing) {
      const spend = spendOf(access, {
        ...(token === undefined ? {} : { token }),
        ...(cert === undefined || key === undefined ? {} : { cert, key }),
      });
      return { get: async () => spend, renew: async () => undefined };
    }
    const spends = new WeakMap<Obtained, Spend>();
    const origins = new WeakMap<Spend, Obtained>();
    const spendFor = (value: Obtained): Spend => {
      let spend = spends.get(value);
      if (!spend) {
        announce(value.token);
        announce(value.key);
        spend = spendOf(access, {
          ...(cert === undefined || key === undefined ? {} : { cert, key }),
          ...value,
        });
        spends.set(value, spend);
        origins.set(spend, value);
      }
      return spend;
    };
    return {
      get: async () => spendFor(await renewing.get()),
      async renew(refused) {
        const value = origins.get(refused);
        if (!value) return undefined;
        const next = await renewing.renew(value);
        return next === value ? undefined : spendFor(next);
      },
    };
  }

  function fetched(access: ClusterAccess): Renewing<Obtained> | undefined {
    const { exec, tokenFile } = access;
    if (!exec && tokenFile === undefined) return undefined;
    const { origin, basePath, ca, servername } = access;
    const name = createHash('sha256')
      .update(
        JSON.stringify([exec, tokenFile, exec?.provideClusterInfo ? [origin, basePath, ca, servername] : 0]),
      )
      .digest('base64');
    let renewing = shared.get(name);
    if (!renewing) {
      renewing = createRenewing({
        obtain: () => (exec ? runPlugin(exec, access) : readTokenFile(tokenFile as string, clock)),
        expiresAt: ({ expiresAt }) => expiresAt,
        same: (a, b) => a === b || (a.token === b.token && a.cert === b.cert),
        clock,
      });
      shared.set(name, renewing);
    }
    return renewing;
  }

  return {
    open(document, context) {
      let sources = opened.get(document);
      if (!sources) {
        sources = new Map();
        opened.set(document, sources);
      }
      let source = sources.get(context);
      if (!source) {
        source = sourceOf(readAccess(document, context, host));
        sources.set(context, source);
      }
      return source;
    },
  };
}

function readAccess(document: Credential, context: string, host: HostPermissions): ClusterAccess {
  const { contexts, clusters, users } = parseKubeconfig(document.reveal());
  const found = contexts.get(context);
  const cluster = clusters.get(found?.cluster ?? '');
  const user = users.get(found?.user ?? '');
  if (!found || !cluster || !user)
    throw new PosternError(
      'invalid_input',
      `the kubeconfig in custody has no whole context ${JSON.stringify(context)} any more`,
    );
  return clusterAccess(context, cluster, user, host);
}

/** Read again every minute, as client-go does: whoever rotates the file does not tell. */
async function readTokenFile(path: string, clock: Clock): Promise<Obtained> {
  const token = (await readFile(path, 'utf8').catch(() => '')).trim();
  if (!HEADER_SAFE.test(token))
    throw new PosternError('unreachable', 'the token file in custody cannot be read or holds no token');
  return { token, expiresAt: clock.now() + 2 * FILE_MS };
}

/** The one place in this guard where a credential becomes headers. */
function spendOf(access: ClusterAccess, { token, cert, key }: Obtained): Spend {
  const { origin, basePath, ca, servername, basic, as } = access;
  const pair = basic && Buffer.from(`${basic.username}:${basic.password}`).toString('base64');
  const headers: string[] = [];
  if (token !== undefined) headers.push('Authorization', `Bearer ${token}`);
  else if (pair !== undefined) headers.push('Authorization', `Basic ${pair}`);
  if (as) {
    headers.push('Impersonate-User', as.user);
    if (as.uid !== undefined) headers.push('Impersonate-Uid', as.uid);
    for (const group of as.groups) headers.push('Impersonate-Group', group);
    for (const [name, values] of Object.entries(as.extra))
      for (const value of values) headers.push(`Impersonate-Extra-${encodeURIComponent(name)}`, value);
  }
  const secrets = [token, basic?.password].filter((text) => text !== undefined);
  const forms = new Set([
    ...secrets.flatMap(goForms),
    ...(pair === undefined ? [] : [pair.replace(/=+$/, '')]),
    ...keyForms(key),
  ]);
  return {
    target: { origin, ca, servername, cert, key },
    ...hostAndPort(origin),
    basePath,
    headers,
    needles: needlesOf([...forms]),
  };
}

/**
 * What relay/echo.ts knows of, and how Go writes it: its JSON escapes `&`, `<` and `>`, its `%q` quotes the text first, its
 * HTML has entities. They differ only where such a character is in it.
 */
function goForms(secret: string): string[] {
  const json = (text: string): string =>
    JSON.stringify(text)
      .slice(1, -1)
      .replace(/[&<>\x7f]/g, (char) => `\\u00${char.charCodeAt(0).toString(16)}`);
  const quoted = secret.replace(/["\\]/g, '\\$&');
  const html = secret.replace(/[&<>"']/g, (char) => HTML[char] ?? char);
  return [...formsOf(secret), json(secret), quoted, json(quoted), html];
}

const HTML: { readonly [char: string]: string } = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
};

/** A line from the middle of a private key, because its beginning is the same in all of them; plain and as `data`. */
function keyForms(key: string | undefined): string[] {
  const line = key
    ?.split('\n')
    .filter((text) => /^[A-Za-z0-9+/=]{40,}\r?$/.test(text))[1]
    ?.trim();
  if (key === undefined || line === undefined) return [];
  const at = Math.ceil(key.indexOf(line) / 3);
  return [
    line,
    Buffer.from(key)
      .toString('base64')
      .slice(at * 4, at * 4 + 64),
  ];
}
