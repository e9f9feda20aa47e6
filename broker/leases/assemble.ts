// Puts the parts of a lease together. Pure. Two grants that would set the same variable, log in to the same registry or
// take the same place in the sandbox can't both be had: the one with the narrower subject (then the older) has it, and
// the other is denied as a whole, because a grant that is half delivered looks like one that is delivered.

import { Credential } from '../../common/credential.ts';
import type { Part } from '../kinds/kind-rules.ts';
import type { Denied, DirectMaterial, GrantRef } from '../material.ts';
import type { Built } from './build.ts';

export type PartOf<T extends Part['type']> = Built & { readonly part: Extract<Part, { type: T }> };

export interface Assembled {
  readonly direct: readonly DirectMaterial[];
  readonly git: readonly PartOf<'git'>[];
  readonly kube: readonly PartOf<'kube'>[];
  readonly denied: readonly Denied[];
}

export const DOCKER_CONFIG = 'config.json';

/** @param built in the order in which they have a claim */
export function assemble(built: readonly Built[]): Assembled {
  const takenBy = new Map<string, GrantRef>();
  const denied: Denied[] = [];
  const admitted = built.filter(({ grant, part }) => {
    const wanted = claims(part);
    const clash = wanted.find((claim) => takenBy.has(claim));
    if (clash === undefined) {
      for (const claim of wanted) takenBy.set(claim, grant.ref);
      return true;
    }
    const first = takenBy.get(clash);
    denied.push({
      ...grant.ref,
      reason: `${clash} is already given by the grant ${first?.grantId} of ${first?.secretName}`,
    });
    return false;
  });
  const registries = admitted.filter((one): one is PartOf<'registry'> => one.part.type === 'registry');
  return {
    direct: [
      ...admitted.filter((one): one is PartOf<'direct'> => one.part.type === 'direct').map(directMaterial),
      ...(registries.length > 0 ? [registryMaterial(registries)] : []),
    ],
    git: admitted.filter((one): one is PartOf<'git'> => one.part.type === 'git'),
    kube: admitted.filter((one): one is PartOf<'kube'> => one.part.type === 'kube'),
    denied,
  };
}

/** What only one grant can have, in the words of the denial. Sessions have none: a guard tells grants apart itself. */
function claims(part: Part): string[] {
  switch (part.type) {
    case 'registry':
      return Object.keys(part.logins).map((name) => `the login of the registry ${name}`);
    case 'direct':
      return [
        ...Object.keys(part.env).map((name) => `the variable ${name}`),
        ...part.files.map(({ name }) => `the file ${name}`),
        ...part.mounts.map(({ target }) => `the mount ${target}`),
        ...part.devices.map(({ target }) => `the device ${target}`),
      ];
    default:
      return [];
  }
}

function directMaterial({ grant, part }: PartOf<'direct'>): DirectMaterial {
  const { env, files, mounts, devices, summary } = part;
  return { type: 'direct', grants: [grant.ref], env, files, mounts, devices, summary };
}

/** One document for all of them: docker and podman read one. */
function registryMaterial(parts: readonly PartOf<'registry'>[]): DirectMaterial {
  const auths = Object.fromEntries(
    parts.flatMap(({ part }) =>
      Object.entries(part.logins).map(([name, login]) => [name, JSON.parse(login.reveal())]),
    ),
  );
  return {
    type: 'direct',
    grants: parts.map(({ grant }) => grant.ref),
    env: {},
    files: [
      {
        name: DOCKER_CONFIG,
        content: new Credential(JSON.stringify({ auths })),
        variable: { name: 'DOCKER_CONFIG', pointsAt: 'folder' },
      },
    ],
    mounts: [],
    devices: [],
    summary: parts.map(({ part }) => part.summary).join('; '),
  };
}
