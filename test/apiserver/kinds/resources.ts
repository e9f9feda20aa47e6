// The resources that the server serves, in the order of the recorded discovery documents. Discovery, routes, kinds and
// OpenAPI all come from this one table; custom resources are added to it while the server runs.

export interface GroupResource {
  group: string;
  resource: string;
}

export interface Subresource {
  name: string;
  /** `Kind`, or `group/version/Kind` where it is not of the resource's own group. */
  kind: string;
  verbs: readonly string[];
}

export interface ResourceType extends GroupResource {
  version: string;
  kind: string;
  singular: string;
  namespaced: boolean;
  verbs: readonly string[];
  shortNames: readonly string[];
  categories: readonly string[];
  subresources: readonly Subresource[];
  /** Another resource under which the same objects are stored (events.k8s.io, autoscaling/v1). */
  storedAs?: GroupResource;
  /** For a custom resource: its structural schema, as the CRD gave it. */
  custom?: { schema: unknown; printerColumns: unknown };
}

const FULL = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'] as const;
const REVIEW = ['create'] as const;
const GET_PATCH_UPDATE = ['get', 'patch', 'update'] as const;
const CONNECT = ['create', 'get'] as const;
const PROXY = ['create', 'delete', 'get', 'patch', 'update'] as const;

interface Options {
  cluster?: boolean;
  short?: readonly string[];
  categories?: readonly string[];
  verbs?: readonly string[];
  sub?: readonly Subresource[];
  storedAs?: GroupResource;
}

type Row = readonly [resource: string, kind: string, options?: Options];

const status = (kind: string): Subresource => ({ name: 'status', kind, verbs: GET_PATCH_UPDATE });
const scale: Subresource = { name: 'scale', kind: 'autoscaling/v1/Scale', verbs: GET_PATCH_UPDATE };
const proxy = (kind: string): Subresource => ({ name: 'proxy', kind, verbs: PROXY });
const all = ['all'];
const apiExtensions = ['api-extensions'];

const POD_SUBRESOURCES: readonly Subresource[] = [
  { name: 'attach', kind: 'PodAttachOptions', verbs: CONNECT },
  { name: 'binding', kind: 'Binding', verbs: REVIEW },
  { name: 'ephemeralcontainers', kind: 'Pod', verbs: GET_PATCH_UPDATE },
  { name: 'eviction', kind: 'policy/v1/Eviction', verbs: REVIEW },
  { name: 'exec', kind: 'PodExecOptions', verbs: CONNECT },
  { name: 'log', kind: 'Pod', verbs: ['get'] },
  { name: 'portforward', kind: 'PodPortForwardOptions', verbs: CONNECT },
  proxy('PodProxyOptions'),
  { name: 'resize', kind: 'Pod', verbs: GET_PATCH_UPDATE },
  status('Pod'),
];

const HPA: Row[1] = 'HorizontalPodAutoscaler';

