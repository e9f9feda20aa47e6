// What the workload's environment says about its access: where the files are and what the session may do, so that an
// agent can read its limits instead of finding them by refusal. None of it is a credential.

import type { GitShare, KubeShare } from './parcel.ts';
import { shellWord } from './quote.ts';

export const GIT_VARIABLES = [
  'GIT_CONFIG_GLOBAL',
  'POSTERN_GIT_URL',
  'POSTERN_GIT_SESSION',
  'POSTERN_GIT_MODE',
  'POSTERN_GIT_REPOS',
  'POSTERN_GIT_PUSH_REFS',
] as const;

export const KUBE_VARIABLES = [
  'KUBECONFIG',
  'POSTERN_KUBE_SESSION',
  'POSTERN_KUBE_NAMESPACE',
  'POSTERN_KUBE_NAMESPACES',
  'POSTERN_KUBE_VERBS',
] as const;

export type Variable = (typeof GIT_VARIABLES)[number] | (typeof KUBE_VARIABLES)[number];
export type Environment = { readonly [name in Variable]?: string };

/** Joined by commas, as a person reads them; a list in the environment carries no authority, the guard decides. */
const list = (values: readonly string[]): string => values.join(',');

/** Asks for nothing that opens a session, so that it can be said again for one whose token is in the sandbox only. */
export function gitEnvironment(git: Omit<GitShare, 'username' | 'password'>, gitconfig: string): Environment {
  return {
    GIT_CONFIG_GLOBAL: gitconfig,
    POSTERN_GIT_URL: git.baseUrl,
    POSTERN_GIT_SESSION: git.sessionId,
    POSTERN_GIT_MODE: git.readOnly ? 'read-only' : 'read-write',
    POSTERN_GIT_REPOS: list(git.repos),
    POSTERN_GIT_PUSH_REFS: list(git.pushRefs),
  };
}

export function kubeEnvironment(kube: Omit<KubeShare, 'kubeconfig'>, kubeconfig: string): Environment {
  return {
    KUBECONFIG: kubeconfig,
    POSTERN_KUBE_SESSION: kube.sessionId,
    POSTERN_KUBE_NAMESPACE: kube.namespace ?? '',
    POSTERN_KUBE_NAMESPACES: list(kube.namespaces),
    POSTERN_KUBE_VERBS: list(kube.verbs),
  };
}

/** The first line of every `env` file; also how a folder is known to be ours. */
export const ENV_MARK = '# Written by postern. Source it: . ./env';

/**
 * GIT_SSL_CAINFO, common in images that trust a company's own authority, beats every setting of a file, also the one
 * that trusts the guard for its URL alone. As a setting it keeps its meaning for all other hosts and yields to ours.
 */
// biome-ignore-start lint/suspicious/noTemplateCurlyInString: the shell fills them in
const CAINFO_AS_SETTING = [
  'if [ -n "${GIT_SSL_CAINFO-}" ]; then',
  '  eval "export GIT_CONFIG_KEY_${GIT_CONFIG_COUNT:-0}=http.sslCAInfo"',
  '  eval "export GIT_CONFIG_VALUE_${GIT_CONFIG_COUNT:-0}=\\$GIT_SSL_CAINFO"',
  '  export GIT_CONFIG_COUNT=$((${GIT_CONFIG_COUNT:-0} + 1))',
  '  unset GIT_SSL_CAINFO',
  'fi',
];
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: the shell fills them in

/** A file that `.` can source in any POSIX shell. */
export function envFile(env: { readonly [name: string]: string }): string {
  const lines = Object.entries(env).map(([name, value]) => `export ${name}=${shellWord(value)}`);
  if (env.GIT_CONFIG_GLOBAL !== undefined) lines.push(...CAINFO_AS_SETTING);
  return `${[ENV_MARK, ...lines].join('\n')}\n`;
}

/** Reads back what `envFile` wrote; `undefined` where the text is not such a file. */
export function readEnvFile(text: string): Environment | undefined {
  if (!text.startsWith(`${ENV_MARK}\n`)) return undefined;
  const known: readonly string[] = [...GIT_VARIABLES, ...KUBE_VARIABLES];
  const env: { [name: string]: string } = {};
  for (const [, name = '', quoted = ''] of text.matchAll(/^export (\w+)='((?:[^']|'\\'')*)'$/gm))
    if (known.includes(name)) env[name] = quoted.replaceAll(`'\\''`, "'");
  return env;
}
