// What can be seen without a server: the runtime, the data folder, where the passphrase lies, the files and programs
// that the configuration names.

import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Config } from '../config.ts';
import { isLoopback } from '../config-address.ts';
import { configFileProblems } from '../config-files.ts';
import { type Check, fail, ok, warn } from './check.ts';

export async function localChecks(config: Config): Promise<Check[]> {
  return [
    ...config.warnings.map(({ key, message }) => warn(key, message, 'Change it in the configuration.')),
    await dataFolder(config),
    await passphrase(config),
    ...(await configFileProblems(config)).map(({ key, message }) =>
      fail(key, message, 'Mend the file, or name another.'),
    ),
    ...reach(config),
  ];
}

async function dataFolder({ dataDir }: Config): Promise<Check> {
  const found = await stat(dataDir).catch(() => undefined);
  if (!found) return warn('dataDir', `${dataDir} does not exist yet.`, 'postern serve makes it.');
  if (!found.isDirectory())
    return fail('dataDir', `${dataDir} is not a folder.`, 'Name a folder in dataDir.');
  if ((found.mode & 0o077) !== 0)
    return fail(
      'dataDir',
      `${dataDir} is open to other users (mode ${(found.mode & 0o777).toString(8)}).`,
      `chmod 700 ${dataDir}`,
    );
  if (process.getuid && found.uid !== process.getuid())
    return warn('dataDir', `${dataDir} belongs to another user.`, 'Run postern as the user who owns it.');
  return ok('dataDir', dataDir);
}

async function passphrase({ secretKey, dataDir, store }: Config): Promise<Check> {
  const name = 'secretKey';
  if (!secretKey)
    return warn(
      name,
      `No secretKey is set, so the key file ${join(dataDir, 'secret.key')} lies beside the data that it protects.`,
      'Set secretKey to { env: … }, { file: … } or { secretKeyRef: … }, kept apart from dataDir.',
    );
  if (!('file' in secretKey)) return ok(name, 'env' in secretKey ? `variable ${secretKey.env}` : 'a Secret');
  const found = await stat(secretKey.file).catch(() => undefined);
  if (!found)
    return fail(name, `${secretKey.file} does not exist or can't be read.`, 'Put the passphrase there.');
  if ((found.mode & 0o077) !== 0)
    return warn(name, `${secretKey.file} is open to other users.`, `chmod 600 ${secretKey.file}`);
  const data = [dataDir, ...('sqlite' in store ? [dirname(store.sqlite)] : [])];
  if (data.some((folder) => secretKey.file.startsWith(`${folder}/`)))
    return warn(
      name,
      `${secretKey.file} lies beside the data that it protects.`,
      'Keep it outside dataDir and the folder of store.sqlite.',
    );
  return ok(name, secretKey.file);
}

/** An address that only this machine reaches serves sandboxes of this machine only; often that is not what is meant. */
function reach({ git, kube }: Config): Check[] {
  return (['git', 'kube'] as const).flatMap((name) => {
    const guard = name === 'git' ? git : kube;
    if (!guard.enabled || !guard.advertise || isLoopback(guard.listen.host)) return [];
    if (!isLoopback(new URL(guard.advertise).hostname)) return [ok(`${name}.advertise`, guard.advertise)];
    return [
      warn(
        `${name}.advertise`,
        `${guard.advertise} is this machine only, while the guard listens for others too.`,
        'Advertise a name or an address that sandboxes reach.',
      ),
    ];
  });
}
