// Branch lists of a GitHub grant. The guard decides on every ref of a push; here the entries are checked to be what it
// reads: globs of full ref names, with an operation in front where only that one is meant. Without the permission to push
// a list means nothing; it is no error, so that a grant can be narrowed to reading by that one word.

import { compileGlob } from '../../common/glob.ts';
import { bad, type Constraints } from './constraints.ts';

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
}
