// The files that a configuration names: whether they can be used, all of them at once. Apart from loadConfig, because a
// command that only talks to the server need not be allowed to read the server's keys. `serve` stops on any problem
// here, `doctor` shows them.

import { X509Certificate } from 'node:crypto';
import { constants } from 'node:fs';
import { access, readFile, stat } from 'node:fs/promises';
import { readOwnCertificate } from '../certs/files.ts';
import { type Clock, systemClock } from '../common/clock.ts';
import { PosternError } from '../common/errors.ts';
import { resolveValueFrom } from '../common/value-from.ts';
import type { Config, TlsFiles } from './config.ts';
import { hostOf } from './config-address.ts';
import type { ConfigProblem } from './config-problems.ts';

export async function configFileProblems(
  config: Config,
  clock: Clock = systemClock,
): Promise<ConfigProblem[]> {
  const { git, kube, control, secretKey } = config;
  const found = await Promise.all([
    secretKey && 'file' in secretKey ? secretFile(secretKey) : undefined,
    ...(git.enabled ? git.upstreams : []).map(({ caFile }, i) =>
      bundle(caFile, `git.upstreams[${i}].caFile`),
    ),
    git.enabled ? certificate(git.tls, 'git.tls', git.advertise, clock) : undefined,
    kube.enabled ? certificate(kube.tls, 'kube.tls', kube.advertise, clock) : undefined,
    ...(kube.enabled ? kube.execPlugins : []).map((file, i) => program(file, `kube.execPlugins[${i}]`)),
    ...(kube.enabled ? kube.tokenFiles : []).map((file, i) => readable(file, `kube.tokenFiles[${i}]`)),
    control.listen ? certificate(control.tls, 'control.tls', undefined, clock) : undefined,
  ]);
  return found.filter((problem) => problem !== undefined);
}

type Found = Promise<ConfigProblem | undefined>;

function secretFile(ref: { readonly file: string }): Found {
  return attempt('secretKey.file', async () => {
    await resolveValueFrom(ref, { key: 'secretKey' });
  });
}

function certificate(
  files: TlsFiles | undefined,
  key: string,
  advertise: string | undefined,
  clock: Clock,
): Found {
  const names = advertise === undefined ? [] : [hostOf(advertise)];
  return attempt(key, async () => {
    if (files) await readOwnCertificate({ files, key, names, clock });
  });
}

function bundle(file: string | undefined, key: string): Found {
  return attempt(key, async () => {
    if (file === undefined) return;
    const text = await readFile(file, 'utf8');
    const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
    for (const block of blocks) new X509Certificate(block);
    if (blocks.length === 0) throw new Error('no certificate');
  }).then((problem) => problem && { key, message: `${file ?? ''} ${problem.message}` });
}

/** A plugin runs as the server: whoever can write it is the server. */
function program(file: string, key: string): Found {
  return attempt(key, async () => {
    await access(file, constants.X_OK);
    const { mode } = await stat(file);
    if ((mode & 0o022) !== 0)
      throw new PosternError('invalid_config', 'can be written by others than its owner; chmod go-w');
  }).then((problem) => problem && { key, message: `${file} ${problem.message}` });
}

function readable(file: string, key: string): Found {
  return attempt(key, () => access(file, constants.R_OK)).then(
    (problem) => problem && { key, message: `${file} ${problem.message}` },
  );
}

async function attempt(key: string, work: () => Promise<void>): Found {
  try {
    await work();
    return undefined;
  } catch (error) {
    const name = error instanceof PosternError ? (error.key ?? key) : key;
    const prefix = `${name}: `;
    const message = error instanceof PosternError ? error.message : plain(error as NodeJS.ErrnoException);
    return { key: name, message: message.startsWith(prefix) ? message.slice(prefix.length) : message };
  }
}

function plain({ code }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') return 'does not exist';
  if (code === 'EACCES') return 'cannot be used by this user';
  return code?.startsWith('E') && !code.startsWith('ERR_')
    ? `cannot be used (${code})`
    : 'holds no certificate that can be read';
}