const TABLE: readonly (readonly [groupVersion: string, ...rows: Row[]])[] = [
  [
    '/v1',
    ['bindings', 'Binding', { verbs: REVIEW }],
    ['componentstatuses', 'ComponentStatus', { cluster: true, verbs: ['get', 'list'], short: ['cs'] }],
    ['configmaps', 'ConfigMap', { short: ['cm'] }],
    ['endpoints', 'Endpoints', { short: ['ep'] }],
    ['events', 'Event', { short: ['ev'] }],
    ['limitranges', 'LimitRange', { short: ['limits'] }],
    [
      'namespaces',
      'Namespace',
      {
        cluster: true,
        short: ['ns'],
        verbs: FULL.filter((verb) => verb !== 'deletecollection'),
        sub: [{ name: 'finalize', kind: 'Namespace', verbs: ['update'] }, status('Namespace')],
      },
    ],
    ['nodes', 'Node', { cluster: true, short: ['no'], sub: [proxy('NodeProxyOptions'), status('Node')] }],
    [
      'persistentvolumeclaims',
      'PersistentVolumeClaim',
      { short: ['pvc'], sub: [status('PersistentVolumeClaim')] },
    ],
    [
      'persistentvolumes',
      'PersistentVolume',
      { cluster: true, short: ['pv'], sub: [status('PersistentVolume')] },
    ],
    ['pods', 'Pod', { short: ['po'], categories: all, sub: POD_SUBRESOURCES }],
    ['podtemplates', 'PodTemplate'],
    [
      'replicationcontrollers',
      'ReplicationController',
      { short: ['rc'], categories: all, sub: [scale, status('ReplicationController')] },
    ],
    ['resourcequotas', 'ResourceQuota', { short: ['quota'], sub: [status('ResourceQuota')] }],
    ['secrets', 'Secret'],
    [
      'serviceaccounts',
      'ServiceAccount',
      {
        short: ['sa'],
        sub: [{ name: 'token', kind: 'authentication.k8s.io/v1/TokenRequest', verbs: REVIEW }],
      },
    ],
    [
      'services',
      'Service',
      { short: ['svc'], categories: all, sub: [proxy('ServiceProxyOptions'), status('Service')] },
    ],
  ],
  [
    'apiregistration.k8s.io/v1',
    ['apiservices', 'APIService', { cluster: true, categories: apiExtensions, sub: [status('APIService')] }],
  ],
  [
    'apps/v1',
    ['controllerrevisions', 'ControllerRevision'],
    ['daemonsets', 'DaemonSet', { short: ['ds'], categories: all, sub: [status('DaemonSet')] }],
    ['deployments', 'Deployment', { short: ['deploy'], categories: all, sub: [scale, status('Deployment')] }],
    ['replicasets', 'ReplicaSet', { short: ['rs'], categories: all, sub: [scale, status('ReplicaSet')] }],
    ['statefulsets', 'StatefulSet', { short: ['sts'], categories: all, sub: [scale, status('StatefulSet')] }],
  ],
  ['events.k8s.io/v1', ['events', 'Event', { short: ['ev'], storedAs: { group: '', resource: 'events' } }]],
  [
    'authentication.k8s.io/v1',
    ['selfsubjectreviews', 'SelfSubjectReview', { cluster: true, verbs: REVIEW }],
    ['tokenreviews', 'TokenReview', { cluster: true, verbs: REVIEW }],
  ],
  [
    'authorization.k8s.io/v1',
    ['localsubjectaccessreviews', 'LocalSubjectAccessReview', { verbs: REVIEW }],
    ['selfsubjectaccessreviews', 'SelfSubjectAccessReview', { cluster: true, verbs: REVIEW }],
    ['selfsubjectrulesreviews', 'SelfSubjectRulesReview', { cluster: true, verbs: REVIEW }],
    ['subjectaccessreviews', 'SubjectAccessReview', { cluster: true, verbs: REVIEW }],
  ],
  [
    'autoscaling/v2',
    ['horizontalpodautoscalers', HPA, { short: ['hpa'], categories: all, sub: [status(HPA)] }],
  ],
  [
    'autoscaling/v1',
    ['horizontalpodautoscalers', HPA, { short: ['hpa'], categories: all, sub: [status(HPA)] }],
  ],
  [
    'batch/v1',
    ['cronjobs', 'CronJob', { short: ['cj'], categories: all, sub: [status('CronJob')] }],
    ['jobs', 'Job', { categories: all, sub: [status('Job')] }],
  ],
  [
    'certificates.k8s.io/v1',
    [
      'certificatesigningrequests',
      'CertificateSigningRequest',
      {
        cluster: true,
        short: ['csr'],
        sub: [
          { name: 'approval', kind: 'CertificateSigningRequest', verbs: GET_PATCH_UPDATE },
          status('CertificateSigningRequest'),
        ],
      },
    ],
  ],
  [
    'networking.k8s.io/v1',
    ['ingressclasses', 'IngressClass', { cluster: true }],
    ['ingresses', 'Ingress', { short: ['ing'], sub: [status('Ingress')] }],
    ['ipaddresses', 'IPAddress', { cluster: true, short: ['ip'] }],
    ['networkpolicies', 'NetworkPolicy', { short: ['netpol'] }],
    ['servicecidrs', 'ServiceCIDR', { cluster: true, sub: [status('ServiceCIDR')] }],
  ],
  [
    'policy/v1',
    ['poddisruptionbudgets', 'PodDisruptionBudget', { short: ['pdb'], sub: [status('PodDisruptionBudget')] }],
  ],
  [
    'rbac.authorization.k8s.io/v1',
    ['clusterrolebindings', 'ClusterRoleBinding', { cluster: true }],
    ['clusterroles', 'ClusterRole', { cluster: true }],
    ['rolebindings', 'RoleBinding'],
    ['roles', 'Role'],
  ],
  [
    'storage.k8s.io/v1',
    ['csidrivers', 'CSIDriver', { cluster: true }],
    ['csinodes', 'CSINode', { cluster: true }],
    ['csistoragecapacities', 'CSIStorageCapacity'],
    ['storageclasses', 'StorageClass', { cluster: true, short: ['sc'] }],
    ['volumeattachments', 'VolumeAttachment', { cluster: true, sub: [status('VolumeAttachment')] }],
    ['volumeattributesclasses', 'VolumeAttributesClass', { cluster: true, short: ['vac'] }],
  ],
  [
    'admissionregistration.k8s.io/v1',
    ['mutatingadmissionpolicies', 'MutatingAdmissionPolicy', { cluster: true, categories: apiExtensions }],
    [
      'mutatingadmissionpolicybindings',
      'MutatingAdmissionPolicyBinding',
      { cluster: true, categories: apiExtensions },
    ],
    [
      'mutatingwebhookconfigurations',
      'MutatingWebhookConfiguration',
      { cluster: true, categories: apiExtensions },
    ],
    [
      'validatingadmissionpolicies',
      'ValidatingAdmissionPolicy',
      { cluster: true, categories: apiExtensions, sub: [status('ValidatingAdmissionPolicy')] },
    ],
    [
      'validatingadmissionpolicybindings',
      'ValidatingAdmissionPolicyBinding',
      { cluster: true, categories: apiExtensions },
    ],
    [
      'validatingwebhookconfigurations',
      'ValidatingWebhookConfiguration',
      { cluster: true, categories: apiExtensions },
    ],
  ],
  [
    'apiextensions.k8s.io/v1',
    [
      'customresourcedefinitions',
      'CustomResourceDefinition',
      {
        cluster: true,
        short: ['crd', 'crds'],
        categories: apiExtensions,
        sub: [status('CustomResourceDefinition')],
      },
    ],
  ],
  ['scheduling.k8s.io/v1', ['priorityclasses', 'PriorityClass', { cluster: true, short: ['pc'] }]],
  ['coordination.k8s.io/v1', ['leases', 'Lease']],
  ['node.k8s.io/v1', ['runtimeclasses', 'RuntimeClass', { cluster: true }]],
  ['discovery.k8s.io/v1', ['endpointslices', 'EndpointSlice']],
  [
    'resource.k8s.io/v1',
    ['deviceclasses', 'DeviceClass', { cluster: true }],
    ['resourceclaims', 'ResourceClaim', { sub: [status('ResourceClaim')] }],
    ['resourceclaimtemplates', 'ResourceClaimTemplate'],
    ['resourceslices', 'ResourceSlice', { cluster: true }],
  ],
  [
    'flowcontrol.apiserver.k8s.io/v1',
    ['flowschemas', 'FlowSchema', { cluster: true, sub: [status('FlowSchema')] }],
    [
      'prioritylevelconfigurations',
      'PriorityLevelConfiguration',
      { cluster: true, sub: [status('PriorityLevelConfiguration')] },
    ],
  ],
];

