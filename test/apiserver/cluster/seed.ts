// What a cluster has from its first minute.

import type { JsonObject } from '../objects/values.ts';

const ALWAYS = ['default', 'kube-system', 'kube-public', 'kube-node-lease'];

export function initialObjects(namespaces: readonly string[]): JsonObject[] {
  return [
    ...[...ALWAYS, ...namespaces].map((name) => ({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name },
    })),
    node(),
    clusterRole('cluster-admin', ['*'], ['*'], ['*']),
    clusterRole('view', [''], ['configmaps', 'pods', 'pods/log', 'services'], ['get', 'list', 'watch']),
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'cluster-admin' },
      roleRef: { kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ kind: 'Group', name: 'system:masters' }],
    },
  ];
}

function clusterRole(name: string, apiGroups: string[], resources: string[], verbs: string[]): JsonObject {
  return {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name },
    rules: [{ apiGroups, resources, verbs }],
  };
}

function node(): JsonObject {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'node-1', labels: { 'kubernetes.io/hostname': 'node-1' } },
    spec: {},
    status: {
      capacity: { cpu: '4', memory: '8Gi', pods: '110' },
      allocatable: { cpu: '4', memory: '8Gi', pods: '110' },
      addresses: [{ type: 'InternalIP', address: '127.0.0.1' }],
      conditions: [
        { type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'kubelet is posting ready status' },
      ],
      nodeInfo: {
        architecture: 'amd64',
        bootID: 'test',
        containerRuntimeVersion: 'test://1',
        kernelVersion: 'test',
        kubeProxyVersion: '',
        kubeletVersion: 'v1.36.2',
        machineID: 'test',
        operatingSystem: 'linux',
        osImage: 'test',
        systemUUID: 'test',
      },
    },
  };
}
