// The shapes of the control API for sessions: what a hub sends and what it gets. The guards check what the words mean
// (a repository pattern, a verb, an upstream); here it is checked that they are words.

import { z } from 'zod';
import { rfc3339 } from '../common/clock.ts';
import { Credential } from '../common/credential.ts';
import { parseDuration } from '../common/duration.ts';
import { valueFromSchema } from '../common/value-from.ts';

const name = z.string().min(1).max(253);
const words = z.array(z.string().min(1).max(512)).max(1000);

/** Parses to a Credential at once, so that no later line can print it. */
const secretText = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .transform((text) => new Credential(text));

export const ttl = z
  .string()
  .max(40)
  .transform((text) => parseDuration(text, 'ttl'))
  .describe('a duration: 90s, 15m, 12h');

export const leaseId = name
  .regex(/^[\w.:@/-]+$/, 'must be letters, digits and . _ : @ / -')
  .describe('the lease that the session belongs to; revoking the lease ends it');

export const labels = z
  .record(
    z
      .string()
      .max(64)
      .regex(/^[A-Za-z][\w./-]*$/),
    z.string().max(256),
  )
  .refine((all) => Object.keys(all).length <= 32, 'at most 32 labels')
  .describe(
    'projectId, executorId, runId, taskId, actor and owner go to the records; labels carry no authority',
  );

const valueFrom = valueFromSchema.describe("resolved on the server's host; for the admin role only");

const origin = { secretId: name.optional(), secretName: name.optional(), grantId: name.optional() };

export const gitSessionRequest = z.strictObject({
  credentials: z
    .array(
      z.strictObject({
        token: secretText(8192).optional(),
        valueFrom: valueFrom.optional(),
        username: name.optional(),
        upstream: z.string().min(1).max(2048),
        repos: words,
        permissions: words.optional(),
        pushRefs: words.optional(),
        allowDelete: z.boolean().optional(),
        ...origin,
      }),
    )
    .min(1)
    .max(100),
  leaseId,
  ttl: ttl.optional(),
  labels: labels.optional(),
});

export const kubeSessionRequest = z.strictObject({
  clusters: z
    .array(
      z.strictObject({
        kubeconfig: secretText(1024 * 1024).optional(),
        valueFrom: valueFrom.optional(),
        contexts: words.optional(),
        namespaces: words.optional(),
        verbs: words.optional(),
        resources: words.optional(),
        nonResourcePaths: words.optional(),
        ...origin,
      }),
    )
    .min(1)
    .max(100),
  leaseId,
  ttl: ttl.optional(),
  labels: labels.optional(),
});

export const renewRequest = z.strictObject({ ttl: ttl.optional() });

export const time = z.number().transform(rfc3339).pipe(z.string()).describe('RFC 3339, UTC');
/** The one way out for a substitute credential: the answer that creates it. */
const revealed = z
  .instanceof(Credential)
  .transform((secret) => secret.reveal())
  .pipe(z.string());

export const gitSessionAnswer = z.object({
  sessionId: z.string(),
  baseUrl: z.string().describe('https://host:port of the guard'),
  username: z.string(),
  password: revealed.describe('in this answer and in none after it'),
  expiresAt: time,
  readOnly: z.boolean(),
  summary: z.string(),
  upstreams: z.array(z.string()).readonly(),
  repos: z.array(z.string()).readonly(),
  pushRefs: z.array(z.string()).readonly(),
});

export const kubeSessionAnswer = z.object({
  sessionId: z.string(),
  kubeconfig: revealed.describe('in this answer and in none after it'),
  contexts: z.array(z.string()).readonly(),
  expiresAt: time,
  readOnly: z.boolean(),
  summary: z.string(),
  namespace: z.string().optional(),
  namespaces: z.array(z.string()).readonly(),
  verbs: z.array(z.string()).readonly(),
});

export const sessionView = z
  .object({
    sessionId: z.string(),
    guard: z.enum(['git', 'kube']),
    leaseId: z.string(),
    state: z.enum(['live', 'expired', 'revoked']),
    labels: z.record(z.string(), z.string()),
    createdAt: time,
    expiresAt: time,
    hardExpiresAt: time.describe('no renewal goes past it'),
    revokedAt: time.optional(),
    revokedBecause: z.string().optional(),
    credentials: z
      .array(
        z.object({
          id: z.string(),
          secretId: z.string().optional(),
          secretName: z.string().optional(),
          grantId: z.string().optional(),
        }),
      )
      .readonly()
      .describe('which credentials are in custody; never their values'),
    policy: z.unknown().describe('what the guard lets through, in its own terms'),
    counters: z.object({
      requests: z.int(),
      denied: z.int(),
      bytesUp: z.int(),
      bytesDown: z.int(),
      lastUsedAt: time.optional(),
    }),
  })
  .describe('a session, without its token and without any credential');
export type SessionView = z.output<typeof sessionView>;

export const explainRequest = z.strictObject({
  guard: z.enum(['git', 'kube']),
  method: z
    .string()
    .regex(/^[A-Z]{1,16}$/)
    .optional()
    .describe('default: what the client would use for the path'),
  path: z
    .string()
    .min(1)
    .max(16384)
    .describe('as the client would send it, query included; for git also acme/tool'),
  refs: z
    .array(
      z.strictObject({ ref: z.string().min(1).max(1024), operation: z.enum(['create', 'update', 'delete']) }),
    )
    .min(1)
    .max(1000)
    .optional()
    .describe('of a push, to be judged too'),
});

export const explainAnswer = z.object({
  decision: z.enum(['allow', 'deny']),
  code: z.string().optional(),
  rule: z.string(),
  reason: z.string(),
  request: z.record(z.string(), z.unknown()).describe("what was parsed, in the record's field names"),
});

export const id = z.strictObject({ id: name });
