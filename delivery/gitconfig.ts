// The global git configuration of a sandbox. It redirects every spelling of the session's upstreams to the guard and
// leaves the user's own configuration in force. The order carries the safety:
//   1. rewrites, before the user's file: of two rewrites of equal length git takes the one that it read first, so a
//      user's own `https://github.com/` → ssh can't lead around the guard;
//   2. the user's own files, as git would have read them (GIT_CONFIG_GLOBAL switches both off);
//   3. trust and credentials, after the user's file: the last of equally specific `http.<url>` settings wins, and an
//      empty `helper` clears those before it. All are bound to the guard's URL; no other host sees a difference.

import { join } from 'node:path';
import { credentialHelper } from './git-credential.ts';
import { gitSection, gitValue } from './quote.ts';

export interface GitconfigInput {
  /** `https://host:port` of the guard. */
  readonly guard: string;
  readonly upstreams: readonly string[];
  readonly repos: readonly string[];
  readonly username: string;
  /** Absolute path of the folder where the sandbox sees the parcel. */
  readonly dir: string;
  readonly xdgConfigHome?: string;
}

/**
 * Every prefix by which people write a repository of this upstream. ssh and git:// have ports of their own, so they go
 * by the host's name; the spelling with the port is there for clients that carry it over.
 */
export function spellings(upstream: string): string[] {
  const { origin, host, hostname } = new URL(upstream);
  const names = [...new Set([host, hostname])];
  return [
    ...new Set([
      `${origin}/`,
      `https://${host}/`,
      `https://git@${host}/`,
      `http://${host}/`,
      ...names.flatMap((name) => [
        `ssh://git@${name}/`,
        `ssh://${name}/`,
        `git+ssh://git@${name}/`,
        `ssh+git://git@${name}/`,
        `git://${name}/`,
      ]),
      `ssh://git@${hostname}:22/`,
      `git@${hostname}:`,
      `git@${hostname}:/`,
    ]),
  ];
}

/**
 * People also rewrite one owner (`insteadOf = https://github.com/acme/`), and git prefers the longer prefix. Saying
 * ours per owner as well makes it equally long, and first.
 */
function owners(repos: readonly string[]): string[] {
  const named = repos
    .map((repo) => repo.split('/')[0] ?? '')
    .filter((owner) => /^[A-Za-z0-9._-]+$/.test(owner));
  return [...new Set(named)];
}

export function gitconfig(input: GitconfigInput): string {
  const base = new URL(input.guard).origin;
  const path = (name: string): string => gitValue(join(input.dir, name));
  const lines: string[] = [
    '# Written by postern: how this sandbox reaches its repositories. Your own ~/.gitconfig is included below.',
  ];
  const entry = (key: string, value: string): void => {
    lines.push(`\t${key} = ${value}`);
  };
  const rewrite = (to: string, prefixes: readonly string[]): void => {
    lines.push(gitSection('url', to));
    for (const prefix of prefixes) {
      entry('insteadOf', gitValue(prefix));
      // A user's own pushInsteadOf would otherwise send the push elsewhere while the fetch goes to the guard.
      entry('pushInsteadOf', gitValue(prefix));
    }
  };

  const prefixes = [...new Set(input.upstreams.flatMap(spellings))];
  rewrite(`${base}/`, [`${base}/`, ...prefixes]);
  for (const owner of owners(input.repos))
    rewrite(
      `${base}/${owner}/`,
      prefixes.map((prefix) => `${prefix}${owner}/`),
    );

  lines.push(gitSection('include'));
  entry('path', gitValue(`${input.xdgConfigHome ?? '~/.config'}/git/config`));
  entry('path', gitValue('~/.gitconfig'));

  lines.push(gitSection('http', `${base}/`));
  entry('sslCAInfo', path('ca.pem'));
  // GIT_SSL_CAINFO outranks sslCAInfo; a GnuTLS build of git also trusts what lies in this folder.
  entry('sslCAPath', gitValue(input.dir));
  entry('sslVerify', 'true');
  for (const key of ['extraHeader', 'proxy', 'cookieFile', 'curloptResolve']) entry(key, '');
  for (const key of ['saveCookies', 'emptyAuth', 'followRedirects']) entry(key, 'false');

  lines.push(gitSection('credential', base));
  entry('username', gitValue(input.username));
  entry('helper', '');
  entry('helper', gitValue(credentialHelper(base, join(input.dir, 'git-credential'))));
  return `${lines.map((line) => line.trimEnd()).join('\n')}\n`;
}