function builtIn(groupVersion: string, [resource, kind, options = {}]: Row): ResourceType {
  const [group = '', version = ''] = groupVersion.split('/');
  return {
    group,
    version,
    resource,
    kind,
    singular: kind.toLowerCase(),
    namespaced: !options.cluster,
    verbs: options.verbs ?? FULL,
    shortNames: options.short ?? [],
    categories: options.categories ?? [],
    subresources: options.sub ?? [],
    ...(options.storedAs ? { storedAs: options.storedAs } : {}),
  };
}

export interface Registry {
  types(): readonly ResourceType[];
  find(group: string, version: string, resource: string): ResourceType | undefined;
  /** The type that stores objects of a kind of a group, whatever the version. */
  byKind(group: string, kind: string): ResourceType | undefined;
  hasVersion(group: string, version: string): boolean;
  /** Adds a custom resource, replacing what its name served in that version. */
  add(type: ResourceType): void;
  remove(group: string, resource: string): void;
}

export const CUSTOM_VERBS: readonly string[] = FULL;

export function createRegistry(): Registry {
  let types = TABLE.flatMap(([groupVersion, ...rows]) => rows.map((row) => builtIn(groupVersion, row)));
  return {
    types: () => types,
    find: (group, version, resource) =>
      types.find((type) => type.resource === resource && type.group === group && type.version === version),
    byKind: (group, kind) =>
      types.find((type) => type.kind === kind && type.group === group && !type.storedAs),
    hasVersion: (group, version) => types.some((type) => type.group === group && type.version === version),
    add(type) {
      types = types.filter(
        (other) =>
          other.group !== type.group || other.resource !== type.resource || other.version !== type.version,
      );
      types.push(type);
    },
    remove(group, resource) {
      types = types.filter((type) => type.group !== group || type.resource !== resource);
    },
  };
}

export const apiVersion = (type: { group: string; version: string }): string =>
  type.group ? `${type.group}/${type.version}` : type.version;

/** Where objects of a type are kept. */
export const storage = (type: ResourceType): GroupResource => type.storedAs ?? type;

export const resourceKeyOf = (resource: GroupResource): string => `${resource.group}/${resource.resource}`;
