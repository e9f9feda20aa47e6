// What two settings may not say together, and what is allowed but probably not meant. Pure.

import { formatDuration } from '../common/duration.ts';
import type { Config } from './config.ts';
import { formatListen, isWildcard, type Listen, listenConflict } from './config-address.ts';
import type { ConfigProblem } from './config-problems.ts';

/** sun_path is 108 bytes on Linux with the NUL at its end, 104 on macOS. */
const MAX_SOCKET_PATH = process.platform === 'linux' ? 107 : 103;

type Checked = Omit<Config, 'warnings'>;

export function crossChecks(config: Checked): { problems: ConfigProblem[]; warnings: ConfigProblem[] } {
  return {
    problems: [
      ...listenProblems(config),
      ...upstreamProblems(config),
      ...tokenProblems(config),
      ...sessionProblems(config),
      ...socketProblems(config),
    ],
    warnings: warn(config),
  };
}

function listenProblems({ git, kube, control, ops }: Checked): ConfigProblem[] {
  const listeners: [string, Listen | undefined][] = [
    ['git.listen', git.enabled ? git.listen : undefined],
    ['kube.listen', kube.enabled ? kube.listen : undefined],
    ['control.listen', control.listen],
    ['ops.listen', ops.listen],
  ];
  return listeners.flatMap(([key, address], i) => {
    if (!address) return [];
    const other = listeners.slice(0, i).find(([, earlier]) => earlier && listenConflict(earlier, address));
    if (!other) return [];
    return { key, message: `${formatListen(address)} is taken by ${other[0]}; choose another port` };
  });
}

function upstreamProblems({ git }: Checked): ConfigProblem[] {
  return git.upstreams.flatMap(({ url }, i) => {
    const first = git.upstreams.findIndex((upstream) => upstream.url === url);
    if (first === i) return [];
    return { key: `git.upstreams[${i}].url`, message: `${url} is listed already as git.upstreams[${first}]` };
  });
}

function tokenProblems({ control }: Checked): ConfigProblem[] {
  return control.tokens.flatMap((token, i) => {
    const earlier = control.tokens.slice(0, i);
    const problems: ConfigProblem[] = [];
    // Without regard to case: so the broker compares those who own, ask and approve.
    const name = earlier.findIndex((other) => other.name.toLowerCase() === token.name.toLowerCase());
    const hash = earlier.findIndex((other) => other.sha256 === token.sha256);
    if (name >= 0)
      problems.push({
        key: `control.tokens[${i}].name`,
        message: `${JSON.stringify(token.name)} is the name of control.tokens[${name}] too; records could not tell them apart`,
      });
    if (hash >= 0)
      problems.push({
        key: `control.tokens[${i}].sha256`,
        message: `it is the hash of control.tokens[${hash}] too; give each token its own value`,
      });
    return problems;
  });
}

function sessionProblems({ sessions }: Checked): ConfigProblem[] {
  if (sessions.ttl <= sessions.maxTtl) return [];
  const [ttl, max] = [formatDuration(sessions.ttl), formatDuration(sessions.maxTtl)];
  return [{ key: 'sessions.ttl', message: `${ttl} is longer than sessions.maxTtl, ${max}` }];
}

function socketProblems({ control }: Checked): ConfigProblem[] {
  const length = Buffer.byteLength(control.socket);
  if (length <= MAX_SOCKET_PATH) return [];
  const message = `${control.socket} has ${length} bytes and the system allows ${MAX_SOCKET_PATH}; name a shorter path`;
  return [{ key: 'control.socket', message }];
}

function warn({ git, kube, control }: Checked): ConfigProblem[] {
  const warnings: ConfigProblem[] = [];
  for (const [name, guard] of [
    ['git', git],
    ['kube', kube],
  ] as const)
    if (guard.enabled && guard.advertise === undefined && isWildcard(guard.listen.host))
      warnings.push({
        key: `${name}.advertise`,
        message: `${name}.listen is every address, so sandboxes are told to connect to loopback; say what they can reach`,
      });
  if (git.enabled && git.upstreams.length === 0)
    warnings.push({ key: 'git.upstreams', message: 'the list is empty, so no git session can be issued' });
  // What such a file or plugin gives is sent to the server that the kubeconfig names.
  const givers = (['execPlugins', 'tokenFiles'] as const).filter((key) => kube[key].length > 0);
  if (kube.enabled && givers.length > 0 && kube.upstreams.length === 0)
    warnings.push({
      key: 'kube.upstreams',
      message: `the list is empty, so whoever may issue sessions can have what kube.${givers.join(' and kube.')} give sent to any server`,
    });
  if (!git.enabled && !kube.enabled)
    warnings.push({ key: 'git.enabled', message: 'neither guard is enabled, so no session can be issued' });
  if (control.listen && control.tokens.length === 0)
    warnings.push({ key: 'control.tokens', message: 'the list is empty, so nobody can use control.listen' });
  if (!control.listen && (control.tokens.length > 0 || control.tls))
    warnings.push({
      key: 'control.listen',
      message: 'it is null, so control.tokens and control.tls have no use',
    });
  return warnings;
}
