// What a cluster grant names. The guard enforces verbs, namespaces and resources on every request; here they are only
// checked to be words that it will understand, so that a typo fails in front of who wrote it.

import { compileGlob, isExact } from '../../common/glob.ts';
import { bad, type Constraints } from './constraints.ts';

export const READ_VERBS = ['get', 'list', 'watch'] as const;
const VERBS = [...READ_VERBS, 'create', 'update', 'patch', 'delete', 'deletecollection', '*'];
const RESOURCE =
  /^(?:\*|[a-z0-9][a-z0-9-]*)(?:\.(?:\*|[a-z0-9][a-z0-9.-]*))?(?:\/(?:\*|[a-z0-9][a-z0-9-]*))?$/;

/** The verbs in force: silence about a cluster credential is reading only. */
export function kubeVerbs(constraints: Constraints): readonly string[] {
  return constraints.verbs?.length ? constraints.verbs : READ_VERBS;
}

export function kubeReadOnly(constraints: Constraints): boolean {
  return kubeVerbs(constraints).every((verb) => (READ_VERBS as readonly string[]).includes(verb));
}

/** A grant that lists contexts opens exactly those; one that lists only namespaces opens every context. */
export function allowsContext(constraints: Constraints, name: string): boolean {
  if (constraints.contexts?.length) return constraints.contexts.some((pattern) => compileName(pattern)(name));
  return (constraints.namespaces?.length ?? 0) > 0;
}

/** An absent list denies: where a grant has only contexts, a namespace is not what it is about. */
export function allowsNamespace(constraints: Constraints, namespace: string): boolean {
  return (constraints.namespaces ?? []).some((pattern) => compileGlob(pattern)(namespace));
}

/** Context names may hold slashes (`arn:aws:eks:…:cluster/prod`), which no wildcard crosses. */
function compileName(pattern: string): (name: string) => boolean {
  if (pattern === '*') return () => true;
  return isExact(pattern) ? (name) => name === pattern : compileGlob(pattern);
}

/** @throws PosternError `invalid_input` naming the member */
export function checkKube(constraints: Constraints, key: string): void {
  for (const pattern of constraints.contexts ?? [])
    if (!isExact(pattern)) compileGlob(pattern, { key: `${key}.contexts` });
  for (const pattern of constraints.namespaces ?? []) {
    if (pattern !== pattern.toLowerCase() || pattern.includes('/') || pattern.includes('.'))
      throw bad(
        `${key}.namespaces`,
        `${JSON.stringify(pattern)} is not a namespace, and * and ? stand within one`,
      );
    compileGlob(pattern, { key: `${key}.namespaces` });
  }
  for (const verb of constraints.verbs ?? [])
    if (!VERBS.includes(verb))
      throw bad(`${key}.verbs`, `${JSON.stringify(verb)} is not a verb; write one of ${VERBS.join(', ')}`);
  for (const resource of constraints.resources ?? [])
    if (!RESOURCE.test(resource))
      throw bad(
        `${key}.resources`,
        `${JSON.stringify(resource)} is not a resource`,
        'Write it as kubectl does: pods, pods/log, deployments.apps, *.apps, *, */*.',
      );
}
