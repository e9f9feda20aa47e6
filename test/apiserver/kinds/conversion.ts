// The one kind that is stored under another group: core events are also served as events.k8s.io/v1.

import { type JsonObject, type KObject, obj, text } from '../objects/values.ts';
import type { ResourceType } from './resources.ts';

/** A stored object as this type shows it. */
export function shown(type: ResourceType, object: KObject): KObject {
  if (type.group !== 'events.k8s.io') return object;
  const { kind, metadata, involvedObject, message, count, firstTimestamp, lastTimestamp, source, ...rest } =
    object;
  const { reportingComponent, reportingInstance, ...more } = rest as JsonObject;
  return {
    ...more,
    kind,
    apiVersion: 'events.k8s.io/v1',
    metadata,
    ...some('regarding', involvedObject),
    ...some('note', message),
    ...some('reportingController', reportingComponent),
    ...some('reportingInstance', reportingInstance),
    ...some('deprecatedCount', count),
    ...some('deprecatedFirstTimestamp', firstTimestamp),
    ...some('deprecatedLastTimestamp', lastTimestamp),
    ...some('deprecatedSource', source),
  };
}

/** What a client sent, as it is stored. */
export function stored(type: ResourceType, body: JsonObject): JsonObject {
  if (type.group !== 'events.k8s.io') return body;
  const { regarding, note, reportingController, deprecatedCount, deprecatedSource, ...rest } = body;
  const { deprecatedFirstTimestamp, deprecatedLastTimestamp, ...more } = rest;
  return {
    ...more,
    apiVersion: 'v1',
    ...some('involvedObject', regarding),
    ...some('message', note),
    ...some('reportingComponent', reportingController),
    ...some('count', deprecatedCount),
    ...some('firstTimestamp', deprecatedFirstTimestamp),
    ...some('lastTimestamp', deprecatedLastTimestamp),
    ...some('source', deprecatedSource),
  };
}

function some(key: string, value: JsonObject[string]): JsonObject {
  return value === undefined ? {} : { [key]: value };
}

/** The Scale of a workload. */
export function scaleOf(object: KObject): JsonObject {
  const spec = obj(object.spec);
  const status = obj(object.status);
  const selector = obj(spec.selector);
  const labels = Object.entries(obj(selector.matchLabels ?? selector));
  const { name, namespace, uid, resourceVersion, creationTimestamp } = object.metadata as JsonObject;
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name, ...some('namespace', namespace), uid, resourceVersion, creationTimestamp },
    spec: { replicas: spec.replicas ?? 0 },
    status: {
      replicas: status.replicas ?? 0,
      selector: labels.map(([key, value]) => `${key}=${text(value)}`).join(','),
    },
  };
}
