// What is served, in both forms that clients ask for: one aggregated document for /api and one for /apis, or the legacy
// lists of each group and version.

import { createHash } from 'node:crypto';
import type { JsonObject } from '../objects/values.ts';
import { type AcceptClause, parseAccept } from '../request/negotiate.ts';
import { apiVersion, type Registry, type ResourceType, type Subresource } from './resources.ts';

/** The version of the aggregated form that comes first in an Accept header, if it comes before plain JSON. */
export function aggregatedVersion(accept: string | undefined): 'v2' | 'v2beta1' | undefined {
  for (const clause of parseAccept(accept ?? '')) {
    if (clause.type !== 'application/json') continue;
    const version = aggregated(clause);
    if (version) return version;
    if (!clause.parameters.has('as')) return undefined;
  }
  return undefined;
}

function aggregated({ parameters }: AcceptClause): 'v2' | 'v2beta1' | undefined {
  if (parameters.get('g') !== 'apidiscovery.k8s.io' || parameters.get('as') !== 'APIGroupDiscoveryList')
    return undefined;
  const version = parameters.get('v');
  return version === 'v2' || version === 'v2beta1' ? version : undefined;
}

interface Group {
  name: string;
  versions: { version: string; types: ResourceType[] }[];
}

function groups(registry: Registry): Group[] {
  const found = new Map<string, Group>();
  for (const type of registry.types()) {
    const group = found.get(type.group) ?? { name: type.group, versions: [] };
    found.set(type.group, group);
    const version = group.versions.find((one) => one.version === type.version);
    if (version) version.types.push(type);
    else group.versions.push({ version: type.version, types: [type] });
  }
  return [...found.values()];
}

/** The kind of a subresource and, where it is another group's, that group and version. */
export function subresourceKind(sub: Subresource): { group: string; version: string; kind: string } {
  const [kind = '', version = '', group = ''] = sub.kind.split('/').reverse();
  return { group, version, kind };
}

export function aggregatedDiscovery(registry: Registry, core: boolean, version: string): JsonObject {
  return {
    kind: 'APIGroupDiscoveryList',
    apiVersion: `apidiscovery.k8s.io/${version}`,
    metadata: {},
    items: groups(registry)
      .filter((group) => (group.name === '') === core)
      .map((group) => ({
        metadata: group.name === '' ? {} : { name: group.name },
        versions: group.versions.map((one) => ({
          version: one.version,
          resources: one.types.map(aggregatedResource),
          freshness: 'Current',
        })),
      })),
  };
}

function aggregatedResource(type: ResourceType): JsonObject {
  return {
    resource: type.resource,
    responseKind: { group: '', version: '', kind: type.kind },
    scope: type.namespaced ? 'Namespaced' : 'Cluster',
    singularResource: type.singular,
    verbs: [...type.verbs],
    ...(type.shortNames.length > 0 ? { shortNames: [...type.shortNames] } : {}),
    ...(type.categories.length > 0 ? { categories: [...type.categories] } : {}),
    ...(type.subresources.length > 0
      ? {
          subresources: type.subresources.map((sub) => ({
            subresource: sub.name,
            responseKind: subresourceKind(sub),
            verbs: [...sub.verbs],
          })),
        }
      : {}),
  };
}

export function coreVersions(address: string): JsonObject {
  return {
    kind: 'APIVersions',
    versions: ['v1'],
    serverAddressByClientCIDRs: [{ clientCIDR: '0.0.0.0/0', serverAddress: address }],
  };
}

function groupDocument(group: Group): JsonObject {
  const versions = group.versions.map(({ version }) => ({
    groupVersion: `${group.name}/${version}`,
    version,
  }));
  return { name: group.name, versions, preferredVersion: versions[0] ?? {} };
}

export function groupList(registry: Registry): JsonObject {
  return {
    kind: 'APIGroupList',
    apiVersion: 'v1',
    groups: groups(registry)
      .filter((group) => group.name !== '')
      .map(groupDocument),
  };
}

export function oneGroup(registry: Registry, name: string): JsonObject | undefined {
  const group = groups(registry).find((one) => one.name === name && name !== '');
  return group && { kind: 'APIGroup', apiVersion: 'v1', ...groupDocument(group) };
}

export function resourceList(registry: Registry, group: string, version: string): JsonObject {
  const types = registry.types().filter((type) => type.group === group && type.version === version);
  return {
    kind: 'APIResourceList',
    ...(group ? { apiVersion: 'v1' } : {}), // the core one is without, in the real server too
    groupVersion: apiVersion({ group, version }),
    resources: types.flatMap((type) => [
      {
        name: type.resource,
        singularName: type.singular,
        namespaced: type.namespaced,
        kind: type.kind,
        verbs: [...type.verbs],
        ...(type.shortNames.length > 0 ? { shortNames: [...type.shortNames] } : {}),
        ...(type.categories.length > 0 ? { categories: [...type.categories] } : {}),
        ...(type.verbs.includes('watch') ? { storageVersionHash: storageHash(type) } : {}),
      },
      ...type.subresources.map((sub) => {
        const { group: other, version: otherVersion, kind } = subresourceKind(sub);
        return {
          name: `${type.resource}/${sub.name}`,
          singularName: '',
          namespaced: type.namespaced,
          ...(other ? { group: other, version: otherVersion } : {}),
          kind,
          verbs: [...sub.verbs],
        };
      }),
    ]),
  };
}

/** The real server's rule: the first bytes of a hash of group, version and kind. */
function storageHash(type: ResourceType): string {
  const hash = createHash('sha256').update(`${type.group}/${type.version}/${type.kind}`).digest();
  return hash.subarray(0, 8).toString('base64');
}
