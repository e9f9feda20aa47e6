// Branch lists of a GitHub grant. The guard decides on every ref of a push; here the entries are checked to be what it
// reads: globs of full ref names, with an operation in front where only that one is meant.

import { compileGlob } from '../../common/glob.ts';
import { bad, type Constraints } from './constraints.ts';
import { allowsPermission } from './permission.ts';

/** @throws PosternError `invalid_input` naming the member */
export function checkRefs(constraints: Constraints, key: string): void {
  for (const entry of constraints.pushRefs ?? []) {
    const glob = entry.replace(/^(?:create|update|delete):/, '');
    if (!glob.startsWith('refs/'))
      throw bad(
        `${key}.pushRefs`,
        `${JSON.stringify(entry)} is not a full ref name`,
        'Write refs/heads/main, refs/heads/** or create:refs/tags/v*.',
      );
    compileGlob(glob, { globstar: true, key: `${key}.pushRefs` });
  }
  const pushes = (constraints.pushRefs?.length ?? 0) > 0 || constraints.allowDelete === true;
  if (pushes && !allowsPermission(constraints.permissions, 'contents:write'))
    throw bad(
      `${key}.pushRefs`,
      'a list of branches, or deleting them, means nothing without the right to push',
      'Add the permission contents:write, or leave the list out.',
    );
}
