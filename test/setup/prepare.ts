// Runs before `npm test`: the programs that the tests drive must be there. As root on a Debian machine the missing
// ones are installed; anywhere else the run stops and says exactly what is missing. It never skips.

import { spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

interface Tool {
  readonly program: string;
  readonly packages: readonly string[];
  readonly for: string;
}

const TOOLS: readonly Tool[] = [
  {
    program: 'git',
    packages: ['git'],
    for: 'the git guard is tested with the real client and git http-backend',
  },
  {
    program: 'kubectl',
    packages: ['kubernetes-client'],
    for: 'the kube guard is tested with the real client',
  },
  { program: 'curl', packages: ['curl'], for: 'a TLS client that is not node' },
  { program: 'openssl', packages: ['openssl'], for: 'certificates are checked by another implementation' },
  { program: 'jq', packages: ['jq'], for: 'the audit chain is verified without this program' },
  { program: 'dpkg-deb', packages: ['dpkg'], for: 'an older kubectl is unpacked beside the current one' },
  { program: 'tar', packages: ['tar'], for: 'kubectl cp' },
];

function isOnPath(program: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

function install(packages: readonly string[]): boolean {
  const apt = (args: string[]) =>
    spawnSync('apt-get', args, {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    }).status === 0;
  const ask = ['install', '-y', '--no-install-recommends', ...packages];
  return apt(ask) || (apt(['update']) && apt(ask));
}

const missing = TOOLS.filter((tool) => !isOnPath(tool.program));
if (missing.length > 0) {
  const packages = missing.flatMap((tool) => tool.packages);
  const isRoot = process.getuid?.() === 0;
  if (isRoot && isOnPath('apt-get')) {
    console.error(`Installing what the tests drive: ${packages.join(' ')}`);
    install(packages);
  }
  const still = missing.filter((tool) => !isOnPath(tool.program));
  if (still.length > 0) {
    for (const tool of still) console.error(`Missing: ${tool.program} (${tool.for})`);
    console.error(`On Debian: apt-get install ${still.flatMap((tool) => tool.packages).join(' ')}`);
    process.exit(1);
  }
}
