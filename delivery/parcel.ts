// What a sandbox gets: a parcel of small files and the names that point at them, for a git session, a kube session or
// both (a lease). Start here: gitconfig.ts and git-credential.ts say what git is told, env.ts what the workload is
// told, folder.ts puts a parcel on disk. Everything but folder.ts is a pure function of the session and of the path
// where the sandbox will see the folder, so that the same parcel can be written here or sent to another file system.
// A parcel holds session tokens only; nothing in it is worth anything anywhere but at the guard.

import { join } from 'node:path';
import { Credential } from '../common/credential.ts';
import { type Environment, envFile, gitEnvironment, kubeEnvironment } from './env.ts';
import { credentialFile } from './git-credential.ts';
import { gitconfig } from './gitconfig.ts';

/** The part of an issued git session that a sandbox needs. */
export interface GitShare {
  readonly sessionId: string;
  /** `https://host:port` of the guard, no path. */
  readonly baseUrl: string;
  readonly username: string;
  readonly password: Credential;
  readonly readOnly: boolean;
  readonly upstreams: readonly string[];
  readonly repos: readonly string[];
  readonly pushRefs: readonly string[];
}

/** The part of an issued kube session that a sandbox needs. */
export interface KubeShare {
  readonly sessionId: string;
  readonly kubeconfig: Credential;
  /** The namespace that kubectl starts in. */
  readonly namespace?: string;
  readonly namespaces: readonly string[];
  readonly verbs: readonly string[];
}

export interface Shares {
  readonly git?: GitShare;
  readonly kube?: KubeShare;
  /** The guards' CA bundle, PEM. */
  readonly ca: string;
}

export const FILE_NAMES = ['gitconfig', 'git-credential', 'kubeconfig', 'ca.pem', 'env'] as const;
export type FileName = (typeof FILE_NAMES)[number];

export interface Parcel {
  /** Every content is treated as a credential, the harmless ones too: one rule is harder to get wrong. */
  readonly files: { readonly [name in FileName]?: Credential };
  readonly env: Environment;
}

export interface Place {
  /** Absolute path at which the sandbox sees the folder. */
  readonly dir: string;
  /** Where the user's XDG configuration lies, if not in `~/.config`. */
  readonly xdgConfigHome?: string;
  /** Variables of an earlier parcel in the same folder that this one leaves as they are. */
  readonly keep?: Environment;
}

export function parcel(shares: Shares, place: Place): Parcel {
  const at = (name: FileName): string => join(place.dir, name);
  const files: { [name in FileName]?: Credential } = { 'ca.pem': new Credential(shares.ca) };
  let env: Environment = place.keep ?? {};
  const { git, kube } = shares;
  if (git) {
    files.gitconfig = new Credential(
      gitconfig({
        guard: git.baseUrl,
        upstreams: git.upstreams,
        repos: git.repos,
        username: git.username,
        dir: place.dir,
        ...(place.xdgConfigHome === undefined ? {} : { xdgConfigHome: place.xdgConfigHome }),
      }),
    );
    files['git-credential'] = credentialFile(git);
    env = { ...env, ...gitEnvironment(git, at('gitconfig')) };
  }
  if (kube) {
    files.kubeconfig = kube.kubeconfig;
    env = { ...env, ...kubeEnvironment(kube, at('kubeconfig')) };
  }
  files.env = new Credential(envFile(env));
  return { files, env };
}
