// The shapes of the control API for leases: whom one is for, and what it delivers, as bytes.

import { z } from 'zod';
import { KINDS } from '../broker/kind.ts';
import { labels, ttl } from './schemas.ts';

const name = z.string().min(1).max(1024);
const words = z.array(z.string()).readonly();
const absolute = z
  .string()
  .max(4096)
  .regex(/^\/[^\0]*$/, 'must be an absolute path');

const place = {
  dir: absolute.optional().describe('where the workload will see the folder; default /run/postern/…'),
  xdgConfigHome: absolute.optional().describe("where the user's XDG configuration lies, if not in ~/.config"),
};

const requester = {
  projectId: name.optional(),
  executorId: name.optional(),
  labels: labels.optional().describe("the executor's own; what label: grants look at"),
  runId: name.optional(),
  taskId: name.optional(),
};

export const leaseRequest = z.strictObject({ ...requester, ttl: ttl.optional(), ...place });
export const renewLeaseRequest = z.strictObject({ ttl: ttl.optional(), ...place });
export const leaseQuery = z.strictObject({
  projectId: name.optional(),
  executorId: name.optional(),
  runId: name.optional(),
});

const grantRef = z.object({
  grantId: z.string(),
  secretId: z.string(),
  secretName: z.string(),
  kind: z.enum(KINDS),
});
const mount = z.object({
  name: z.string(),
  source: z.string(),
  target: z.string(),
  readOnly: z.boolean(),
});
const device = z.object({
  name: z.string(),
  source: z.string(),
  target: z.string(),
  permissions: z.string(),
});
const denied = z.object({
  grantId: z.string(),
  secretId: z.string().optional(),
  secretName: z.string().optional(),
  kind: z.enum(KINDS).optional(),
  reason: z.string(),
});
const whom = {
  executorId: z.string().optional(),
  projectId: z.string().optional(),
  runId: z.string().optional(),
  taskId: z.string().optional(),
};

export const leaseDelivery = z
  .object({
    id: z.string(),
    leaseId: z.string(),
    ...whom,
    issuedAt: z.string(),
    expiresAt: z.string(),
    secondsLeft: z.number().describe('until then, for a client whose clock is another'),
    empty: z.boolean().describe('nothing matches: the workload gets no access'),
    dir: z.string(),
    env: z.record(z.string(), z.string()),
    sensitiveEnv: words.describe(
      "variables whose values are credentials, to be scrubbed from the workload's output",
    ),
    files: z
      .array(z.object({ name: z.string(), mode: z.literal('0600'), content: z.string() }))
      .readonly()
      .describe('to be written to `dir` (0700), `env` last'),
    keep: words.describe('files of an earlier answer that are still good'),
    mounts: z.array(mount).readonly(),
    devices: z.array(device).readonly(),
    bindings: z
      .array(
        grantRef.extend({
          env: words,
          files: words,
          dir: z.string(),
          sessionId: z.string().optional(),
          shared: z.boolean(),
          mounts: z.array(mount).readonly(),
          devices: z.array(device).readonly(),
        }),
      )
      .readonly()
      .describe('which grant gave what, by name'),
    sessions: z
      .array(
        z.object({
          guard: z.enum(['git', 'kube']),
          sessionId: z.string(),
          expiresAt: z.string(),
          summary: z.string(),
          grants: words,
        }),
      )
      .readonly(),
    summary: z.array(z.object({ grants: z.array(grantRef).readonly(), text: z.string() })).readonly(),
    denied: z.array(denied).readonly().describe('grants that matched and are not delivered'),
    revoked: words.describe('grants that an earlier answer delivered and whose material must go'),
  })
  .describe('a lease as its workload gets it; credentials included, in this answer alone');
export type LeaseDelivery = z.output<typeof leaseDelivery>;

export const leaseAnswer = z
  .object({
    id: z.string(),
    leaseId: z.string(),
    ...whom,
    labels: z.record(z.string(), z.string()),
    actor: z.string(),
    issuedAt: z.string(),
    renewedAt: z.string(),
    expiresAt: z.string(),
    state: z.enum(['live', 'expired']),
    grants: z.array(grantRef).readonly(),
    sessions: z
      .array(
        z.object({
          guard: z.enum(['git', 'kube']),
          sessionId: z.string(),
          expiresAt: z.string(),
          state: z.enum(['live', 'expired', 'revoked']),
          summary: z.string(),
          grants: words,
        }),
      )
      .readonly(),
    denied: z.array(denied).readonly(),
    outstanding: words.describe('grants that were revoked and whose material may still be in the workload'),
  })
  .describe('a lease, without what it delivered');
export type LeaseView = z.output<typeof leaseAnswer>;

export const acknowledgeRequest = z.strictObject({
  grantId: z.string().min(1).max(253),
  scrubbed: z.boolean().describe('whether it is gone from the workload'),
  reason: z.string().max(512).optional(),
});

export const accessRequest = z.strictObject({
  ...requester,
  repo: z.string().min(1).max(512).optional().describe('owner/name; or host'),
  host: z.string().min(1).max(512).optional(),
  permission: z.string().min(1).max(128).optional().describe('for a repo; default contents:read'),
});
