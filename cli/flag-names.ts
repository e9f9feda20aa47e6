// The control API names a member of its request; whoever typed a flag looks for the flag. The members that go wrong most
// are said as the flag that they came from, where the command has it; with --json the API's own words stay.

import type { Flag } from './command.ts';

const FLAGS: { readonly [member: string]: string } = {
  pushRefs: 'push-ref',
  namespaces: 'namespace',
  verbs: 'verb',
  resources: 'resource',
  repos: 'repo',
  kind: 'kind',
  subject: 'to',
  permissions: 'permission',
};

/** `clusters[0].verbs: "lst" is …` → `--verb: "lst" is …`. */
export function inFlags(message: string, flags: readonly Flag[]): string {
  return message.replace(
    /^(?:(?:credentials|clusters)\[\d+\]\.|constraints\.)?(\w+)(?:\[\d+\])?(?=: )/,
    (whole, member: string) => {
      const name = Object.hasOwn(FLAGS, member) ? FLAGS[member] : undefined;
      return name !== undefined && flags.some((flag) => flag.name === name) ? `--${name}` : whole;
    },
  );
}
