// What each refusal of the policy says: which side refused, what it would have allowed, and what to do. The words end up
// behind kubectl's `Error from server (Forbidden): pods is forbidden: …`.

import type { Reason, Refusal } from '../common/reason.ts';
import type { RequestInfo } from './request-info.ts';
import { isSecret } from './resources.ts';
import type { Limits } from './rules.ts';

type Refused = { readonly allow: false; readonly refusal: Refusal };

export const refuse = {
  method(info: RequestInfo): Refused {
    const what = info.isResource
      ? 'asks for nothing that the Kubernetes API has a verb for here'
      : 'is not served on this path; GET and HEAD are';
    return because('method_not_allowed', 'method', `the method ${info.method} ${what}`);
  },

  dangerous(info: RequestInfo, side: Limits | undefined): Refused {
    const what = title(info);
    const message = info.verbFromPath
      ? `${what} is not served under the old /watch/ and /proxy/ paths`
      : `${what} is outside ${side?.side ?? 'the policy'}: it is allowed only where the resources name it (${what}), together with the verb create`;
    return because('dangerous_subresource', 'dangerous-subresource', message);
  },

  path(info: RequestInfo, granted: readonly string[]): Refused {
    const also = granted.length > 0 ? `, ${list(granted)}` : '';
    return because(
      'non_resource_path',
      'non-resource-paths',
      `the path ${info.path.slice(0, 100)} is outside the session's grant, which allows discovery, version, openapi and health${also}`,
    );
  },

  verb(info: RequestInfo, verb: string, side: Limits): Refused {
    const allowed = `${side.side}, which allows ${list(side.verbs ?? [])}`;
    if (verb !== 'create' || info.verb === 'create')
      return because('verb_not_allowed', 'verbs', `the verb ${verb} is outside ${allowed}`);
    const why =
      info.verb === 'patch'
        ? 'server-side apply creates what does not exist and so needs the verb create'
        : info.verb === 'update'
          ? `replacing ${title(info)} creates what does not exist and so needs the verb create; a patch, as kubectl edit sends it, does not`
          : `${title(info)} needs the verb create`;
    return because('verb_not_allowed', 'verbs', `${why}, which is outside ${allowed}`);
  },

  resource(info: RequestInfo, side: Limits): Refused {
    const patterns = (side.resources ?? []).map(({ text }) => text);
    const allowed =
      patterns.length > 0 ? list(patterns) : 'everything but Secrets and the dangerous subresources';
    const hint =
      isSecret(info) && patterns.length === 0
        ? `; Secrets are allowed only where the resources name them (${title(info)})`
        : '';
    return because(
      'resource_not_allowed',
      'resources',
      `${title(info)} is outside ${side.side}, which allows ${allowed}${hint}`,
    );
  },

  namespace(info: RequestInfo, side: Limits): Refused {
    return because(
      'namespace_not_allowed',
      'namespaces',
      `the namespace ${info.namespace} is outside ${side.side}, which allows ${namespaces(side)}`,
    );
  },

  clusterScope(info: RequestInfo, side: Limits): Refused {
    const wide = CLUSTER_WIDE.has(info.resource) || info.name !== '';
    const what = wide
      ? `${title(info)} at the scope of the whole cluster is`
      : `${title(info)} over all namespaces is`;
    const example = side.namespaces?.list.find((name) => !/[*?[]/.test(name)) ?? 'NAMESPACE';
    return because(
      'cluster_scope',
      'namespaces',
      `${what} outside ${side.side}, which allows ${namespaces(side)}; name a namespace with -n, such as -n ${example}`,
    );
  },

  namespaceObject(info: RequestInfo, side: Limits): Refused {
    return because(
      'cluster_scope',
      'namespaces',
      `changing the namespace ${info.namespace} itself is outside ${side.side}, which allows what is in ${namespaces(side)} (-n ${info.namespace}); the resources would have to name it (namespaces)`,
    );
  },
};

function because(code: Reason, rule: string, message: string): Refused {
  return { allow: false, refusal: { code, rule, message } };
}

/** `deployments.apps/scale`, as a grant would name it. */
export function title({ resource, apiGroup, subresource }: RequestInfo): string {
  return `${resource}${apiGroup === '' ? '' : `.${apiGroup}`}${subresource === '' ? '' : `/${subresource}`}`;
}

function namespaces(side: Limits): string {
  const names = side.namespaces?.list ?? [];
  return `the namespace${names.length === 1 ? '' : 's'} ${list(names)}`;
}

/** `a, b and c`; a long one is cut, because it goes to a terminal. */
function list(items: readonly string[]): string {
  const shown = items.slice(0, 12);
  if (items.length > 12) return `${shown.join(', ')} and ${items.length - 12} more`;
  return shown.length < 2 ? (shown[0] ?? 'nothing') : `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`;
}

/** For the wording only; what a resource's scope is, the path says. */
const CLUSTER_WIDE = new Set(
  `nodes persistentvolumes namespaces clusterroles clusterrolebindings customresourcedefinitions
   storageclasses certificatesigningrequests apiservices priorityclasses ingressclasses runtimeclasses
   mutatingwebhookconfigurations validatingwebhookconfigurations componentstatuses volumeattachments
   csinodes csidrivers validatingadmissionpolicies validatingadmissionpolicybindings flowschemas
   prioritylevelconfigurations subjectaccessreviews tokenreviews`.split(/\s+/),
);
