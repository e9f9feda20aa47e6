// The commands of the broker: secrets, grants, leases, requests, keys, and `run`. Part of the table of commands.ts.

import type { Command, Flag } from './command.ts';
import { constraintFlags } from './constraint-flags.ts';

const subject: Flag = { name: 'to', value: 'SUBJECT', help: 'project:P, executor:E, label:k=v or any' };
const to: Flag = { ...subject, required: true };
const grantTtl: Flag = { name: 'ttl', value: 'D', help: 'how long, such as 8h or 7d (default: 24h)' };
const scope: Flag = { name: 'scope', value: 'WORD', help: 'a word to group by; carries no authority' };
const grantLabel: Flag = {
  name: 'label',
  value: 'k=v',
  repeat: true,
  help: 'a note for people; carries no authority',
};
const label: Flag = {
  name: 'label',
  value: 'k=v',
  repeat: true,
  help: 'a label of the executor: what grants to label: look at, and what the records say',
};
const project: Flag = { name: 'project', value: 'P', help: 'the project that the work is for' };
const executor: Flag = { name: 'executor', value: 'E', help: 'where the work runs' };
const runId: Flag = { name: 'run', value: 'R', help: 'which attempt it is, for the records' };
const task: Flag = { name: 'task', value: 'T', help: 'which task it is, for the records' };
const leaseTtl: Flag = { name: 'ttl', value: 'D', help: 'how long, up to 15m (the default)' };
const leaseOut: Flag = {
  name: 'out',
  value: 'DIR',
  help: 'the folder for the files of the lease (0700, files 0600)',
};
const file: Flag = { name: 'file', value: 'F', help: 'the payload: a file, or - for standard input' };
const references: readonly Flag[] = [
  { name: 'from-secret', value: 'NAME/KEY', help: 'a key of a Kubernetes Secret, read when it is used' },
  { name: 'from-file', value: 'F', help: "a file of the server's host, read when it is used" },
  { name: 'from-env', value: 'N', help: "a variable of the server's environment, read when it is used" },
];
const note = (help: string, required?: true): Flag => ({
  name: 'note',
  value: 'TEXT',
  help,
  ...(required && { required }),
});
const hash: Flag = {
  name: 'hash',
  value: 'H',
  help: 'the content hash that `request show` printed (default: of the request as it is now)',
};

const PAYLOAD_NOTES =
  'Without --file and --from-… the payload is read from standard input. --from-… is for admins.';
const LEASE_NOTES = [
  'The files go to --out DIR, and DIR/env says where they are: . DIR/env',
  'Without --out and --json they go to a new private folder in XDG_RUNTIME_DIR or /dev/shm. With --json the answer of',
  'the control API is printed, credentials included.',
].join('\n');

