// Every command, once: what `--help` prints, what the parser takes and what docs/reference/cli.md lists.

import type { Command, Flag } from './command.ts';
import { brokerCommands } from './commands-broker.ts';

const lease: Flag = {
  name: 'lease',
  value: 'L',
  help: 'the lease that the session belongs to; revoking it ends the session',
};
const ttl: Flag = { name: 'ttl', value: 'D', help: 'how long, such as 15m or 2h (default: sessions.ttl)' };
const label: Flag = {
  name: 'label',
  value: 'k=v',
  repeat: true,
  help: 'a label for the records (projectId, executorId, runId, taskId, owner, …); carries no authority',
};
const out: Flag = {
  name: 'out',
  value: 'DIR',
  help: 'the folder for the files of the session (0700, files 0600)',
};

const DELIVERY_NOTES = [
  'The files of the session go to --out DIR, and DIR/env says where they are: . DIR/env',
  'Without --out and --json they go to a new private folder in XDG_RUNTIME_DIR or /dev/shm, so that no credential',
  'passes over the terminal. With --json the answer of the control API is printed, credential included.',
].join('\n');

const filters: readonly Flag[] = [
  { name: 'session', value: 'ID', help: 'only of this session' },
  { name: 'lease', value: 'L', help: 'only of this lease' },
  { name: 'action', value: 'A', help: 'only this action, such as git.fetch' },
  { name: 'decision', value: 'D', help: 'only allow, deny or error' },
  { name: 'since', value: 'TIME', help: 'from this time on: RFC 3339, or a duration back from now (15m)' },
  { name: 'until', value: 'TIME', help: 'up to this time' },
];

