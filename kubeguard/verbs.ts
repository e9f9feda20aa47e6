// RBAC's verbs, as a grant may list them. Other words that RBAC knows (impersonate, bind, escalate, use) never are the
// verb of a request, so listing one would look like a permission and be none: they are refused, with the word meant.

import { PosternError } from '../common/errors.ts';

export const VERBS = [
  'get',
  'list',
  'watch',
  'create',
  'update',
  'patch',
  'delete',
  'deletecollection',
] as const;
export type Verb = (typeof VERBS)[number];

const READ: readonly string[] = ['get', 'list', 'watch'];

const MEANT: { readonly [word: string]: string } = {
  read: 'get, list and watch',
  view: 'get, list and watch',
  describe: 'get and list',
  logs: 'get (and the resource pods/log, which pods takes in)',
  log: 'get (and the resource pods/log, which pods takes in)',
  write: 'create, update, patch and delete',
  edit: 'get and patch',
  apply: 'get, create and patch',
  post: 'create',
  put: 'update',
  replace: 'update',
  scale: 'get, update and patch',
  remove: 'delete',
  exec: 'create (and the resource pods/exec)',
  attach: 'create (and the resource pods/attach)',
  'port-forward': 'create (and the resource pods/portforward)',
  portforward: 'create (and the resource pods/portforward)',
  proxy: 'create (and the resource services/proxy)',
  all: '*',
  any: '*',
};

/**
 * The verbs that a grant's list stands for, in RBAC's order: empty is get, list and watch; `*` is every verb.
 * @throws PosternError `invalid_input` naming the word, and the verb that may have been meant
 */
export function effectiveVerbs(list: readonly string[], key = 'verbs'): Verb[] {
  for (const word of list) if (word !== '*' && !isVerb(word)) throw misspelt(word, key);
  if (list.length === 0) return VERBS.filter((verb) => READ.includes(verb));
  return list.includes('*') ? [...VERBS] : VERBS.filter((verb) => list.includes(verb));
}

export function isReadOnly(verbs: readonly string[]): boolean {
  return verbs.every((verb) => READ.includes(verb));
}

function isVerb(word: string): word is Verb {
  return (VERBS as readonly string[]).includes(word);
}

function misspelt(word: string, key: string): PosternError {
  const shown = JSON.stringify(word.slice(0, 40));
  const lower = word.trim().toLowerCase();
  const near =
    (Object.hasOwn(MEANT, lower) ? MEANT[lower] : undefined) ??
    VERBS.find((verb) => verb === lower || distance(verb, lower) <= (verb.length > 4 ? 2 : 1));
  return new PosternError(
    'invalid_input',
    `${key}: ${shown} is not a verb${near === undefined ? '.' : `; did you mean ${near}?`} The verbs are ${VERBS.join(', ')} and *`,
    { key, remedy: near === undefined ? `write one of ${VERBS.join(', ')} or *` : `write ${near}` },
  );
}

/** Edit distance with swapped neighbours; the words are short. */
export function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 3) return 4;
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min((next[j - 1] ?? 0) + 1, (row[j] ?? 0) + 1, (row[j - 1] ?? 0) + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        best = Math.min(best, (before[j - 2] ?? 0) + 1);
      next.push(best);
    }
    before = row;
    row = next;
  }
  return row[b.length] ?? 0;
}
