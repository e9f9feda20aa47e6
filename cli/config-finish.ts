// From checked settings to the Config that the rooms see: paths made absolute, what was left out derived.

import { join, resolve } from 'node:path';
import { Credential } from '../common/credential.ts';
import type { ValueFrom } from '../common/value-from.ts';
import type { Config, TlsFiles } from './config.ts';
import type { Settings } from './config-schema.ts';

export interface FinishContext {
  readonly file: string | undefined;
  readonly env: { readonly [name: string]: string | undefined };
  /** What a relative path is relative to. */
  readonly baseDir: string;
}

/** `used`: variables that the settings refer to. */
export function finish(
  settings: Settings,
  context: FinishContext,
): { config: Omit<Config, 'warnings'>; used: readonly string[] } {
  const path = (text: string): string => resolve(context.baseDir, text);
  const maybePath = (text: string | undefined): string | undefined =>
    text === undefined ? undefined : path(text);
  const tls = (files: Settings['git']['tls']): TlsFiles | undefined =>
    files && {
      certFile: path(files.certFile),
      keyFile: path(files.keyFile),
      caFile: maybePath(files.caFile),
    };

  const { git, kube, control, sessions, audit } = settings;
  const dataDir = path(settings.dataDir);
  const secretKey = finishSecretKey(settings.secretKey, context.env, path);
  const { postgres, sqlite } = settings.store;
  return {
    used: secretKey && 'env' in secretKey ? [secretKey.env] : [],
    config: {
      file: context.file,
      dataDir,
      secretKey,
      store:
        postgres === undefined
          ? { sqlite: maybePath(sqlite) ?? join(dataDir, 'postern.db') }
          : { postgres: new Credential(postgres) },
      git: {
        enabled: git.enabled,
        listen: git.listen,
        advertise: git.advertise ?? undefined,
        upstreams: git.upstreams.map((upstream) => ({
          url: upstream.url,
          caFile: maybePath(upstream.caFile),
          username: upstream.username,
        })),
        push: {
          refs: git.push.refs,
          allowDelete: git.push.allowDelete,
          options: git.push.options,
          maxRefs: git.push.maxRefs,
          maxPackBytes: git.push.maxPackBytes,
        },
        tls: tls(git.tls),
      },
      kube: {
        enabled: kube.enabled,
        listen: kube.listen,
        advertise: kube.advertise ?? undefined,
        ceiling: kube.ceiling,
        execPlugins: kube.execPlugins,
        tokenFiles: kube.tokenFiles,
        upstreams: kube.upstreams,
        maxBodyBytes: kube.maxBodyBytes,
        tls: tls(kube.tls),
      },
      control: {
        socket: maybePath(control.socket) ?? join(dataDir, 'control.sock'),
        listen: control.listen ?? undefined,
        tokens: control.tokens,
        tls: tls(control.tls),
      },
      ops: settings.ops,
      sessions,
      audit: {
        dir: maybePath(audit.dir) ?? join(dataDir, 'audit'),
        onFailure: audit.onFailure,
        syncReads: audit.syncReads,
        retention: audit.retention,
      },
      log: settings.log,
    },
  };
}

/** Set but empty counts as set: whoever meant to give a passphrase and gave none must be told, not served without. */
function finishSecretKey(
  ref: ValueFrom | undefined,
  env: FinishContext['env'],
  path: (text: string) => string,
): ValueFrom | undefined {
  if (ref === undefined)
    return env.POSTERN_SECRET_KEY === undefined ? undefined : { env: 'POSTERN_SECRET_KEY' };
  return 'file' in ref ? { file: path(ref.file) } : ref;
}