export const commands: readonly Command[] = [
  {
    words: ['serve'],
    summary: 'Run the guards, the control API and the ops endpoint',
    flags: [],
    notes: 'Logs JSON lines on standard output; one with "msg":"ready" holds the addresses in use.',
    load: async () => (await import('./commands/serve.ts')).serve,
  },
  {
    words: ['demo'],
    summary: 'Show the main job end to end on this machine',
    flags: [
      { name: 'once', help: 'run through without waiting' },
      {
        name: 'kube',
        help: 'the Kubernetes half on the cluster of KUBECONFIG instead of a test API server; it only reads',
      },
    ],
    load: async () => (await import('./commands/demo.ts')).demo,
  },
  {
    words: ['status'],
    summary: 'What runs, where and with what',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/status.ts')).status,
  },
  {
    words: ['doctor'],
    summary: 'What is misconfigured, each with its remedy',
    flags: [],
    load: async () => (await import('./commands/doctor.ts')).doctor,
  },
  {
    words: ['session', 'issue', 'git'],
    summary: 'Issue a session at the git guard',
    flags: [
      { name: 'upstream', value: 'URL', required: true, help: 'the forge, one of git.upstreams' },
      {
        name: 'token-file',
        value: 'F',
        required: true,
        help: "the forge's token: a file, or - for standard input",
      },
      { name: 'repo', value: 'G', required: true, repeat: true, help: 'acme/tool, acme/* or *' },
      { name: 'permission', value: 'P', repeat: true, help: 'contents:read (default), contents:write or *' },
      {
        name: 'push-ref',
        value: 'G',
        repeat: true,
        help: 'refs that may be pushed (default with write: refs/heads/**)',
      },
      { name: 'allow-delete', help: 'let pushes delete refs' },
      {
        name: 'username',
        value: 'U',
        help: 'the user name that goes with the token (default: x-access-token)',
      },
      { ...lease, required: true },
      ttl,
      label,
      out,
    ],
    notes: DELIVERY_NOTES,
    remote: true,
    load: async () => (await import('./commands/issue.ts')).issueGit,
  },
  {
    words: ['session', 'issue', 'kube'],
    summary: 'Issue a session at the Kubernetes guard',
    flags: [
      {
        name: 'kubeconfig',
        value: 'F',
        required: true,
        help: 'the kubeconfig to take into custody: a file, or - for standard input',
      },
      { name: 'context', value: 'C', repeat: true, help: 'only these contexts (default: all)' },
      { name: 'namespace', value: 'G', repeat: true, help: 'namespaces, team-a or team-*' },
      {
        name: 'verb',
        value: 'V',
        repeat: true,
        help: "verbs (default: get, list, watch); '*' is every verb",
      },
      {
        name: 'resource',
        value: 'R',
        repeat: true,
        help: 'resources, such as pods, pods/log, deployments.apps',
      },
      { ...lease, required: true },
      ttl,
      label,
      out,
    ],
    notes: DELIVERY_NOTES,
    remote: true,
    load: async () => (await import('./commands/issue.ts')).issueKube,
  },
  {
    words: ['session', 'list'],
    summary: 'Sessions, newest first',
    flags: [{ ...lease, help: 'only of this lease' }],
    remote: true,
    load: async () => (await import('./commands/session.ts')).list,
  },
  {
    words: ['session', 'show'],
    args: ['ID'],
    summary: 'One session: what it may do and what it did',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/session.ts')).show,
  },
  {
    words: ['session', 'renew'],
    args: ['ID'],
    summary: 'Move the end of a session; the token in the sandbox stays the same',
    flags: [ttl],
    remote: true,
    load: async () => (await import('./commands/session.ts')).renew,
  },
  {
    words: ['session', 'revoke'],
    args: ['[ID]'],
    summary: 'End a session, or every session of a lease, and cut what is under way',
    flags: [{ ...lease, help: 'every session of this lease, in place of ID' }],
    remote: true,
    load: async () => (await import('./commands/session.ts')).revoke,
  },
  ...brokerCommands,
  {
    words: ['audit', 'list'],
    summary: 'Records of the trail, oldest first',
    flags: [...filters, { name: 'limit', value: 'N', help: 'only the newest N of them (default: 1000)' }],
    notes:
      'Reads the folder of the configuration, with or without a server running there; with --server, over its API.',
    remote: true,
    load: async () => (await import('./commands/audit.ts')).list,
  },
  {
    words: ['audit', 'tail'],
    summary: 'The last records, then others as they are written, until interrupted',
    flags: filters.filter(({ name }) => name !== 'since' && name !== 'until'),
    remote: true,
    load: async () => (await import('./commands/audit.ts')).tail,
  },
  {
    words: ['audit', 'verify'],
    summary: 'Check the chain of the trail and its checkpoints; exit 1 at the first break',
    flags: [
      { name: 'public-key', value: 'F', help: 'the key of the checkpoints as it was kept elsewhere (PEM)' },
      { name: 'checkpoints', value: 'F', help: 'checkpoints that were kept elsewhere, to be found again' },
    ],
    notes: 'Whoever can write the folder can replace the key beside the trail; a copy kept elsewhere tells.',
    remote: true,
    load: async () => (await import('./commands/audit.ts')).verify,
  },
  {
    words: ['audit', 'export'],
    summary: 'Every matching record as a line of JSON',
    flags: filters,
    remote: true,
    load: async () => (await import('./commands/audit.ts')).exportRecords,
  },
  {
    words: ['ca', 'show'],
    summary: "The guards' certificate authority: names, times, fingerprints",
    flags: [],
    remote: true,
    load: async () => (await import('./commands/ca.ts')).show,
  },
  {
    words: ['ca', 'bundle'],
    summary: 'The PEM that a sandbox trusts, as ca.pem',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/ca.ts')).bundle,
  },
  {
    words: ['ca', 'rotate'],
    summary: "Replace the guards' certificate authority",
    notes: [
      'The new certificate is in ca.pem and in what is delivered at once; it signs after sessions.maxTtl, when nothing is left',
      'that was delivered before. Until then hubs need the new ca.pem (POSTERN_CA_FILE). Said again, it tells how far it is.',
    ].join('\n'),
    flags: [
      { name: 'now', help: 'sign at once and trust the old one no more: every sandbox needs its files anew' },
    ],
    remote: true,
    load: async () => (await import('./commands/ca.ts')).rotate,
  },
  {
    words: ['explain', 'git'],
    args: ['PATH'],
    summary: 'What the git guard would decide, and by which rule, without doing it',
    flags: [
      { name: 'session', value: 'ID', required: true, help: 'the session that would ask' },
      {
        name: 'ref',
        value: 'REF',
        repeat: true,
        help: 'a ref of a push to be judged too; create:, update: or delete: may stand in front',
      },
    ],
    notes:
      'PATH is what git would send (/acme/tool.git/info/refs?service=git-receive-pack), or acme/tool. Exit 0 whatever the decision.',
    remote: true,
    load: async () => (await import('./commands/explain.ts')).explainGit,
  },
  {
    words: ['explain', 'kube'],
    args: ['METHOD', 'PATH'],
    summary: 'What the Kubernetes guard would decide, and by which rule, without doing it',
    flags: [{ name: 'session', value: 'ID', required: true, help: 'the session that would ask' }],
    notes:
      'PATH is what kubectl would send, with or without /c/CONTEXT in front. Exit 0 whatever the decision.',
    remote: true,
    load: async () => (await import('./commands/explain.ts')).explainKube,
  },
];
