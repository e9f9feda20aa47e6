// Push options (`git push -o …`) travel behind the commands and can do what no ref rule sees: merge into another branch,
// set variables of a pipeline, open a private repository. They are judged as the commands are, each as a whole text, by
// the entries of `git.push.options`. `*` admits what is harmless; what forges are known to act on beyond the refs that
// are pushed has to be named by an entry of its own, as the Kubernetes guard does it with dangerous subresources.

import type { Refusal } from '../common/reason.ts';
import { showRef } from './ref-name.ts';

/** Bounds of what is admitted, so that the record of a push holds every name. */
const MAX_OPTIONS = 32;
const MAX_NAME = 100;

/** Names, or their beginnings where they end with a dot. */
const BEYOND_THE_REFS: readonly string[] = [
  // GitLab: merge requests, variables and inputs of pipelines, integrations, push rules that are skipped
  ...['merge_request.', 'mr.', 'ci.', 'integrations.', 'secret_push_protection.', 'secret_detection.'],
  'security_policy.',
  // Gitea, Forgejo: visibility of the repository; pull requests by AGit
  ...['repo.', 'topic', 'title', 'description', 'force-push'],
  // Gerrit: changes submitted, checks skipped, its own database written to
  ...['submit', 'skip-validation', 'notedb'],
  // SourceHut
  'visibility',
];
/** Within those. */
const HARMLESS: ReadonlySet<string> = new Set(['ci.skip']);

/** What stands before the `=`. Values are never shown or recorded: they may be secrets. */
export function optionName(option: string): string {
  return showRef(option.split('=', 1)[0] ?? '').slice(0, 4 * MAX_NAME);
}

/**
 * @param entries of `git.push.options`
 * @param options as git would hand them to the forge's hooks (latin1)
 */
export function judgeOptions(entries: readonly string[], options: readonly string[]): Refusal | undefined {
  if (options.length > MAX_OPTIONS) return refusal(`one push may carry ${MAX_OPTIONS} push options`);
  for (const option of options) {
    const name = optionName(option);
    if (name.length > MAX_NAME) return refusal('the name of a push option is too long');
    const matching = entries.filter((entry) => fits(entry, option));
    if (matching.length === 0) return refusal(`the deployment does not admit the push option ${name}`);
    const family = familyOf(name);
    if (family !== undefined && !matching.some((entry) => plain(fixed(entry)).startsWith(family)))
      return refusal(
        `the push option ${name} acts beyond the refs that are pushed, and git.push.options does not name it`,
      );
  }
  return undefined;
}

function refusal(message: string): Refusal {
  return { code: 'push_not_allowed', rule: 'git.push.options', message };
}

function familyOf(name: string): string | undefined {
  const text = plain(name);
  if (HARMLESS.has(text)) return undefined;
  return BEYOND_THE_REFS.find((family) => (family.endsWith('.') ? text.startsWith(family) : text === family));
}

/** Forges are not strict about case, nor GitLab about what stands before the first word. */
function plain(name: string): string {
  return name
    .replace(/^[^a-z]+/i, '')
    .trimEnd()
    .toLowerCase();
}

/** What an entry names: up to its first star. */
function fixed(entry: string): string {
  return entry.split('*', 1)[0] ?? '';
}

/** `*` stands for any characters; everything else for itself. Each piece is taken where it fits first: no backtracking. */
function fits(entry: string, option: string): boolean {
  const pieces = entry.split('*');
  const last = pieces.pop() ?? '';
  if (pieces.length === 0) return option === last;
  const [first = '', ...middle] = pieces;
  let at = first.length;
  if (!option.startsWith(first) || option.length < at + last.length || !option.endsWith(last)) return false;
  for (const piece of middle) {
    const found = option.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return at + last.length <= option.length;
}
