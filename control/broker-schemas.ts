// The shapes of the control API for the broker's nouns: secrets, grants, leases, requests, keys. What a word means (a
// subject, a constraint, a kind) the broker checks and names; here it is checked that they are words.

import { z } from 'zod';
import type { Constraints } from '../broker/constraints/constraints.ts';
import { KINDS } from '../broker/kind.ts';
import { REQUEST_STATES } from '../broker/requests/request.ts';
import { Credential } from '../common/credential.ts';
import { valueFromSchema } from '../common/value-from.ts';
import { ttl } from './schemas.ts';

const name = z.string().min(1).max(253);
const reference = z.string().min(1).max(512).describe('id or name');
const words = z.array(z.string()).readonly();
const MAX_PAYLOAD = 1024 * 1024;

/** Becomes a Credential at once, so that no later line can print it. */
const payload = z
  .union([z.string().min(1).max(MAX_PAYLOAD), z.record(z.string(), z.unknown())])
  .transform((given) => new Credential(typeof given === 'string' ? given : JSON.stringify(given)))
  .describe('text, or an object where the payload of the kind is JSON');

const source = {
  payload: payload.optional(),
  valueFrom: valueFromSchema
    .optional()
    .describe("read on the server's host when it is used; for the admin role only"),
};

export const mintRequest = z.strictObject({
  name: z.string().min(1).max(8192),
  kind: z.string().max(64).describe(KINDS.join(', ')),
  ...source,
  owner: z.string().max(512).optional().describe('makes it a personal secret of this identity'),
  metadata: z.record(z.string().max(64), z.string().max(256)).optional(),
});
export const replaceRequest = z.strictObject(source);
export const importRequest = z.strictObject({
  payload: payload.describe('a flat JSON object of strings, or lines of NAME=value'),
});
export const importAnswer = z.object({ imported: words, skipped: words });

export const ref = z.strictObject({ id: reference });

export const secretAnswer = z
  .object({
    id: z.string(),
    secretId: z.string(),
    name: z.string(),
    kind: z.enum(KINDS),
    owner: z.string().optional(),
    metadata: z.record(z.string(), z.string()),
    names: words.describe('what a grant can list of it: variables, contexts, registries, devices'),
    reference: z.unknown().optional().describe('where the payload is, if not here'),
    createdAt: z.string(),
    createdBy: z.string(),
    updatedAt: z.string(),
    updatedBy: z.string(),
    deleting: z.boolean().optional(),
  })
  .describe('a secret, without its payload');

/** Checked where it was granted. */
const granted = z.custom<Constraints>((value) => typeof value === 'object');

const constraints = z
  .record(z.string().max(64), z.unknown())
  .optional()
  .describe('repos, permissions, pushRefs, allowDelete, contexts, namespaces, verbs, resources, …');

const ask = {
  secret: reference,
  subject: z.string().min(1).max(1100).describe('project:P, executor:E, label:k=v, any'),
  constraints,
  scope: z.string().max(64).optional().describe('a word for people; carries no authority'),
  labels: z
    .record(z.string().max(128), z.string().max(256))
    .optional()
    .describe('notes for people; carry no authority'),
  ttl: ttl.optional(),
};

export const grantRequest = z.strictObject(ask);
export const grantQuery = z.strictObject({
  secret: reference.optional(),
  subject: z.string().max(1100).optional(),
  active: z.enum(['true', 'false']).optional().describe('true leaves out what has ended'),
});

export const grantAnswer = z.object({
  id: z.string(),
  grantId: z.string(),
  secretId: z.string(),
  secretName: z.string(),
  kind: z.enum(KINDS),
  owner: z.string().optional(),
  scope: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  subject: z.string(),
  constraints: granted,
  summary: z.string(),
  state: z.enum(['active', 'expired', 'revoked']),
  expiresAt: z.string().optional().describe('absent: no end, which only the import makes'),
  createdAt: z.string(),
  createdBy: z.string(),
  revokedAt: z.string().optional(),
  revokedBy: z.string().optional(),
  requestId: z.string().optional(),
});

export const openRequestBody = z.strictObject({
  ...ask,
  justification: z.string().max(8192),
  requestTtl: ttl.optional().describe('how long the request waits for a decision'),
});
export const requestQuery = z.strictObject({
  state: z.enum(REQUEST_STATES).optional(),
  requestedBy: name.optional(),
  secret: reference.optional(),
});
const decision = {
  contentHash: z.string().max(64).describe('of the request as it was read'),
  note: z.string().max(8192).optional(),
};
export const approveBody = z.strictObject({
  ...decision,
  ttl: ttl.optional().describe('shortens the access'),
});
export const denyBody = z.strictObject(decision);

export const requestAnswer = z.object({
  id: z.string(),
  requestId: z.string(),
  requestedBy: z.string(),
  secretId: z.string(),
  secretName: z.string(),
  kind: z.enum(KINDS),
  subject: z.string(),
  constraints: granted,
  summary: z.string(),
  scope: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  ttl: z.string(),
  justification: z.string(),
  state: z.enum(REQUEST_STATES),
  createdAt: z.string(),
  expiresAt: z.string().describe('when the request lapses'),
  contentHash: z.string(),
  decidedBy: z.string().optional(),
  decidedAt: z.string().optional(),
  decisionNote: z.string().optional(),
  grantId: z.string().optional(),
  grantExpiresAt: z.string().optional(),
});

export const useAnswer = z.object({
  leaseId: z.string(),
  grantId: z.string(),
  executorId: z.string().optional(),
  projectId: z.string().optional(),
  runId: z.string().optional(),
  taskId: z.string().optional(),
  firstSeen: z.string(),
  lastSeen: z.string(),
});

export const keyAnswer = z.object({
  id: z.string(),
  state: z.enum(['primary', 'active', 'retired']),
  openable: z.boolean().describe('whether the passphrase derives it'),
  createdAt: z.string(),
  createdBy: z.string(),
  retiredAt: z.string().optional(),
  retiredBy: z.string().optional(),
});

export const rotateBody = z.strictObject({
  newKey: z.boolean().optional().describe('make and promote a key first'),
  dryRun: z.boolean().optional().describe('try every row and write none'),
});

const tally = { rewrapped: z.int(), skipped: z.int(), failed: z.int() };
export const rotationAnswer = z.object({
  id: z.string(),
  to: z.string(),
  dryRun: z.boolean(),
  ...tally,
  sets: z.record(z.string(), z.object(tally)),
  errors: words,
  complete: z.boolean().describe('nothing is left under another key'),
});

export const keyStatusAnswer = z.object({
  primary: z.string(),
  keys: z.array(keyAnswer),
  usage: z.array(z.object({ id: z.string(), rows: z.int(), sets: z.record(z.string(), z.int()) })).readonly(),
  unrotated: z.int().describe('rows that a rotation would move'),
  rotations: z.array(
    z.object({
      id: z.string(),
      to: z.string(),
      state: z.enum(['running', 'completed', 'incomplete', 'interrupted']),
      startedAt: z.string(),
      startedBy: z.string(),
      updatedAt: z.string(),
      finishedAt: z.string().optional(),
      total: z.int(),
      ...tally,
      lastError: z.string().optional(),
    }),
  ),
});