export const brokerCommands: readonly Command[] = [
  {
    words: ['secret', 'mint'],
    args: ['NAME'],
    summary: 'Store a credential, sealed, or note where it is',
    flags: [
      {
        name: 'kind',
        value: 'K',
        required: true,
        help: 'github_pat, github_app, kubeconfig, registry, env, egress_proxy, local_repo or host_device',
      },
      file,
      ...references,
      { name: 'owner', value: 'ID', help: 'makes it a personal secret: only this identity can grant it' },
      { name: 'meta', value: 'k=v', repeat: true, help: 'a note for people, such as ticket=OPS-12' },
    ],
    notes: PAYLOAD_NOTES,
    remote: true,
    load: async () => (await import('./commands/secret.ts')).mint,
  },
  {
    words: ['secret', 'replace'],
    args: ['NAME'],
    summary: 'Give a secret a new payload; live sessions spend it from their next request on',
    flags: [file, ...references],
    notes: PAYLOAD_NOTES,
    remote: true,
    load: async () => (await import('./commands/secret.ts')).replace,
  },
  {
    words: ['secret', 'import'],
    summary: 'Import a flat file of variables as env secrets, each with an endless grant to any',
    flags: [{ ...file, required: true, help: 'JSON of strings or lines of NAME=value: a file, or -' }],
    notes: 'What is there already is left alone, so that it can be repeated.',
    remote: true,
    load: async () => (await import('./commands/secret.ts')).importFlat,
  },
  {
    words: ['secret', 'list'],
    summary: 'Secrets, by name',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/secret.ts')).list,
  },
  {
    words: ['secret', 'show'],
    args: ['NAME'],
    summary: 'One secret, without its payload',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/secret.ts')).show,
  },
  {
    words: ['secret', 'delete'],
    args: ['NAME'],
    summary: 'Delete a secret and revoke its grants',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/secret.ts')).remove,
  },
  {
    words: ['grant', 'create'],
    args: ['SECRET'],
    summary: 'Let a subject use a secret, under constraints, for a time',
    flags: [to, ...constraintFlags, grantTtl, scope, grantLabel],
    remote: true,
    load: async () => (await import('./commands/grant.ts')).create,
  },
  {
    words: ['grant', 'list'],
    summary: 'Grants, newest first',
    flags: [
      { name: 'secret', value: 'NAME', help: 'only of this secret' },
      { ...subject, help: 'only for this subject' },
      { name: 'active', help: 'without the revoked and the expired' },
    ],
    remote: true,
    load: async () => (await import('./commands/grant.ts')).list,
  },
  {
    words: ['grant', 'show'],
    args: ['ID'],
    summary: 'One grant',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/grant.ts')).show,
  },
  {
    words: ['grant', 'revoke'],
    args: ['ID'],
    summary: 'Revoke a grant and take its credential out of live sessions; the others go on',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/grant.ts')).revoke,
  },
  {
    words: ['lease', 'create'],
    summary: 'Lease what an executor may use for a project now, and write it to files',
    flags: [project, executor, label, runId, task, leaseTtl, leaseOut],
    notes: LEASE_NOTES,
    remote: true,
    load: async () => (await import('./commands/lease.ts')).create,
  },
  {
    words: ['lease', 'list'],
    summary: 'Live leases, newest first',
    flags: [project, executor, runId].map((flag) => ({ ...flag, help: `only of this ${flag.name}` })),
    remote: true,
    load: async () => (await import('./commands/lease.ts')).list,
  },
  {
    words: ['lease', 'show'],
    args: ['ID'],
    summary: 'One lease: its grants and sessions',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/lease.ts')).show,
  },
  {
    words: ['lease', 'renew'],
    args: ['ID'],
    summary: 'Work a lease out anew and move its end; tokens in the sandbox stay the same',
    flags: [leaseTtl, { ...leaseOut, help: 'the folder of the lease, to be brought up to date' }],
    notes: 'Without --out only the end moves, and what the lease now delivers is printed with --json.',
    remote: true,
    load: async () => (await import('./commands/lease.ts')).renew,
  },
  {
    words: ['lease', 'release'],
    args: ['ID'],
    summary: 'End a lease and its sessions',
    flags: [{ ...leaseOut, help: 'the folder of the lease, to be overwritten and removed' }],
    remote: true,
    load: async () => (await import('./commands/lease.ts')).release,
  },
  {
    words: ['run'],
    args: ['CMD…'],
    summary:
      'Run a command with a lease: delivered to a private tmpfs folder, renewed while it runs, released at its end',
    flags: [
      { ...project, required: true },
      executor,
      label,
      runId,
      task,
      { ...leaseTtl, help: 'how long the lease lasts without a renewal, up to 15m (the default)' },
      {
        name: 'stop-on-revoke',
        help: 'end the command when the lease is revoked, or loses a grant or a session',
      },
    ],
    notes: [
      'Exits with the status of CMD, 128 and the number of the signal that ended it, 127 where there is no such command',
      'and 126 where it can not be run. CMD gets the signals that reach this process. Variables of its own that begin',
      'with POSTERN_ are not passed on.',
    ].join('\n'),
    remote: true,
    load: async () => (await import('./commands/run.ts')).run,
  },
  {
    words: ['request', 'open'],
    args: ['SECRET'],
    summary: 'Ask for a grant; somebody else decides',
    flags: [
      to,
      ...constraintFlags,
      grantTtl,
      scope,
      grantLabel,
      { name: 'justification', value: 'TEXT', required: true, help: 'why it is needed' },
      { name: 'wait', value: 'D', help: 'how long the request waits for a decision (default: 3d)' },
    ],
    remote: true,
    load: async () => (await import('./commands/request.ts')).open,
  },
  {
    words: ['request', 'list'],
    summary: 'Requests, newest first',
    flags: [
      { name: 'state', value: 'S', help: 'only pending, approved, denied, withdrawn or expired' },
      { name: 'secret', value: 'NAME', help: 'only for this secret' },
    ],
    remote: true,
    load: async () => (await import('./commands/request.ts')).list,
  },
  {
    words: ['request', 'show'],
    args: ['ID'],
    summary: 'One request, its content hash, and what its approval was used for',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/request.ts')).show,
  },
  {
    words: ['request', 'approve'],
    args: ['ID'],
    summary: 'Approve a request of somebody else: makes one grant',
    flags: [hash, note('a word to the requester'), { ...grantTtl, help: 'shortens the access' }],
    remote: true,
    load: async () => (await import('./commands/request.ts')).approve,
  },
  {
    words: ['request', 'deny'],
    args: ['ID'],
    summary: 'Deny a request',
    flags: [note('why', true), hash],
    remote: true,
    load: async () => (await import('./commands/request.ts')).deny,
  },
  {
    words: ['request', 'withdraw'],
    args: ['ID'],
    summary: 'Withdraw a request of your own',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/request.ts')).withdraw,
  },
  {
    words: ['key', 'add'],
    summary: 'Make a key-encryption key that seals from now on',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/key.ts')).add,
  },
  {
    words: ['key', 'list'],
    summary: 'Every key that there ever was, oldest first',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/key.ts')).list,
  },
  {
    words: ['key', 'status'],
    summary: 'What each key still seals, and how rotations went',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/key.ts')).status,
  },
  {
    words: ['key', 'rotate'],
    summary: 'Put every sealed row under the primary key while the server serves',
    flags: [
      { name: 'new-key', help: 'make a key first, and rotate to it' },
      { name: 'dry-run', help: 'try every row and write none' },
    ],
    notes: 'Can be killed at any point and run again. Exit 1 where rows are left that do not open.',
    remote: true,
    load: async () => (await import('./commands/key.ts')).rotate,
  },
  {
    words: ['key', 'retire'],
    args: ['ID'],
    summary: 'Destroy a key that seals nothing any more',
    flags: [],
    remote: true,
    load: async () => (await import('./commands/key.ts')).retire,
  },
];
