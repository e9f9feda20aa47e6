// A lease as its workload gets it: variables, files, mounts and devices for one place, and which grant gave which of them.
// A pure function of the lease and of the path where the workload will see the folder; nothing is written here. The same
// delivery goes into a private folder on this host (lease-folder.ts) or, as bytes, to whoever runs the workload on another
// file system (lease-answer.ts): then no file of it ever lies on this one.

import { join } from 'node:path';
import type {
  DirectMaterial,
  EnvValue,
  GrantedDevice,
  GrantRef,
  Lease,
  Material,
  RepoMount,
} from '../broker/material.ts';
import { Credential } from '../common/credential.ts';
import { PosternError } from '../common/errors.ts';
import { envFile, gitEnvironment, kubeEnvironment } from './env.ts';
import { type Parcel, parcel, type Shares } from './parcel.ts';

export interface LeasePlace {
  /** Absolute path at which the workload sees the folder. */
  readonly dir: string;
  /** The guards' CA bundle, PEM; needed where the lease has a new session. */
  readonly ca?: string;
  readonly xdgConfigHome?: string;
}

/**
 * What of a delivery came from one grant, by name. With it whoever runs the workload takes back one credential and not
 * the whole of it: an environment does not say by itself which variable came from where.
 */
export interface Binding extends GrantRef {
  readonly env: readonly string[];
  /** Absolute paths. */
  readonly files: readonly string[];
  readonly dir: string;
  /** The session that holds the credential: nothing has to be scrubbed, the guard has stopped it. */
  readonly sessionId?: string;
  /** Other grants have a part in the same variables and files, which therefore stay. */
  readonly shared: boolean;
  /**
   * A mount or a device of a running sandbox can't be taken back from outside: they end with the workload. They are here
   * for the record.
   */
  readonly mounts: readonly RepoMount[];
  readonly devices: readonly GrantedDevice[];
}

export interface Delivery {
  readonly dir: string;
  readonly env: { readonly [name: string]: EnvValue };
  /** Names of variables whose values are credentials, to be scrubbed from what the workload prints. */
  readonly sensitiveEnv: readonly string[];
  /** By bare name. */
  readonly files: { readonly [name: string]: Credential };
  /** Files of earlier answers of this lease that are still good and are not said again. */
  readonly keep: readonly string[];
  readonly mounts: readonly RepoMount[];
  readonly devices: readonly GrantedDevice[];
  readonly bindings: readonly Binding[];
}

const GIT_FILES = ['gitconfig', 'git-credential', 'ca.pem'];
const KUBE_FILES = ['kubeconfig', 'ca.pem'];

/** @throws PosternError `invalid_input` where two materials would write the same file or variable */
export function deliverLease(lease: Lease, place: LeasePlace): Delivery {
  const shares = sharesOf(lease, place);
  const session: Parcel['files'] = shares ? parcel(shares, place).files : {};
  const env: { [name: string]: EnvValue } = {};
  const files: { [name: string]: Credential } = {};
  const put = <T>(into: { [name: string]: T }, name: string, value: T): void => {
    if (Object.hasOwn(into, name))
      throw new PosternError('invalid_input', `Two materials of the lease deliver ${name}.`, { key: name });
    into[name] = value;
  };
  for (const [name, content] of Object.entries(session)) if (name !== 'env') put(files, name, content);
  for (const material of lease.materials) {
    for (const [name, value] of Object.entries(environmentOf(material, place.dir))) put(env, name, value);
    if (material.type === 'direct') for (const file of material.files) put(files, file.name, file.content);
  }
  const plain = Object.entries(env).map(([name, value]) => [
    name,
    value instanceof Credential ? value.reveal() : value,
  ]);
  put(files, 'env', new Credential(envFile(Object.fromEntries(plain))));
  const direct = lease.materials.filter((material) => material.type === 'direct');
  return {
    dir: place.dir,
    env,
    sensitiveEnv: Object.keys(env).filter((name) => env[name] instanceof Credential),
    files,
    keep: [...new Set(keptFiles(lease))].filter((name) => !Object.hasOwn(files, name)),
    mounts: direct.flatMap(({ mounts }) => mounts),
    devices: direct.flatMap(({ devices }) => devices),
    bindings: lease.materials.flatMap((material) => bindingsOf(material, place.dir)),
  };
}

/** What a parcel is made from: the sessions that are new in this answer. */
function sharesOf(lease: Lease, { ca }: LeasePlace): Shares | undefined {
  let shares: Omit<Shares, 'ca'> = {};
  for (const material of lease.materials) {
    if (material.type !== 'session' || !material.issued) continue;
    if (material.guard === 'git') shares = { ...shares, git: material.issued };
    else shares = { ...shares, kube: material.issued };
  }
  if (!shares.git && !shares.kube) return undefined;
  if (ca === undefined)
    throw new TypeError('a lease with a new session is delivered with the CA of the guards');
  return { ...shares, ca };
}

function keptFiles(lease: Lease): string[] {
  return lease.materials.flatMap((material) => {
    if (material.type !== 'session' || material.issued) return [];
    return material.guard === 'git' ? GIT_FILES : KUBE_FILES;
  });
}

function environmentOf(material: Material, dir: string): { readonly [name: string]: EnvValue } {
  if (material.type === 'direct') {
    const pointers = material.files.flatMap(({ name, variable }) =>
      variable ? [[variable.name, variable.pointsAt === 'folder' ? dir : join(dir, name)] as const] : [],
    );
    return { ...material.env, ...Object.fromEntries(pointers) };
  }
  const { sessionId } = material;
  return material.guard === 'git'
    ? gitEnvironment({ ...material.facts, sessionId }, join(dir, 'gitconfig'))
    : kubeEnvironment({ ...material.facts, sessionId }, join(dir, 'kubeconfig'));
}

function bindingsOf(material: Material, dir: string): Binding[] {
  const names =
    material.type === 'direct' ? material.files.map(({ name }) => name) : sessionFiles(material.guard);
  const { mounts, devices }: Pick<DirectMaterial, 'mounts' | 'devices'> =
    material.type === 'direct' ? material : { mounts: [], devices: [] };
  const common = {
    env: Object.keys(environmentOf(material, dir)),
    files: names.map((name) => join(dir, name)),
    dir,
    ...(material.type === 'session' && { sessionId: material.sessionId }),
    shared: material.grants.length > 1,
    mounts,
    devices,
  };
  return material.grants.map((grant) => ({ ...grant, ...common }));
}

function sessionFiles(guard: 'git' | 'kube'): string[] {
  return guard === 'git' ? GIT_FILES : KUBE_FILES;
}
